"""Forecasts of anomalies from the yearly cycle."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch

from longwave.experiments import EXPERIMENTS
from longwave.experiments.prepared import prepare
from longwave.runs import load_run
from longwave.tasks.forecast import baselines
from longwave.tasks.forecast.predict import forecast
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import ForecastConfig, make_task
from longwave.tasks.forecast.windows import ForecastData, ForecastInput
from longwave.train.folder import RunFolder
from longwave.train.loop import Run

CONTEXT, HORIZON = 20, 10
DAY = np.timedelta64(86_400, "s")


def make(days=1600, borders=(1000, 1250, 1500), known=None):
    """Two columns of days: a strong year, and noise that is remembered for some days."""
    rng, t = np.random.default_rng(0), np.arange(days)
    noise = rng.normal(size=(days, 2))
    for k in range(1, days):
        noise[k] += 0.7 * noise[k - 1]
    values = np.stack((10 * np.cos(2 * np.pi * t / 365.2425), 4 * np.sin(2 * np.pi * t / 365.2425)), axis=1) + noise
    times = np.datetime64("2010-05-01T00:00:00") + t * DAY
    series = Series(values, ("a", "b"), 0, times, DAY, known=known)
    return make_task(ForecastData("made", series, borders, "made"), CONTEXT, HORIZON)


@pytest.mark.parametrize("single", [False, True])
def test_a_model_sees_anomalies_and_is_scored_on_the_values(single):
    task = make().with_year()
    task = replace(task, train=replace(task.train, single=single))
    batch, plain = task.train.batch([3, 8]), task.plain.train.batch([3, 8])
    torch.testing.assert_close(batch["y"], plain["y"], rtol=0, atol=0)
    rows, column = task.train.rows([3, 8]), torch.tensor([[3 % 2], [8 % 2]])
    usual = task.train.usual[rows, column].unsqueeze(-1) if single else task.train.usual[rows]
    torch.testing.assert_close(batch["x"][:, :CONTEXT], plain["x"][:, :CONTEXT] - usual[:, :CONTEXT])
    assert (batch["x"][:, CONTEXT:] == 0).all()
    zero = task.outcome(lambda x, **_: (torch.zeros_like(batch["y"]), None), batch).scores["mse"]
    expected = (batch["y"] - usual[:, CONTEXT:]).square().sum()
    torch.testing.assert_close(zero[0], expected)


def test_independent_columns_get_their_own_course():
    task = replace(make().with_year(), independent=True)
    batch = task.test.batch([0, 7])
    score, _ = task.outcome(lambda x, **_: (torch.zeros(len(x), HORIZON, 1), None), batch).scores["mse"]
    torch.testing.assert_close(score, (batch["y"] - batch["usual"]).square().sum())


def test_baselines_are_those_of_the_values():
    task = make()
    assert baselines.table(task.with_year()) == baselines.table(task)


def test_the_linear_start_is_solved_on_anomalies_and_is_far_better_for_it():
    task = make().with_year()
    start, anomalies = task.linear("auto", None), task.anomalies
    assert torch.equal(start.weight, anomalies.linear("auto", start.reversion).weight)
    assert start.reversion > 0.3
    found = baselines.Forecast(start.weight.numpy(), start.bias.numpy())
    linear = min(baselines.scores(name, task)["test"]["mse"] for name in ("nlinear", "dlinear"))
    assert baselines.evaluate(found, anomalies, anomalies.test)["mse"] < 0.9 * linear


def test_the_course_is_that_of_the_training_set_alone():
    task, other = make(), make()
    other.data.series.values[1000:] += 50
    assert task.with_year().inputs.yearly == make_task(other.data, CONTEXT, HORIZON).with_year().inputs.yearly


def test_auto_wants_two_years_of_training_that_a_context_does_not_show():
    auto = ForecastConfig(yearly="auto")
    assert auto._has_year(make())
    assert not auto._has_year(make(borders=(700, 1000, 1500)))
    assert not replace(auto, yearly="off")._has_year(make())
    long = make_task(make().data, 366, 50)
    assert not auto._has_year(long)
    assert replace(auto, yearly="on")._has_year(long)
    series = replace(make().data.series, times=None, step=None)
    timeless = make_task(replace(make().data, series=series), CONTEXT, HORIZON)
    assert not auto._has_year(timeless)
    with pytest.raises(
        ValueError, match=r"yearly: expected times, with at least a year .* got no times; leave yearly off"
    ):
        replace(auto, yearly="on")._has_year(timeless)
    with pytest.raises(ValueError, match=r"got 0\.8 years of them in the training set"):
        replace(auto, yearly="on")._has_year(make(borders=(300, 700, 1500)))


def test_what_a_model_must_know_of_the_year_survives_json():
    inputs = make().with_year().inputs
    assert ForecastInput.from_dict(inputs.to_dict()) == inputs
    old = {k: v for k, v in inputs.to_dict().items() if k != "yearly"}
    assert ForecastInput.from_dict(old).usual(np.array(["2020-01-01T00:00:00"], "datetime64[s]")) is None


def test_a_run_forecasts_new_rows_with_the_course_of_their_year(tmp_path):
    """After a rest of nothing but the usual course, the forecast is the usual course."""
    task = make()
    path = tmp_path / "days.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["date", "a", "b"])
        rows.writerows([str(t), *v] for t, v in zip(task.data.series.times, task.data.series.values, strict=True))
    settings = EXPERIMENTS.find("forecast")
    settings = replace(settings, task=replace(settings.task, csv=path, target="a", horizon=HORIZON, context=CONTEXT))
    settings = replace(settings, model=replace(settings.model, n_layers=0), loop=replace(settings.loop, epochs=1))
    prepared = prepare(settings)
    assert any("yearly cycle, estimated from 3.1 years" in note for note in prepared.task.notes)
    folder = RunFolder.create(tmp_path / "run", prepared, None)
    folder.write_config({})
    Run(folder, prepared, quiet=True).fit(resume=False)
    times = np.datetime64("2014-06-01T00:00:00") + np.arange(CONTEXT + HORIZON) * DAY
    usual = prepared.task.inputs.restore(prepared.task.inputs.usual(times))
    new = tmp_path / "new.csv"
    new.write_text("date,a\n" + "".join(f"{t},{v[0]}\n" for t, v in zip(times, usual[:CONTEXT], strict=False)))
    found = forecast(load_run(folder.path), new)
    np.testing.assert_allclose(found.values, usual[CONTEXT:], rtol=0, atol=0.6)
    assert np.ptp(usual[CONTEXT:]) > 1
