"""Runs from Python: what is trained on a data frame can be scored, moved and asked for forecasts; notes on scores."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from matplotlib.figure import Figure
from tiny import make_task

import longwave
from longwave import fitting, runs
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.runs import FEW_STEPS, load_run, notes_on
from longwave.tasks.forecast.predict import forecast
from longwave.tasks.forecast.series import read_series
from longwave.train.folder import RunFolder

HOURS = np.datetime64("2024-01-01T00", "s") + np.arange(100) * np.timedelta64(3600, "s")
PRICES = np.sin(np.arange(100)) * 50 + 1000
SIZES = {"target": "price", "horizon": 3, "context": 10}


@pytest.fixture(autouse=True)
def _quick(own_folder, monkeypatch):
    """Pictures are drawn and not rendered."""
    monkeypatch.setattr(Figure, "savefig", lambda _, target, **__: isinstance(target, io.BytesIO))


def small(name="forecast"):
    settings = EXPERIMENTS[name]
    return dataclasses.replace(
        settings,
        model=dataclasses.replace(settings.model, d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=dataclasses.replace(settings.loop, epochs=1, validations=1),
    )


def test_a_data_frame_is_kept_with_the_run_so_that_it_can_be_used_after_it_was_moved(monkeypatch, capsys):
    frame = pd.DataFrame({"price": PRICES, "mood": ["up", "down"] * 50}, index=HOURS)
    finished = longwave.train_forecaster(frame, "run", **SIZES, multivariate=True, experiment=small())
    assert "note: column 'mood' was dropped" in capsys.readouterr().err
    assert "column &#x27;mood&#x27; was dropped" in (finished.folder / "report.html").read_text()
    assert runs.evaluate("run") == finished.result["test"]
    found = forecast(load_run("run"), frame)
    assert found.columns == ("price",)
    assert found.times[0] == HOURS[-1] + np.timedelta64(3600, "s")
    np.testing.assert_array_equal(found.known, PRICES[-10:, None])
    np.testing.assert_array_equal(forecast(load_run("run"), "run/data.csv").values, found.values)
    with pytest.raises(ValueError, match=r"^folder: run: run already exists; .* longwave\.runs\.resume\('run'\)$"):
        longwave.train_forecaster(frame, "run", **SIZES)
    Path("elsewhere").mkdir()
    Path("run").rename("elsewhere/moved")
    monkeypatch.chdir("elsewhere")
    assert runs.evaluate("moved", "test") == finished.result["test"]


def test_a_file_stays_where_it_is_and_trains_as_the_frame_of_its_rows():
    rows = "".join(f"{hour},{price!r}\n" for hour, price in zip(HOURS, PRICES.tolist(), strict=True))
    Path("my.csv").write_text("date,price\n" + rows)
    named = {**SIZES, "time": "date", "experiment": small(), "quiet": True}
    of_file = longwave.train_forecaster("my.csv", "file", **named)
    of_frame = longwave.train_forecaster(
        pl.DataFrame({"date": HOURS.astype("datetime64[ms]"), "price": PRICES}), Path("frame"), **named
    )
    assert of_file.result["test"] == of_frame.result["test"]
    assert not Path("file/data.csv").exists()
    assert Path("frame/data.csv").exists()
    assert forecast(load_run("frame"), "my.csv").time == "date"


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (PRICES, "0"),
        (PRICES.tolist(), "0"),
        (torch.tensor(PRICES), "0"),
        (pd.Series(PRICES, HOURS, name="price"), "price"),
        (pd.Series(PRICES), "0"),
        (pl.Series("volume", PRICES), "volume"),
        (pl.Series(PRICES), "0"),
    ],
)
def test_one_series_in_memory_is_trained_on_and_forecast(data, column):
    series = read_series(data)
    assert (series.columns, series.target) == ((column,), 0)
    assert (series.times is not None) == (column == "price")
    np.testing.assert_array_equal(series.values[:, 0], PRICES)


def test_an_array_is_kept_with_the_run_and_its_columns_are_named_by_their_numbers():
    data = np.stack([PRICES, -PRICES], axis=1)
    sizes = {"horizon": 3, "context": 10, "experiment": small(), "quiet": True}
    finished = longwave.train_forecaster(data, "run", target=1, level=[90, 50], **sizes)
    assert list(finished.result["intervals"]["this run"]) == ["50", "90"]
    assert runs.evaluate("run") == finished.result["test"]
    found = forecast(load_run("run"), data)
    assert found.columns == ("1",)
    np.testing.assert_array_equal(found.known[:, 0], -PRICES[-10:])
    np.testing.assert_array_equal(forecast(load_run("run"), "run/data.csv").values, found.values)
    with pytest.raises(ValueError, match=r"^array: target: not given; expected one of 0, 1$"):
        longwave.train_forecaster(data, "other", **sizes)


def test_a_time_column_that_is_not_there_is_refused_though_the_index_has_dates():
    frame = pd.DataFrame({"price": PRICES, "day": range(len(PRICES))}, index=pd.Index(HOURS, name="date"))
    message = r"^time: no column 'dat'; expected one of price, day.* index of dates$"
    with pytest.raises(ValueError, match=message):
        longwave.train_forecaster(frame, "run", **SIZES | {"target": "price", "time": "dat"})
    assert not Path("run/config.json").exists()
    finished = longwave.train_forecaster(
        frame, "run", experiment=small(), **SIZES | {"target": "price", "time": "date"}
    )
    assert finished.experiment.task.time == "date"


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (np.zeros((9, 2, 2)), r"an array float64 \(9, 2, 2\)"),
        (["1", "2"], r"an array <U1 \(2,\)"),
        ([[1, 2], [3]], "list"),
        ({"price": [1, 2]}, "dict"),
        (torch.zeros(9, requires_grad=True), "Tensor"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_series_is_refused_with_what_is_one(data, got):
    expected = r"data frame or Series, the path of a CSV file, or an array of numbers, \(rows,\) or \(rows, columns\)"
    with pytest.raises(ValueError, match=f"^data: expected a {expected}, got {got}$"):
        longwave.train_forecaster(data, "run", horizon=3)
    assert not Path("run").exists()


def test_a_frame_with_gaps_is_kept_with_the_run_gaps_and_all(capsys):
    prices, rows = PRICES.copy(), np.delete(np.arange(100), [40, 41])
    prices[[3, 50, 85, 99]] = np.nan
    frame = pd.DataFrame({"price": prices[rows]}, index=HOURS[rows])
    finished = longwave.train_forecaster(frame, "run", **SIZES, fill="mask", experiment=small())
    assert capsys.readouterr().err.count("6 of 100 values are missing") == 1
    assert runs.evaluate("run") == finished.result["test"]
    prices[[40, 41]] = np.nan
    np.testing.assert_array_equal(RunFolder.open("run").build_task().data.series.given[:, 0], prices)
    found = forecast(load_run("run"), frame)
    np.testing.assert_array_equal(found.known[:, 0], prices[-10:])
    np.testing.assert_array_equal(forecast(load_run("run"), "run/data.csv").values, found.values)
    assert runs.resume("run", quiet=True).result["test"] == finished.result["test"]


def test_a_frame_that_cannot_be_trained_on_leaves_no_folder():
    frame = pd.DataFrame({"price": PRICES})
    late = np.where(np.arange(100) < 70, np.nan, PRICES)
    with pytest.raises(ValueError, match="column 'price': no known value in the training set, the first 70 rows"):
        longwave.train_forecaster(pd.DataFrame({"price": late}), "run", **SIZES, fill="mask")
    for changes, message in (
        ({"target": "prize"}, "data frame: target: no column 'prize'"),
        ({"horizon": 50}, "data frame: 100 rows are too few"),
        ({"time": "date"}, "data frame: time: no column 'date'"),
        ({"device": "cuda:99"}, "device: 'cuda:99' is not available"),
        (
            {"experiment": EXPERIMENTS["smnist"]},
            "experiment: expected an experiment of kind forecast, got smnist",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            longwave.train_forecaster(frame, "run", **SIZES | changes)
    assert not Path("run").exists()


def test_the_package_offers_what_trains_on_data_in_memory():
    for name in ("train_classifier", "train_forecaster", "train_regressor", "train_tagger"):
        assert getattr(longwave, name) is getattr(fitting, name)
        assert getattr(longwave, name).__name__ == name


RESULT = {"steps": FEW_STEPS, "stopped_early": False, "test": {"mse": 0.5}, "baselines": {}}


@pytest.mark.parametrize(
    ("higher", "scores", "better"),
    [
        (False, {"a": 0.6, "b": 0.4, "c": 0.3}, "c"),
        (False, {"a": 0.5}, None),
        (False, {"a": 0.4999}, None),  # nearly equal
        (True, {"a": 0.4, "b": 0.6}, "b"),
        (True, {"a": 0.5001}, None),
    ],
)
def test_a_better_baseline_is_named_and_an_equal_one_is_not(higher, scores, better):
    baselines = {name: {"test": {"mse": value}} for name, value in scores.items()} | {"other": {"test": {"mae": 0.0}}}
    notes = notes_on(RESULT | {"baselines": baselines}, make_task(higher_is_better=higher))
    assert len(notes) == (better is not None)
    if better is not None:
        figures = f"mse {scores[better]} on the test set against 0.5"
        assert notes[0] == f"the baseline {better} is better than this run: {figures}"


def test_a_run_of_few_steps_is_said_to_be_too_short_to_be_judged():
    assert notes_on(RESULT, make_task()) == []
    (note,) = notes_on(RESULT | {"steps": FEW_STEPS - 1}, make_task())
    assert notes_on(RESULT | {"steps": FEW_STEPS - 1, "stopped_early": True}, make_task()) == []
    assert note == f"the run took {FEW_STEPS - 1} steps, too few to judge the model: increase --loop.epochs"


def test_a_run_that_got_no_better_is_not_told_to_go_on():
    assert notes_on(RESULT | {"steps": 3}, make_task(), is_improving=False) == []
    task = make_task()
    assert runs._is_improving([{"valid_mse": 2.0}, {"valid_mse": 1.0}], task)
    assert runs._is_improving([{"valid_mse": 2.0}], task)
    assert not runs._is_improving([{"valid_mse": 1.0}, {"valid_mse": 1.0}], task)


def test_a_run_that_equals_the_baseline_without_input_is_said_to_have_learnt_nothing(monkeypatch):
    task = make_task()
    monkeypatch.setattr(type(task), "trivial", "mean", raising=False)
    same = {"mean": {"test": {"mse": 0.5}}}
    assert notes_on(RESULT | {"baselines": same}, task) == [
        "the run is exactly as good as the mean: it has learnt nothing from the input"
    ]


def test_a_run_that_its_minutes_ended_is_told_to_take_more_of_them(monkeypatch):
    monkeypatch.setattr(runs, "_is_improving", lambda metrics, task: True)
    experiment = small()
    loop = dataclasses.replace(experiment.loop, epochs=50, batch_size=16, minutes=1e-6)
    finished = longwave.train_forecaster(
        pd.DataFrame({"price": PRICES}, index=HOURS),
        "run",
        **SIZES,
        experiment=dataclasses.replace(experiment, loop=loop),
    )
    expected = "the run took 10 steps, too few to judge the model: increase --loop.minutes"
    assert expected in finished.result["notes"]
