"""Statistics of arrays: mean and deviation to standardise data by, and a digest of it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_and_deviation(
    values: NDArray[Any], source: str, known: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each column of (rows, columns); the deviation of a constant column is exactly 0.

    With `known` (rows, columns), of the known values only: at least one in each column.
    """
    if known is not None:
        columns = zip(values.T, known.T, strict=True)
        means, deviations = zip(
            *(mean_and_deviation(column[own, None], source) for column, own in columns), strict=True
        )
        return np.concatenate(means), np.concatenate(deviations)
    changes = values.max(axis=0) != values.min(axis=0)  # rounding must not give a constant column a deviation
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise ValueError(
            f"{source}: values up to {np.abs(values).max():.3g} are too large to be standardised; "
            "expected numbers whose squares can be added up"
        )
    return mean, np.where(changes, deviation, 0.0)


def deviation_or_one(deviation: NDArray[np.float64]) -> tuple[float, ...]:
    """The deviations to divide by; 1 for a constant column."""
    return tuple(np.where(deviation > 0, deviation, 1.0).tolist())


def digest(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of arrays with their types and shapes, by which a run recognises its data."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.hexdigest()


def standardised(values: NDArray[Any], mean: Sequence[float], deviation: Sequence[float]) -> NDArray[np.float64]:
    """(values - mean) / deviation, column by column; values beyond the range of float32 are refused."""
    with np.errstate(over="ignore"):
        standard: NDArray[np.float64] = (values - np.array(mean)) / np.array(deviation)
    fits = np.abs(standard) <= np.finfo(np.float32).max
    if not fits.all():
        k = int(np.argmin(fits.reshape(-1, len(mean)).all(axis=0)))
        raise ValueError(
            f"column {k}: values up to {np.abs(values[..., k]).max():.3g} are too far from the training set, "
            f"with a mean of {mean[k]:.3g} and a deviation of {deviation[k]:.3g}"
        )
    return standard
