"""The report of a forecast: forecasts of test windows over the truth."""

from typing import Any

import torch

from longwave.pictures.html import Section, image
from longwave.tasks.forecast.intervals import bands
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.plots import draw_windows, drawable
from longwave.tasks.forecast.task import ForecastTask, forecast


def report(model: Any, task: ForecastTask) -> list[Section]:
    """Some windows of the test set, from its beginning to its end, in the units of the data."""
    count = min(4, len(task.test))
    indices = [round(i * (len(task.test) - 1) / max(1, count - 1)) for i in range(count)]
    batch = task.test.batch(indices)
    with torch.no_grad():
        y = forecast(model, batch, task.independent, task.horizon)
    rows = task.test.rows(indices)
    target = task.data.series.target
    inputs = [task.inputs_of(int(k)) for k in task.test.series_of(indices)]
    past, truth, found = (
        torch.stack([torch.from_numpy(own.restore(one.double().numpy())) for own, one in pairs])[..., target]
        for pairs in (
            list(zip(inputs, values, strict=True))
            for values in (task.test.values[rows[:, : task.context]], batch["y"], y)
        )
    )
    names = [task.inputs.target] * count
    series = task.data.series
    if isinstance(series, Panel):
        names = [f"{series.ids[k]}: {name}" for k, name in zip(task.test.series_of(indices), names, strict=True)]
    if task.test.known is not None:
        is_gap = ~task.test.known[rows, target]
        past[is_gap[:, : task.context]] = torch.nan
        truth[is_gap[:, task.context :]] = torch.nan
    windows = list(zip(past, truth, found, strict=True))
    shown = min(task.context, max(task.horizon, 48))
    times = None if task.data.series.times is None else task.data.series.times[rows.numpy()]
    times = times if drawable(times) else None
    drawn = [
        tuple((level, low[:, target], high[:, target]) for level, low, high in one)
        for one in bands(task, y.double().numpy(), indices)
    ]
    picture = image(lambda: draw_windows(windows, shown, names, times, drawn), "forecasts of test windows")
    return [Section("Forecasts over truth", picture)]
