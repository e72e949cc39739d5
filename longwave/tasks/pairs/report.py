"""The report of a pair classifier: confusion matrix, scores, pairs coloured by attribution."""

import html
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image
from longwave.pictures.style import BLUE, ORANGE, panels
from longwave.tasks.classify.confusion import confusion
from longwave.tasks.classify.report import Predictions, of_test_set
from longwave.tasks.pairs.task import PairTask
from longwave.tasks.tokens.predict import probabilities
from longwave.tasks.tokens.report import attribution, average_features, coloured, embedding

BATCH = 16  # pairs, which may be long
SHOWN = 600  # characters of each text
EXAMPLES = 3  # pairs of each kind


def report(model: Any, task: PairTask) -> list[Section]:
    """Confusion matrix, scores, misclassified and correct pairs."""
    chances = of_test_set(task, lambda: probabilities(model, task.test, BATCH))
    found = Predictions(chances, task.test.labels, task.inputs.classes)
    return [
        Section("Confusion matrix", confusion(found.confusion, found.classes, task.counts["train"])),
        Section("Scores of the pairs", _scores(found)),
        Section("Pairs and attribution", _pairs(model, task, found)),
    ]


def _scores(found: Predictions) -> str:
    """The distribution of the probability of the second class, by class."""
    name = found.classes[1]
    picture = image(lambda: draw_scores(found), f"distribution of the score of {name}")
    return f"<p>The score of a pair is the probability of <i>{html.escape(name)}</i>.</p>{picture}"


def draw_scores(found: Predictions) -> Any:
    """The scores of the pairs of each class."""
    figure, (axes,) = panels(8, 2.6)
    edges = np.linspace(0, 1, 41).tolist()
    for label, (name, colour) in enumerate(zip(found.classes, (ORANGE, BLUE), strict=True)):
        own = found.probabilities[found.labels == label, 1]
        axes.hist(own, edges, color=colour, alpha=0.6, label=f"{name} ({len(own):,})")
    axes.set_xlabel(f"score: probability of {found.classes[1]}")
    axes.set_ylabel("pairs")
    axes.legend(frameon=False)
    return figure


def _pairs(model: Any, task: PairTask, found: Predictions) -> str:
    split, wrong = task.test, found.wrong(EXAMPLES)
    right = np.flatnonzero(found.predicted == split.labels)
    each = [right[split.labels[right] == label][:EXAMPLES] for label in (1, 0)]  # alternately of both classes
    taken = [int(k) for pair in zip_longest(*each) for k in pair if k is not None]
    shown = wrong + taken[: 2 * EXAMPLES - len(wrong)]
    count = int((found.predicted != found.labels).sum())
    text = (
        f"<p>{count:,} of {len(split):,} are misclassified. The most confident mistakes, and some correct pairs, with "
        f"the first {SHOWN:,} characters of each text. Blue supports the predicted class, orange opposes it: "
        "integrated gradients of the difference of the logits at the embedding, from the average of the training "
        "set.</p>"
    )
    if not shown:
        return text
    layer = embedding(model)
    batch = split.batch(shown)
    shares: NDArray[np.float64] = np.zeros(tuple(batch["x"].shape))
    if layer is not None:
        rows = attribution(model, layer, batch, average_features(layer, task.train.documents))
        shares = rows.reshape(2, len(shown), -1).swapaxes(0, 1)  # the model encodes all first texts, then all second
    for k, index in enumerate(shown):
        score = found.probabilities[index, 1]
        text += f"<h3>{html.escape(found.caption(index))}; score {score:.3f}</h3>"
        for side in (0, 1):
            length = int(batch["lengths"][k, side])
            tokens = task.vocabulary.decode(batch["x"][k, side, : min(length, SHOWN)].tolist())
            cut = ["\u2026"] if length > SHOWN else []
            text += coloured([*tokens, *cut], np.pad(shares[k, side, : len(tokens)], (0, len(cut))), "")
    return text
