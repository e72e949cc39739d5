"""The confusion matrix, the recall of each class, the commonest mistakes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import image, table
from longwave.pictures.style import as_drawn, panels, short

SHOWN_CLASSES = 20  # a matrix of more is listed, not drawn
SHOWN_PAIRS = 20


def confusion_matrix(truth: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """(classes, classes): how many of the row's class were predicted as the column's."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def recalls(matrix: NDArray[np.int64]) -> list[tuple[int, int, float]]:
    """The number of each class that has examples, how many, and its recall; the worst first."""
    counts = matrix.sum(axis=1)
    rows = [(k, int(n), float(matrix[k, k] / n)) for k, n in enumerate(counts) if n]
    return sorted(rows, key=lambda row: row[2])


def confused_pairs(matrix: NDArray[np.int64], classes: Sequence[str]) -> list[tuple[str, str, int, float]]:
    """Class, prediction, count, and share of the class; the commonest mistakes first."""
    mistakes = matrix.copy()
    counts = mistakes.sum(axis=1)
    np.fill_diagonal(mistakes, 0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:SHOWN_PAIRS]
    pairs = [divmod(int(k), len(classes)) for k in order]
    return [
        (classes[i], classes[j], int(mistakes[i, j]), float(mistakes[i, j] / counts[i]))
        for i, j in pairs
        if mistakes[i, j]
    ]


def confusion(matrix: NDArray[np.int64], classes: Sequence[str], trained: Sequence[int], what: str = "") -> str:
    """The confusion matrix with the recall of each class; with many classes, the commonest mistakes."""
    found = recalls(matrix)
    balanced = sum(recall for _, _, recall in found) / len(found)
    listed = found[:SHOWN_CLASSES]
    worst = f" The {len(listed)} worst:" if len(listed) < len(found) else ""
    rows = [(classes[k], f"{trained[k]:,}", f"{count:,}", f"{recall:.1%}") for k, count, recall in listed]
    recall_table = table(("class", f"training set{what}", f"test set{what}", "recall"), rows)
    text = f"<p>The mean recall of the classes is {balanced:.4f}.{worst}</p>"
    if len(classes) <= SHOWN_CLASSES:
        picture = image(lambda: draw_confusion(matrix, classes), "confusion matrix")
        return f'<div class="pair"><div>{picture}</div><div>{text}{recall_table}</div></div>'
    pairs = [(a, b, f"{n:,}", f"{share:.1%}") for a, b, n, share in confused_pairs(matrix, classes)]
    pair_table = table(("class", "predicted as", "count", "of its class"), pairs) if pairs else "<p>No mistakes.</p>"
    return f'<div class="pair"><div>{pair_table}</div><div>{text}{recall_table}</div></div>'


def draw_confusion(matrix: NDArray[np.int64], classes: Sequence[str]) -> Any:
    """The confusion matrix; the shade of a cell is its share of the row's class."""
    count = len(classes)
    share = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    side = 1.2 + 0.38 * max(count, 5)
    figure, (axes,) = panels(side + 0.3, side)
    # The square root, so that the few mistakes of a good model are visible.
    axes.imshow(np.sqrt(share), cmap="Blues", vmin=0, vmax=1)
    for i in range(count):
        for j in range(count):
            if matrix[i, j]:
                colour = "white" if share[i, j] > 0.3 else "black"
                axes.text(j, i, _compact(int(matrix[i, j])), ha="center", va="center", color=colour, fontsize=8)
    names = [short(name) for name in classes]
    slant: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 3 else {}
    )
    axes.set_xticks(range(count), map(as_drawn, names), **slant)
    axes.set_yticks(range(count), map(as_drawn, names))
    axes.set(xlabel="predicted", ylabel="class")
    return figure


def _compact(count: int) -> str:
    """A count in at most five characters, as a cell has room for."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.3g}M"
