"""Sequences of a batch as reports show them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from longwave.tasks.base import Batch


def unpadded(batch: Batch, k: int) -> Tensor:
    """Sequence k of a batch without its padding, (length, channels)."""
    return batch["x"][k] if "lengths" not in batch else batch["x"][k, : int(batch["lengths"][k])]


def in_units(inputs: Any, x: Tensor) -> NDArray[np.float64]:
    """A sequence (length, channels) in the units of the data."""
    return x.double().numpy() * np.array(inputs.deviation) + np.array(inputs.mean)
