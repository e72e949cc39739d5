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
    """The season of values (rows, columns) at a step: that of the calendar, or one that the values show better."""
    calendar = season(step)
    found = [_repeats(column) for column in values.T]
    shown, highest = max(set(found), key=found.count)
    candidates = [highest, calendar]
    if calendar > 1 and not _is_clearer(values, calendar, shown):
        rows, source = calendar, f"from times {step_name(step)} apart"
        if step is not None and _is_within_a_day(step):
            candidates.insert(0, WEEK * rows)
    elif shown > 1:
        rows, source = shown, "from the autocorrelation of the values"
    else:
        return Season(1, "")
    multiples = (lag for lag in candidates if lag > rows and lag % rows == 0)
    return Season(rows, source, next((lag for lag in multiples if _repeats_longer(values, rows, lag)), 0))


def _is_clearer(values: NDArray[np.float64], calendar: int, shown: int) -> bool:
    """Whether a season that values show describes them better than the calendar's, or as well as its multiple."""
    if shown in (1, calendar) or shown % calendar == 0:
        return False
    if calendar >= len(values):
        return True
    worse = _changes(values, calendar, shown)
    least = 1 / (1 - DIP) if calendar % shown else 1 - DIP
    return bool((worse > least).mean() > 0.5)


def _is_within_a_day(step: np.timedelta64) -> bool:
    """Whether a season of rows that far apart is a day."""
    return not in_months(step) and bool(step < np.timedelta64(1, "D"))


def _repeats_longer(values: NDArray[np.float64], shorter: int, longer: int) -> bool:
    """Whether values are more like those of the longer season before than like those of the shorter, all columns in."""
    if len(values) < 3 * longer:
        return False
    return bool((_changes(values, longer, shorter) < 1 - DIP).mean() > 0.5)


def _changes(values: NDArray[np.float64], lag: int, other: int) -> NDArray[np.float64]:
    """The mean squared change from the season before, in units of that for another lag, by column."""
    first = max(lag, other)
    one, two = (np.square(values[first:] - values[first - k : len(values) - k]).mean(0) for k in (lag, other))
    rounding = 1e-12 * np.square(values).mean(0) + np.finfo(float).tiny
    return np.asarray((one + rounding) / (two + rounding))


def _repeats(values: NDArray[np.float64]) -> tuple[int, int]:
    """The lags of two peaks of the autocorrelation that stand out from noise: the shortest of those that go evenly into
    the highest, and the highest; 1 and 1 if none does.

    Bartlett's formula has the standard error: that of noise with the autocorrelation of the lags before.
    """
    n = len(values)
    steps = np.arange(n) - (n - 1) / 2
    rest = values - values.mean() - steps * (steps @ values) / max(1.0, float(steps @ steps))
    most = min(LONGEST, n // 3)
    if most < 3 or not rest.std() > 1e-9 * (np.abs(values).max() or 1.0):
        return 1, 1
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
    highest = max(peaks, key=lambda lag: float(r[lag]), default=1)
    return min((lag for lag in peaks if highest % lag == 0), default=1), highest
