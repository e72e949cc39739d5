"""Sequences as reports show them: without padding, in the units of the data, as lines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from longwave.pictures.style import BLUE, GREY, ORANGE, lone_points
from longwave.tasks.base import Batch

LINES = (BLUE, ORANGE, GREY, "#38a169")


def unpadded(batch: Batch, k: int) -> Tensor:
    """Sequence k of a batch without its padding, (length, channels)."""
    return batch["x"][k] if "lengths" not in batch else batch["x"][k, : int(batch["lengths"][k])]


def in_units(inputs: Any, x: Tensor) -> NDArray[np.float64]:
    """A sequence (length, channels) in the units of the data."""
    return x.double().numpy() * np.array(inputs.deviation) + np.array(inputs.mean)


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
