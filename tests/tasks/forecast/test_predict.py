"""Forecasts of new rows with a trained run."""

import csv
import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from trained import CONTEXT, HORIZON, ROWS, START

from longwave.runs import load_run
from longwave.tasks.forecast.predict import Continuation, forecast
from longwave.train.folder import RunFolder

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("forecast")
    return Path("run")


def test_a_forecast_follows_the_last_row_and_is_that_of_the_model(run):
    found = forecast(load_run(run), Path("series.csv"))
    assert (found.columns, found.target) == (("price",), "price")
    assert [str(time) for time in found.times] == [
        (START + timedelta(hours=ROWS + k)).isoformat() for k in range(HORIZON)
    ]
    folder = RunFolder.open(run)
    task, model = folder.build_task(), folder.load_best()
    assert found.time == "date"  # as in the series
    np.testing.assert_array_equal(found.known, task.data.series.values[-CONTEXT:])
    batch, _ = task.inputs.continuation(task.data.series)
    with torch.no_grad():
        y = model(batch["x"], time=batch.get("time"))[0][0]
    np.testing.assert_allclose(found.values, task.inputs.restore(y.double().numpy()), rtol=1e-6)


def test_a_series_that_ends_before_a_test_window_has_the_forecast_that_was_scored(run):
    lines = Path("series.csv").read_text().splitlines()
    Path("cut.csv").write_text("\n".join(lines[:-HORIZON]) + "\n")
    found = forecast(load_run("run"), "cut.csv", device="cpu")
    folder = RunFolder.open(run)
    task = folder.build_task()
    batch = task.test.batch([len(task.test) - 1])
    with torch.no_grad():
        scored = folder.load_best()(batch["x"], time=batch.get("time"))[0][0]
    np.testing.assert_allclose(found.values, task.inputs.restore(scored.double().numpy()), rtol=1e-5)


def test_values_too_far_from_those_of_training_are_refused(run):
    lines = Path("series.csv").read_text().splitlines()
    for value, message in (
        ("1e35", "new.csv: the model output is NaN or inf; the values are too far from those of training"),
        ("1e60", "column 0: values up to .* are too far from the training set"),
    ):
        Path("new.csv").write_text("\n".join([*lines[:-1], f"{lines[-1].split(',')[0]},{value}"]) + "\n")
        with pytest.raises(ValueError, match=message):
            forecast(load_run(run), Path("new.csv"))


def test_data_far_from_that_of_training_is_forecast_with_a_note(run):
    """Prices in training go from -1 to about 2; here they are a thousand times that."""
    head, *rows = Path("series.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    for factor, is_noted in ((1, False), (1000, True)):
        lines = [f"{stamp},{factor * float(price) + (factor > 1) * 5000}" for stamp, price in cells]
        Path("new.csv").write_text("\n".join([head, *lines]) + "\n")
        notes = forecast(load_run(run), Path("new.csv")).notes
        assert len(notes) == is_noted
        if is_noted:
            assert re.match(
                r"column 'price': 24 of the 24 values of the context lie outside the range of training: they range "
                r"from \d+\.?\d* to \d+\.?\d*, and in training from -0\.\d+ to 2\.\d+; the forecast is unreliable",
                notes[0],
            )


def test_a_run_of_another_kind_is_refused(trained_runs):
    trained_runs.fetch("text")
    with pytest.raises(ValueError, match="run: expected a run that forecasts, got one of kind text"):
        forecast(load_run(Path("run")), Path("my.txt"))


@pytest.mark.parametrize("with_times", [True, False])
@pytest.mark.parametrize("time", ["date", None])
def test_a_forecast_is_written_with_twelve_digits_and_names_as_they_are(with_times, time):
    names, values = ("a, b", 'c "d"'), np.array([[1e9 + 0.125, 0.1]])
    times = np.array(["2024-01-01T05:00:00"], dtype="datetime64[s]") if with_times else None
    made = Continuation(names, names[0], np.zeros((1, 2)), None, values, times, time=time)
    made.write("new/forecast.csv")
    with open("new/forecast.csv", newline="") as file:
        head, row = csv.reader(file)
    assert head == [*([time or "time"] if with_times else []), *names]
    assert row == [*(["2024-01-01 05:00:00"] if with_times else []), "1000000000.12", "0.1"]
    if with_times:
        assert datetime.fromisoformat(row[0]) == datetime(2024, 1, 1, 5)
