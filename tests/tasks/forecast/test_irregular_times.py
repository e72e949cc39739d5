"""Rows at irregular times: what a model sees of them, when forecasts are for, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import longwave
from longwave import S4Forecaster
from longwave.experiments import EXPERIMENTS
from longwave.layers import MIXERS, S4Config, S4DConfig
from longwave.models import SequenceConfig
from longwave.ssm.irregular import MOST_STEPS
from longwave.tasks.forecast.series import read_series
from longwave.tasks.forecast.task import MOST_UNITS, ForecastConfig

ROWS, CONTEXT, HORIZON = 300, 20, 4
MINUTE = pd.Timedelta("1min")


def frame_of(rows=ROWS, seed=0, period=95.0):
    """A wave at times that are 1 to 30 minutes apart."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(1, 31, rows).cumsum()
    return pd.DataFrame({"at": pd.Timestamp("2024-01-01") + minutes * MINUTE, "y": np.sin(minutes / period * 6.283)})


FRAME = frame_of()
KNOWN, LATER = FRAME[:-HORIZON], FRAME[-HORIZON:]
PANEL = pd.concat([frame_of(200, 1).assign(id="a"), frame_of(170, 2).assign(id="b", y=lambda rows: 50 + 9 * rows.y)])


def settings(**changes):
    given = {"data": "own", "target": "y", "context": CONTEXT, "horizon": HORIZON, "independent": True}
    return ForecastConfig(**given | {"irregular": True, "time_features": False, "log": "off"} | changes)


def task_of(frame, **changes):
    return settings(**changes).on_frame(None, frame).task


def train(frame, mixer=None, **changes):
    experiment = EXPERIMENTS.find("forecast")
    model = replace(experiment.model, n_layers=1, d_model=4, mixer=mixer or S4DConfig(d_state=8), trust=1.0)
    loop = replace(experiment.loop, epochs=1)
    experiment = replace(experiment, task=settings(**changes), model=model, loop=loop)
    return longwave.train_forecaster(frame, experiment=experiment, quiet=True)


@pytest.fixture(scope="module")
def run():
    return train(KNOWN)


# What a model sees


def test_gaps_of_a_window_are_in_units_of_the_median_in_training_and_its_first_is_one():
    task = task_of(FRAME)
    minutes = (FRAME["at"].diff() / MINUTE).to_numpy()
    median = np.median(minutes[1 : task.data.borders[0]])
    for split in (task.train, task.valid, task.test):
        batch, rows = split.batch([0, 3]), split.rows([0, 3]).numpy()
        np.testing.assert_allclose(batch["gaps"][:, 1:], minutes[rows[:, 1:]] / median, rtol=1e-6)
        assert (batch["gaps"][:, 0] == 1).all()
    assert task.inputs.step is None
    assert task.period == 1
    assert task.describe()["inputs"]["usual_gap"] == median * 60e6


def train_alone(frame, epochs, lr, **changes):
    """A model of S4D without a combination of simple forecasts."""
    experiment = EXPERIMENTS.find("forecast")
    model = SequenceConfig(d_model=16, n_layers=1, mixer=S4DConfig(d_state=16), decoder="forecast")
    loop, optim = replace(experiment.loop, epochs=epochs), replace(experiment.optim, lr=lr, ssm_lr=lr / 4)
    experiment = replace(experiment, task=settings(**changes), model=model, loop=loop, optim=optim)
    return longwave.train_forecaster(frame, experiment=experiment, quiet=True)


def test_even_times_are_forecast_as_without_the_option():
    even = FRAME.assign(at=pd.date_range("2024-01-01", periods=ROWS, freq="10min"))
    one, other = (train_alone(even, 1, 0.001, irregular=irregular) for irregular in (True, False))
    np.testing.assert_allclose(one.predict(even).values, other.predict(even).values, rtol=1e-4)
    np.testing.assert_array_equal(one.predict(even).times, other.predict(even).times)
    assert one.result["test"]["mse"] == pytest.approx(other.result["test"]["mse"], rel=1e-4)


def test_a_model_that_sees_the_gaps_has_less_than_half_of_the_error_of_one_that_does_not():
    frame = frame_of(500)
    one, other = (train_alone(frame, 8, 0.01, irregular=seen, time="at" if seen else "none") for seen in (True, False))
    assert one.result["test"]["mse"] < other.result["test"]["mse"] / 2


def test_times_that_are_finer_than_they_need_be_are_noted():
    minutes = np.resize([1, 2, 3, 6], ROWS).cumsum()
    notes = [
        task_of(FRAME.assign(at=FRAME["at"][0] + minutes * MINUTE + pd.to_timedelta(seconds, "s"))).notes
        for seconds in (0, np.arange(ROWS) % 2)
    ]
    assert MOST_UNITS == MOST_STEPS
    assert not any("the mean gap is" in note for note in notes[0])
    assert notes[1][-1].startswith("the mean gap is 180 units of 1 second; above 16 units training takes")


def test_fractions_of_seconds_are_kept():
    seconds = np.random.default_rng(0).uniform(0.7, 3.1, 50).cumsum().round(3)
    frame = pd.DataFrame({"at": pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, "s"), "y": seconds % 3})
    series = read_series(frame, "y", "at", irregular=True)
    assert series.is_irregular
    np.testing.assert_allclose(np.diff(series.times) / np.timedelta64(1, "s"), np.diff(seconds), atol=1e-5)
    frame["at"] = frame["at"].astype(str)
    np.testing.assert_array_equal(read_series(frame, "y", "at", irregular=True).times, series.times)


# When forecasts are for


def test_forecasts_are_for_the_times_that_are_given_or_else_a_usual_gap_apart(run):
    found = run.predict(KNOWN)
    gap = np.timedelta64(run.run.facts["inputs"]["usual_gap"], "us")
    assert (np.diff(found.times) == gap).all()
    assert found.times[0] == KNOWN["at"].iloc[-1].to_datetime64() + gap
    given = run.predict(KNOWN, future=LATER[["at"]])
    assert given.times.tolist() == LATER["at"].to_numpy().astype("datetime64[s]").tolist()
    assert (given.values != found.values).all()
    as_usual = pd.DataFrame({"at": found.times})
    np.testing.assert_array_equal(run.predict(KNOWN, future=as_usual).values, found.values)


def test_later_times_and_rows_change_no_forecast_and_earlier_times_are_passed_over(run):
    found = run.predict(KNOWN, future=LATER)
    later = LATER.assign(at=LATER["at"] + 300 * MINUTE)
    same = run.predict(KNOWN, future=pd.concat([later, LATER.assign(y=1e6), KNOWN[-5:]]))
    np.testing.assert_array_equal(same.values, found.values)


def test_only_the_rows_of_the_context_count(run):
    expected = run.predict(KNOWN).values
    np.testing.assert_allclose(run.predict(KNOWN[-CONTEXT:]).values, expected, rtol=1e-6)


def test_every_row_of_a_backtest_is_the_forecast_for_its_time_from_the_rows_before(run):
    found = longwave.backtest(run, FRAME, stride=13, start=FRAME["at"][100], level=80).frame()
    assert found.cutoff.nunique() == 16
    for cutoff, rows in found.groupby("cutoff"):
        before, after = FRAME[FRAME["at"] <= cutoff], FRAME[FRAME["at"] > cutoff]
        np.testing.assert_allclose(rows.forecast, run.predict(before, future=after[["at"]]).values[:, 0], rtol=1e-6)
        np.testing.assert_array_equal(rows.y, after.y[:HORIZON])
        assert rows.time.tolist() == after["at"][:HORIZON].tolist()


def test_a_backtest_at_stride_1_over_the_test_set_reproduces_its_scores(run):
    found = longwave.backtest(run, KNOWN, stride=1)
    assert found.notes == ()
    deviation = KNOWN.y[: int(0.7 * len(KNOWN))].std(ddof=0)
    assert found.metrics["RMSE"] ** 2 / deviation**2 == pytest.approx(run.result["test"]["mse"], rel=1e-4)


def test_a_refit_keeps_the_times(run):
    found = longwave.backtest(run, FRAME, stride=8, start=FRAME["at"][280], refit=2)
    assert len(found.cutoffs) == 3
    assert np.isfinite(found.forecast).all()


def test_each_series_of_a_panel_has_times_of_its_own():
    run = train(PANEL, id="id", level=(80,))
    medians = [(one["at"].diff()[1 : int(0.7 * len(one))] / MINUTE).median() for _, one in PANEL.groupby("id")]
    assert run.run.facts["inputs"]["usual_gap"] == np.mean(medians) * 60e6
    found = run.predict(PANEL, level=80)
    future = pd.concat([one[["id"]].assign(at=one["at"] + pd.Timedelta("3 days")) for _, one in PANEL.groupby("id")])
    ahead = run.predict(PANEL, future=future)
    for name, one in PANEL.groupby("id"):
        np.testing.assert_allclose(run.predict(one)[name].values, found[name].values, rtol=1e-6)
        expected = future[future.id == name]["at"]
        expected = expected[expected > one["at"].iloc[-1]][:HORIZON]
        assert ahead[name].times.tolist() == expected.to_numpy().astype("datetime64[s]").tolist()
    cutoff = PANEL[PANEL.id == "a"]["at"].iloc[150]
    rows = longwave.backtest(run, PANEL, stride=1, start=cutoff + MINUTE, level=80).frame()
    rows = rows[rows.cutoff == cutoff]
    assert rows.id.unique().tolist() == ["a"]  # the other has no row at that time
    before = PANEL[PANEL["at"] <= cutoff]
    expected = run.predict(before, future=PANEL[PANEL["at"] > cutoff])["a"]
    np.testing.assert_allclose(rows.forecast, expected.values[:, 0], rtol=1e-6)


def test_columns_beside_the_target_go_with_them():
    frame = FRAME.assign(load=np.arange(ROWS) % 5, visits=FRAME.y**2)
    run = train(frame[:-HORIZON], future=("load",), past=("visits",))
    found = run.predict(frame[:-HORIZON], future=frame[-HORIZON:])
    assert found.times.tolist() == LATER["at"].to_numpy().astype("datetime64[s]").tolist()
    changed = frame[-HORIZON:].assign(load=9.0)
    assert np.abs(run.predict(frame[:-HORIZON], future=changed).values - found.values).max() > 1e-4
    rows = longwave.backtest(run, frame, stride=1, start=LATER["at"].iloc[0])
    np.testing.assert_allclose(rows.forecast[0], found.values, rtol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [{"multivariate": True, "fill": "mask"}, {"yearly": "on"}, {"log": "on"}, {"time_features": True}],
    ids=["columns", "year", "log", "times"],
)
def test_other_options_go_with_them(changes):
    frame = FRAME.assign(y=FRAME.y + 3, z=FRAME.y**2)
    if changes.get("fill"):
        frame.loc[[5, 6, 250], "z"] = np.nan
    if changes.get("yearly"):
        frame["at"] = pd.Timestamp("2020-01-01") + (frame["at"] - frame["at"][0]) * 600
    run = train(frame, **changes)
    found = run.predict(frame)
    assert found.values.shape == (HORIZON, 2 if changes.get("multivariate") else 1)
    assert np.isfinite(found.values).all()
    assert found.times[0] > frame["at"].iloc[-1].to_datetime64()


def test_the_estimator_takes_them(tmp_path):
    small = {"context": CONTEXT, "d_model": 4, "n_layers": 1, "epochs": 1, "random_state": 0}
    fc = S4Forecaster(HORIZON, irregular=True, **small).fit(KNOWN, time_col="at")
    found = fc.predict(future=LATER[["at"]])
    assert found["at"].tolist() == LATER["at"].tolist()
    assert fc.run_.config.experiment.model.mixer == S4DConfig()
    fc.save(tmp_path)
    loaded = S4Forecaster.load(tmp_path)
    assert loaded.irregular
    pd.testing.assert_frame_equal(loaded.predict(KNOWN, future=LATER[["at"]]), found)
    moved = fc.update(LATER).predict()
    assert moved["at"].iloc[0] > LATER["at"].iloc[-1]
    pd.testing.assert_frame_equal(moved, fc.predict(FRAME))


# What is refused


def test_a_model_that_cannot_see_gaps_is_refused_with_the_reason():
    for kind in sorted(MIXERS):
        if kind != "s4d":
            with pytest.raises(ValueError, match=r"^irregular: .*s4d"):
                train(KNOWN, MIXERS[kind]())
    with pytest.raises(ValueError, match=r"bilinear rule, which does not decay over long gaps, and .* no kernel"):
        train(KNOWN, S4Config())
    with pytest.raises(ValueError, match="expected rule 'zoh', which is exact over any gap, got 'bilinear'"):
        train(KNOWN, S4DConfig(rule="bilinear"))


@pytest.mark.parametrize(
    ("change", "changes", "message"),
    [
        (lambda f: f.drop(columns="at"), {}, "irregular: expected a column of times"),
        (lambda f: f, {"time": "none"}, "irregular: expected a column of times"),
        (lambda f: f, {"fill": "linear"}, "fill: linear interpolation is for rows on a grid"),
        (lambda f: f.iloc[::-1], {"time": "at"}, "row 1: the time .* comes after .*; sort the rows by time"),
        (lambda f: f.iloc[[0, 0, *range(1, 200)]], {"time": "at"}, "the same as in the previous row"),
        (lambda f: f.assign(y=f.y.where(f.index != 7)), {}, "row 7, column 'y': missing value; .* leave the row"),
    ],
)
def test_what_is_wrong_with_the_rows_is_said(change, changes, message):
    with pytest.raises(ValueError, match=message):
        task_of(change(FRAME), **changes)


def test_repeated_times_may_be_merged():
    doubled = FRAME.iloc[np.repeat(np.arange(ROWS), 2)].reset_index(drop=True)
    task = task_of(doubled, duplicates="mean")
    torch.testing.assert_close(task.train.gaps, task_of(FRAME).train.gaps)


def test_too_few_future_times_are_refused(run):
    with pytest.raises(ValueError, match=r"expected the times of 4 rows after .*, the rows to forecast, got 3"):
        run.predict(KNOWN, future=LATER[["at"]][:3])


def test_an_export_is_refused_because_a_file_has_no_gaps(run, tmp_path):
    with pytest.raises(ValueError, match="forecasts read the gaps between rows at irregular times"):
        longwave.export(run, tmp_path / "model.onnx")


def test_public_sets_are_refused():
    with pytest.raises(ValueError, match="expected --csv FILE with --irregular, got none"):
        ForecastConfig(data="etth1", irregular=True).build()
