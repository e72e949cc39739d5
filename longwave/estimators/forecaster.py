"""The forecasting estimator, which takes data frames, Series and arrays, and returns forecasts in the same form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import narwhals.stable.v2 as nw
import numpy as np

from longwave.backtests import backtest
from longwave.core.registry import nearest
from longwave.estimators.base import Estimator
from longwave.experiments.forecasting import with_gaps
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.intervals import TRAILING, check_levels
from longwave.tasks.forecast.plots import draw_forecast
from longwave.tasks.forecast.predict import Continuation, Forecasts, PanelContinuation
from longwave.tasks.forecast.series import read_series


@dataclass(eq=False, repr=False, kw_only=True)
class S4Forecaster(Estimator):
    """Forecast the `horizon` rows after a series with a combination of simple forecasts, corrected by an S4.

    >>> fc = S4Forecaster(horizon=24, random_state=0).fit(df, target_col="load", time_col="hour")
    >>> fc.predict()        # the 24 rows after the last of df, in a data frame of its kind
    >>> fc.update(new_rows).predict()
    >>> S4Forecaster(horizon=24, id_col="store").fit(df)  # many series, one model; predictions carry the id
    """

    kind: ClassVar[str] = "forecast"
    settings_as: ClassVar[Mapping[str, str]] = {"id": "id_col"}

    horizon: int = field(default=96, kw_only=False)  # rows to forecast
    context: int | None = None  # rows that a forecast looks back on; None: by series length and seasonality
    id_col: str | None = None  # the column that tells many series apart, for one model of all; None: there is one
    past: Any = ()  # columns beside the target that are known up to now alone
    future: Any = ()  # those that are known ahead: `predict` takes them for the rows to forecast
    static: Any = ()  # those that are constant in each of many series
    scale: Literal["series", "all"] = "series"  # of many series: standardise each by itself, or all alike
    multivariate: bool = False  # all columns in and out, not the target alone
    irregular: bool = False  # take rows at the times they have; S4D takes the place of S4, and sees the gaps
    fill: Literal["linear", "mask"] | None = None  # missing values: interpolate them, or keep the gaps
    level: Any = None  # of prediction intervals, in per cent, such as [80, 95]; None: no intervals
    d_model: int = 32
    n_layers: int = 2

    def fit(
        self, df: Any, y: Any = None, *, target_col: str = "y", time_col: str = "ds", id_col: str | None = None
    ) -> "S4Forecaster":
        """Train on a data frame of pandas or polars, an Arrow table, a Series, an array, or a CSV file, by its path.

        Without columns of these names, the one column of numbers is the target, and times are those of the index, or of
        the one column that holds some. All rows are used: the last tenth validates, and none is kept for a test. `y` is
        ignored; `id_col` here counts before that of the estimator.
        """
        id_col = self.id_col if id_col is None else id_col
        frame, names = _frame(df)
        if id_col is not None and names is not None and id_col not in names:
            raise ValueError(f"id_col: no column {id_col!r}; {nearest(id_col, names)}")
        target = _name(target_col, "y", names, "target_col")
        time = _name(time_col, "ds", names, "time_col")
        given: dict[str, Any] = {"horizon": self.horizon, "context": self.context, "fill": self.fill, "test": 0}
        given |= {"level": check_levels(self.level) or None, "id": id_col, "scale": self.scale}
        given["irregular"] = self.irregular
        given |= {known: _names(getattr(self, known)) for known in ("past", "future", "static")}
        experiment = self._experiment(target=target, time=time, multivariate=self.multivariate, **given)
        experiment = with_gaps(experiment) if self.irregular else experiment
        self._train(experiment, lambda task, folder: task.on_frame(folder, frame))
        self.rows_ = _last(frame, self._kept(), id_col)
        return self

    def update(self, df: Any) -> "S4Forecaster":
        """Append new rows to forecast from, without training."""
        forecasts, (new, _), known = self._forecasts(), _frame(df), self._rows(None)
        for rows_of, part in (("fit", known), ("update", new)):
            if isinstance(part, str | Path):
                raise ValueError(
                    f"df: expected rows in memory to append to, but {rows_of} was given the file {part}; "
                    "append the new rows to that file, and call predict with it"
                )
        if isinstance(known, np.ndarray):
            rows: Any = np.concatenate((known, np.asarray(new, known.dtype)))
        else:
            both = (nw.from_native(part, eager_only=True) for part in (known, new))
            rows = nw.concat(list(both)).to_native()
        read_series(rows, **vars(forecasts.reading))  # which refuses rows that do not follow
        self.rows_ = _last(rows, self._kept(), forecasts.inputs.id)
        return self

    def predict(self, df: Any = None, future: Any = None) -> Any:
        """Forecast the rows after those of `df`, by default of training: time and target, in the form of the input.

        Of many series, those that follow each, after the column with its id; also of series that `fit` has not seen.
        `future` has the columns that are known ahead, with the times of the rows to forecast; with `irregular`, also
        these times alone.
        With `level`, the ends of intervals come after the target, as y-lo-80 and y-hi-80; of an array, as more columns.
        """
        frame = self._rows(df)
        return _like(frame, self._continuation(frame, future))

    def backtest(self, df: Any, *, stride: int | None = None, start: Any = None, refit: int | None = None) -> Backtest:
        """Forecast at many cutoffs of `df`, and compare with the actual values: see `longwave.backtest`."""
        given = {"stride": stride, "start": start, "refit": refit, "level": self.level, "device": self.device}
        return backtest(self._trained(), _frame(df)[0], **given)

    def plot(self, df: Any = None, ax: Any = None, future: Any = None) -> Any:
        """Plot the target's known rows and its forecast (of many series, the first), and return the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(10, 3), layout="constrained")[1]
        name, found, k = self._continuation(self._rows(df), future).lines[0]
        draw_forecast(ax, found, k, name)
        return ax

    def _rows(self, df: Any) -> Any:
        if df is not None:
            return _frame(df)[0]
        self._trained()
        if not hasattr(self, "rows_"):
            raise ValueError(
                "df: expected the rows to forecast from; a loaded forecaster does not keep its training rows"
            )
        return self.rows_

    def _kept(self) -> int:
        """How many rows to keep: the context, with room for gaps, and the rows whose errors give the intervals."""
        inputs = self.run_.facts["inputs"]
        return 2 * int(inputs["context"]) + (TRAILING + int(inputs["horizon"]) if self.level is not None else 0)

    def _forecasts(self) -> Forecasts:
        return Forecasts(self._trained(), self.device, self.level)

    def _continuation(self, frame: Any, future: Any) -> Continuation | PanelContinuation:
        forecasts = self._forecasts()
        return forecasts(read_series(frame, **vars(forecasts.reading)), future)


def _names(given: Any) -> tuple[str, ...]:
    """Names of columns, where a single one may be given as text."""
    return (given,) if isinstance(given, str) else tuple(given)


def _frame(df: Any) -> tuple[Any, list[str] | None]:
    """Rows as a native data frame, an array or a path, and the names of the columns, if known."""
    frame: Any = nw.from_native(df, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.to_frame() if frame.name else frame.alias("y").to_frame()
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"df: expected a data frame with its rows, got a {type(df).__name__}; call .collect()")
    if not isinstance(frame, nw.DataFrame):
        if isinstance(df, str | Path):
            return df, None
        return np.asarray(df), []
    return frame.to_native(), [str(name) for name in frame.columns]


def _name(name: str, default: str, names: list[str] | None, argument: str) -> str | None:
    """A column that the user named; if the default is absent, None, and the column is detected."""
    if name == default and name not in (names or ()):
        return None
    if names is None or name in names:
        return name
    raise ValueError(f"{argument}: no column {name!r}; {nearest(name, names)}")


def _last(frame: Any, count: int, id_col: str | None) -> Any:
    """The last rows of a series, or of each series."""
    if isinstance(frame, str | Path):
        return frame
    if id_col is not None:
        rows: Any = nw.from_native(frame, eager_only=True)
        ids = np.unique(rows[id_col].to_numpy().astype(str), return_inverse=True)[1]
        order = np.argsort(ids, kind="stable")[::-1]  # series by series, from their last rows on
        begins = np.flatnonzero(np.diff(ids[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
        return rows[np.sort(order[place < count])].to_native()
    return frame[-count:] if isinstance(frame, np.ndarray) else nw.from_native(frame).tail(count).to_native()


def _like(frame: Any, found: Continuation | PanelContinuation) -> Any:
    """A forecast in the form of the rows that it follows: a data frame, or an array."""
    if isinstance(found, PanelContinuation):
        return _like_panel(frame, found)
    columns = {name: np.ascontiguousarray(values) for name, values in found.named.items()}
    if isinstance(frame, np.ndarray):
        is_one = frame.ndim == 1 and len(columns) == 1
        return found.values[:, 0] if is_one else np.stack(list(columns.values()), axis=1)
    times = None if found.times is None else found.times.astype("datetime64[us]")
    backend: Any = "pandas"
    if not isinstance(frame, str | Path):
        given: Any = nw.from_native(frame, eager_only=True)
        backend = given.implementation
        if times is not None and found.time not in given.columns:  # it was the index
            made = nw.from_dict(columns, backend=backend).to_native()
            made.index = type(frame.index)(times, name=frame.index.name)
            return made
    named = columns if times is None else {found.time or "time": times, **columns}
    return nw.from_dict(named, backend=backend).to_native()


def _like_panel(frame: Any, found: PanelContinuation) -> Any:
    """The forecasts of many series in one data frame: id, time, target, and the ends of intervals."""
    columns = {name: np.array(cells) for name, cells in found.table.items()}
    columns |= {name: cells.astype("datetime64[us]") for name, cells in columns.items() if cells.dtype.kind == "M"}
    if isinstance(frame, str | Path):
        return nw.from_dict(columns, backend="pandas").to_native()
    given: Any = nw.from_native(frame, eager_only=True)
    made = nw.from_dict(columns, backend=given.implementation)
    return made.with_columns(nw.col(found.id).cast(given[found.id].dtype)).to_native()
