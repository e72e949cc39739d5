"""The report of a forecast: forecasts of test windows over the truth."""

from typing import Any

import torch

from longwave.pictures.forecast import draw_windows
from longwave.report.base import REPORTS, Section, image
from longwave.tasks.forecasting import ForecastTask, forecast


@REPORTS.register("forecast")
def report(model: Any, task: ForecastTask) -> list[Section]:
    """Some windows of the test set, from its beginning to its end, in the units of the data."""
    count = min(4, len(task.test))
    batch = task.test.batch([round(i * (len(task.test) - 1) / max(1, count - 1)) for i in range(count)])
    with torch.no_grad():
        y = forecast(model, batch, task.independent)[:, -task.horizon :]
    lines = [
        torch.from_numpy(task.inputs.restore(values.double().numpy()))[..., task.data.series.target]
        for values in (batch["x"][:, : task.context], batch["y"], y)
    ]
    windows = list(zip(*lines, strict=True))  # known, truth and forecast of each window
    shown = min(task.context, max(task.horizon, 48))
    picture = image(lambda: draw_windows(windows, shown, task.inputs.target), "forecasts of test windows")
    return [Section("Forecasts over truth", picture)]
