"""The report of a tagging task: confusion matrix, some sequences with true and predicted tags."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image, table
from longwave.tasks.classify.confusion import SHOWN_CLASSES, confusion, confusion_matrix
from longwave.tasks.sequences.plots import in_units, unpadded
from longwave.tasks.sequences.task import NO_TAG
from longwave.tasks.tag.plots import draw_tags
from longwave.tasks.tag.predict import probabilities
from longwave.tasks.tag.task import TaggingTask


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
        """Of the labelled steps of a sequence."""
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
