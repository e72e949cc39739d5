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
CONTEXT, HORIZON, TRAINED = 14, 5, 120
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
        (interval,) = expected[name].intervals
        np.testing.assert_allclose(own.lo, interval.low[:, 0], rtol=1e-6)
        np.testing.assert_allclose(own.hi, interval.high[:, 0], rtol=1e-6)
        truth = FRAME[(FRAME.store == name) & FRAME.day.isin(own.time)].sales
        np.testing.assert_array_equal(own.y, truth)


def test_every_row_is_the_forecast_from_the_rows_before_its_cutoff(run):
    found = longwave.backtest(run, FRAME, stride=4, level=80)
    frame = found.frame()
    assert list(frame) == ["store", "cutoff", "time", "y", "forecast", "lo", "hi"]
    days = DAYS[TRAINED - 1 : 155 : 4]
    assert sorted(frame.cutoff.unique().tolist()) == days.tolist()
    for day in days[[0, 3, -1]]:
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


def test_rows_that_the_run_knows_are_noted_and_have_no_intervals(run):
    found = longwave.backtest(run, FRAME, start=DAYS[100], stride=30, level=80)
    (note,) = found.notes
    assert note.startswith("the run knows the rows up to 2024-04-29 00:00:00, and forecasts them better")
    is_early = found.cutoffs < np.datetime64(DAYS[TRAINED - 1])
    assert is_early.any()
    assert np.isnan(found.intervals[0].low[is_early]).all()
    assert np.isfinite(found.intervals[0].low[~is_early]).all()


def test_a_refit_is_a_run_on_the_rows_before(run):
    found = longwave.backtest(run, FRAME, start=DAYS[140], stride=5, refit=2, level=80).frame()
    settings = replace(run.experiment.task, csv=None, test=0)
    again = longwave.train_forecaster(before(DAYS[139]), experiment=replace(run.experiment, task=settings), quiet=True)
    for day in (DAYS[139], DAYS[144]):
        check_rows(found, day, again.predict(before(day), level=80))


def test_what_is_not_known_is_asked_for(run):
    with pytest.raises(ValueError, match="before and 5 after the last row that the run knows, 2024-04-29"):
        longwave.backtest(run, before(DAYS[TRAINED]))
    with pytest.raises(ValueError, match=r"start: .* expected rows before and 5 after the start, 2025-01-01"):
        longwave.backtest(run, FRAME, start="2025-01-01")
    new = frame_of({"Paris": 60})
    with pytest.raises(ValueError, match="it is not known which rows the run was trained on; expected the first row"):
        longwave.backtest(run, new)
    (note,) = longwave.backtest(run, new, start=DAYS[30]).notes
    assert note.startswith("it is not known")


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
    assert found.cutoff.nunique() == 12
    for cutoff, rows in found.groupby("cutoff"):
        known = frame[(frame.day <= cutoff) & frame.store.isin(rows.store)]
        plan = frame[(frame.day > cutoff) & frame.store.isin(rows.store)][["store", "day", "promo"]]
        expected = run.predict(known, future=plan, level=80)
        for name, own in rows.groupby("store"):
            np.testing.assert_allclose(own.forecast, expected[name].values[:, 0], rtol=1e-6)
            if rows.store.nunique() == len(ROWS):  # later ones pool the errors of stores that have ended, too
                (interval,) = expected[name].intervals
                np.testing.assert_allclose(own.lo, interval.low[:, 0], rtol=1e-6)
                np.testing.assert_allclose(own.hi, interval.high[:, 0], rtol=1e-6)
