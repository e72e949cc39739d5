"""Forecasts at many cutoffs of a panel: at each, all its series are forecast from their rows before it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from longwave.core.progress import Progress
from longwave.io.times import show, times_at
from longwave.tasks.base import TrainedRun
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.cutoffs import UNKNOWN, Retrain, clock_of, first_time, held_out_of, naive_errors, until
from longwave.tasks.forecast.intervals import Interval, check_levels
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.predict import Forecasts
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.windows import season_of


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

    A series has a window at a cutoff if it has a row there and a whole horizon of rows after. By default windows begin
    after the rows that the run knows.
    """
    forecasts, plain = Forecasts(run, device, level), Forecasts(run, device)
    inputs, horizon, levels = forecasts.inputs, forecasts.inputs.horizon, check_levels(level)
    names = forecasts.covariates.names("future") if forecasts.covariates else ()
    each = dict(panel.each())
    masks = dict(masked.each()) if isinstance(masked, Panel) else {}
    grid = np.unique(np.concatenate([clock_of(one) for one in each.values()]))
    known = _last_known(run, panel, each, horizon)
    begin = _begin(panel, grid, horizon, start, known)
    places = np.arange(begin, len(grid) - horizon + 1, stride or horizon)
    season = season_of(max(each.values(), key=len), slice(None)).rows
    scales = {name: naive_errors(one.given, season) for name, one in each.items()}
    notes, windows = list(panel.notes), list[tuple[Any, ...]]()
    if not refit and known is None:
        notes.append(UNKNOWN)
    elif not refit and grid[begin] <= known:
        notes.append(
            f"the run knows the rows up to {show(known)}, and forecasts them better than new ones, without intervals; "
            "start later, or train again with refit"
        )
    progress.start("forecasting", len(places))
    none = np.full((2, len(levels), horizon, 1), np.nan)
    for number, place in enumerate(places):
        cutoff = grid[place - 1]
        counts = {name: int(np.searchsorted(clock_of(one), cutoff, "right")) for name, one in each.items()}
        cut = _until(panel, each, masks, counts)
        if refit and retrain is not None and number % refit == 0:
            forecasts, known = Forecasts(retrain(cut), device, level), None
        following = {
            name: slice(counts[name], counts[name] + horizon)
            for name, one in each.items()
            if clock_of(one)[counts[name] - 1] == cutoff and counts[name] + horizon <= len(one)
        }
        if following:
            ahead = {name: each[name].ahead(rows, names) for name, rows in following.items()}
            found: Any = (plain if known is not None and cutoff < known else forecasts)(cut, ahead=ahead)
            for name, own in found.each.items():
                one, rows = each[name], following[name]
                ends = np.stack([[low, high] for _, low, high in own.intervals], 1) if own.intervals else none
                scale = scales[name][counts[name] - 1]
                windows.append((name, cutoff, clock_of(one)[rows], one.given[rows], own.values, scale, *ends))
        progress.advance(1)
    if not windows:
        raise ValueError(f"{panel.source}: no {panel.id} has {horizon} rows after a cutoff; expected longer series")
    ids, cutoffs, times, y, values, scale, low, high = (np.stack(parts) for parts in zip(*windows, strict=True))
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


def _last_known(run: TrainedRun, panel: Panel, each: Mapping[str, Series], horizon: int) -> Any:
    """The time of the last row that training used in any way, of all series that are in the panel; None: not known."""
    held_out = held_out_of(run, Forecasts(run, "cpu").inputs)
    if held_out is None or held_out.last is None or panel.times is None:
        return None
    found = []
    for name, last in zip(held_out.ids, held_out.last, strict=True):
        if name in each:
            times: Any = each[name].times
            place = int(np.searchsorted(times, last))  # its last held-out window begins there
            if place < len(times) and times[place] == last:
                end = place + horizon - 1  # the series may end before
                if panel.step is None:
                    found.append(times[min(end, len(times) - 1)])
                else:
                    found.append(times_at(times, panel.step, np.array([end]))[0])
    return max(found, default=None)


def _begin(panel: Panel, grid: Any, horizon: int, start: Any, known: Any) -> int:
    """The place in all times of the first row to forecast."""
    if start is None and known is None:
        raise ValueError(
            f"start: {panel.source}: it is not known which rows the run was trained on; expected the first row to "
            "forecast, a time or, without times, a number"
        )
    time = first_time(panel, start) if start is not None else known + np.timedelta64(1, "us")
    place = int(np.searchsorted(grid, time))
    if not 1 <= place <= len(grid) - horizon:
        where = f"the start, {start}" if start is not None else f"the last row that the run knows, {show(known)}"
        raise ValueError(
            f"start: {panel.source}: expected rows before and {horizon} after {where}; the last is {grid[-1]}"
        )
    return place


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
