"""The confusion matrix as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import as_drawn, short


def draw_confusion(matrix: NDArray[np.int64], classes: Sequence[str]) -> Any:
    """The confusion matrix; the shade of a cell is its share of the row's class."""
    from matplotlib.figure import Figure

    count = len(classes)
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
