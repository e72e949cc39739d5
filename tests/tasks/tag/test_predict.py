"""Labels at each step of new sequences with a trained run."""

import csv
from pathlib import Path

import numpy as np
import pytest
from trained import switches

from longwave.runs import load_run
from longwave.tasks.regress.predict import regress
from longwave.tasks.sequences import data as sequences
from longwave.tasks.tag.predict import Tags, tag

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("tag")
    return Path("run")


def test_each_step_of_new_sequences_gets_a_label_and_probabilities(run):
    x, truth = switches(20, seed=9)
    found = tag(load_run(run), sequences.from_arrays(x))
    assert (found.classes, found.notes) == (("down", "up"), ())
    assert [len(labels) for labels in found.labels] == [len(row) for row in x]
    chances, labels = np.concatenate(found.probabilities), np.concatenate(found.labels)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-12)
    known = np.concatenate(truth) != ""
    assert (labels == np.concatenate(truth))[known].mean() > 0.8


def test_the_labels_of_a_sequence_do_not_depend_on_those_beside_it(run):
    x, _ = switches(6, seed=3)
    together = tag(load_run(run), sequences.from_arrays(x)).probabilities
    for row, chances in zip(x[:3], together, strict=False):
        np.testing.assert_allclose(
            tag(load_run(run), sequences.from_arrays([row])).probabilities[0], chances, atol=1e-5
        )


def test_sequences_unlike_those_of_training_are_refused(run):
    with pytest.raises(ValueError, match="expected 1 channels, as in training, got 2"):
        tag(load_run(run), sequences.from_arrays(np.zeros((3, 8, 2))))
    x, _ = switches(4)
    x[2][3] = 1e30
    with pytest.raises(ValueError, match="sequence 2: the model output is NaN or inf"):
        tag(load_run(run), sequences.from_arrays(x))
    with pytest.raises(ValueError, match="run: expected a run that predicts numbers, got one of kind tag"):
        regress(load_run(run), sequences.from_arrays(x))


def test_tags_are_written_with_sequence_and_step():
    chances = [np.array([[0.25, 0.75], [1.0, 0.0]]), np.array([[0.5, 0.5]])]
    Tags(("a", "b, c"), chances, ("first", "2")).write(Path("new/tags.csv"))
    with open("new/tags.csv", newline="") as file:
        assert list(csv.reader(file)) == [
            ["sequence", "step", "label", "p_a", "p_b, c"],
            ["first", "0", "b, c", "0.25", "0.75"],
            ["first", "1", "a", "1", "0"],
            ["2", "0", "a", "0.5", "0.5"],
        ]
