"""Forecasts of new data: the rows that follow a series."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longwave.core.settings import typed
from longwave.io.csv import write_csv
from longwave.pictures.style import check_path
from longwave.tasks.actions import OnDevice, check_distinct, check_kind, written
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.forecast.benchmarks import SETS
from longwave.tasks.forecast.intervals import Interval, Intervals, forecasts_of
from longwave.tasks.forecast.plots import draw_continuation
from longwave.tasks.forecast.series import Reading, Series, read_series
from longwave.tasks.forecast.windows import ForecastInput


@dataclass(frozen=True)
class Continuation:
    """A forecast of what comes after a series: values (horizon, columns), in the units of the series."""

    columns: tuple[str, ...]
    target: str
    known: Any  # (context, columns), the rows before; NaN where a value is missing
    known_times: Any  # datetime64 or None
    values: Any
    times: Any
    notes: tuple[str, ...] = ()
    time: str | None = None  # the name of the time column
    intervals: tuple[Interval, ...] = ()  # of the levels that were asked for, the lowest first

    def __len__(self) -> int:
        return len(self.values)

    @property
    def named(self) -> dict[str, Any]:
        """The columns (horizon,) of the forecast by name, and after them the ends of intervals, as price-lo-95."""
        found = dict(zip(self.columns, self.values.T, strict=True))
        for k, name in enumerate(self.columns):
            for level, low, high in self.intervals:
                found |= {f"{name}-lo-{level:g}": low[:, k], f"{name}-hi-{level:g}": high[:, k]}
        return found

    def write(self, path: str | Path) -> None:
        """Write the forecast as CSV, atomically."""
        stamps = [[]] * len(self.values) if self.times is None else [[str(t).replace("T", " ")] for t in self.times]
        head = [*([] if self.times is None else [self.time or "time"]), *self.named]
        values = np.stack(list(self.named.values()), axis=1)
        # Twelve digits: a small change of a large number should be seen.
        rows = [[*stamp, *(f"{v:.12g}" for v in row)] for stamp, row in zip(stamps, values, strict=True)]
        write_csv(path, [head, *rows])


def forecast(run: TrainedRun, new: Any, *, level: Any = None, device: str = "auto") -> Continuation:
    """Forecast the rows after the last of a CSV file, data frame or array, with the best weights of a run.

    `level=[80, 95]` adds the intervals of these levels, in per cent.
    """
    forecasts = Forecasts(run, device, level)
    return forecasts(read_series(new, **vars(forecasts.reading)))


class Forecasts:
    """The best weights of a run, ready to forecast what follows one series after the other.

    The intervals of `level` are made of the errors in new rows, unless `trailing` is off, and of held-out windows.
    """

    def __init__(self, run: TrainedRun, device: str, level: Any = None, *, trailing: bool = True) -> None:
        settings: Any = run.settings
        check_kind(run, "predict", ACTION, "forecasts")
        self.settings = settings
        self.inputs = inputs = run.fact("inputs", ForecastInput.from_dict)
        self.range = run.fact("range", inputs.per_column) if "range" in run.facts else None
        time = SETS[settings.data].time if settings.csv is None and settings.data in SETS else settings.time
        if time is None:
            # The one that was found in training.
            found = "time_column" in run.facts
            time = run.fact("time_column", lambda name: typed(name, str | None, "a name")) if found else None
        self.reading = Reading(
            target=inputs.target,
            time=time,
            multivariate=settings.multivariate,
            fill=settings.fill,
            columns=inputs.columns,
            duplicates=settings.duplicates,
        )
        self._intervals, self._trailing = Intervals(run, inputs, level), trailing
        self._run, self._device = run, device
        self._model: Any = None

    def __call__(self, series: Series) -> Continuation:
        """The forecast of the rows that follow the last of a series."""
        inputs = self.inputs
        batch, future = inputs.continuation(series)
        gaps = tuple(_gaps_in_context(series, inputs))
        if self._model is None:  # only now: what is wrong with the data is said without waiting for the weights
            self._model = self._run.load_best(self._device)
        call = forecasts_of(self._model, self.settings.independent, inputs.horizon)
        y = call(batch)
        if not y.isfinite().all():
            raise ValueError(
                f"{series.source}: the model output is NaN or inf; the values are too far from those of training"
            )
        values = y[0].double().numpy()
        intervals, notes = self._around(series, values, call)
        order = [series.columns.index(name) for name in inputs.columns]
        return Continuation(
            columns=inputs.columns,
            target=inputs.target,
            known=series.given[-inputs.context :, order],
            known_times=None if series.times is None else series.times[-inputs.context :],
            values=inputs.restore(values),
            times=future,
            notes=(*series.notes, *gaps, *_unlike_training(series, inputs, self.range), *notes),
            time=self.reading.time,
            intervals=intervals,
        )

    def _around(self, series: Series, y: Any, call: Any) -> tuple[tuple[Interval, ...], list[str]]:
        """The intervals around a forecast of what follows a series, and notes on them."""
        if not self._intervals.levels:
            return (), []
        return self._intervals.around(y, self._intervals.trailing(series if self._trailing else None, call))


def _gaps_in_context(series: Series, inputs: ForecastInput) -> Iterator[str]:
    """Notes on what is missing from the context; a target of which nothing is known there is refused."""
    if series.known is None:
        return
    rows = inputs.context
    counts = dict(zip(series.columns, series.known[-rows:].sum(axis=0).tolist(), strict=True))
    if not counts[inputs.target]:
        raise ValueError(
            f"{series.source}: column {inputs.target!r}: none of its last {rows} values, the context of a forecast, is "
            "known; expected one at least; give rows that end where it is known"
        )
    if missing := sum(rows - counts[name] for name in inputs.columns):
        yield f"{missing} of the {rows * len(inputs.columns)} values of the context are missing"
    for name in inputs.columns:
        if not counts[name]:
            yield f"column {name!r} has no known value in the context; its forecast is not to be trusted"


def _unlike_training(series: Series, inputs: ForecastInput, trained: Any) -> Iterator[str]:
    """A note for each column most of whose context lies outside the values of training.

    Runs of longwave 0.1.0 did not store these; there it is outside of five deviations around the mean.
    """
    for k, name in enumerate(inputs.columns):
        low, high = inputs.mean[k] - 5 * inputs.deviation[k], inputs.mean[k] + 5 * inputs.deviation[k]
        if trained is not None:
            low, high = trained[0][k], trained[1][k]
        values = series.given[-inputs.context :, series.columns.index(name)]
        values = values[~np.isnan(values)]
        outside = int(((values < low) | (values > high)).sum())
        if 2 * outside > len(values):
            yield (
                f"column {name!r}: {outside} of the {len(values)} values of the context lie outside of those of "
                f"training: they go from {values.min():.6g} to {values.max():.6g}, and in training from "
                f"{low:.6g} to {high:.6g}; the forecast is not to be trusted"
            )


@dataclass(frozen=True)
class Options(OnDevice):
    """Forecast the rows that follow a series, and draw them.

    Example: longwave predict runs/forecast-my-seed0 --csv new.csv --out forecast.csv --level 80 95
    """

    csv: Path
    """The series so far, with the columns of the training series."""
    out: Path = Path("forecast.csv")
    """Where to write the forecast."""
    picture: Path | None = None
    """Where to draw it; by default beside `out`, as a PNG."""
    level: tuple[float, ...] = ()
    """Add prediction intervals at these levels, in per cent, such as 80 95."""


def _predict(run: TrainedRun, options: Options) -> Iterator[str]:
    picture = options.picture or options.out.with_suffix(".png")
    check_distinct(csv=options.csv, out=options.out, picture=picture)
    check_path(picture)
    found = forecast(run, options.csv, level=options.level, device=options.device)
    draw_continuation(found, picture)
    yield from written(found, options.out)
    yield f"picture: {picture}\n"


ACTION = Action(Options, _predict, forecast)
