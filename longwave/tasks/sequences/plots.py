"""Sequences as reports show them: without padding, in the units of the data, as lines."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from longwave.pictures.style import BLUE, GREY, ORANGE, lone_points, panels
from longwave.tasks.base import Batch

LINES = (BLUE, ORANGE, GREY, "#38a169")


def unpadded(batch: Batch, k: int) -> Tensor:
    """Sequence k of a batch without its padding, (length, channels)."""
    return batch["x"][k] if "lengths" not in batch else batch["x"][k, : int(batch["lengths"][k])]


def in_units(inputs: Any, x: Tensor) -> NDArray[np.float64]:
    """A sequence (length, channels) in the units of the data."""
    return x.double().numpy() * np.array(inputs.deviation) + np.array(inputs.mean)


def make_panels(count: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure, and `count` of its axes, row by row, each of so many inches."""
    rows = math.ceil(count / columns)
    return panels(width * columns, height * rows, rows, columns, count)


def draw_sequences(sequences: Sequence[NDArray[np.float64]], captions: Sequence[str]) -> Any:
    """Sequences (length, channels) as lines, with captions."""
    figure, rows = make_panels(len(sequences), 2, 5, 1.75)
    for axes, values, caption in zip(rows, sequences, captions, strict=True):
        show_lines(axes, values)
        axes.set_title(caption, fontsize=9)
    return figure


def show_lines(axes: Any, values: NDArray[np.float64], colours: tuple[str, ...] = LINES) -> None:
    """The first channels of a sequence (length, channels), as many as there are colours."""
    for channel, colour in zip(range(values.shape[1]), colours, strict=False):
        axes.plot(values[:, channel], color=colour, linewidth=1, **lone_points(values[:, channel]))
    if values.shape[1] > len(colours):
        text = f"{len(colours)} of {values.shape[1]} channels"
        axes.text(0.995, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7, color="0.3")
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True)  # steps
    axes.tick_params(labelsize=8)
