"""The settings of forecasting: what a run by default does on a short series."""

from dataclasses import replace

import numpy as np
import pytest

from longwave.experiments import EXPERIMENTS
from longwave.experiments.prepared import prepare_on
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import custom
from longwave.train.folder import RunFolder
from longwave.train.loop import Run

HOUR = np.timedelta64(3600, "s")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_short_series_ends_near_its_linear_solution(tmp_path, seed):
    """There is too little to learn from: a model that was trained at length would be far above NLinear."""
    generator, hours = np.random.default_rng(seed), np.arange(966)
    values = 3 * np.sin(2 * np.pi * hours / 24) + generator.normal(size=966).cumsum() / 5 + generator.normal(size=966)
    times = np.datetime64("2020-01-01T00:00:00") + hours * HOUR
    task = custom(Series(values[:, None], ("a",), 0, times, HOUR), 24, context=None)
    prepared = prepare_on(EXPERIMENTS.find("forecast"), replace(task, time_features=False))
    folder = RunFolder.create(tmp_path, prepared, None)
    folder.write_config({})
    result = Run(folder, prepared, quiet=True).fit(resume=False)
    assert result["best_step"] == result["steps"] > 0
    assert result["test"]["mse"] < 1.1 * task.baselines()["nlinear"]["test"]["mse"]
