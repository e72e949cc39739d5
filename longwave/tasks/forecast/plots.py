"""Pictures of forecasts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longwave.pictures.style import BLUE, GREY, ORANGE, as_drawn, lone_points, save, short

MOST_DRAWN = 8  # windows of a backtest
LAST_DRAWN = np.datetime64("9900-01-01")  # an axis goes on a little after the last


def draw_windows(
    windows: Sequence[tuple[Tensor, ...]],
    context_shown: int,
    names: Sequence[str] = (),
    times: Any = None,
    bands: Sequence[Sequence[tuple[float, Any, Any]]] = (),
) -> Any:
    """A figure of (known, truth, forecast), each (steps,) of the column of a name, one panel per window.

    What is NaN is a gap in its line. `times` has those of the steps of each window; without, steps are counted. `bands`
    has the intervals of each forecast: level, low and high (steps,).
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.1 * len(windows)), layout="constrained")
    for k, (known, truth, forecast) in enumerate(windows):
        axes = figure.add_subplot(len(windows), 1, k + 1)
        known = known[-context_shown:]
        joint = torch.where(truth[:1].isnan(), torch.nan, known[-1:])  # the truth goes on from what is known
        truth = torch.cat((joint, truth))
        steps = np.arange(-len(known) + 1, len(truth)) if times is None else times[k][-len(known) - len(forecast) :]
        before, after = steps[: len(known)], steps[len(known) - 1 :]
        axes.plot(before, known, color=GREY, linewidth=1, label="known", **lone_points(known))
        axes.plot(after, truth, color=BLUE, linewidth=1, label="truth", **lone_points(truth))
        axes.plot(after[1:], forecast, color=ORANGE, linewidth=1.4, label="forecast", **lone_points(forecast))
        drawn = _draw_bands(axes, after[1:], bands[k] if bands else ())
        axes.axvline(after[0] + (after[1] - after[0]) / 2, color="0.8", linewidth=0.8, zorder=0)
        axes.set_ylabel(as_drawn(short(names[k], 24) if names else ""))
        axes.margins(x=0.01)
        if k == 0:
            axes.legend(frameon=False, ncols=3 + drawn, loc="lower right", bbox_to_anchor=(1, 1.0), borderaxespad=0.1)
        if times is not None:
            _concise_dates(axes)
        elif k == len(windows) - 1:
            axes.set_xlabel("steps after the last given row")
    return figure


def _draw_bands(axes: Any, steps: Any, bands: Sequence[tuple[float, Any, Any]], is_labelled: bool = True) -> int:
    """Shade intervals, given from narrow to wide, the narrower ones darker and over the wider; how many there are."""
    from matplotlib.colors import to_rgb

    for k, (level, low, high) in enumerate(bands):
        shade = 1 - 0.4 / (k + 1) * (1 - np.array(to_rgb(ORANGE)))  # opaque, so that the legend shows what is drawn
        label = f"{level:g} %" if is_labelled else None
        axes.fill_between(steps, low, high, label=label, zorder=1 - k / 100, color=shade, linewidth=0)
    return len(bands)


def drawable(times: Any) -> bool:
    """Whether there are times, and matplotlib can draw them: it has no dates beyond the year 9999."""
    return times is not None and times.max() < LAST_DRAWN


def _concise_dates(axes: Any) -> None:
    """Days and hours at the ticks, and what they share, such as the year, once."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def draw_continuation(forecast: Any, path: str | Path) -> None:
    """The rows before and the forecast after them, one panel per column or series (at most eight)."""
    from matplotlib.figure import Figure

    lines = forecast.lines[:8]
    figure = Figure(figsize=(10, 1.2 + 1.8 * len(lines)), layout="constrained")
    for place, (name, one, k) in enumerate(lines):
        axes = figure.add_subplot(len(lines), 1, place + 1)
        draw_forecast(axes, one, k, name, with_legend=not place)
        if place < len(lines) - 1:
            axes.set_xlabel("")
    save(figure, path, dpi=120)


def draw_forecast(axes: Any, forecast: Any, k: int, name: str, with_legend: bool = True) -> None:
    """The rows of column k before, and the forecast after them."""
    known, values = forecast.known[:, k], forecast.values[:, k]
    with_times = forecast.known_times is not None and drawable(forecast.times)
    before = forecast.known_times if with_times else list(range(-len(known) + 1, 1))
    after = forecast.times if with_times else list(range(1, len(values) + 1))
    axes.plot(before, known, color=GREY, linewidth=1, label="known", **lone_points(known))
    axes.plot(after, values, color=ORANGE, linewidth=1.4, label="forecast", **lone_points(values))
    drawn = _draw_bands(axes, after, [(level, low[:, k], high[:, k]) for level, low, high in forecast.intervals])
    axes.set_ylabel(as_drawn(short(name, 24)))
    axes.margins(x=0.01)
    if with_legend:
        axes.legend(frameon=False, ncols=2 + drawn, loc="lower right", bbox_to_anchor=(1, 1.0), borderaxespad=0.1)
    if with_times:
        _concise_dates(axes)
    else:
        axes.set_xlabel("steps after the last given row")


def draw_backtest(found: Any) -> Any:
    """A figure of a backtest: forecasts over the truth, and errors by step of the horizon and by window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    over, steps, windows = (figure.add_subplot(3, 1, k + 1) for k in range(3))
    with_dates = found.times.dtype.kind == "M" and drawable(found.times)
    # Times that cannot be drawn are counted.
    times = np.unique(found.times, return_inverse=True)[1] if found.times.dtype.kind == "M" else found.times
    times = found.times if with_dates else times.reshape(found.times.shape)
    _draw_last_windows(over, found, times)
    firsts, of = np.unique(times[:, 0], return_inverse=True)
    by_window = found.by_window
    together = {  # over the series of a panel
        "MAE": np.bincount(of, by_window["MAE"]) / np.bincount(of),
        "RMSE": np.sqrt(np.bincount(of, by_window["RMSE"] ** 2) / np.bincount(of)),
    }
    for axes, scores, where in ((steps, found.by_step, None), (windows, together, firsts)):
        for name, colour in (("MAE", BLUE), ("RMSE", ORANGE)):
            axes.plot(
                scores["step"] if where is None else where,
                scores[name],
                color=colour,
                label=name,
                **lone_points(scores[name]),
            )
        axes.set_ylabel("error")
        axes.margins(x=0.01)
    steps.set_xlabel("step of the horizon")
    windows.set_xlabel("first row of the window")
    for axes in (over, steps):
        axes.legend(frameon=False, ncols=6, loc="lower right", bbox_to_anchor=(1, 1.0), borderaxespad=0.1)
    for axes in (over, windows) if with_dates else ():
        _concise_dates(axes)
    return figure


def _draw_last_windows(axes: Any, found: Any, times: Any) -> None:
    """The last windows that do not overlap: forecasts over the truth, of the first column of the first series."""
    own = np.arange(len(times)) if found.ids is None else np.flatnonzero(found.ids == found.ids[0])
    apart = max(1, int(np.searchsorted(times[own, 0], times[own[0], -1], "right")))
    for k in own[::-apart][:MOST_DRAWN]:
        truth, forecast, is_first = found.y[k, :, 0], found.forecast[k, :, 0], k == own[-1]
        bands = [(level, low[k, :, 0], high[k, :, 0]) for level, low, high in found.intervals]
        bands = [band for band in bands if np.isfinite(band[1]).any()]
        _draw_bands(axes, times[k], bands, is_labelled=is_first)
        for values, colour, width, label in ((truth, BLUE, 1, "truth"), (forecast, ORANGE, 1.4, "forecast")):
            named = {"label": label} if is_first else {}
            axes.plot(times[k], values, color=colour, linewidth=width, **named, **lone_points(values))
    name = found.columns[0] if found.ids is None else f"{found.ids[0]}: {found.columns[0]}"
    axes.set_ylabel(as_drawn(short(name, 24)))
    axes.margins(x=0.01)
