"""The report of a tagging task: confusion matrix, some sequences with true and predicted tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image, table
from longwave.pictures.style import as_drawn, panels, short
from longwave.tasks.classify.confusion import SHOWN_CLASSES, confusion, confusion_matrix
from longwave.tasks.sequences.plots import in_units, show_lines, unpadded
from longwave.tasks.sequences.task import NO_TAG
from longwave.tasks.tag.predict import probabilities
from longwave.tasks.tag.task import TaggingTask

GREYS = ("black", "0.45", "0.65", "0.8")  # lines beside bands of colour
UNKNOWN = "0.93"  # where no class is known
NAMED = 12  # classes that a legend has room for


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's predictions for every step of a split."""

    truth: list[NDArray[np.int64]]  # (length,) of each sequence, NO_TAG where the class is not known
    predicted: list[NDArray[np.int64]]  # (length,)
    classes: tuple[str, ...]

    @property
    def confusion(self) -> NDArray[np.int64]:
        """(classes, classes): how many labelled steps of the row's class were predicted as the column's."""
        truth, predicted = np.concatenate(self.truth), np.concatenate(self.predicted)
        known = truth != NO_TAG
        return confusion_matrix(truth[known], predicted[known], len(self.classes))

    def accuracy(self, index: int) -> float:
        """The accuracy on the labelled steps of a sequence."""
        known = self.truth[index] != NO_TAG
        return float((self.truth[index] == self.predicted[index])[known].mean())

    def examples(self) -> list[int]:
        """The two worst sequences, one in the middle, and the best."""
        order = sorted(range(len(self.truth)), key=self.accuracy)
        return [order[k] for k in sorted({0, min(1, len(order) - 1), len(order) // 2, len(order) - 1})]

    def f1_table(self) -> str:
        """Precision, recall and F1 of each class that is there or was predicted; the worst first."""
        matrix = self.confusion
        rows = []
        for k, name in enumerate(self.classes):
            true, found, hits = int(matrix[k].sum()), int(matrix[:, k].sum()), int(matrix[k, k])
            if true + found:
                precision, recall = hits / max(found, 1), hits / max(true, 1)
                rows.append((2 * hits / (true + found), name, f"{found:,}", f"{precision:.1%}", f"{recall:.1%}"))
        rows.sort()
        cells = [(name, found, precision, recall, f"{f1:.3f}") for f1, name, found, precision, recall in rows]
        return table(("class", "predicted steps", "precision", "recall", "F1"), cells[:SHOWN_CLASSES])


def predict(model: Any, task: TaggingTask, size: int = 32) -> Predictions:
    """The model's predictions for every step of the test set."""
    predicted = [chances.argmax(axis=1) for chances in probabilities(model, task.test, size)]
    return Predictions(task.test.own_tags, predicted, task.inputs.classes)


# Pictures


def draw_tags(
    sequences: Sequence[NDArray[np.float64]],
    truth: Sequence[NDArray[np.int64]],
    predicted: Sequence[NDArray[np.int64]],
    classes: Sequence[str],
    captions: Sequence[str],
) -> Any:
    """Sequences (length, channels) as lines, and below each its true and its predicted classes (length,) as colours.

    A negative class is one that is not known. The legend has the classes that are shown, if they are few.
    """
    from matplotlib.patches import Patch

    shown = sorted({int(k) for tags in (*truth, *predicted) for k in np.unique(tags) if k >= 0})
    colours = _colours(len(classes))
    with_legend = len(shown) <= NAMED
    count, height = len(sequences), 2.3 * len(sequences) + 0.4 * with_legend
    figure, rows = panels(10, height, 2 * count, height_ratios=[2.2, 1] * count)
    for k, (values, caption) in enumerate(zip(sequences, captions, strict=True)):
        lines, bands = rows[2 * k], rows[2 * k + 1]
        show_lines(lines, values, GREYS)
        lines.set_title(as_drawn(caption), fontsize=9)
        lines.set_xticklabels([])
        picture = np.stack([_painted(tags[k], colours) for tags in (truth, predicted)])
        bands.imshow(picture, aspect="auto", interpolation="nearest", extent=(-0.5, len(values) - 0.5, 1.5, -0.5))
        bands.axhline(0.5, color="white", linewidth=2)
        bands.set_yticks([0, 1], ["true", "predicted"], fontsize=8)
        bands.tick_params(labelsize=8, left=False)
        bands.xaxis.get_major_locator().set_params(integer=True)
        for side in bands.spines.values():
            side.set_visible(False)
        limits = (-0.5 - 0.01 * len(values), len(values) - 0.5 + 0.01 * len(values))
        lines.set_xlim(limits)
        bands.set_xlim(limits)
    if with_legend:
        patches = [Patch(color=colours[k], label=as_drawn(short(classes[k], 20))) for k in shown]
        if any((tags < 0).any() for tags in truth):
            patches.append(Patch(color=UNKNOWN, label="not labelled"))
        columns = min(7, len(patches))
        figure.legend(handles=patches, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _painted(tags: NDArray[np.int64], colours: list[Any]) -> NDArray[np.float64]:
    """(length, 3) red, green and blue of each step."""
    from matplotlib.colors import to_rgb

    table = np.array([to_rgb(colour) for colour in (*colours, UNKNOWN)])
    return table[np.where(tags < 0, len(colours), tags)]


def _colours(count: int) -> list[Any]:
    """Distinct colours, as far as there are so many."""
    import matplotlib

    if count <= 20:
        few: Any = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
        return list(few.colors[:count])
    return [matplotlib.colormaps["nipy_spectral"](k / count) for k in range(count)]


# The page


def report(model: Any, task: TaggingTask) -> list[Section]:
    """Confusion matrix, precision and recall of each class, some sequences."""
    found = predict(model, task)
    chosen = found.examples()
    batch = task.test.batch(chosen)
    lines = [in_units(task.inputs, unpadded(batch, k)) for k in range(len(chosen))]
    captions = [f"sequence {k} of the test set, accuracy {found.accuracy(k):.1%}" for k in chosen]
    truth, predicted = ([tags[k] for k in chosen] for tags in (found.truth, found.predicted))
    worst = f"<p>The {SHOWN_CLASSES} classes with the lowest F1.</p>" * (len(found.classes) > SHOWN_CLASSES)
    return [
        Section("Confusion matrix", confusion(found.confusion, found.classes, task.counts["train"], ", steps")),
        Section("Precision and recall", worst + found.f1_table()),
        Section(
            "Tagged sequences",
            "<p>The worst, one in the middle and the best of the test set.</p>"
            + image(lambda: draw_tags(lines, truth, predicted, found.classes, captions), "true and predicted tags"),
        ),
    ]
