"""The scores of a backtest are those of sktime."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sktime.performance_metrics.forecasting import MeanAbsoluteScaledError, mean_absolute_scaled_error

import longwave
from longwave.experiments import EXPERIMENTS

VALUES = 10 + np.sin(np.arange(300) * np.pi / 12) + 0.3 * np.random.default_rng(0).standard_normal(300)
FRAME = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=300, freq="h"), "y": VALUES})


def test_the_mase_is_that_of_sktime():
    default = EXPERIMENTS.find("forecast")
    experiment = dataclasses.replace(
        default,
        task=dataclasses.replace(default.task, horizon=5, context=24),
        model=dataclasses.replace(default.model, n_layers=0),
        loop=dataclasses.replace(default.loop, epochs=1),
    )
    found = longwave.backtest(longwave.train_forecaster(FRAME, experiment=experiment, quiet=True), FRAME, stride=7)
    assert found.season == 24
    for k, cutoff in enumerate(found.cutoffs):
        y_train = FRAME[FRAME.ds <= cutoff].y.to_numpy()
        y, forecast = found.y[k, :, 0], found.forecast[k, :, 0]
        expected = mean_absolute_scaled_error(y, forecast, y_train=y_train, sp=24)
        assert found.by_window["MASE"][k] == pytest.approx(expected, rel=1e-9)
        assert MeanAbsoluteScaledError(sp=24)(y, forecast, y_train=y_train) == pytest.approx(expected)
