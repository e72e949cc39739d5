"""The yearly cycle of each column of a series, as a sum of harmonics."""

import numpy as np
from numpy.typing import NDArray

from longwave.io.times import DAY, Times

YEAR = 365.2425 * DAY  # seconds
HARMONICS = 3  # waves of a year, half a year and four months: a course that is smooth from month to month

Floats = NDArray[np.float64]


def years(times: Times) -> float:
    """The number of years that evenly spaced times cover, with one step after the last."""
    seconds = times.astype("datetime64[s]").astype(np.int64)
    span = seconds[-1] - seconds[0]
    return float(span + span / max(1, len(times) - 1)) / YEAR


def harmonics(times: Times) -> Floats:
    """Cosine and sine of each harmonic at the times: (rows, 2 HARMONICS)."""
    phase = 2 * np.pi * (times.astype("datetime64[s]").astype(np.int64) / YEAR % 1)
    waves = phase[:, None] * np.arange(1, HARMONICS + 1)
    return np.concatenate((np.cos(waves), np.sin(waves)), axis=1)


def fit(values: NDArray[np.floating], times: Times, known: NDArray[np.bool_] | None = None) -> Floats:
    """The least squares fit of the harmonics, and a mean that is left out, to each column: (2 HARMONICS, columns)."""
    waves = np.concatenate((harmonics(times), np.ones((len(times), 1))), axis=1)
    if known is None:
        return np.asarray(np.linalg.lstsq(waves, values.astype(np.float64), rcond=None)[0][:-1])
    columns = [
        np.linalg.lstsq(waves[own], column[own].astype(np.float64), rcond=None)[0][:-1]
        for column, own in zip(values.T, known.T, strict=True)
    ]
    return np.stack(columns, axis=1)
