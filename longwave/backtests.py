"""Backtests of a run, which may be trained again on the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from longwave.core.progress import Patient
from longwave.experiments.prepared import prepare_on
from longwave.runs import FinishedRun, fit
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.cutoffs import backtest as backtest_with
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.windows import ForecastInput
from longwave.train.folder import RunFolder
from longwave.train.trained import MemoryRun, Trained


def backtest(
    run: Any,
    data: Any,
    *,
    stride: int | None = None,
    start: Any = None,
    refit: int | None = None,
    level: Any = None,
    device: str = "auto",
) -> Backtest:
    """Forecast at many cutoffs of a series with a run, and compare with the actual values.

    `run` is that of a forecaster or its folder, `data` a CSV file, by its path, a data frame or an array with rows as
    in training. Windows begin `stride` rows apart (by default they do not overlap), the first at `start`, a time or,
    without times, the number of a row from 1 on; by default with the first row that training has not used. `refit=8`
    trains again, with the settings of the run, before every eighth window, on all rows before it. `level=90` adds
    intervals.
    """
    run = run.run if isinstance(run, FinishedRun) else RunFolder.open(run) if isinstance(run, str | Path) else run

    def retrain(series: Series) -> MemoryRun:
        return trained_again(run, series, device)

    progress = Patient()
    try:
        return backtest_with(
            run,
            data,
            stride=stride,
            start=start,
            refit=refit,
            level=level,
            device=device,
            retrain=retrain,
            progress=progress,
        )
    finally:
        progress.end()


def trained_again(run: Trained, series: Series, device: str = "auto") -> MemoryRun:
    """Retrain a run's experiment in memory on all rows of another series, the last tenth for validation."""
    experiment = run.config.experiment
    context = run.fact("inputs", ForecastInput.from_dict).context
    target = series.columns[series.target]
    changes = {"data": "own", "csv": None, "target": target, "time": series.time, "context": context, "test": 0}
    settings: Any = replace(experiment.task, **changes)
    prepared = prepare_on(replace(experiment, task=settings), settings.on(series))
    place = MemoryRun.create(prepared)
    fit(prepared, place, quiet=True, device=device)
    return place
