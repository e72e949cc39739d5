"""Backtests of panels: every row is a forecast from the rows of all series before its cutoff."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import longwave
from longwave import S4Forecaster
from longwave.experiments import EXPERIMENTS
from longwave.tasks.forecast.task import ForecastConfig

ROWS = {"Berlin": 160, "Oslo": 130, "Rome": 160}
CONTEXT, HORIZON = 14, 5
TRAINED, VALID, TEST = 120, 84, 96  # rows of each series that the run has, and where its sets begin
DAYS = pd.date_range("2024-01-01", periods=160)


def frame_of(rows=ROWS):
    frames = []
    for k, (name, count) in enumerate(rows.items()):
        noise = 0.2 * np.random.default_rng([1, k]).standard_normal(count)
        values = 10.0**k * (5 + np.sin(2 * np.pi * np.arange(count) / 7 + k) + noise)
        frames.append(pd.DataFrame({"store": name, "day": DAYS[:count], "sales": values}))
    return pd.concat(frames, ignore_index=True)


FRAME = frame_of()


def before(day):
    return FRAME[FRAME.day <= day]


def train(frame, **more):
    forecast = EXPERIMENTS.find("forecast")
    sizes = {"context": CONTEXT, "horizon": HORIZON, "id": "store", "independent": True, "time_features": False}
    experiment = replace(
        forecast,
        task=ForecastConfig(data="own", target="sales", log="off", **sizes, **more),
        model=replace(forecast.model, n_layers=1, d_model=4),
        loop=replace(forecast.loop, epochs=1),
    )
    return longwave.train_forecaster(frame, experiment=experiment, quiet=True)


@pytest.fixture(scope="module")
def run():
    return train(before(DAYS[TRAINED - 1]))


def check_rows(found, day, expected):
    rows = found[found.cutoff == day]
    last = day + pd.Timedelta(days=HORIZON)
    assert rows.store.unique().tolist() == [name for name, count in ROWS.items() if DAYS[count - 1] >= last]
    for name, own in rows.groupby("store"):
        np.testing.assert_allclose(own.forecast, expected[name].values[:, 0], rtol=1e-6)
        if day >= DAYS[TRAINED - 1]:  # before, `predict` knows errors that came later
            (interval,) = expected[name].intervals
            np.testing.assert_allclose(own.lo, interval.low[:, 0], rtol=1e-6)
            np.testing.assert_allclose(own.hi, interval.high[:, 0], rtol=1e-6)
        truth = FRAME[(FRAME.store == name) & FRAME.day.isin(own.time)].sales
        np.testing.assert_array_equal(own.y, truth)


def test_every_row_is_the_forecast_from_the_rows_before_its_cutoff(run):
    found = longwave.backtest(run, FRAME, stride=4, level=80)
    frame = found.frame()
    assert list(frame) == ["store", "cutoff", "time", "y", "forecast", "lo", "hi"]
    days = DAYS[TEST - 1 : 155 : 4]
    assert sorted(frame.cutoff.unique().tolist()) == days.tolist()
    for day in days[[0, 3, 6, 9, -1]]:
        check_rows(frame, day, run.predict(before(day), level=80))
    assert found.notes == ()
    assert list(found.by_window) == ["store", "cutoff", "MAE", "RMSE", "MASE", "coverage-80"]
    assert len(found.plot().axes) == 3


def test_each_series_has_a_scale_of_its_own(run):
    found = longwave.backtest(run, FRAME, stride=10)
    assert found.season == 7
    for k, (name, cutoff) in enumerate(zip(found.ids, found.cutoffs, strict=True)):
        values = FRAME[(FRAME.store == name) & (FRAME.day <= cutoff)].sales.to_numpy()
        scale = np.abs(values[7:] - values[:-7]).mean()
        assert found.by_window["MASE"][k] == pytest.approx(np.abs(found.y[k] - found.forecast[k]).mean() / scale)


@pytest.mark.parametrize("lengths", [dict.fromkeys(ROWS, TRAINED), {"Berlin": 120, "Oslo": 90, "Rome": 150}])
def test_stride_1_over_the_test_sets_reproduces_their_scores(lengths):
    frame = frame_of(lengths)
    run = train(frame, level=(80, 95))
    found = longwave.backtest(run, frame, stride=1, level=[80, 95])
    deviations = {name: own.sales[: 7 * len(own) // 10].std(ddof=0) for name, own in frame.groupby("store")}
    own = np.array([deviations[name] for name in found.ids])[:, None, None]
    errors, test = np.abs(found.y - found.forecast) / own, run.result["test"]
    assert len(found.cutoffs) == sum(rows // 5 - HORIZON + 1 for rows in lengths.values())
    assert np.mean(errors**2) == pytest.approx(test["mse"], rel=1e-4)
    assert np.mean(errors) == pytest.approx(test["mae"], rel=1e-4)
    if len({*lengths.values()}) == 1:  # else errors are known earlier of some series than of others
        for level, low, high in found.intervals:
            scores = run.result["intervals"]["this run"][f"{level:g}"]
            assert found.metrics[f"coverage-{level:g}"] == pytest.approx(scores["coverage"], abs=1e-9)
            assert np.mean((high - low) / own) == pytest.approx(scores["width"], rel=1e-4)


def test_windows_in_the_rows_of_training_are_noted_and_have_no_intervals(run):
    assert longwave.backtest(run, FRAME, start=DAYS[100], stride=30, level=80).notes == ()
    found = longwave.backtest(run, FRAME, start=DAYS[VALID], stride=20, level=80)
    assert found.notes[0] == "the first windows are in the validation set, which was used to choose the model"
    assert found.notes[1].startswith("3 of 11 windows have no interval")
    is_early = found.cutoffs == np.datetime64(DAYS[VALID - 1])
    assert np.isnan(found.intervals[0].low[is_early]).all()
    assert np.isfinite(found.intervals[0].low[~is_early]).all()
    assert np.isnan(found.by_window["coverage-80"][is_early]).all()
    note, _ = longwave.backtest(run, FRAME, start=DAYS[40], stride=30, level=80).notes
    assert note.startswith("the model was trained on the rows before 2024-03-25 00:00:00, which it forecasts better")
    (note,) = longwave.backtest(run, before(DAYS[60]), start=DAYS[40]).notes
    assert note.startswith("the model was trained on all of these rows")


def test_no_legend_names_an_interval_that_is_not_there(run):
    for start, expected in ((100, True), (VALID - 4, False)):
        found = longwave.backtest(run, before(DAYS[start + 8]), start=DAYS[start], level=80)
        texts = [text.get_text() for text in found.plot().axes[0].get_legend().get_texts()]
        assert ("80 %" in texts) == expected


def test_what_comes_after_a_cutoff_changes_neither_a_forecast_nor_its_interval(run):
    changed = FRAME.assign(sales=FRAME.sales.where(FRAME.day < DAYS[110], 2 * FRAME.sales))
    one, other = (longwave.backtest(run, data, stride=3, level=80) for data in (FRAME, changed))
    is_before = one.cutoffs < np.datetime64(DAYS[110])
    assert 10 < is_before.sum() < len(is_before)
    for found, expected in (
        (other.forecast, one.forecast),
        *zip(other.intervals[0][1:], one.intervals[0][1:], strict=True),
    ):
        np.testing.assert_array_equal(found[is_before], expected[is_before])
        assert (found[~is_before] != expected[~is_before]).any()


@pytest.mark.parametrize("stores", [["Berlin", "Oslo", "Rome"], ["Rome"]])
def test_of_rows_after_those_of_training_intervals_are_those_of_predict(run, stores):
    later = FRAME[(FRAME.day >= DAYS[TRAINED - 10]) & FRAME.store.isin(stores)]
    for data in (later, later[later.day >= DAYS[TRAINED]]):
        found = longwave.backtest(run, data, start=DAYS[TRAINED + CONTEXT], stride=3, level=80)
        assert found.notes == ()
        day = pd.Timestamp(found.cutoffs[-1])
        expected = run.predict(data[data.day <= day], level=80)["Rome"]
        np.testing.assert_allclose(found.forecast[-1], expected.values, rtol=1e-6)
        np.testing.assert_allclose(found.intervals[0].low[-1], expected.intervals[0].low, rtol=1e-6)


def test_a_series_that_training_has_not_seen_begins_with_the_others(run):
    new = frame_of({"Berlin": 160, "Paris": 160})
    found = longwave.backtest(run, new, stride=5, level=80)
    assert found.cutoffs[found.ids == "Paris"].tolist() == found.cutoffs[found.ids == "Berlin"].tolist()
    day = pd.Timestamp(found.cutoffs[-1])
    expected = run.predict(new[new.day <= day], level=80)["Paris"]
    np.testing.assert_allclose(found.forecast[-1], expected.values, rtol=1e-6)
    np.testing.assert_allclose(found.intervals[0].low[-1], expected.intervals[0].low, rtol=1e-6)


def test_a_refit_is_a_run_on_the_rows_before(run):
    found = longwave.backtest(run, FRAME, start=DAYS[140], stride=5, refit=2, level=80).frame()
    settings = replace(run.experiment.task, csv=None, test=0)
    again = longwave.train_forecaster(before(DAYS[139]), experiment=replace(run.experiment, task=settings), quiet=True)
    for day in (DAYS[139], DAYS[144]):
        check_rows(found, day, again.predict(before(day), level=80))


def test_what_is_not_known_is_asked_for(run):
    with pytest.raises(ValueError, match="expected 14 rows before and 5 from the rows of training on of a store, got"):
        longwave.backtest(run, before(DAYS[80]))
    with pytest.raises(ValueError, match=r"from 2025-01-01 on .*; the last is 2024-06-08 00:00:00; .*start='ROW'"):
        longwave.backtest(run, FRAME, start="2025-01-01")
    (note,) = longwave.backtest(run, before(DAYS[92])).notes
    assert note.startswith("the first windows are in the validation set")
    new = frame_of({"Paris": 60})
    with pytest.raises(ValueError, match="the rows that the run was trained on are unknown; name the first row to"):
        longwave.backtest(run, new)
    (note,) = longwave.backtest(run, new, start=DAYS[30]).notes
    assert note.startswith("these rows may include training rows")


def test_the_estimator_backtests_many_series():
    settings = {"context": CONTEXT, "d_model": 4, "n_layers": 1, "epochs": 1, "random_state": 0, "level": [80]}
    forecaster = S4Forecaster(HORIZON, **settings)
    forecaster.fit(before(DAYS[TRAINED - 1]), target_col="sales", time_col="day", id_col="store")
    found = forecaster.backtest(FRAME, stride=7).frame()
    expected = forecaster.predict(before(DAYS[TRAINED + 6]))
    rows = found[found.cutoff == DAYS[TRAINED + 6]]
    np.testing.assert_allclose(rows.forecast, expected[expected.store.isin(rows.store)].sales, rtol=1e-6)


def test_columns_known_ahead_are_those_of_the_rows_after_each_cutoff():
    rng = np.random.default_rng(2)
    beside = {"promo": rng.integers(0, 2, len(FRAME)), "visits": rng.standard_normal(len(FRAME))}
    frame = FRAME.assign(**beside, region=FRAME.store.str[:1])
    frame["sales"] *= 1 + frame.promo
    roles = {"past": ("visits",), "future": ("promo",), "static": ("region",)}
    run = train(frame[frame.day < DAYS[TRAINED]], **roles)
    found = longwave.backtest(run, frame, stride=3, level=80).frame()
    assert found.cutoff.nunique() == 20
    for cutoff, rows in found.groupby("cutoff"):
        known = frame[(frame.day <= cutoff) & frame.store.isin(rows.store)]
        plan = frame[(frame.day > cutoff) & frame.store.isin(rows.store)][["store", "day", "promo"]]
        expected = run.predict(known, future=plan, level=80)
        for name, own in rows.groupby("store"):
            np.testing.assert_allclose(own.forecast, expected[name].values[:, 0], rtol=1e-6)
            if cutoff >= DAYS[TRAINED - 1] and rows.store.nunique() == len(
                ROWS
            ):  # later ones pool the errors of stores that have ended, too
                (interval,) = expected[name].intervals
                np.testing.assert_allclose(own.lo, interval.low[:, 0], rtol=1e-6)
                np.testing.assert_allclose(own.hi, interval.high[:, 0], rtol=1e-6)
