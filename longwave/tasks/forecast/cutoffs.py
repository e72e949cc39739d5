"""Forecasts at many cutoffs of a series.

At a cutoff the rows before it are known, and nothing after it: each forecast is the one that `predict` gives for these
rows. Intervals are made of the errors of earlier windows that were complete by then and that the model was not trained
on.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import SILENT, Progress
from longwave.io.times import read_times, show
from longwave.tasks.base import Batch, TrainedRun
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.covariates import Covariates
from longwave.tasks.forecast.intervals import (
    AT_ONCE,
    FILE,
    Interval,
    Intervals,
    Residuals,
    check_levels,
    forecasts_of,
    half_widths,
    residuals,
    series_windows,
)
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.predict import Forecasts
from longwave.tasks.forecast.series import Floats, Series, read_series
from longwave.tasks.forecast.windows import ForecastInput, season_of
from longwave.tasks.statistics import digest

UNKNOWN = "these rows may include training rows, which the model forecasts better than new ones"
Retrain = Callable[[Series], TrainedRun]  # the same settings, trained on other rows


# Which rows


class Unseen(NamedTuple):
    """The first row of a series that a run was not trained on, and the first that did not choose anything either."""

    trained: int | None  # None: it is not known
    tested: int | None
    is_later: bool = False  # whether all rows are later than the held-out ones of training


def unseen(run: TrainedRun, series: Series, inputs: ForecastInput) -> Unseen:
    """The first row that a run was not trained on, found by the rows themselves or their times."""
    train, valid, end = (int(row) for row in run.fact("borders", list))
    known = () if series.known is None else (series.known[:end],)
    gaps = inputs.gaps(series.times)
    known = known if gaps is None else (*known, gaps[:end])
    if len(series) >= end and digest(series.values[:end], *known) == run.facts.get("digest"):
        return Unseen(train, valid)
    found = held_out_of(run, inputs)
    if found is None or found.last is None:
        return Unseen(None, None)
    return unseen_after(found.last, series, (train, valid, end), inputs.horizon)


def unseen_after(last: Any, series: Series, borders: Iterable[int], horizon: int) -> Unseen:
    """The same by the time at which the last held-out window begins; `borders` are those of the rows of training."""
    train, valid, end = (int(row) for row in borders)
    if series.times is None:
        return Unseen(None, None)
    if series.times[0] > last:
        return Unseen(0, 0, is_later=True)
    following: Any = series.times[:0] if series.is_irregular else series.future(end)  # the series may end before
    times = np.concatenate((series.times, following))
    place = int(np.searchsorted(times, last))
    if place == len(times) or times[place] != last:
        return Unseen(None, None)
    shift = place - (end - horizon)
    return Unseen(max(0, train + shift), max(0, valid + shift))


def stored_rows(held_out: Residuals, last: Any, series: Series, known: Unseen, first: int) -> NDArray[np.int64]:
    """The rows at which the stored held-out windows begin that begin before row `first`; below 0: before the series.

    `last` is the time at which the last of them begins.
    """
    count, times = len(held_out.values), series.times
    if known.is_later:  # in the first rows of the series, all are over
        return np.zeros(count, np.int64)
    place = len(series) if times is None or last is None else int(np.searchsorted(times, last))
    if times is None or place == len(times) or times[place] != last:
        return np.zeros(0, np.int64)
    rows = place - held_out.stride * np.arange(count)[::-1]
    return np.asarray(rows[rows < first])


def held_out_of(run: TrainedRun, inputs: ForecastInput) -> Residuals | None:
    """The errors of held-out windows that a run has stored, if any."""
    return Intervals(run, inputs, 80).held_out if FILE in (run.result() or {}).get("files", ()) else None


def clock_of(series: Series) -> Any:
    """The times of the rows, or without times their numbers, from 1 on."""
    return np.arange(1, len(series) + 1) if series.times is None else series.times


def first_time(series: Series, start: Any) -> Any:
    """`start`, a time or, without times, the number of a row from 1 on, on the clock of a series."""
    if series.times is not None:
        cells = [str(start)] if not isinstance(start, np.datetime64) else np.array([start])
        return read_times(cells, lambda _: "start")[0]
    try:
        return int(str(start))
    except ValueError:
        raise ValueError(
            f"start: {series.source} has no times; expected the number of a row, the first being 1, got {start!r}"
        ) from None


def first_row(series: Series, start: Any) -> int:
    """The number of the first row to forecast at `start`."""
    time, clock = first_time(series, start), clock_of(series)
    row = int(np.searchsorted(clock, time))
    if row == len(clock) or (series.times is None and time < 1):
        what = f"a row from 1 to {len(clock)}" if series.times is None else f"a time up to {show(clock[-1])}, the last"
        raise ValueError(f"start: expected {what}, got {start}")
    return row


def until(series: Series, masked: Series | None, rows: int) -> Series:
    """The first rows of a series as they would be read if there were no more.

    `masked` has the gaps of a series whose gaps are interpolated, which would need the number that follows.
    """
    values = series.values[:rows]
    if masked is not None and masked.known is not None and not masked.known[rows - 1].all():
        known = masked.known[:rows]
        after_last = ~known[::-1].cumsum(axis=0).astype(bool)[::-1]  # no number follows any more
        values = np.where(after_last, masked.values[:rows], values)
    return replace(
        series,
        values=values,
        times=None if series.times is None else series.times[:rows],
        known=None if series.known is None else series.known[:rows],
        beside={name: cells[:rows] for name, cells in series.beside.items()},
    )


# The forecasts


def backtest(
    run: TrainedRun,
    data: Any,
    *,
    stride: int | None = None,
    start: Any = None,
    refit: int | None = None,
    level: Any = None,
    device: str = "auto",
    retrain: Retrain | None = None,
    progress: Progress = SILENT,
) -> Backtest:
    """Forecast with a run at cutoffs of a series that are `stride` rows apart (by default the horizon).

    The first window begins at `start`, by default with the first row that the run neither was trained on nor chosen by;
    only whole windows count. With `refit`, `retrain` trains the model again before every so many windows, on all rows
    before their cutoff. `level` are those of intervals, in per cent.
    """
    for name, value in (("stride", stride), ("refit", refit)):
        if value is not None and (not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1):
            raise ValueError(f"{name}: expected a whole number from 1 on, got {value!r}")
    forecasts = Forecasts(run, device, level)
    inputs, reading = forecasts.inputs, vars(forecasts.reading)
    series = read_series(data, **reading)
    masked = read_series(data, **(reading | {"fill": "mask"})) if reading["fill"] == "linear" else None
    if isinstance(series, Panel):
        from longwave.tasks.forecast.panel_cutoffs import backtest_panel

        more: dict[str, Any] = {"stride": stride, "start": start, "refit": refit, "level": level, "device": device}
        return backtest_panel(run, series, masked, retrain=retrain, progress=progress, **more)
    known = unseen(run, series, inputs)
    begin = _begin(series, inputs.context, inputs.horizon, start, known)
    cutoffs = np.arange(begin, len(series) - inputs.horizon + 1, stride or inputs.horizon)
    notes = [*series.notes, *([] if refit else notes_on([(series, begin, known)]))]
    progress.start("forecasting", len(cutoffs))
    parts, size = [], refit or len(cutoffs)
    for some in np.split(cutoffs, range(size, len(cutoffs), size)):
        if refit and retrain is not None:
            row = int(some[0])  # the last held-out window of what is trained ends before it
            run, known = retrain(until(series, masked, row)), Unseen(row - inputs.horizon + 1, None, is_later=True)
        parts.append(_Windows(run, series, masked, known, level, device).at(some, progress))
    y, forecast, low, high = (np.concatenate(values, axis=-3) for values in zip(*parts, strict=True))
    season = season_of(series, slice(begin)).rows
    clock, levels = clock_of(series), check_levels(level)
    notes += lacking(np.isnan(low).any(axis=(0, 2, 3)))
    return Backtest(
        columns=inputs.columns,
        cutoffs=clock[cutoffs - 1],
        times=clock[cutoffs[:, None] + np.arange(inputs.horizon)],
        y=y,
        forecast=forecast,
        scale=naive_errors(series.given[:, _order(series, inputs)], season)[cutoffs - 1],
        season=season,
        intervals=tuple(Interval(*one) for one in zip(levels, low, high, strict=True)),
        notes=tuple(notes),
    )


def _order(series: Series, inputs: ForecastInput) -> list[int]:
    """The indices of a run's columns in a series."""
    return [series.columns.index(name) for name in inputs.columns]


def _begin(series: Series, context: int, horizon: int, start: Any, known: Unseen) -> int:
    """The first row to forecast."""
    if len(series) < context + horizon:
        raise ValueError(
            f"{series.source}: expected at least {context + horizon} rows, a context of {context} and a horizon of "
            f"{horizon}, got {len(series)}"
        )
    if start is not None:
        row = first_row(series, start)
        if row < context:
            raise ValueError(
                f"start: {start} is row {row + 1} of {series.source}, and a forecast needs {context} rows of context; "
                f"expected row {context + 1} at least"
            )
    else:
        row = max(context, known.tested or 0)
        if row > len(series) - horizon and known.trained is not None:
            row = max(context, known.trained)  # there is no test set: the rows that chose the model come next
    if row > len(series) - horizon:
        raise ValueError(
            f"{series.source}: expected at least a horizon of {horizon} rows to forecast, got {len(series) - row} from "
            f"{'the rows of training' if start is None else start} on"
        )
    return row


def notes_on(each: Iterable[tuple[Series, int, Unseen]]) -> Iterator[str]:
    """Notes on where the windows of each series begin."""
    each = list(each)
    trained = [(one, known.trained or 0) for one, begin, known in each if begin < (known.trained or 0)]
    if any(known.trained is None for _, _, known in each):
        yield UNKNOWN
    elif trained:
        ends = [clock_of(one)[row] for one, row in trained if row < len(one)]
        where = f"row {max(ends)}" if ends and trained[0][0].times is None else show(max(ends)) if ends else ""
        rows = f"the rows before {where}" if ends else "all of these rows"
        yield (
            f"the model was trained on {rows}, which it forecasts better than new ones; start later, or retrain with "
            "refit"
        )
    elif any(begin < (known.tested or 0) for _, begin, known in each):
        yield "the first windows are in the validation set, which was used to choose the model"


def lacking(missing: NDArray[np.bool_]) -> Iterator[str]:
    """A note on windows without an interval."""
    if count := int(missing.sum()):
        have = "has" if count == 1 else "have"
        yield f"{count} of {len(missing)} windows {have} no interval: too few errors before"


def naive_errors(values: Floats, season: int) -> Floats:
    """The mean absolute change over a season, of the rows up to each: (rows, columns), NaN before there is one."""
    changes = np.full(values.shape, np.nan)
    changes[season:] = np.abs(values[season:] - values[:-season])
    known = np.isfinite(changes)
    with np.errstate(invalid="ignore"):
        return np.where(known, changes, 0).cumsum(0) / known.cumsum(0)


class _Windows:
    """Forecasts and intervals of windows of a series by one model."""

    def __init__(
        self, run: TrainedRun, series: Series, masked: Series | None, known: Unseen, level: Any, device: str
    ) -> None:
        settings: Any = run.settings
        self.inputs = run.fact("inputs", ForecastInput.from_dict)
        self.covariates = run.fact("covariates", Covariates.from_plain) if "covariates" in run.facts else None
        self.intervals = Intervals(run, self.inputs, level)
        self.series, self.masked, self.unseen = series, masked, known
        self.call = forecasts_of(run.load_best(device), settings.independent, self.inputs.horizon)

    def at(self, cutoffs: NDArray[np.int64], progress: Progress) -> tuple[Floats, Floats, Floats, Floats]:
        """Truth and forecasts (windows, horizon, columns), lower and upper ends (levels, windows, horizon, columns)."""
        inputs, found = self.inputs, []
        for start in range(0, len(cutoffs), AT_ONCE):
            some = cutoffs[start : start + AT_ONCE]
            each = [self._window(int(row)) for row in some]
            y = self.call({name: torch.cat([one[name] for one in each]) for name in each[0]})
            if not y.isfinite().all():
                raise ValueError(f"{self.series.source}: the model output is NaN or inf; are values far too large?")
            found.append(y.double().numpy())
            progress.advance(len(some))
        forecast = np.concatenate(found)
        halves = self._half_widths(cutoffs)
        low, high = inputs.restore(forecast - halves), inputs.restore(forecast + halves)
        return self._truth(cutoffs), inputs.restore(forecast), low, high

    def _window(self, row: int) -> Batch:
        """The model's input to forecast from a row on, as a batch of one."""
        inputs, before, covariates = self.inputs, until(self.series, self.masked, row), self.covariates
        names = covariates.names("future") if covariates else ()
        ahead = self.series.ahead(slice(row, row + inputs.horizon), names)
        batch, _ = inputs.continuation(before, ahead.times)
        if covariates is not None:
            cells = covariates.window(before, ahead.cells, inputs.context, inputs.horizon)
            features = torch.from_numpy(cells)[None]
            batch["time"] = torch.cat((batch["time"], features), dim=2) if "time" in batch else features
        return batch

    def _truth(self, cutoffs: NDArray[np.int64]) -> Floats:
        """Actual values (windows, horizon, columns); NaN if unknown, or if nothing of the column is known before."""
        order, horizon, context = _order(self.series, self.inputs), self.inputs.horizon, self.inputs.context
        truth = self.series.given[:, order][cutoffs[:, None] + np.arange(horizon)]
        if self.series.known is not None:
            seen = [self.series.known[row - context : row, order].any(axis=0) for row in cutoffs]
            truth = np.where(np.stack(seen)[:, None], truth, np.nan)
        return truth

    def _half_widths(self, cutoffs: NDArray[np.int64]) -> NDArray[np.float32]:
        """(levels, windows, horizon, columns), from the errors of the windows that were complete before each."""
        inputs, levels = self.inputs, self.intervals.levels
        shape = (len(levels), len(cutoffs), inputs.horizon, len(inputs.columns))
        found = np.full(shape, np.nan, np.float32)
        if not levels:
            return found
        held_out, known = self.intervals.held_out, self.unseen
        errors, ends = held_out.values, np.zeros(len(held_out.values), np.int64)
        if known.trained is not None:
            far = int(cutoffs[0]) - inputs.horizon - held_out.counted * held_out.stride  # errors before do not count
            first = max(inputs.context, known.trained, far)
            origins = np.arange(int(cutoffs[-1]) - inputs.horizon, first - 1, -held_out.stride)[::-1]
            new = residuals(
                self.call,
                series_windows(inputs, self.series, None, self.covariates),
                (origins - inputs.context).tolist(),
            )
            stored = stored_rows(
                held_out, held_out.last, self.series, known, int(origins[0]) if len(origins) else first
            )
            errors = np.concatenate((errors[: len(stored)], new))
            ends = np.concatenate((stored, origins)) + inputs.horizon
        for k, row in enumerate(cutoffs):
            end = int(np.searchsorted(ends, row, "right"))
            found[:, k] = half_widths(errors[max(0, end - held_out.counted) : end], levels)[0]
        return found
