"""The report of a forecast: forecasts of test windows over the truth."""

from typing import Any

import torch

from longwave.pictures.forecast import draw_windows
from longwave.report.base import REPORTS, Section, image
from longwave.tasks.forecasting import ForecastTask, forecast


@REPORTS.register("forecast")
def report(model: Any, task: ForecastTask) -> list[Section]:
    """Some windows of the test set, from its beginning to its end."""
    count = min(4, len(task.test))
    batch = task.test.batch([round(i * (len(task.test) - 1) / max(1, count - 1)) for i in range(count)])
    with torch.no_grad():
        y = forecast(model, batch, task.independent)[:, -task.horizon :]
    column = task.data.series.target
    known = batch["x"][:, : task.context, column]
    windows = [(known[i], batch["y"][i, :, column], y[i, :, column]) for i in range(count)]
    shown = min(task.context, max(task.horizon, 48))
    return [Section("Forecasts over truth", image(lambda: draw_windows(windows, shown), "forecasts of test windows"))]
