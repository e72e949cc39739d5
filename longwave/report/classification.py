"""Pictures of what a classifier got right and wrong, and of what it went by."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.report.pictures import BLUE, GREY, ORANGE, as_drawn, marker, short
from longwave.tasks.base import Batch, Split
from longwave.tasks.classification import ClassificationTask
from longwave.tasks.images import ImageTask

SHOWN_CLASSES = 20  # a matrix of more is no picture
PATH_STEPS = 32  # points on the way from the average example, at which the gradient is taken
LINES = (BLUE, ORANGE, GREY, "#38a169")
BINS = 200  # stretches that the evidence along a long sequence is added up over


@dataclass(frozen=True, eq=False)
class Readings:
    """What a model made of every example of a part."""

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
        """(classes, classes): how many of the row's class were read as the column's."""
        count = len(self.classes)
        return np.bincount(self.labels * count + self.predicted, minlength=count**2).reshape(count, count)

    def wrong(self, most: int) -> list[int]:
        """The examples that were read wrongly, the surest mistakes first."""
        mistakes = np.flatnonzero(self.predicted != self.labels)
        return [int(k) for k in mistakes[np.argsort(-self.confidence[mistakes], kind="stable")][:most]]

    def right(self, most: int) -> list[int]:
        """Examples that were read rightly, of as many classes as there are, in the order of the data."""
        first: dict[int, int] = {}
        for k in np.flatnonzero(self.predicted == self.labels):
            first.setdefault(int(self.labels[k]), int(k))
        return sorted(first.values())[:most]

    def caption(self, index: int, width: int = 80) -> str:
        """What it is, what it was read as, and how surely; in two lines if one would be longer than `width`."""
        truth, read = self.classes[self.labels[index]], self.classes[self.predicted[index]]
        told = short(truth) if truth == read else f"{short(truth)} read as {short(read)}"
        told = f"{told}, {self.confidence[index]:.0%}"
        return as_drawn(told if len(told) <= width else told.replace(" read as ", "\nread as "))


def read(model: Any, task: ClassificationTask, split: Split, size: int = 100) -> Readings:
    """The model's reading of every example of a split."""
    rows, labels = [], []
    with torch.no_grad():
        for start in range(0, len(split), size):
            batch = split.batch(range(start, min(start + size, len(split))))
            rows.append(_output(model, batch, batch["x"]).double().softmax(-1).numpy())
            labels.append(batch["y"].numpy())
    return Readings(np.concatenate(rows), np.concatenate(labels), task.inputs.classes)


def evidence(model: Any, batch: Batch, average: Tensor, steps: int = PATH_STEPS) -> Tensor:
    """What each number of x added to the lead of the class that the model chose over the one it held second: like x.

    Integrated gradients (Sundararajan et al., 2017): the gradient of the lead, averaged on the straight way from the
    average example to x, times x - average. All numbers add up to the lead at x minus the lead at the average example,
    to the error of `steps` midpoints.
    """
    x = batch["x"]
    with torch.no_grad():
        first, second = _output(model, batch, x).topk(2, dim=-1).indices.unbind(-1)
    rows = torch.arange(len(x))
    total = torch.zeros_like(x)
    for k in range(steps):
        point = (average + (k + 0.5) / steps * (x - average)).requires_grad_()
        output = _output(model, batch, point)
        lead = (output[rows, first] - output[rows, second]).sum()
        total += torch.autograd.grad(lead, point)[0]
    share = total / steps * (x - average)
    return share if "lengths" not in batch else share * _valid(batch)


def average_example(task: ClassificationTask, most: int = 1000) -> Tensor:
    """The mean of the first training examples; where lengths differ, of all steps, which is 0."""
    batch = task.train.batch(range(min(most, len(task.train))))
    return torch.zeros(1, 1, task.input_size) if "lengths" in batch else batch["x"].mean(0, keepdim=True)


# Tables


def recalls(readings: Readings) -> list[tuple[int, int, float]]:
    """Of each class that has examples: its number, how many, and the share that was read rightly; the worst first."""
    matrix = readings.confusion
    counts = matrix.sum(axis=1)
    rows = [(k, int(n), float(matrix[k, k] / n)) for k, n in enumerate(counts) if n]
    return sorted(rows, key=lambda row: row[2])


def confused_pairs(readings: Readings, most: int = 20) -> list[tuple[str, str, int, float]]:
    """What was taken for what, how often, and how much of its class that is; the commonest mistakes first."""
    mistakes = readings.confusion.copy()
    counts = mistakes.sum(axis=1)
    np.fill_diagonal(mistakes, 0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:most]
    pairs = [divmod(int(k), len(readings.classes)) for k in order]
    return [
        (readings.classes[i], readings.classes[j], int(mistakes[i, j]), float(mistakes[i, j] / counts[i]))
        for i, j in pairs
        if mistakes[i, j]
    ]


# Pictures


def draw_confusion(readings: Readings) -> Any:
    """The confusion matrix; the shade of a cell is its share of the row's class."""
    from matplotlib.figure import Figure

    matrix, count = readings.confusion, len(readings.classes)
    share = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    side = 1.2 + 0.38 * max(count, 5)
    figure = Figure(figsize=(side + 0.3, side), layout="constrained")
    axes = figure.subplots()
    # A root, so that the few mistakes of a good model are seen beside what is right.
    axes.imshow(np.sqrt(share), cmap="Blues", vmin=0, vmax=1)
    for i in range(count):
        for j in range(count):
            if matrix[i, j]:
                colour = "white" if share[i, j] > 0.3 else "black"
                axes.text(j, i, f"{matrix[i, j]:,}", ha="center", va="center", color=colour, fontsize=8)
    names = [short(name) for name in readings.classes]
    slant: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 3 else {}
    )
    axes.set_xticks(range(count), map(as_drawn, names), **slant)
    axes.set_yticks(range(count), map(as_drawn, names))
    axes.set(xlabel="read as", ylabel="is")
    return figure


def draw_examples(task: ClassificationTask, split: Split, readings: Readings, indices: list[int]) -> Any:
    """Examples with what they are and what they were read as: images as images, other sequences as lines."""
    from matplotlib.figure import Figure

    batch = split.batch(indices)
    columns = 6 if isinstance(task, ImageTask) else 2
    rows = math.ceil(len(indices) / columns)
    figure = Figure(figsize=(10, (2.1 if isinstance(task, ImageTask) else 1.7) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(indices) :]:
        axes.axis("off")
    for k, (axes, index) in enumerate(zip(panels, indices, strict=False)):
        if isinstance(task, ImageTask):
            _show_image(axes, task, batch["x"][k])
        else:
            _show_lines(axes, task, _row(batch, k))
        axes.set_title(readings.caption(index, width=18 if isinstance(task, ImageTask) else 80), fontsize=9)
    return figure


def draw_evidence(
    task: ClassificationTask, split: Split, readings: Readings, indices: list[int], shares: Tensor
) -> Any:
    """Examples and, in colour, the steps that spoke for (blue) and against (orange) what the model chose."""
    from matplotlib.figure import Figure

    batch = split.batch(indices)
    if isinstance(task, ImageTask):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        panels = figure.subplots(2, max(len(indices), 6), squeeze=False)
        for axes in panels[:, len(indices) :].ravel():
            axes.axis("off")
        for k, index in enumerate(indices):
            _show_image(panels[0, k], task, batch["x"][k])
            panels[0, k].set_title(readings.caption(index, width=18), fontsize=9)
            plane = task.picture(shares[k]).sum(-1)
            bound = np.quantile(np.abs(plane), 0.995) or 1.0  # one pixel should not pale all others
            panels[1, k].imshow(plane, cmap=_evidence_colours(), vmin=-bound, vmax=bound)
            panels[1, k].set_xticks([])
            panels[1, k].set_yticks([])
        return figure
    figure = Figure(figsize=(10, 1.7 * len(indices)), layout="constrained")
    panels = figure.subplots(len(indices), 1, squeeze=False)[:, 0]
    for k, (axes, index) in enumerate(zip(panels, indices, strict=True)):
        x = _row(batch, k)
        _show_lines(axes, task, x, ("black", "0.45", "0.65", "0.8"))
        edges = np.unique(np.linspace(0, len(x), min(BINS, len(x)) + 1).astype(int))
        sums = np.add.reduceat(shares[k, : len(x)].sum(-1).double().numpy(), edges[:-1]) / np.diff(edges)
        bound = np.abs(sums).max() or 1.0
        low, high = axes.get_ylim()
        axes.pcolormesh(
            edges - 0.5, [low, high], sums[None], cmap=_evidence_colours(), vmin=-bound, vmax=bound, zorder=0, alpha=0.8
        )
        axes.set_title(readings.caption(index), fontsize=9)
    return figure


def _show_image(axes: Any, task: ImageTask, x: Tensor) -> None:
    pixels = task.picture(x) * np.array(task.inputs.deviation) + np.array(task.inputs.mean)
    grey = pixels.shape[-1] == 1
    axes.imshow((pixels[..., 0] if grey else pixels / 255).clip(0, 255 if grey else 1), cmap="gray", vmin=0, vmax=255)
    axes.set_xticks([])
    axes.set_yticks([])


def _show_lines(axes: Any, task: ClassificationTask, x: Tensor, colours: tuple[str, ...] = LINES) -> None:
    """The first channels of a sequence, as many as there are colours, in the units of the data."""
    values = x.double().numpy() * np.array(task.inputs.deviation) + np.array(task.inputs.mean)
    for channel, colour in zip(range(values.shape[1]), colours, strict=False):
        axes.plot(values[:, channel], color=colour, linewidth=1, marker=marker(values))
    if values.shape[1] > len(colours):
        told = f"{len(colours)} of {values.shape[1]} channels"
        axes.text(0.995, 0.97, told, transform=axes.transAxes, ha="right", va="top", fontsize=7, color="0.3")
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True)  # steps
    axes.tick_params(labelsize=8)


def _evidence_colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("evidence", [ORANGE, "white", BLUE])


def _output(model: Any, batch: Batch, x: Tensor) -> Tensor:
    output: Tensor = model(x, lengths=batch.get("lengths"))[0]
    return output


def _row(batch: Batch, k: int) -> Tensor:
    """Sequence k of a batch without its padding."""
    return batch["x"][k] if "lengths" not in batch else batch["x"][k, : int(batch["lengths"][k])]


def _valid(batch: Batch) -> Tensor:
    return (torch.arange(batch["x"].shape[1]) < batch["lengths"][:, None]).unsqueeze(-1)
