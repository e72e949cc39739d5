"""The report of a classifier: confusion matrix, misclassified examples, attribution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.pictures.html import Section, image
from longwave.pictures.style import BLUE, ORANGE, as_drawn, panels, short
from longwave.tasks.base import Batch, Split, batches, call
from longwave.tasks.classify.confusion import confusion, confusion_matrix
from longwave.tasks.classify.predict import probabilities
from longwave.tasks.classify.task import ClassificationTask, LabelTask, average_example
from longwave.tasks.sequences.plots import draw_sequences, in_units, make_panels, show_lines, unpadded

PATH_STEPS = 32  # points on the way from the average example, at which the gradient is taken
MOST_STEPS = 100 * 1024  # of a batch
BINS = 200  # stretches that the attribution along a long sequence is added up over


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's predictions for every example of a split."""

    probabilities: NDArray[np.float64]  # (n, classes)
    labels: NDArray[np.int64]  # (n,)
    classes: tuple[str, ...]

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The likeliest class of each example."""
        return self.probabilities.argmax(axis=1)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that it was given."""
        return self.probabilities.max(axis=1)

    @property
    def confusion(self) -> NDArray[np.int64]:
        """(classes, classes): how many of the row's class were predicted as the column's."""
        return confusion_matrix(self.labels, self.predicted, len(self.classes))

    def wrong(self, most: int) -> list[int]:
        """Misclassified examples, the most confident first."""
        mistakes = np.flatnonzero(self.predicted != self.labels)
        return [int(k) for k in mistakes[np.argsort(-self.confidence[mistakes], kind="stable")][:most]]

    def right(self, most: int) -> list[int]:
        """Correctly classified examples, of as many classes as there are, in the order of the data."""
        first: dict[int, int] = {}
        for k in np.flatnonzero(self.predicted == self.labels):
            first.setdefault(int(self.labels[k]), int(k))
        return sorted(first.values())[:most]

    def mistakes(self, draw: Callable[[], Any], what: str) -> str:
        """The number of misclassified examples, and a picture of some."""
        count, total = int((self.predicted != self.labels).sum()), len(self.labels)
        if not count:
            return f"<p>None of {total:,}.</p>"
        text = f"<p>{count:,} of {total:,}; the most confident mistakes, with their confidence.</p>"
        return text + image(draw, f"misclassified {what}")

    def caption(self, index: int, width: int = 80) -> str:
        """The class, the prediction and its confidence; in two lines if one would be longer than `width`."""
        truth, found = self.classes[self.labels[index]], self.classes[self.predicted[index]]
        text = short(truth) if truth == found else f"{short(truth)} predicted as {short(found)}"
        text = f"{text}, {self.confidence[index]:.0%}"
        return as_drawn(text if len(text) <= width else text.replace(" predicted as ", "\npredicted as "))


def predict(model: Any, task: ClassificationTask, split: Split, size: int | None = None) -> Predictions:
    """The model's predictions for every example of a split; longer sequences in smaller batches, to save memory."""
    size = size or max(1, min(100, MOST_STEPS // (task.spec.length or 1)))
    labels = np.concatenate([batch["y"].numpy() for batch in batches(split, size)])
    if split is task.test:
        found = of_test_set(task, lambda: probabilities(model, split, size))
    else:
        found = probabilities(model, split, size)
    return Predictions(found, labels, task.inputs.classes)


def of_test_set(task: LabelTask, work_out: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
    """The probability of each class for each test example, (n, classes): as they were scored, if they were."""
    return work_out() if task.scored is None else np.asarray(task.scored.double().softmax(-1).numpy())


def attribution(model: Any, batch: Batch, average: Tensor, steps: int = PATH_STEPS) -> Tensor:
    """Attribution of each number of x to the predicted class's lead over the second likeliest, shaped like x.

    Integrated gradients (Sundararajan et al., 2017): the gradient of the lead, averaged on the straight way from the
    average example to x, times x - average. All numbers add up to the lead at x minus the lead at the average example,
    to the error of `steps` midpoints.
    """
    x = batch["x"]
    with torch.no_grad():
        first, second = call(model, batch).topk(2, dim=-1).indices.unbind(-1)
    rows = torch.arange(len(x))
    total = torch.zeros_like(x)
    for k in range(steps):
        point = (average + (k + 0.5) / steps * (x - average)).requires_grad_()
        output = call(model, {**batch, "x": point})
        lead = (output[rows, first] - output[rows, second]).sum()
        total += torch.autograd.grad(lead, point)[0]
    share = total / steps * (x - average)
    return share if "lengths" not in batch else share * _valid(batch)


# Pictures


def draw_examples(task: ClassificationTask, split: Split, predictions: Predictions, indices: list[int]) -> Any:
    """Examples with their class and the prediction: images as images, other sequences as lines."""
    batch = split.batch(indices)
    if not _is_image(task):
        lines = [in_units(task.inputs, unpadded(batch, k)) for k in range(len(indices))]
        return draw_sequences(lines, [predictions.caption(index) for index in indices])
    figure, images = make_panels(len(indices), 6, 10 / 6, 2.1)
    for axes, x, index in zip(images, batch["x"], indices, strict=True):
        _show_image(axes, task, x)
        axes.set_title(predictions.caption(index, width=18), fontsize=8)
    return figure


def draw_attribution(task: Any, split: Split, predictions: Predictions, indices: list[int], shares: Tensor) -> Any:
    """Examples and, in colour, the steps that support (blue) and oppose (orange) the predicted class."""
    batch = split.batch(indices)
    if _is_image(task):
        columns = max(len(indices), 6)
        figure, axes = panels(10, 3.8, 2, columns)
        for unused in (*axes[len(indices) : columns], *axes[columns + len(indices) :]):
            unused.axis("off")
        for k, (above, below, index) in enumerate(zip(axes, axes[columns:], indices, strict=False)):
            _show_image(above, task, batch["x"][k])
            above.set_title(predictions.caption(index, width=18), fontsize=8)
            plane = task.picture(shares[k]).sum(-1)
            bound = np.quantile(np.abs(plane), 0.995) or 1.0  # one pixel should not outshine all others
            below.imshow(plane, cmap=attribution_colours(), vmin=-bound, vmax=bound)
            below.set(xticks=[], yticks=[])
        return figure
    figure, rows = panels(10, 1.7 * len(indices), len(indices))
    for k, (axes, index) in enumerate(zip(rows, indices, strict=True)):
        x = unpadded(batch, k)
        show_lines(axes, in_units(task.inputs, x), ("black", "0.45", "0.65", "0.8"))
        show_attribution(axes, shares[k, : len(x)], lambda edges: edges - 0.5)
        axes.set_title(predictions.caption(index), fontsize=9)
    return figure


def show_attribution(axes: Any, shares: Tensor, place: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """Colour the background of a sequence by the attribution of its steps (length, channels)."""
    edges = np.unique(np.linspace(0, len(shares), min(BINS, len(shares)) + 1).astype(int))
    sums = np.add.reduceat(shares.sum(-1).double().numpy(), edges[:-1]) / np.diff(edges)
    bound, colours = np.abs(sums).max() or 1.0, attribution_colours()
    low, high = axes.get_ylim()
    axes.pcolormesh(place(edges), [low, high], sums[None], cmap=colours, vmin=-bound, vmax=bound, zorder=0, alpha=0.8)


def _show_image(axes: Any, task: Any, x: Tensor) -> None:
    pixels = task.picture(x) * np.array(task.inputs.deviation) + np.array(task.inputs.mean)
    grey = pixels.shape[-1] == 1
    axes.imshow((pixels[..., 0] if grey else pixels / 255).clip(0, 255 if grey else 1), cmap="gray", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])


def attribution_colours() -> Any:
    """From orange through white to blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attribution", [ORANGE, "white", BLUE])


def _valid(batch: Batch) -> Tensor:
    return (torch.arange(batch["x"].shape[1]) < batch["lengths"][:, None]).unsqueeze(-1)


def _is_image(task: ClassificationTask) -> bool:
    return task.spec.image_size is not None


# The page


def report(model: Any, task: ClassificationTask) -> list[Section]:
    """Confusion matrix, misclassified examples, attribution."""
    predictions = predict(model, task, task.test)
    wrong = predictions.wrong(12 if _is_image(task) else 6)
    mistakes = predictions.mistakes(lambda: draw_examples(task, task.test, predictions, wrong), "examples")
    shown = wrong[:3] + predictions.right(6 - len(wrong[:3]))
    shares = attribution(model.explained, task.test.batch(shown), average_example(task))
    text = (
        "<p>Blue steps support the predicted class, orange ones the second likeliest: "
        "integrated gradients of the difference of their logits, from the average training example"
        f"{'' if model.explained is model else ', by the deep model alone'}.</p>"
    )
    picture = image(lambda: draw_attribution(task, task.test, predictions, shown, shares), "attribution of each step")
    return [
        Section("Confusion matrix", confusion(predictions.confusion, predictions.classes, task.counts["train"])),
        Section("Misclassified examples", mistakes),
        Section("Attribution", text + picture),
    ]
