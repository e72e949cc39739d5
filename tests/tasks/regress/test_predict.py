"""Numbers for new sequences with a trained run."""

import csv
from pathlib import Path

import numpy as np
import pytest
from trained import lines

from longwave.runs import load_run
from longwave.tasks.classify.predict import classify
from longwave.tasks.regress.predict import Numbers, regress
from longwave.tasks.sequences import data as sequences

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("regress")
    return Path("run")


def test_new_sequences_get_numbers_in_the_units_of_the_data(run):
    x, truth = lines(30, seed=9)
    found = regress(load_run(run), sequences.from_arrays(x))
    assert (found.targets, found.values.shape, found.notes) == (("level", "end"), (30, 2), ())
    for k in range(2):
        known = ~np.isnan(truth[:, k])
        error = found.values[known, k] - truth[known, k]
        assert np.square(error).mean() < 0.6 * truth[known, k].var()


def test_a_prediction_does_not_depend_on_the_sequences_beside_it(run):
    x, _ = lines(9, seed=3)
    together = regress(load_run(run), sequences.from_arrays(x)).values
    alone = np.concatenate([regress(load_run(run), sequences.from_arrays([row])).values for row in x[:3]])
    np.testing.assert_allclose(together[:3], alone, rtol=1e-4)


def test_sequences_unlike_those_of_training_are_refused(run):
    with pytest.raises(ValueError, match="expected 1 channels, as in training, got 2"):
        regress(load_run(run), sequences.from_arrays(np.zeros((3, 8, 2))))
    x, _ = lines(5)
    x[2][3] = 1e30
    with pytest.raises(ValueError, match="sequence 2: the model output is NaN or inf"):
        regress(load_run(run), sequences.from_arrays(x))


def test_runs_of_other_kinds_are_refused(run):
    with pytest.raises(ValueError, match="run: expected a run that classifies, got one of kind regress"):
        classify(load_run(run), sequences.from_arrays(np.zeros((2, 3))))


def test_a_run_that_classifies_predicts_no_numbers(trained_runs):
    trained_runs.fetch("classify")
    with pytest.raises(ValueError, match="run: expected a run that predicts numbers, got one of kind classify"):
        regress(load_run(Path("run")), sequences.from_arrays(np.zeros((2, 3))))


def test_numbers_are_written_with_the_names_of_the_targets():
    Numbers(("a", "b, c"), np.array([[0.25, 1234567.0], [1e-7, -3.0]])).write(Path("new/predictions.csv"))
    with open("new/predictions.csv", newline="") as file:
        assert list(csv.reader(file)) == [["a", "b, c"], ["0.25", "1234567"], ["1e-07", "-3"]]
