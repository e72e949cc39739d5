"""Linear baselines of tasks on sequences: ridge regression in closed form, with the penalty that validates best."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
PENALTIES = np.logspace(-6, 3, 19)  # relative to the mean variance of a feature
LARGEST = 2048  # rows or features, whichever are fewer, that are solved within seconds
MEMORY = 2**24  # numbers of a matrix of features: 128 MB


@dataclass(frozen=True, eq=False)
class Ridge:
    """x (..., features) -> (..., outputs): (x - mean) weight + offset."""

    mean: Matrix  # (features,)
    weight: Matrix  # (features, outputs)
    offset: Matrix  # (outputs,)

    def __call__(self, x: Matrix) -> Matrix:
        return (x - self.mean) @ self.weight + self.offset


def is_solvable(rows: int, features: int) -> bool:
    """Whether a fit takes seconds and not minutes or gigabytes."""
    return min(rows, features) <= LARGEST and rows * features <= MEMORY


def fit(x: Matrix, y: Matrix, error: Callable[[Ridge], float]) -> Ridge:
    """Least squares from x (rows, features) to y (rows, outputs), with the penalty of the smallest `error`.

    With centred X and Y, the weights are (X^T X + p)^-1 X^T Y = X^T (X X^T + p)^-1 Y: the smaller of the two matrices
    is decomposed once, for all penalties p.
    """
    mean, offset = x.mean(axis=0), y.mean(axis=0)
    X, Y = x - mean, y - offset
    is_wide = X.shape[1] > X.shape[0]
    eigenvalues, Q = np.linalg.eigh(X @ X.T if is_wide else X.T @ X)
    eigenvalues = eigenvalues.clip(0)
    unit = eigenvalues.sum() / X.shape[1] or 1.0  # features that never change have no variance at all
    left, right = (X.T @ Q, Q.T @ Y) if is_wide else (Q, Q.T @ (X.T @ Y))
    fits = (Ridge(mean, left @ (right / (eigenvalues + p * unit)[:, None]), offset) for p in PENALTIES.tolist())
    return min(fits, key=error)


def summary(x: Matrix) -> Matrix:
    """Mean, deviation, minimum, maximum, last value and slope of each channel of x (length, channels)."""
    steps = np.arange(len(x)) - (len(x) - 1) / 2
    slope = steps @ x / max(1.0, float(steps @ steps))
    return np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0), x[-1], slope])


def windows(x: Matrix, reach: int) -> Matrix:
    """The values up to `reach` steps from each: (..., L, channels) -> (..., L, (2 reach + 1) channels), 0 beyond."""
    ends = [(0, 0)] * (x.ndim - 2)
    padded = np.pad(x, [*ends, (reach, reach), (0, 0)])
    length = x.shape[-2]
    return np.concatenate([padded[..., k : k + length, :] for k in range(2 * reach + 1)], axis=-1)
