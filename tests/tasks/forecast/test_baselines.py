"""Baselines: each against a slow computation from its definition."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from longwave.io.times import season
from longwave.tasks.forecast import baselines
from longwave.tasks.forecast.baselines import BASELINES, evaluate, fit, moments, scores, table
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import custom, load, make_task
from longwave.tasks.forecast.windows import ForecastData

CONTEXT, HORIZON = 48, 30
HOUR = np.timedelta64(3600, "s")


def make_series(rows=900, columns=2, step=HOUR):
    """A daily wave on a random walk, with noise."""
    rng, hours = np.random.default_rng(3), np.arange(rows)[:, None]
    values = np.sin(2 * np.pi * hours / 24 + np.arange(columns)) + rng.normal(size=(rows, columns)) / 2
    values += rng.normal(size=(rows, columns)).cumsum(axis=0) / 20
    times = None if step is None else np.datetime64("2020-01-01T00:00:00") + np.arange(rows) * step
    return Series(values, tuple("abcdefg"[:columns]), 0, times, step)


@pytest.fixture(scope="module")
def task():
    return custom(make_series(), HORIZON, CONTEXT)


def whole(windows):
    """Contexts and horizons of every window and column: (windows * columns, rows), in float64."""
    batch = windows.batch(range(len(windows)))
    context = batch["x"][:, : windows.context].double().numpy()
    return (part.transpose(0, 2, 1).reshape(-1, part.shape[1]) for part in (context, batch["y"].double().numpy()))


def test_repeat_last_repeats_the_last_value(task):
    x = task.test.batch([0, 5])["x"]
    expected = x[:, CONTEXT - 1 : CONTEXT].double().expand(-1, HORIZON, -1)
    torch.testing.assert_close(fit("repeat-last", task)(x), expected, rtol=0, atol=0)


def test_seasonal_naive_repeats_the_last_day(task):
    x = task.test.batch([0, 5])["x"]
    forecast = fit("seasonal-naive", task)(x)
    for ahead in range(HORIZON):
        expected = x[:, CONTEXT - 24 + ahead % 24].double()
        torch.testing.assert_close(forecast[:, ahead], expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("step", "rows"),
    [(np.timedelta64(3600, "s"), 24), (np.timedelta64(900, "s"), 96), (np.timedelta64(86_400, "s"), 7),
     (np.timedelta64(7 * 86_400, "s"), 52), (np.timedelta64(1, "M"), 12), (np.timedelta64(3, "M"), 4),
     (np.timedelta64(12, "M"), 1), (np.timedelta64(5, "M"), 1), (np.timedelta64(7, "s"), 1), (None, 1)],
)  # fmt: skip
def test_the_season_follows_from_the_step(step, rows):
    assert season(step) == rows


def test_a_season_longer_than_the_context_is_refused():
    with pytest.raises(ValueError, match="a season has 24 rows, and the context 23; lengthen the context"):
        fit("seasonal-naive", custom(make_series(), HORIZON, 23))


def test_the_table_has_every_baseline_that_applies(task):
    assert table(task) == {name: scores(name, task) for name in BASELINES}
    short = custom(make_series(), HORIZON, 23)
    assert set(table(short)) == set(BASELINES) - {"seasonal-naive"}
    assert short.notes == ("no seasonal-naive among the baselines: the context is shorter than a season",)
    assert not task.notes


def test_linear_models_of_very_long_windows_are_left_out(task, monkeypatch):
    monkeypatch.setattr(baselines, "LONGEST", task.context + task.horizon - 1)
    assert list(table(task)) == ["repeat-last", "seasonal-naive"]


def test_moments_are_those_of_the_windows_cut_one_by_one(task):
    for windows in (task.train, task.valid):
        both = np.concatenate(list(whole(windows)), axis=1)
        mean, covariance = moments(windows)
        np.testing.assert_allclose(mean, both.mean(axis=0), rtol=0, atol=1e-12)
        np.testing.assert_allclose(covariance, np.cov(both.T, bias=True), rtol=0, atol=1e-11)


def features_of(name, context):
    """What the linear map of a baseline is given, from its definition, and what is added to its result."""
    if name == "nlinear":
        last = context[:, -1:]
        return context - last, last
    half = baselines.TREND_ROWS // 2
    padded = np.concatenate([context[:, :1].repeat(half, 1), context, context[:, -1:].repeat(half, 1)], axis=1)
    trend = np.lib.stride_tricks.sliding_window_view(padded, baselines.TREND_ROWS, axis=1).mean(axis=2)
    return np.concatenate([context - trend, trend], axis=1), 0


@pytest.mark.parametrize("name", ["nlinear", "dlinear"])
def test_the_linear_models_are_ridge_regressions_over_all_train_windows(task, name):
    """Against least squares on the windows themselves, with the penalty as further rows; the bias is not penalised."""
    forecast = fit(name, task)
    context, horizon = whole(task.train)
    x, added = features_of(name, context)
    z = horizon - added
    # The penalty counts in units of the mean variance of the features that the fit works with: context of them.
    unit = x.var(axis=0).sum() / CONTEXT
    rows = np.sqrt(forecast.penalty * unit * len(x)) * np.eye(x.shape[1])
    solved, *_ = np.linalg.lstsq(
        np.concatenate([x - x.mean(axis=0), rows]),
        np.concatenate([z - z.mean(axis=0), np.zeros((len(rows), HORIZON))]),
        rcond=None,
    )
    test, _ = whole(task.test)
    x_test, added = features_of(name, test)
    expected = added + z.mean(axis=0) + (x_test - x.mean(axis=0)) @ solved
    found = test @ forecast.weight.T + forecast.bias
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["nlinear", "dlinear"])
def test_the_penalty_is_the_one_that_does_best_on_the_validation_part(task, name, monkeypatch):
    chosen, penalties, errors = fit(name, task), baselines.PENALTIES, {}
    for penalty in penalties:
        monkeypatch.setattr(baselines, "PENALTIES", np.array([penalty]))
        errors[penalty] = evaluate(fit(name, task), task, task.valid)["mse"]
    assert min(errors, key=errors.get) == chosen.penalty
    assert penalties[0] < chosen.penalty < penalties[-1]


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_scores_equal_a_direct_computation_over_whole_parts(task, name):
    forecast, found = fit(name, task), scores(name, task)
    assert set(found) == {"valid", "test"}
    for part, windows in (("valid", task.valid), ("test", task.test)):
        context, horizon = whole(windows)
        error = context @ forecast.weight.T + forecast.bias - horizon
        assert found[part]["mse"] == pytest.approx(np.mean(error**2), rel=1e-12)
        assert found[part]["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-12)


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_a_forecast_is_deterministic_treats_columns_alike_and_sees_the_context_alone(task, name):
    forecast, x = fit(name, task), task.test.batch([1, 2])["x"]
    np.testing.assert_array_equal(fit(name, task).weight, forecast.weight)
    torch.testing.assert_close(forecast(x.flip(-1)).flip(-1), forecast(x), rtol=1e-12, atol=1e-12)
    changed = x.clone()
    changed[:, CONTEXT:] = 7
    torch.testing.assert_close(forecast(changed), forecast(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["nlinear", "dlinear"])
def test_the_linear_models_find_a_linear_recurrence(name):
    """A sum of waves is a linear function of its past, so that little error may remain."""
    series = make_series(1200, 1)
    series.values[:, 0] = np.sin(np.arange(1200) * 0.7) + np.cos(np.arange(1200) * 0.11)
    task = make_task(ForecastData("waves", series, (800, 950, 1200), ""), 60, 20)
    assert scores(name, task)["test"]["mse"] < 1e-8


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_a_constant_series_is_forecast_exactly(name):
    series = make_series(400, 1)
    series.values[:] = 3
    assert scores(name, custom(series, 5, 30))["test"] == {"mse": 0, "mae": 0}


def test_an_unknown_baseline_is_refused_with_the_nearest_right_one(task):
    with pytest.raises(ValueError, match=r"unknown baseline 'n-linear'; .*did you mean 'nlinear'"):
        scores("n-linear", task)


def test_nlinear_on_etth1_is_at_the_published_error(tmp_path):
    """Zeng et al. give an MSE of 0.080 for horizon 720, univariate."""
    found = scores("nlinear", load("etth1", "S", 720, 336, data_dir=tmp_path))["test"]
    assert found["mse"] == pytest.approx(0.0786, abs=1e-4)
    assert found["mae"] == pytest.approx(0.2239, abs=1e-4)


@pytest.mark.skipif("LONGWAVE_DATA" not in os.environ, reason="LONGWAVE_DATA names no folder of real data")
@pytest.mark.parametrize(
    ("name", "horizon", "mse"), [("etth2", 720, 0.2234), ("ettm1", 672, 0.0699), ("weather", 720, 0.3875)]
)
def test_nlinear_on_real_sets_gives_the_documented_error(name, horizon, mse):
    try:
        task = load(name, "S", horizon, 336)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in LONGWAVE_DATA")
    assert scores("nlinear", task)["test"]["mse"] == pytest.approx(mse, abs=1e-4)


def test_the_stride_of_the_training_windows_does_not_change_the_baselines(task):
    strided = replace(task, train=replace(task.train, stride=7, offset=2, single=True))
    for name in ("nlinear", "dlinear"):
        np.testing.assert_array_equal(fit(name, strided).weight, fit(name, task).weight)


def test_windows_too_long_to_be_solved_offer_no_solution(task, monkeypatch):
    assert task.spec.linear is not None
    monkeypatch.setattr(baselines, "LONGEST", task.context + task.horizon - 1)
    assert task.spec.linear is None
