"""The report of a token classifier: confusion matrix, and texts coloured by attribution."""

import html
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.pictures.html import Section
from longwave.pictures.style import BLUE, ORANGE
from longwave.tasks.base import Batch, call
from longwave.tasks.classify.confusion import confusion
from longwave.tasks.classify.report import PATH_STEPS, Predictions, of_test_set
from longwave.tasks.tokens.data import PADDING, SPECIAL
from longwave.tasks.tokens.predict import probabilities
from longwave.tasks.tokens.task import TokenSplit, TokenTask

BATCH = 16  # sequences, which may be long
READABLE = 1000  # tokens; shorter examples are preferred
SHADES = 8  # of a colour
AVERAGED = 1000  # sequences whose mean features are the baseline of attributions


def embedding(model: Any) -> nn.Embedding | None:
    """The embedding of the tokens, if there is exactly one."""
    found = [layer for layer in model.modules() if isinstance(layer, nn.Embedding)]
    return found[0] if len(found) == 1 else None


def attribution(
    model: Any, layer: nn.Embedding, batch: Batch, average: Tensor, steps: int = PATH_STEPS
) -> NDArray[np.float64]:
    """The contribution (R, L) of each token to the lead of the predicted class over the runner-up; 0 in the padding.

    Integrated gradients at the embedding: the gradient of the lead, averaged along the straight line from `average`
    (features,) at every step to the features of the tokens, times their difference. The tokens of a row add up to its
    lead minus that of a sequence of average features, to the error of `steps` midpoints.

    The R rows are those of x; of pairs x (B, 2, L) they are the 2 B rows that the model encodes.
    """
    examples = torch.arange(len(batch["x"]))
    with torch.no_grad():
        first, second = call(model, batch).topk(2, dim=-1).indices.unbind(-1)
    total, change, valid = torch.zeros(()), torch.zeros(()), torch.zeros(())
    for k in range(steps):
        seen: list[Tensor] = []

        def to_point(_: Any, tokens: Any, features: Tensor, k: int = k, seen: list[Tensor] = seen) -> Tensor:
            difference = features.detach() - average
            point = (average + (k + 0.5) / steps * difference).requires_grad_()
            seen += [point, difference, tokens[0] != SPECIAL.index(PADDING)]
            return point

        hook = layer.register_forward_hook(to_point)
        try:
            output = call(model, batch)
        finally:
            hook.remove()
        point, change, valid = seen
        total = total + torch.autograd.grad((output[examples, first] - output[examples, second]).sum(), point)[0]
    share = (total / steps * change).sum(-1)
    return torch.where(valid, share, 0).double().numpy()


def average_features(layer: nn.Embedding, split: TokenSplit) -> Tensor:
    """The mean features of the tokens of the first sequences."""
    batch = split.batch(range(min(AVERAGED, len(split))))
    valid = torch.arange(batch["x"].shape[1]) < batch["lengths"][:, None]
    counts = torch.bincount(batch["x"][valid], minlength=layer.num_embeddings)
    with torch.no_grad():
        mean: Tensor = counts.to(layer.weight) @ layer.weight / counts.sum()
    return mean


def in_words(tokens: Sequence[str], shares: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64]]:
    """Characters joined to words, with the blanks after them, and the sums of their shares; special tokens alone."""
    starts = [
        k
        for k, token in enumerate(tokens)
        if k == 0 or token in SPECIAL or tokens[k - 1] in SPECIAL or (tokens[k - 1].isspace() and not token.isspace())
    ]
    ends = [*starts[1:], len(tokens)]
    words = ["".join(tokens[start:end]) for start, end in zip(starts, ends, strict=True)]
    return words, np.add.reduceat(shares, starts)


def coloured(tokens: Sequence[str], shares: NDArray[np.float64], separator: str) -> str:
    """Tokens as HTML: blue supports the predicted class, orange opposes it.

    Without a separator tokens are characters, and words are coloured by their sum.
    """
    if not separator:
        tokens, shares = in_words(tokens, shares)
    bound = float(np.quantile(np.abs(shares), 0.98)) or float(np.abs(shares).max()) or 1.0
    shades = np.rint(SHADES * np.clip(shares / bound, -1, 1)).astype(int).tolist()
    pieces = []
    for shade, run in groupby(zip(shades, tokens, strict=True), key=lambda pair: pair[0]):
        text = html.escape("".join(token + separator for _, token in run))
        opacity = round(153 * abs(shade) / SHADES)  # at most 60 %, so that the text is legible
        colour = f"{BLUE if shade > 0 else ORANGE}{opacity:02x}"
        pieces.append(f'<span style="background:{colour}">{text}</span>' if shade else text)
    return f'<pre class="text">{"".join(pieces)}</pre>'


def _readable(split: TokenSplit, indices: list[int], most: int) -> list[int]:
    """The first examples that are short enough to read; if there are none, the shortest one."""
    short = [k for k in indices if split.lengths[k] <= READABLE]
    return short[:most] or sorted(indices, key=lambda k: int(split.lengths[k]))[:1]


def report(model: Any, task: TokenTask) -> list[Section]:
    """Confusion matrix, misclassified and other texts with their attribution."""
    split = task.test
    chances = of_test_set(task, lambda: probabilities(model, split, BATCH))
    found = Predictions(chances, split.labels, task.inputs.classes)
    sections = [Section("Confusion matrix", confusion(found.confusion, found.classes, task.counts["train"]))]
    layer = embedding(model)
    if layer is None:
        return sections
    wrong = _readable(split, found.wrong(len(split)), 3)
    right = _readable(split, np.flatnonzero(found.predicted == split.labels).tolist(), 6 - len(wrong))
    shown = wrong + right
    batch = split.batch(shown)
    shares = attribution(model, layer, batch, average_features(layer, task.train))
    count = int((found.predicted != found.labels).sum())
    text = (
        f"<p>{count:,} of {len(split):,} are misclassified. The most confident mistakes, and some correct examples, "
        f"among those with up to {READABLE:,} {task.kind.unit}s. Blue supports the predicted class, orange the second "
        "most likely: integrated gradients of the difference of their logits at the embedding, from the average of "
        f"the training set{'' if task.kind.separator else ', summed over each word'}.</p>"
    )
    for k, index in enumerate(shown):
        length = int(batch["lengths"][k])
        tokens = task.vocabulary.decode(batch["x"][k, :length].tolist())
        text += f"<h3>{html.escape(found.caption(index))}</h3>"
        text += coloured(tokens, shares[k, :length], task.kind.separator)
    return [*sections, Section("Texts and attribution", text)]
