"""Forecasts at many cutoffs of a panel, each of all its series."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from longwave.core.progress import Progress
from longwave.io.times import show, times_at
from longwave.tasks.base import TrainedRun
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.cutoffs import (
    Retrain,
    Unseen,
    clock_of,
    first_time,
    held_out_of,
    lacking,
    naive_errors,
    notes_on,
    stored_rows,
    unseen_after,
    until,
)
from longwave.tasks.forecast.intervals import Interval, Residuals, check_levels, residuals, series_windows
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.predict import Forecasts
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.windows import ForecastInput, season_of


def backtest_panel(
    run: TrainedRun,
    panel: Panel,
    masked: Series | None,
    *,
    stride: int | None,
    start: Any,
    refit: int | None,
    level: Any,
    device: str,
    retrain: Retrain | None,
    progress: Progress,
) -> Backtest:
    """The backtest of a panel: see `cutoffs.backtest`.

    A series has a window at a cutoff if it has a row there, a context before and a whole horizon of rows after. By
    default the windows of each begin with its test set.
    """
    forecasts, levels = Forecasts(run, device, level), check_levels(level)
    inputs, horizon = forecasts.inputs, forecasts.inputs.horizon
    names = forecasts.covariates.names("future") if forecasts.covariates else ()
    each = dict(panel.each())
    masks = dict(masked.each()) if isinstance(masked, Panel) else {}
    grid = np.unique(np.concatenate([clock_of(one) for one in each.values()]))
    held_out = held_out_of(run, inputs)
    known = _unseen(held_out, each, horizon)
    firsts = _firsts(panel, each, known, start, inputs)
    begin = min(int(np.searchsorted(grid, clock_of(each[name])[row - 1])) + 1 for name, row in firsts.items())
    places = np.arange(begin, len(grid) - horizon + 1, stride or horizon)
    season = season_of(max(each.values(), key=len), slice(None)).rows
    scales = {name: naive_errors(one.given, season) for name, one in each.items()}
    notes, windows = list(panel.notes), list[tuple[Any, ...]]()
    errors = _Errors(forecasts, held_out, panel, known) if held_out and known and levels and not refit else None
    if not refit:
        seen = known or dict.fromkeys(each, Unseen(None, None))
        notes += notes_on((each[name], row, seen[name]) for name, row in firsts.items() if name in seen)
    progress.start("forecasting", len(places))
    none = np.full((2, len(levels), horizon, 1), np.nan)
    for number, place in enumerate(places):
        cutoff = grid[place - 1]
        counts = {name: int(np.searchsorted(clock_of(one), cutoff, "right")) for name, one in each.items()}
        following = _following(each, firsts, counts, cutoff, horizon)
        cut = _until(panel, each, masks, counts)
        if refit and retrain is not None and number % refit == 0:
            forecasts = Forecasts(retrain(cut), device, level)
        if following:
            own_errors = forecasts.intervals.held_out if levels else None
            ahead = {name: each[name].ahead(rows, names) for name, rows in following.items()}
            found: Any = forecasts(cut, ahead=ahead, held_out=errors.before(cutoff) if errors else own_errors)
            for name, own in found.each.items():
                one, rows = each[name], following[name]
                ends = np.stack([[low, high] for _, low, high in own.intervals], 1) if own.intervals else none
                scale = scales[name][counts[name] - 1]
                windows.append((name, cutoff, clock_of(one)[rows], one.given[rows], own.values, scale, *ends))
        progress.advance(1)
    if not windows:
        raise ValueError(f"{panel.source}: no {panel.id} has {horizon} rows after a cutoff; expected longer series")
    ids, cutoffs, times, y, values, scale, low, high = (np.stack(parts) for parts in zip(*windows, strict=True))
    notes += lacking(np.isnan(low).any(axis=(1, 2, 3)))
    return Backtest(
        columns=inputs.columns,
        cutoffs=cutoffs,
        times=times,
        y=y,
        forecast=values,
        scale=scale,
        season=season,
        intervals=tuple(Interval(one, low[:, k], high[:, k]) for k, one in enumerate(levels)),
        notes=tuple(notes),
        id=panel.id,
        ids=ids,
    )


# Which rows


def _unseen(held_out: Residuals | None, each: Mapping[str, Series], horizon: int) -> dict[str, Unseen] | None:
    """Of each series that was trained on, where the rows begin that training has not used; None: it is not known."""
    if held_out is None or held_out.last is None or held_out.borders is None:  # without times
        return None
    found = {
        name: unseen_after(last, each[name], borders, horizon)
        for name, last, borders in zip(held_out.ids, held_out.last, held_out.borders.T, strict=True)
        if name in each
    }
    return None if any(one.trained is None for one in found.values()) else found or None


def _following(
    each: Mapping[str, Series], firsts: Mapping[str, int], counts: Mapping[str, int], cutoff: Any, horizon: int
) -> dict[str, slice]:
    """The rows to forecast of each series that has a row at the cutoff and a whole horizon after it."""
    return {
        name: slice(counts[name], counts[name] + horizon)
        for name, first in firsts.items()
        if first <= counts[name] <= len(each[name]) - horizon and clock_of(each[name])[counts[name] - 1] == cutoff
    }


def _firsts(
    panel: Panel, each: Mapping[str, Series], known: Mapping[str, Unseen] | None, start: Any, inputs: ForecastInput
) -> dict[str, int]:
    """The first row to forecast of each series that has rows enough."""
    if start is None and known is None:
        raise ValueError(
            f"start: {panel.source}: the rows that the run was trained on are unknown; name the first row to "
            "forecast, a time or, without times, a number, with start='ROW'"
        )
    if start is not None:
        time = first_time(panel, start)
        found = {name: int(np.searchsorted(clock_of(one), time)) for name, one in each.items()}
    else:
        assert known is not None
        ends = {name: len(each[name]) - inputs.horizon for name in known}
        found = {name: one.tested or 0 for name, one in known.items()}
        if all(row > ends[name] for name, row in found.items()):  # there is no test set
            found = {name: one.trained or 0 for name, one in known.items()}
        # Series that are new begin with the first of the others.
        time = min(clock_of(each[name])[min(row, len(each[name]) - 1)] for name, row in found.items())
        found |= {name: int(np.searchsorted(clock_of(one), time)) for name, one in each.items() if name not in known}
    found = {name: max(row, inputs.context) for name, row in found.items()}
    found = {name: row for name, row in found.items() if row <= len(each[name]) - inputs.horizon}
    if not found:
        where = "the rows of training" if start is None else str(start)
        raise ValueError(
            f"start: {panel.source}: expected {inputs.context} rows before and {inputs.horizon} from {where} on of a "
            f"{panel.id}, got none; the last is {show(max(clock_of(one)[-1] for one in each.values()))}; name an "
            "earlier one with start='ROW'"
        )
    return found


# Errors that are known


class _Errors:
    """The errors of the windows of a panel that training has not used, each from the time on when it is complete."""

    def __init__(self, forecasts: Forecasts, held_out: Residuals, panel: Panel, known: Mapping[str, Unseen]) -> None:
        self.held_out = held_out
        context, horizon, stride = forecasts.inputs.context, forecasts.inputs.horizon, held_out.stride
        windows = series_windows(forecasts.inputs, panel, forecasts.scales, forecasts.covariates)
        befores = dict(zip(panel.ids, windows.counts.cumsum() - windows.counts, strict=True))
        lasts: Any = held_out.last
        each, last = dict(panel.each()), dict(zip(held_out.ids, lasts, strict=True))
        places = {name: int(np.searchsorted(clock_of(each[name]), last[name])) for name in known}
        origins = {}
        for name, one in known.items():
            rows = np.arange(max(context, one.trained or 0), len(each[name]) - horizon + 1)
            origins[name] = rows[(rows - places[name]) % stride == 0]  # as far apart as those of the run
        numbers = [befores[name] + rows - context for name, rows in origins.items()]
        found = residuals(forecasts.call, windows, np.concatenate(numbers))[..., 0]
        new = dict(zip(origins, np.split(found, np.cumsum([len(rows) for rows in origins.values()])[:-1]), strict=True))
        parts = []
        for name, own in zip(held_out.ids, held_out.values.transpose(2, 0, 1), strict=True):
            if name not in known:
                parts.append((own, np.repeat(_end(panel, last[name], horizon), len(own))))
                continue
            times, first = clock_of(each[name]), int(origins[name][0]) if len(origins[name]) else context
            rows = stored_rows(held_out, last[name], each[name], known[name], first)
            rows = np.concatenate((rows, origins[name])) + horizon - 1
            errors = np.concatenate((own[: len(rows) - len(new[name])], new[name]))
            ends = np.where(rows < len(times), times[rows.clip(0, len(times) - 1)], np.datetime64("NaT"))
            parts.append((errors, ends))
        most = max(len(ends) for _, ends in parts)
        self.values = np.full((most, horizon, len(parts)), np.nan, np.float32)
        self.ends = np.full((most, len(parts)), np.datetime64("NaT", "us"))
        for k, (errors, ends) in enumerate(parts):
            self.values[: len(errors), :, k], self.ends[: len(ends), k] = errors, ends

    def before(self, cutoff: Any) -> Residuals:
        """Those that are known at a cutoff: the last that count of each series."""
        counts = (self.ends <= cutoff).sum(0)
        rows = min(self.held_out.counted, int(counts.max()))
        numbers = counts - rows + np.arange(rows)[:, None]
        values = np.take_along_axis(self.values, numbers.clip(0)[:, None], axis=0)
        values[np.broadcast_to(numbers[:, None] < 0, values.shape)] = np.nan
        return replace(self.held_out, values=values, last=None)


def _end(panel: Panel, last: Any, horizon: int) -> Any:
    """When the last held-out window of a series is over that is not in a panel; NaT: it is not known."""
    if panel.step is None:
        return np.datetime64("NaT", "us")
    return times_at(np.array([last]), panel.step, np.array([horizon - 1]))[0]


def _until(panel: Panel, each: Mapping[str, Series], masks: Mapping[str, Series], counts: Mapping[str, int]) -> Panel:
    """The first rows of each series of a panel, of those that have any."""
    kept = np.array([counts[name] > 0 for name in panel.ids])
    parts = [until(one, masks.get(name), counts[name]) for name, one in each.items() if counts[name]]
    lengths = [len(one) for one in parts]
    return replace(
        panel.only(kept),
        values=np.concatenate([one.values for one in parts]),
        times=None if panel.times is None else np.concatenate([one.times for one in parts if one.times is not None]),
        known=None if panel.known is None else np.concatenate([one.known for one in parts if one.known is not None]),
        beside={name: np.concatenate([one.beside[name] for one in parts]) for name in panel.beside},
        starts=np.array([0, *accumulate(lengths)]),
    )
