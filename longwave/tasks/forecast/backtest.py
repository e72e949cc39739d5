"""The result of a backtest: forecasts at many cutoffs, actual values, and scores."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.tasks.forecast.intervals import Interval
from longwave.tasks.forecast.tables import write_table

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts and actual values of windows, in the units of the series.

    A window begins after its cutoff, the last row that is known. Arrays of values are (windows, horizon, columns); a
    truth that is not known is NaN.
    """

    columns: tuple[str, ...]
    cutoffs: Any  # (windows,) datetime64, or the numbers of rows, the first being 1
    times: Any  # (windows, horizon), the same of the rows that are forecast
    y: Floats
    forecast: Floats
    scale: Floats  # (windows, columns): of the MASE, the mean error of seasonal-naive by one step in the rows before
    season: int
    intervals: tuple[Interval, ...] = ()  # of each level, the lowest first
    notes: tuple[str, ...] = ()
    id: str | None = None  # the column that tells the series of a panel apart
    ids: Any = None  # (windows,) the series of each

    def __len__(self) -> int:
        """Rows of the table."""
        return self.y.size

    @property
    def table(self) -> dict[str, Any]:
        """The rows by column: of a panel the id, then cutoff, time, y, forecast, and the ends of intervals.

        These are lo and hi if there is one level, and lo-80, hi-80, ... if there are several. Several columns of a
        series follow one another, and `column` names them.
        """
        windows, horizon, count = self.y.shape
        found: dict[str, Any] = {} if self.id is None else {self.id: np.repeat(self.ids, horizon)}
        if count > 1:
            found["column"] = np.tile(np.repeat(self.columns, horizon), windows)
        found["cutoff"] = np.repeat(self.cutoffs, horizon * count)
        found["time"] = np.repeat(self.times[:, None], count, axis=1).reshape(-1)
        found |= {"y": _flat(self.y), "forecast": _flat(self.forecast)}
        for level, low, high in self.intervals:
            name = f"-{level:g}" if len(self.intervals) > 1 else ""
            found |= {f"lo{name}": _flat(low), f"hi{name}": _flat(high)}
        return found

    def frame(self, backend: Any = "pandas") -> Any:
        """The table as a data frame of pandas, polars or Arrow."""
        import narwhals.stable.v2 as nw

        table = {name: _in_microseconds(values) for name, values in self.table.items()}
        return nw.from_dict(table, backend=backend).to_native()

    @property
    def metrics(self) -> dict[str, float]:
        """The scores of all windows together."""
        return {name: float(values) for name, values in self._scores((0, 1, 2)).items()}

    @property
    def by_step(self) -> dict[str, Any]:
        """The scores by step of the horizon: `step` from 1 on, and an array (horizon,) of each."""
        return {"step": np.arange(1, self.y.shape[1] + 1)} | self._scores((0, 2))

    @property
    def by_window(self) -> dict[str, Any]:
        """The scores by window: of a panel its id, its `cutoff`, and an array (windows,) of each."""
        return ({} if self.id is None else {self.id: self.ids}) | {"cutoff": self.cutoffs} | self._scores((1, 2))

    def _scores(self, axes: tuple[int, ...]) -> dict[str, Any]:
        """MAE, RMSE, MASE, and the share of known values in each interval, all over some axes of the windows."""
        errors = np.abs(self.forecast - self.y)
        scale = np.where(self.scale > 0, self.scale, np.nan)[:, None]
        found = {"MAE": _mean(errors, axes), "RMSE": np.sqrt(_mean(errors**2, axes))}
        found["MASE"] = _mean(errors / scale, axes)
        for level, low, high in self.intervals:
            is_known = np.isfinite(self.y) & np.isfinite(low)
            inside = np.where(is_known, (low <= self.y) & (self.y <= high), np.nan)
            found[f"coverage-{level:g}"] = _mean(inside, axes)
        return found

    def write(self, path: str | Path) -> None:
        """Write the table as CSV, atomically."""
        write_table(path, self.table)

    def write_scores(self, steps: str | Path, windows: str | Path) -> None:
        """Write the scores by step and by window as CSV."""
        write_table(steps, self.by_step)
        write_table(windows, self.by_window)

    def plot(self) -> Any:
        """A matplotlib figure: forecasts over the truth, errors by step, and by window."""
        from longwave.tasks.forecast.plots import draw_backtest

        return draw_backtest(self)


def _flat(values: Floats) -> Floats:
    """Values (windows, horizon, columns), window by window and column by column."""
    return values.transpose(0, 2, 1).reshape(-1)


def _mean(values: Floats, axes: tuple[int, ...]) -> Any:
    """The mean over known values; NaN if there are none."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0).sum(axes) / known.sum(axes)


def _in_microseconds(values: Any) -> Any:
    return values.astype("datetime64[us]") if values.dtype.kind == "M" else values
