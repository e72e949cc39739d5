"""What a task is: three splits that hand out batches, a loss, and scores.

A batch is a dict of tensors with the rows of the batch first. The names that models and training know:

    x         (B, L, input_size) floats, or (B, L) whole numbers for tokens
    time      (B, L, time_size) optional: features of the time of each step
    lengths   (B,) optional: how many steps of each row count
    y         the target, as the task's own loss expects it
    weight    (B,) optional: how much each row counts in a score of the task's
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Batch = dict[str, Tensor]


class Split(Protocol):
    """One part of a data set. `batch` must depend on nothing but the indices: then a resumed run sees the same data."""

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples at these indices, as one batch."""
        ...


def mean_and_deviation(values: NDArray[Any], source: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each column of (rows, columns); the deviation of one that does not change is exactly 0."""
    changes = values.max(axis=0) != values.min(axis=0)  # where nothing changes, rounding should not seem to
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise ValueError(
            f"{source}: values up to {np.abs(values).max():.3g} are too large to be standardised; "
            "expected numbers whose squares can be added up"
        )
    return mean, np.where(changes, deviation, 0.0)


def deviation_or_one(deviation: NDArray[np.float64]) -> tuple[float, ...]:
    """The deviations to divide by; 1 where nothing changes."""
    return tuple(np.where(deviation > 0, deviation, 1.0).tolist())


def digest(*arrays: NDArray[Any]) -> str:
    """A fingerprint of the data, by which a run knows it again."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.hexdigest()


def standardised(values: NDArray[Any], mean: Sequence[float], deviation: Sequence[float]) -> NDArray[np.float64]:
    """(values - mean) / deviation, column by column; what float32 cannot hold is refused."""
    with np.errstate(over="ignore"):
        standard: NDArray[np.float64] = (values - np.array(mean)) / np.array(deviation)
    fits = np.abs(standard) <= np.finfo(np.float32).max
    if not fits.all():
        k = int(np.argmin(fits.reshape(-1, len(mean)).all(axis=0)))
        raise ValueError(
            f"column {k}: values up to {np.abs(values[..., k]).max():.3g} are too far from those of the train part, "
            f"with a mean of {mean[k]:.3g} and a deviation of {deviation[k]:.3g}"
        )
    return standard


@dataclass(frozen=True)
class TaskInput:
    """What a trained model must know to be used on new data; made of plain values, for a run's config."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of to_dict, also after a way through JSON."""
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**plain)


@dataclass(frozen=True)
class Task(ABC):
    """A data set with its loss and scores. `goal` names the score that decides which checkpoint is best."""

    name: str
    train: Split
    valid: Split
    test: Split
    input_size: int
    output_size: int
    time_size: int = 0
    goal: str = "loss"
    higher_is_better: bool = False
    paper: dict[str, float] = field(default_factory=dict)  # the paper's S4 figures on the test part, by score

    @abstractmethod
    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean loss of a batch, a scalar."""

    @abstractmethod
    def scores(self, output: Tensor, batch: Batch) -> dict[str, tuple[Tensor, int]]:
        """Each score as (sum, count), so that the scores of a split are exact whatever its batches: sum / count."""

    def reported(self, means: dict[str, float]) -> dict[str, float]:
        """The scores of a split as they are told, from the means: here a task adds what is no mean, as perplexity."""
        return means

    def train_at(self, epoch: int, seed: int) -> Split:
        """The train part as an epoch sees it; what is drawn for an example must follow from epoch, seed and index."""
        return self.train

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        parts = {"train": len(self.train), "valid": len(self.valid), "test": len(self.test)}
        return {"name": self.name, "examples": parts}
