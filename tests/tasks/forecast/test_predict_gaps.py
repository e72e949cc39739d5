"""Forecasts of new rows with gaps, with a run that was trained on gaps."""

from pathlib import Path

import numpy as np
import pytest
from command import call
from trained import CONTEXT, EMPTY_CELLS, RECIPES, ROWS, write_gaps, write_series

from longwave.runs import load_run
from longwave.tasks.forecast.predict import forecast

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("gaps")
    return Path("run")


def write(name, head, rows):
    Path(name).write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")


def test_what_is_missing_from_the_context_is_missing_from_what_is_shown_and_said(run):
    found = forecast(load_run(run), "series.csv")
    np.testing.assert_array_equal(np.isnan(found.known[:, 0]), np.isin(range(ROWS - CONTEXT, ROWS), EMPTY_CELLS))
    assert np.isfinite(found.values).all()
    assert f"2 of the {CONTEXT} values of the context are missing" in found.notes


def test_a_gap_in_the_context_is_to_the_model_as_the_value_before_it(run):
    head, *lines = Path("series.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    assert rows[-2][1] == ""
    rows[-2][1] = rows[-3][1]
    write("repeated.csv", head, rows)
    opened = load_run(run)
    np.testing.assert_array_equal(forecast(opened, "repeated.csv").values, forecast(opened, "series.csv").values)


def test_a_target_of_which_nothing_is_known_in_the_context_is_refused(run):
    write_gaps(cells=range(ROWS - CONTEXT, ROWS), rows=())
    message = (
        f"series.csv: column 'price': no known value in its last {CONTEXT} rows, the context; expected at least one"
    )
    with pytest.raises(ValueError, match=message):
        forecast(load_run(run), "series.csv")
    write_gaps(cells=range(ROWS - CONTEXT + 1, ROWS), rows=())
    assert np.isfinite(forecast(load_run(run), "series.csv").values).all()


@pytest.mark.usefixtures("_pages_are_not_rendered")
def test_another_column_of_which_nothing_is_known_in_the_context_is_said():
    write_series()
    _, *lines = Path("series.csv").read_text().splitlines()
    write("series.csv", "date,price,other", [(line, str(k % 24)) for k, line in enumerate(lines)])
    assert call("train", *RECIPES["gaps"].arguments, "--multivariate", "--out", "run") == 0
    is_known = [k < ROWS - CONTEXT for k in range(ROWS)]
    rows = [(line, str(k % 24) if is_known[k] else "") for k, line in enumerate(lines)]
    write("new.csv", "date,price,other", rows)
    notes = forecast(load_run("run"), "new.csv").notes
    assert f"{CONTEXT} of the {2 * CONTEXT} values of the context are missing" in notes
    assert "column 'other' has no known value in the context; its forecast is unreliable" in notes


@pytest.mark.parametrize(("far", "is_noted"), [(3, False), (4, True)])
def test_values_outside_of_those_of_training_are_counted_among_the_known(run, far, is_noted):
    head, *lines = Path("series.csv").read_text().splitlines()
    cells = ["1", *[""] * (len(lines) - 7), *["1"] * (6 - far), *["99"] * far]
    write("new.csv", head, [(line.split(",")[0], cell) for line, cell in zip(lines, cells, strict=True)])
    notes = [note for note in forecast(load_run(run), "new.csv").notes if "lie outside" in note]
    assert len(notes) == is_noted
    assert all(note.startswith("column 'price': 4 of the 6 values of the context lie outside") for note in notes)
