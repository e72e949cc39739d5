"""Find the season of a series from its times or from the autocorrelation of its values."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.io.times import in_months, season, step_name

LONGEST = 400  # rows
CERTAIN = 3.0  # standard errors of the autocorrelation of noise
CLEAR = 0.3  # an autocorrelation that is worth calling a season
DIP = 0.1  # by which it must fall before a peak, and the share by which a longer season must be better
WEEK = 7  # days


class Season(NamedTuple):
    """Rows of a season, 1 if there is none, and where it was found; and rows of a longer one, 0 if there is none."""

    rows: int
    source: str
    longer: int = 0

    @property
    def text(self) -> str:
        """Description for notes."""
        also = f", and a longer one of {self.longer}" if self.longer else ""
        return f"a season of {self.rows} rows{also}, {self.source}" if self.rows > 1 else "no season"


def find_season(values: NDArray[np.float64], step: np.timedelta64 | None) -> Season:
    """The season of values (rows, columns) at a step: that of the calendar, or one found in the values."""
    rows = season(step)
    if rows > 1:
        week = WEEK * rows if step is not None and _is_within_a_day(step) else 0
        return Season(rows, f"from times {step_name(step)} apart", week if _repeats_longer(values, rows, week) else 0)
    found = [_repeats(column) for column in values.T]
    lag = max(set(found), key=found.count)
    return Season(lag, "from the autocorrelation of the values") if lag > 1 else Season(1, "")


def _is_within_a_day(step: np.timedelta64) -> bool:
    """Whether a season of rows that far apart is a day."""
    return not in_months(step) and bool(step < np.timedelta64(1, "D"))


def _repeats_longer(values: NDArray[np.float64], shorter: int, longer: int) -> bool:
    """Whether values are more like those of the longer season before than like those of the shorter, all columns in."""
    if not longer or len(values) < 3 * longer:
        return False
    changes = [
        np.square(values[longer:] - values[longer - lag : len(values) - lag]).mean(0) for lag in (shorter, longer)
    ]
    return bool((changes[1] < (1 - DIP) * changes[0]).mean() > 0.5)


def _repeats(values: NDArray[np.float64]) -> int:
    """The lag of the highest peak of the autocorrelation, if it stands out from noise; else 1.

    Bartlett's formula has the standard error: that of noise with the autocorrelation of the lags before.
    """
    n = len(values)
    steps = np.arange(n) - (n - 1) / 2
    rest = values - values.mean() - steps * (steps @ values) / max(1.0, float(steps @ steps))
    most = min(LONGEST, n // 3)
    if most < 3 or not rest.std() > 1e-9 * (np.abs(values).max() or 1.0):
        return 1
    power = np.abs(np.fft.rfft(rest, 2 * n)) ** 2
    r: Any = np.fft.irfft(power)[: most + 2] / rest.var() / n
    error = CERTAIN * np.sqrt((1 + 2 * np.concatenate([[0.0], np.cumsum(r[1:] ** 2)])) / n)
    peaks = [
        lag
        for lag in range(2, most + 1)
        if r[lag] > max(CLEAR, error[lag - 1])
        and r[lag] == r[lag - 1 : lag + 2].max()
        and r[1:lag].min() < r[lag] - DIP
    ]
    return max(peaks, key=lambda lag: float(r[lag])) if peaks else 1
