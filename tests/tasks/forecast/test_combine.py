"""The combination of simple forecasts: each member against its definition, and the weights against a solver."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import torch

from longwave.models import ForecasterConfig
from longwave.tasks.forecast import baselines, classical, combine, evidence
from longwave.tasks.forecast.baselines import Problem, moments
from longwave.tasks.forecast.combine import Combination
from longwave.tasks.forecast.linear_start import certain_share, mean
from longwave.tasks.forecast.seasons import find_season
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import ForecastConfig, custom

HOUR = np.timedelta64(3600, "s")


def make_task(values, step=None, horizon=6, context=24):
    times = None if step is None else np.datetime64("2020-01-01T00:00:00") + np.arange(len(values)) * step
    return custom(Series(values.reshape(len(values), -1), ("a",), 0, times, step), horizon, context)


def wave(rows=300, period=24, noise=0.1):
    noisy = noise * np.random.default_rng(0).standard_normal(rows)
    return np.sin(2 * np.pi * np.arange(rows) / period) + noisy


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("trend", [0.0, 0.3])
def test_the_map_of_exponential_smoothing_is_its_recurrence(period, trend):
    rng, context, horizon, level, damping, seasonal = np.random.default_rng(1), 20, 7, 0.4, 0.9, 0.2
    y = rng.standard_normal(context)
    smoothed, slope = y[:period].mean(), 0.0
    s = [float(value) for value in y[:period] - smoothed] if period > 1 else [0.0]
    span = period if period > 1 else 4
    if trend:
        slope = (y[span : 2 * span].mean() - y[:span].mean()) / span
    for t in range(period, context):
        before, season = smoothed + damping * slope, s[t % period]
        error = y[t] - before - season
        smoothed, slope = before + level * error, damping * slope + level * trend * error
        s[t % period] = season + seasonal * (1 - level) * error
    ahead, expected = 0.0, []
    for k in range(horizon):
        ahead += damping ** (k + 1)
        expected.append(smoothed + (ahead * slope if trend else 0.0) + s[(context + k) % period])
    found = classical.smoothing_map(context, horizon, level, trend, damping, seasonal, period) @ y
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_autoregression_is_found_again():
    rng, y = np.random.default_rng(0), [0.0, 0.0]
    for _ in range(3000):
        y.append(0.5 + 1.2 * y[-1] - 0.5 * y[-2] + 0.1 * rng.standard_normal())
    task = make_task(np.array(y), horizon=3, context=10)
    found = combine.members(task, Problem.of(task), task.train.end)["autoregression"]
    np.testing.assert_allclose(found.weight[0, -2:], [-0.5, 1.2], atol=0.05)
    step = found.weight[0] @ np.arange(10.0) + found.bias[0]
    second = found.weight[0] @ [*np.arange(1.0, 10.0), step] + found.bias[0]
    assert found.weight[1] @ np.arange(10.0) + found.bias[1] == pytest.approx(second)


def test_weights_are_those_of_a_solver_on_the_simplex():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((4, 50))
    gram, usual = errors @ errors.T / 50, np.full(4, 0.25)
    w = combine.simplex(gram, usual, 0.1)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    gradient = gram @ w + 0.1 * (w - usual)
    assert np.ptp(gradient[w > 1e-9]) < 1e-6
    assert gradient.min() >= gradient[w > 1e-9].max() - 1e-6
    np.testing.assert_allclose(combine.simplex(gram, usual, 1e6), usual, atol=1e-4)


def test_the_combination_is_the_weighted_mean_of_its_members():
    task = make_task(wave(), HOUR)
    found = combine.combine(task)
    assert sum(found.weights.values()) == pytest.approx(1)
    x = task.valid.batch(range(3))["x"]
    mean = sum(weight * found.members[name](x) for name, weight in found.weights.items())
    torch.testing.assert_close(found.forecast(x), mean)
    assert set(found.members) == {
        "repeat-last",
        "seasonal-naive",
        "nlinear",
        "dlinear",
        "linear",
        "exponential smoothing",
        "autoregression",
    }


def test_what_repeats_itself_gets_the_weight_and_what_does_not_gets_none():
    noisy = combine.combine(make_task(wave(noise=0.0), HOUR)).weights
    assert noisy["repeat-last"] < 0.02
    drift = np.random.default_rng(0).standard_normal(400).cumsum()
    assert combine.combine(make_task(drift)).weights["repeat-last"] > 0.3


def chosen_on_validation(task, found):
    errors = {name: baselines.evaluate(found.members[name], task, task.valid)["mse"] for name in found.members}
    return min((name for name in combine.SIMPLE if name in errors), key=errors.__getitem__)


def test_without_evidence_nlinear_stays_and_another_is_kept_in_part():
    """A short series has fewer horizons to judge by than can show anything."""
    weights = {}
    for seed in range(8):
        task = make_task(np.random.default_rng(seed).standard_normal(60).cumsum(), horizon=6, context=8)
        found = combine.combine(task)
        chosen = chosen_on_validation(task, found)
        assert len(found.errors) < evidence.FEWEST
        assert found.reason.startswith(f"{chosen} is the best simple forecast on the validation set")
        weights.setdefault(chosen == "nlinear", []).append(found.weights[chosen])
    assert set(weights[True]) == {1.0}
    assert min(weights[False]) < 1.0


def test_a_random_walk_gives_no_reason_to_depart_far_from_repeating_the_last_value():
    walk = np.random.default_rng(7).standard_normal(800).cumsum()
    task = make_task(walk)
    found = combine.combine(task)
    error, last = (
        baselines.evaluate(one, task, task.test)["mse"] for one in (found.forecast, baselines.repeat_last(task))
    )
    assert error < 1.02 * last


def test_with_strong_evidence_the_combination_departs_and_is_better():
    """A level that drifts slowly under noise: smoothing it is better than each of the simple forecasts."""
    drift, noise = np.random.default_rng(3).standard_normal((2, 1500))
    task = make_task(0.3 * drift.cumsum() + noise, context=40)
    found = combine.combine(task)
    chosen = chosen_on_validation(task, found)
    assert found.weights[chosen] < 0.5
    error, simple = (baselines.evaluate(one, task, task.test)["mse"] for one in (found.forecast, found.members[chosen]))
    assert error < 0.95 * simple


def test_weights_that_judge_a_stretch_did_not_see_it(monkeypatch):
    """The errors that are kept are those of weights fitted to the other stretches."""
    task, calls = make_task(wave(), HOUR), []
    weights = combine._weights
    monkeypatch.setattr(combine, "_weights", lambda grams, simple: calls.append(grams) or weights(grams, simple))
    combine.combine(task)
    *others, every = calls
    assert [len(grams) for grams in others] == [len(every) - 1] * len(every)
    for own, grams in zip(every, others, strict=True):
        assert all(gram is not own for gram in grams)


def test_a_share_pays_by_its_upper_bound():
    rng = np.random.default_rng(0)
    change = rng.standard_normal((60, 5))
    error = 0.5 * change + 0.1 * rng.standard_normal((60, 5))
    products, squares = (error * change).mean(1), np.square(change).mean(1)
    assert evidence.paying_share(products, squares) == pytest.approx(0.5, abs=0.05)
    assert evidence.paying_share(-products, squares) == 0.0
    assert evidence.paying_share(products[: evidence.FEWEST - 1], squares[: evidence.FEWEST - 1]) == 0.0
    assert evidence.paying_share(np.zeros(60), np.zeros(60)) == 0.0


def test_noise_pays_as_rarely_as_its_standard_errors_say():
    changes = np.random.default_rng(1).standard_normal((2000, 30))
    expected = NormalDist().cdf(-evidence.CERTAIN)
    assert np.mean([evidence.pays(change) for change in changes]) == pytest.approx(expected, abs=0.03)
    assert evidence.pays(changes[0] - 1)


def test_rows_after_an_origin_do_not_change_the_members_before_it():
    task = make_task(wave(), HOUR)
    other = make_task(np.concatenate([wave()[: task.train.end], 5 + wave()[task.train.end :]]), HOUR)
    for (one, first), (two, second) in zip(combine._earlier(task), combine._earlier(other), strict=True):
        assert (one.first, one.end) == (two.first, two.end)
        for name in first:
            np.testing.assert_array_equal(first[name].weight, second[name].weight)


def test_a_short_series_has_no_earlier_stretches_and_is_combined_all_the_same():
    task = make_task(wave(60, 12), horizon=6, context=8)
    assert list(combine._earlier(task)) == []
    assert sum(combine.combine(task).weights.values()) == pytest.approx(1)


@pytest.mark.parametrize(("doubt", "share"), [(1e6, 0.5), (1e-6, 0.0)])
def test_the_share_of_a_correction_is_as_certain_as_the_windows(doubt, share):
    rng = np.random.default_rng(0)
    change = rng.standard_normal((60, 5))
    error = 0.5 * change + 0.1 * rng.standard_normal((60, 5))
    found = certain_share((error * change).sum(1), np.square(change).sum(1), 20, doubt)
    assert found == pytest.approx(share, abs=0.05)
    assert certain_share((error * change).sum(1), np.square(change).sum(1), 1, doubt) == 0.0


def test_a_correction_that_does_not_pay_gets_no_share():
    task = make_task(wave(400), HOUR)
    model = ForecasterConfig(shift="combined", trust=None, d_model=4, n_layers=1).resolve(task.spec).build()
    for part in model.correction.parameters():
        torch.nn.init.normal_(part)
    adapted = task.for_model(model.config)
    adapted.calibrate(model.eval(), lambda most: iter([task.valid.batch(range(len(task.valid)))]))
    assert float(model.share) == 0.0
    assert task.for_model(replace(model.config, trust=0.5)).calibrate is None


@pytest.mark.parametrize("period", [5, 12, 30])
def test_a_season_is_found_in_values_without_times(period):
    assert find_season(wave(300, period, 0.3)[:, None], None).rows == period


def test_a_season_of_the_values_counts_where_it_is_clearer_than_the_calendar_s():
    assert find_season(wave(300, 5, 0.3)[:, None], HOUR).rows == 5
    assert find_season(wave(300, 24, 0.3)[:, None], HOUR).rows == 24
    assert find_season(wave(3000, 30, 0.3)[:, None], HOUR / 60).rows == 30  # of 1,440 rows of a day
    assert find_season(wave(300, 7, 30.0)[:, None], HOUR).rows == 24  # noise


def test_two_seasons_are_found_in_values_without_times():
    weeks = np.tile(np.random.default_rng(1).standard_normal(84), 8) + 1.5 * wave(8 * 84, 12)
    assert find_season(weeks[:, None], None)[::2] == (12, 84)


def test_noise_and_drift_have_no_season():
    rng = np.random.default_rng(0)
    for values in (rng.standard_normal(300), rng.standard_normal(300).cumsum(), np.arange(300.0), np.ones(300)):
        assert find_season(values[:, None], None).rows == 1


def test_without_a_season_there_is_no_seasonal_naive():
    task = make_task(np.random.default_rng(0).standard_normal(300))
    assert "no seasonal-naive among the baselines: no season was found" in task.notes
    assert "seasonal-naive" not in task.baselines()


def test_the_moments_of_the_whole_are_those_that_a_ridge_is_fitted_to():
    task = make_task(wave(), HOUR)
    windows = task.every_train_window
    parts = moments(replace(windows, end=120)), moments(replace(windows, first=120, end=200)), moments(windows)
    problem = Problem(task.context, task.horizon, *parts)
    assert problem.known is parts[2]
    assert replace(problem, whole=None).known is parts[0]


def growth(rows=240):
    season = 1 + 0.4 * np.sin(2 * np.pi * np.arange(rows) / 12)
    noise = np.exp(0.05 * np.random.default_rng(0).standard_normal(rows))
    return 100 * 1.015 ** np.arange(rows) * season * noise


def as_series(values):
    times = (np.datetime64("2000-01") + np.arange(len(values))).astype("datetime64[s]")
    return Series(values[:, None], ("a",), 0, times, np.timedelta64(1, "M"))


@pytest.mark.parametrize(("ratio", "pays"), [(0.9, True), (0.995, False), (1.2, False)])
def test_logarithms_are_forecast_where_their_errors_are_smaller_by_more_than_chance(ratio, pays, monkeypatch):
    errors = 1 + 0.1 * np.random.default_rng(0).standard_normal((2, 20))
    found = {log: Combination({}, {}, "", (ratio if log else 1) * errors[int(log)]) for log in (False, True)}
    monkeypatch.setattr(combine, "combine", lambda task: found[task.inputs.log])
    config = ForecastConfig(data="own", horizon=12, context=None, log="auto")
    task = config.on(as_series(growth()))
    assert task.inputs.log == pays
    assert ("forecasting logarithms, as their error on held-out windows is lower" in task.notes) == pays
    assert not config.on(as_series(growth() - 200)).inputs.log  # not all of it is above 0


def broken_growth(rows=240, until=0.7):
    """Values that grow in proportion up to a share of the rows, and by the same amount from then on."""
    whole = growth(rows)
    end = int(until * rows)
    season, level = whole / 100 / 1.015 ** np.arange(rows), 100 * 1.015 ** np.arange(rows)
    level[end:] = level[end - 1] + 0.2 * np.arange(1, rows - end + 1)
    return level * season


def test_a_trend_that_breaks_after_it_grew_in_proportion_is_not_made_worse_by_logarithms():
    series = as_series(broken_growth())
    plain = ForecastConfig(data="own", horizon=12, context=24).on(series)
    task = ForecastConfig(data="own", horizon=12, context=24, log="auto").on(series)
    found = task.combination

    def error(task, forecast):
        batch = task.test.batch(range(len(task.test)))
        return float((task.in_units(batch["y"]) - task.in_units(forecast(batch["x"]))).square().mean())

    chosen = baselines.fit(chosen_on_validation(plain, plain.combination), plain)
    assert error(task, found.forecast) < 1.05 * error(plain, chosen)


def test_a_season_in_proportion_to_the_level_is_forecast_by_logarithms():
    months, noise = np.arange(480), 0.05 * np.random.default_rng(0).standard_normal(480)
    values = 100 * np.exp(1.2 * np.sin(2 * np.pi * months / 190) + 0.8 * np.sin(2 * np.pi * months / 12) + noise)
    assert ForecastConfig(data="own", horizon=12, context=24, log="auto").on(as_series(values)).inputs.log


def test_errors_on_held_out_horizons_are_in_the_units_of_scores():
    series = as_series(growth())
    plain, logs = (ForecastConfig(data="own", horizon=12, context=24, log=log).on(series) for log in ("off", "on"))
    assert np.abs(np.log(plain.combination.errors / logs.combination.errors)).max() < 2.5
    valid = len(plain.valid) and (plain.valid.end - plain.valid.first) // 12
    simple = mean(list(plain.combination.members.values()), list(plain.combination.weights.values()))
    assert plain.combination.errors[-valid:].mean() == pytest.approx(
        baselines.evaluate(simple, plain, plain.valid)["mse"], rel=0.5
    )


def test_scores_of_logarithms_are_those_of_the_values():
    series = as_series(growth())
    logs = ForecastConfig(data="own", horizon=12, context=24, log="on").on(series)
    plain = ForecastConfig(data="own", horizon=12, context=24).on(series)
    rows = logs.test.rows([0, 3])
    zeros = torch.zeros(2, 12, 1)
    found = logs.outcome(lambda x, **_: (zeros, None), logs.test.batch([0, 3])).scores["mse"]
    constant = np.exp(logs.inputs.mean[0])
    errors = (series.values[rows[:, 24:].numpy(), 0] - constant) / plain.inputs.deviation[0]
    assert float(found[0]) == pytest.approx(np.square(errors).sum(), rel=1e-5)
    assert logs.baselines() == plain.baselines()
    np.testing.assert_allclose(logs.inputs.restore(logs.inputs.standardise(series.values)), series.values, rtol=1e-12)


def test_values_below_zero_have_no_logarithm_to_go_on_from():
    task = ForecastConfig(data="own", horizon=12, context=24, log="on").on(as_series(growth()))
    with pytest.raises(ValueError, match="expected values above 0 in the last 24 rows, since the model forecasts"):
        task.inputs.continuation(as_series(growth() - 5000))
    with pytest.raises(ValueError, match="log: expected one column, got multivariate"):
        ForecastConfig(data="own", multivariate=True, log="on")


@pytest.mark.parametrize("size", [10.0, 0.0])
def test_the_course_of_the_year_is_subtracted_only_where_it_pays(size):
    days = np.timedelta64(86_400, "s")
    times = np.datetime64("2010-01-01T00:00:00") + np.arange(1500) * days
    values = size * np.cos(2 * np.pi * np.arange(1500) / 365.25) + np.random.default_rng(2).standard_normal(1500)
    series = Series(values[:, None], ("a",), 0, times, days)
    auto = ForecastConfig(data="own", horizon=10, context=20, yearly="auto").on(series)
    assert bool(auto.inputs.yearly) == bool(size)


@pytest.mark.parametrize(("size", "longer"), [(1.0, 168), (0.0, 0)])
def test_a_week_is_a_second_season_where_its_days_differ(size, longer):
    hours = np.arange(24 * 7 * 6)
    values = np.sin(2 * np.pi * hours / 24) * (1 + size * (hours // 24 % 7 > 4))
    values += 0.1 * np.random.default_rng(0).standard_normal(len(hours))
    found = find_season(values[:, None], HOUR)
    assert (found.rows, found.longer) == (24, longer)
    assert ("a longer one of 168" in found.text) == bool(longer)
    task = make_task(values, HOUR, horizon=24, context=200)
    assert ("seasonal-naive, longer season" in combine.combine(task).members) == bool(longer)
