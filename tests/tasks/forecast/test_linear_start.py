from dataclasses import replace

import numpy as np
import pytest
import torch

from longwave.tasks.forecast.baselines import Forecast, Problem, evaluate, fit, ridge
from longwave.tasks.forecast.linear_start import FADINGS, FEWEST_BLOCKS, fading, suggested_reversion
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import make_task
from longwave.tasks.forecast.windows import ForecastData


def drifting(share, rows=3000):
    """A series that returns to its level by a share of the distance at each row."""
    values = np.random.default_rng(1).normal(size=rows)
    for k in range(1, rows):
        values[k] += (1 - share) * values[k - 1]
    return Series(values[:, None], ("a",), 0)


def constant(task, value):
    """A forecast of one value, or of the last one."""
    weight = np.zeros((task.horizon, task.context))
    if value is None:
        weight[:, -1] = 1
    return Forecast(weight, np.full(task.horizon, value or 0.0))


def test_a_series_that_returns_to_its_level_gets_more_reversion_than_one_that_drifts():
    """Repeat-last and the mean as the two forecasts: a ridge would learn from either what is right."""
    shares = []
    for returning in (1.0, 0.1, 0.0):
        task = make_task(ForecastData("a", drifting(returning), (2000, 2500, 3000), ""), 8, 3)
        shares.append(suggested_reversion(task, constant(task, None), constant(task, 0), usual=0.1))
    assert shares[0] > 0.9 > 0.5 > shares[1] > shares[2]
    assert shares[2] < 0.15


def test_the_suggested_reversion_is_the_mean_of_the_best_on_validation_and_the_usual_by_their_certainty():
    task = make_task(ForecastData("a", drifting(0.3), (2000, 2500, 3000), ""), 8, 3)
    one, two = constant(task, None), constant(task, 0)
    batch = task.valid.batch(range(len(task.valid)))
    error, change = (batch["y"] - one(batch["x"])).numpy(), (two(batch["x"]) - one(batch["x"])).numpy()
    parts = np.array_split(np.arange(len(task.valid)), len(task.valid) // 3)
    best = (error * change).sum() / (change**2).sum()
    left = np.array([(error[p] * change[p]).sum() - best * (change[p] ** 2).sum() for p in parts])
    variance = len(left) * left.var(ddof=1) / (change**2).sum() ** 2
    mean = (best / variance + 0.1 / 0.2**2) / (1 / variance + 1 / 0.2**2)
    assert suggested_reversion(task, one, two, usual=0.1) == pytest.approx(mean, rel=1e-6)


def test_a_validation_set_of_few_blocks_is_not_asked():
    task = make_task(ForecastData("a", drifting(1.0), (2000, 2500, 3000), ""), 8, 3)
    few = replace(task, valid=replace(task.valid, end=task.valid.first + 3 * FEWEST_BLOCKS + 1))  # one window too few
    one, two = constant(task, None), constant(task, 0)
    assert suggested_reversion(few, one, two, usual=0.1) == 0.1
    assert suggested_reversion(task, one, one, usual=0.1) == 0.1  # nothing to tell them apart


def test_solutions_are_the_baselines_or_better_and_a_reversion_mixes_them(task):
    last, none = (task.linear(shift) for shift in ("last", "none"))
    np.testing.assert_array_equal(last.weight, fit("nlinear", task).weight)
    errors = [
        evaluate(lambda x, s=s: s.weight @ x[:, : task.context].double() + s.bias[:, None], task, task.valid)["mse"]
        for s in (last, none)
    ]
    assert errors[0] == pytest.approx(fit("nlinear", task).error, rel=1e-9)
    assert errors[1] <= fit("dlinear", task).error * (1 + 1e-9)
    mixed = task.linear("last", 0.25)
    torch.testing.assert_close(mixed.weight, 0.75 * last.weight + 0.25 * none.weight)


@pytest.fixture(scope="module")
def task():
    rng, hours = np.random.default_rng(3), np.arange(900)[:, None]
    values = (
        np.sin(2 * np.pi * hours / 24) + rng.normal(size=(900, 2)) / 2 + rng.normal(size=(900, 2)).cumsum(axis=0) / 20
    )
    return make_task(ForecastData("a", Series(values, ("a", "b"), 0), (600, 700, 900), ""), 48, 30)


def test_the_start_is_the_mean_of_ridges_over_shifts_and_beliefs(task):
    problem = Problem.of(task)
    eight = [ridge(problem, shift, fading(48, power)) for shift in ("last", "mean") for power in FADINGS]
    start = task.linear("auto", 0.0)
    np.testing.assert_allclose(start.weight, np.mean([f.weight for f in eight], axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(start.bias, np.mean([f.bias for f in eight], axis=0), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(eight[0].weight, fit("nlinear", task).weight)  # no fading is the plain ridge


def test_a_fading_belief_is_a_ridge_whose_penalty_grows_with_age(task):
    """Against the normal equations with a penalty for each row of the context."""
    forecast = ridge(Problem.of(task), "last", fading(48, 1.0))
    batch = task.every_train_window.batch(range(len(task.every_train_window)))
    x, y = (v.double().transpose(1, 2).reshape(-1, v.shape[1]).numpy() for v in (batch["x"][:, :48], batch["y"]))
    x, y = x - x[:, -1:], y - x[:, 47:48]
    x, y = x - x.mean(0), y - y.mean(0)
    scale = np.diag(fading(48, 1.0))
    seen = np.linalg.eigvalsh((x * scale).T @ (x * scale) / len(x)).clip(0).mean()
    penalty = forecast.penalty * seen / scale**2
    expected = np.linalg.solve(x.T @ x / len(x) + np.diag(penalty), x.T @ y / len(x)).T
    found = forecast.weight.copy()
    found[:, -1] = expected[:, -1]  # of the last row, which is 0 after the shift, the map holds the shift alone
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
