"""Backtests: every row is a forecast from the rows before its cutoff, and scores are those of `evaluate`."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import call
from trained import CONTEXT, HORIZON, ROWS

import longwave
from longwave import S4Forecaster
from longwave.experiments import EXPERIMENTS
from longwave.tasks.forecast.backtest import Backtest
from longwave.tasks.forecast.cutoffs import first_row, unseen, until
from longwave.tasks.forecast.intervals import Interval
from longwave.tasks.forecast.series import read_series
from longwave.tasks.forecast.windows import ForecastInput

TIMES = pd.date_range("2024-01-01", periods=400, freq="h")
VALUES = 10 + np.sin(np.arange(400) * np.pi / 12) + 0.3 * np.random.default_rng(0).standard_normal(400)
FRAME = pd.DataFrame({"ds": TIMES, "y": VALUES})
TRAINED = 300  # rows: 210 to train on, 30 to validate, 60 to test


def train(data, **given):
    default = EXPERIMENTS.find("forecast")
    experiment = dataclasses.replace(
        default,
        task=dataclasses.replace(default.task, horizon=5, context=24, **given),
        model=dataclasses.replace(default.model, d_model=4, n_layers=1),
        loop=dataclasses.replace(default.loop, epochs=1),
    )
    return longwave.train_forecaster(data, experiment=experiment, quiet=True)


@pytest.fixture(scope="module")
def run():
    return train(FRAME[:TRAINED])


def test_every_row_is_the_forecast_from_the_rows_before_its_cutoff(run):
    found = longwave.backtest(run, FRAME, stride=7, start=TIMES[250], level=[80, 90]).frame()
    assert list(found) == [*("cutoff", "time", "y", "forecast", "lo-80", "hi-80", "lo-90", "hi-90")]
    assert found.cutoff.unique().tolist() == TIMES[249:395:7].tolist()
    for cutoff, rows in found.groupby("cutoff"):
        before = FRAME[FRAME.ds <= cutoff]
        expected = run.predict(before, level=[80, 90])
        np.testing.assert_allclose(rows.forecast, expected.values[:, 0], rtol=1e-6)
        assert rows.time.tolist() == TIMES[len(before) : len(before) + 5].tolist()
        np.testing.assert_array_equal(rows.y, VALUES[len(before) : len(before) + 5])
        if len(before) >= TRAINED:  # before, `predict` knows errors that came later
            for level, low, high in expected.intervals:
                np.testing.assert_allclose(rows[f"lo-{level:g}"], low[:, 0], rtol=1e-6)
                np.testing.assert_allclose(rows[f"hi-{level:g}"], high[:, 0], rtol=1e-6)


@pytest.mark.parametrize("first", [220, 280, 296, 300])
def test_of_a_file_with_the_last_rows_of_training_intervals_are_those_of_predict(run, first):
    rows = FRAME[first:]
    found = longwave.backtest(run, rows, start=TIMES[330], stride=20, level=80)
    for k, cutoff in enumerate(found.cutoffs):
        expected = run.predict(rows[rows.ds <= cutoff], level=80).intervals[0]
        np.testing.assert_allclose(found.intervals[0].low[k], expected.low, rtol=1e-6)
        np.testing.assert_allclose(found.intervals[0].high[k], expected.high, rtol=1e-6)


@pytest.mark.parametrize("log", ["off", "on"])
def test_stride_1_over_the_test_set_reproduces_its_scores(log):
    run = train(FRAME[:TRAINED], log=log)
    found = longwave.backtest(run, FRAME[:TRAINED], stride=1, level=[80, 95])
    assert len(found.cutoffs) == 60 - 5 + 1
    deviation = VALUES[:210].std()
    assert found.metrics["RMSE"] ** 2 / deviation**2 == pytest.approx(run.result["test"]["mse"], rel=1e-4)
    assert found.metrics["MAE"] / deviation == pytest.approx(run.result["test"]["mae"], rel=1e-4)
    for level, scores in run.result["intervals"]["this run"].items():
        assert found.metrics[f"coverage-{level}"] == pytest.approx(scores["coverage"], abs=1e-9)
        _, low, high = next(one for one in found.intervals if f"{one.level:g}" == level)
        assert np.mean(high - low) / deviation == pytest.approx(scores["width"], rel=1e-3)


def test_scores_are_those_computed_by_hand():
    y = np.array([[1.0, 2.0], [4.0, np.nan]])[:, :, None]
    forecast = np.array([[2.0, 2.0], [1.0, 7.0]])[:, :, None]
    interval = Interval(90.0, np.array([[0.0, 3], [3, 0]])[:, :, None], np.array([[3.0, 4], [5, 9]])[:, :, None])
    scale = np.array([[2.0], [0.5]])
    times = np.array([[2, 3], [3, 4]])
    found = Backtest(("a",), np.array([1, 2]), times, y, forecast, scale, 1, (interval,))
    assert found.metrics == pytest.approx(
        {"MAE": 4 / 3, "RMSE": (10 / 3) ** 0.5, "MASE": 6.5 / 3, "coverage-90": 2 / 3}
    )
    np.testing.assert_allclose(found.by_step["MAE"], [2, 0])
    np.testing.assert_allclose(found.by_step["coverage-90"], [1, 0])
    np.testing.assert_allclose(found.by_window["RMSE"], [0.5**0.5, 3])
    np.testing.assert_allclose(found.by_window["MASE"], [0.25, 6])
    assert found.table["lo"].tolist() == [0, 3, 3, 0]


def test_the_scale_of_the_mase_is_that_of_the_season_in_the_rows_before(run):
    found = longwave.backtest(run, FRAME, stride=30)
    assert found.season == 24
    for k, row in enumerate(range(240, 396, 30)):
        scale = np.abs(VALUES[24:row] - VALUES[: row - 24]).mean()
        errors = np.abs(found.y[k] - found.forecast[k]).mean()
        assert found.by_window["MASE"][k] == pytest.approx(errors / scale)
    assert found.metrics["MASE"] == pytest.approx(found.by_window["MASE"].mean())


def test_what_comes_after_a_cutoff_changes_nothing(run):
    changed = FRAME.copy()
    changed.loc[330:, "y"] += 100
    one, other = (longwave.backtest(run, data, stride=10, level=90) for data in (FRAME, changed))
    kept = [k for k, cutoff in enumerate(one.cutoffs) if cutoff < TIMES[330]]
    assert 3 < len(kept) < len(one.cutoffs)
    np.testing.assert_array_equal(one.forecast[kept], other.forecast[kept])
    np.testing.assert_array_equal(one.intervals[0].high[kept], other.intervals[0].high[kept])


def test_a_refit_is_a_run_on_the_rows_before_its_first_window(run):
    found = longwave.backtest(run, FRAME, stride=5, start=TIMES[360], refit=4, level=80)
    for k, row in ((0, 360), (5, 380)):
        experiment = run.experiment
        settings = dataclasses.replace(experiment.task, csv=None, test=0)
        again = longwave.train_forecaster(
            FRAME[:row], experiment=dataclasses.replace(experiment, task=settings), quiet=True
        )
        expected = again.predict(FRAME[: 360 + 5 * k], level=80)
        np.testing.assert_allclose(found.forecast[k], expected.values, rtol=1e-6)
        np.testing.assert_allclose(found.intervals[0].low[k], expected.intervals[0].low, rtol=1e-6)


@pytest.mark.parametrize("fill", ["linear", "mask"])
def test_gaps_are_filled_from_the_rows_before_the_cutoff_alone(fill):
    gaps = FRAME.copy()
    gaps.loc[[50, 260, 261, 262, 290], "y"] = None
    run = train(gaps[:TRAINED], fill=fill)
    found = longwave.backtest(run, gaps, stride=1, start=TIMES[258])
    for k in range(6):
        expected = run.predict(gaps[: 258 + k]).values
        np.testing.assert_allclose(found.forecast[k], expected, rtol=1e-6)
    assert np.isnan(found.y).any() == (fill == "mask")
    assert np.isfinite(found.metrics["MAE"])


def test_columns_known_ahead_are_given_for_the_horizon_and_past_ones_up_to_the_cutoff():
    rng = np.random.default_rng(2)
    frame = FRAME.assign(visits=rng.standard_normal(400), promo=rng.integers(0, 2, 400).astype(float))
    run = train(frame[:TRAINED], target="y", time="ds", past=("visits",), future=("promo",))
    found = longwave.backtest(run, frame, stride=30, level=80)
    changed = frame.assign(visits=np.where(np.arange(400) < 360, frame.visits, 1e3))
    other = longwave.backtest(run, changed, stride=30, level=80)
    for k, row in enumerate(range(240, 396, 30)):
        ahead = frame[row : row + 5][["ds", "promo"]]
        expected = run.predict(frame[:row], future=ahead, level=80)
        np.testing.assert_allclose(found.forecast[k], expected.values, rtol=1e-6)
        if row >= TRAINED:
            np.testing.assert_allclose(found.intervals[0].high[k], expected.intervals[0].high, rtol=1e-6)
        if row <= 360:
            np.testing.assert_array_equal(other.forecast[k], found.forecast[k])


def test_series_without_times_are_known_again_by_their_rows():
    run = train(VALUES[:TRAINED])
    found = longwave.backtest(run, VALUES, stride=20)
    assert found.cutoffs.tolist() == list(range(240, 396, 20))  # the first row is number 1
    assert found.times[0].tolist() == [241, 242, 243, 244, 245]
    assert found.notes == ()
    assert longwave.backtest(run, VALUES, start=301).times[0, 0] == 301
    (note,) = longwave.backtest(run, VALUES[1:], stride=20).notes
    assert "these rows may include training rows" in note
    assert len(longwave.backtest(run, VALUES[1:], stride=20).cutoffs) > len(found.cutoffs)


def test_the_rows_of_training_are_found_by_their_times(run):
    inputs = run.run.fact("inputs", ForecastInput.from_dict)
    reading = {"target": "y", "time": "ds"}
    for first, last, expected in (
        (0, 300, (210, 240, False)),
        (0, 400, (210, 240, False)),
        (100, 400, (110, 140, False)),
        (220, 400, (0, 20, False)),
        (300, 400, (0, 0, True)),
        (0, 200, (210, 240, False)),
        (5, 100, (205, 235, False)),
    ):
        assert unseen(run.run, read_series(FRAME[first:last], **reading), inputs) == expected
    assert longwave.backtest(run, FRAME).cutoffs[0] == TIMES[239]


def test_windows_in_the_rows_of_training_are_noted(run):
    for row, note in (
        (100, "the model was trained on the rows before 2024-01-09 18:00:00"),
        (215, "the first windows are in the validation set"),
    ):
        assert longwave.backtest(run, FRAME, start=str(TIMES[row]), stride=100).notes[0].startswith(note)
    assert longwave.backtest(run, FRAME, start=TIMES[250]).notes == ()
    (note,) = longwave.backtest(run, FRAME[:100], start=TIMES[50]).notes
    assert note.startswith("the model was trained on all of these rows")


def test_too_few_errors_leave_intervals_out_with_a_note(run):
    found = longwave.backtest(run, FRAME, start=TIMES[212], level=99)
    assert np.isnan(found.intervals[0].low[0]).all()
    assert np.isfinite(found.intervals[0].low[-1]).all()
    assert any("windows have no interval" in note for note in found.notes)
    assert np.isfinite(found.metrics["coverage-99"])


def test_all_columns_follow_one_another():
    both = pd.DataFrame({"ds": TIMES, "a": VALUES, "b": 5 - VALUES**2})
    run = train(both[:TRAINED], multivariate=True)
    found = longwave.backtest(run, both, stride=50)
    frame = found.frame()
    assert frame.column.tolist()[:10] == ["a"] * 5 + ["b"] * 5
    np.testing.assert_array_equal(frame.y[5:10], both.b[240:245])
    assert found.by_step["MAE"].shape == (5,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stride": 0}, "stride: expected a whole number from 1 on, got 0"),
        ({"refit": 1.5}, "refit: expected a whole number from 1 on, got 1.5"),
        ({"start": "soon"}, "start: expected a time such as .*, got 'soon'"),
        ({"start": "2025-01-01"}, "start: expected a time up to 2024-01-17 15:00:00, the last, got 2025-01-01"),
        ({"start": TIMES[3]}, "is row 4 of .*, and a forecast needs 24 rows of context; expected row 25 at least"),
        ({"start": TIMES[398]}, "expected at least a horizon of 5 rows to forecast, got 2"),
        ({"level": 100}, "level: expected per cent between 0 and 100"),
    ],
)
def test_bad_input_is_refused(run, given, message):
    with pytest.raises(ValueError, match=message):
        longwave.backtest(run, FRAME, **given)


def test_rows_are_numbers_without_times(run):
    series = read_series(VALUES)
    assert first_row(series, "25") == 24
    for start, message in (("2024-01-01", "has no times; expected the number of a row"), (401, "from 1 to 400")):
        with pytest.raises(ValueError, match=message):
            first_row(series, start)
    with pytest.raises(ValueError, match="expected at least 29 rows, a context of 24 and a horizon of 5, got 28"):
        longwave.backtest(run, FRAME[:28])
    with pytest.raises(ValueError, match="to forecast, got 0 from the rows of training on"):
        longwave.backtest(run, FRAME[100:210])


def test_a_series_without_gaps_is_cut_and_not_changed():
    series = read_series(FRAME, "y", "ds")
    cut = until(series, None, 100)
    assert len(cut) == len(cut.times) == 100
    assert np.shares_memory(cut.values, series.values)


def test_the_estimator_backtests_on_its_last_tenth_and_what_follows():
    forecaster = S4Forecaster(5, context=24, d_model=4, n_layers=1, epochs=1, random_state=0, level=[80])
    found = forecaster.fit(FRAME[:TRAINED]).backtest(FRAME, stride=5)
    assert found.cutoffs[0] == TIMES[TRAINED - 1]
    assert list(found.frame()) == ["cutoff", "time", "y", "forecast", "lo", "hi"]
    expected = forecaster.predict(FRAME[:320])
    np.testing.assert_allclose(found.forecast[4, :, 0], expected["y"], rtol=1e-6)
    assert forecaster.backtest(FRAME[:TRAINED]).cutoffs[0] == TIMES[269]  # where validation begins


@pytest.fixture
def folder(own_folder, trained_runs):
    trained_runs.fetch("forecast")


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("folder")
def test_the_command_writes_rows_scores_and_a_picture(capsys):
    assert call("backtest", "run", "--csv", "series.csv", "--stride", "3", "--out", "b.csv") == 0
    rows, first = read("b.csv"), int(0.8 * ROWS)
    assert list(rows[0]) == ["cutoff", "time", "y", "forecast", "lo", "hi"]
    assert len(rows) == HORIZON * len(range(first, ROWS - HORIZON + 1, 3))
    own = longwave.backtest("run", "series.csv", stride=3, level=90)
    assert [float(row["forecast"]) for row in rows] == pytest.approx(own.table["forecast"].tolist(), rel=1e-11)
    assert [row["step"] for row in read("b-steps.csv")] == [str(k + 1) for k in range(HORIZON)]
    windows = read("b-windows.csv")
    assert [row["cutoff"] for row in windows] == list(dict.fromkeys(row["cutoff"] for row in rows))
    assert [float(row["MASE"]) for row in windows] == pytest.approx(own.by_window["MASE"].tolist(), rel=1e-11)
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "MASE by a season of 24 rows" in out
    assert f"{len(rows)} rows: b.csv" in out


@pytest.mark.usefixtures("folder")
def test_mistakes_end_the_command_before_anything_is_written(capsys):
    for arguments, message in (
        (["--csv", "missing.csv"], "missing.csv: no such file"),
        (["--csv", "series.csv", "--stride", "0"], "stride: expected a whole number from 1 on"),
        (["--csv", "series.csv", "--out", "series.csv"], "--out: series.csv is also --csv"),
        (["--csv", "series.csv", "--start", "2023-01-01"], f"expected row {CONTEXT + 1} at least"),
    ):
        assert call("backtest", "run", *arguments) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not list(Path().glob("backtest*"))


@pytest.mark.usefixtures("own_folder")
def test_a_run_of_another_kind_is_refused(trained_runs, capsys):
    trained_runs.fetch("classify")
    Path("series.csv").write_text("date,price\n")
    assert call("backtest", "run", "--csv", "series.csv") == 2
    assert "expected a run that forecasts, got one of kind classify" in " ".join(capsys.readouterr().err.split())


def test_forecasts_of_months_are_drawn_and_far_years_are_counted(run):
    for begin in (np.datetime64("2000-01"), np.datetime64("9990-01")):
        times = (begin + np.arange(20)).astype("datetime64[s]")
        rows = np.arange(4)[:, None] + np.arange(3) + 10
        y = rows[:, :, None].astype(float)
        found = Backtest(("a",), times[rows[:, 0] - 1], times[rows], y, y + 1, np.ones((4, 1)), 1)
        assert len(found.plot().axes) == 3
