"""The tool that scores the default forecaster on public series."""

import numpy as np
import pytest


@pytest.fixture
def forecast_series(load_tool):
    return load_tool("forecast_series")


def test_a_series_is_scored_against_the_simple_forecast_that_validation_chooses(forecast_series):
    values = 50 + np.sin(np.arange(150) * np.pi / 6) + 0.1 * np.random.default_rng(0).standard_normal(150)
    own, base, nlinear, chosen, intervals = forecast_series.score(values, 12, 6, seed=0)
    assert chosen in forecast_series.SIMPLE
    assert own == pytest.approx(forecast_series.score(values, 12, 6, seed=0)[0])
    assert own < 1.05 * base
    assert own < 1.2 * min(base, nlinear)
    assert 0.5 < intervals["coverage"] <= 1
    assert 0 < intervals["width"] < 3  # in standard deviations of the training rows


def test_series_without_a_calendar_come_without_times(forecast_series):
    assert list(forecast_series.frame(np.arange(5.0), 1).columns) == ["y"]
    assert list(forecast_series.frame(np.arange(5.0), 12).columns) == ["time", "y"]
