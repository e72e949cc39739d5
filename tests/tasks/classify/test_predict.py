"""Labels of new sequences with a trained run."""

import csv
from pathlib import Path

import numpy as np
import pytest
from trained import KINDS, slopes

from longwave.experiments import EXPERIMENTS
from longwave.models import load_model
from longwave.runs import load_run
from longwave.tasks.classify.predict import Labels, classify
from longwave.tasks.sequences import data as sequences
from longwave.tasks.sequences.predict import check_finite

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("classify")
    return Path("run")


def test_new_sequences_are_classified_as_those_of_training(run):
    x, truth = slopes(20, seed=9)
    found = classify(load_run(run), sequences.from_arrays(x))
    assert found.classes == KINDS
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-12)
    assert np.mean([label == name for label, name in zip(found.labels, truth, strict=True)]) > 0.8
    assert found.notes == ()


def test_sequences_unlike_those_of_training_are_refused(run):
    with pytest.raises(ValueError, match="expected 1 channels, as in training, got 2"):
        classify(load_run(run), sequences.from_arrays(np.zeros((3, 8, 2))))
    x, _ = slopes(10)
    x[7][3] = 1e4
    (note,) = classify(load_run(run), sequences.from_arrays(x)).notes
    assert note.startswith("sequence 7 has values more than 50 standard deviations from the mean of the training")
    with pytest.raises(ValueError, match="new: sequence 1: the model output is NaN or inf; its values are too far"):
        check_finite(np.array([[0.5, 0.5], [np.nan, np.nan]]), "new")


def test_a_run_of_another_kind_is_refused(trained_runs):
    trained_runs.fetch("text")
    with pytest.raises(ValueError, match="run: expected a run that classifies, got one of kind text"):
        classify(load_run(Path("run")), sequences.from_arrays(np.zeros((2, 3))))


def test_images_are_read_as_in_training_whatever_the_order_of_their_pixels(trained_runs):
    trained_runs.fetch("images")
    task = EXPERIMENTS["pmnist-small"].task.build()
    pixels = task.test.pixels.reshape(10, 784)
    found = classify(load_run(Path("run")), sequences.from_arrays(pixels))
    expected = load_model("run/best").eval()(task.test.batch(range(10))["x"])[0].softmax(-1)
    np.testing.assert_allclose(found.probabilities, expected.detach(), atol=1e-5)
    assert classify(load_run(Path("run")), sequences.from_arrays(pixels / 255)).notes == (
        "expected pixels from 0 to 255, but these range from 0 to 1",
    )
    with pytest.raises(ValueError, match="expected pixels from 0 to 255, got -300 to -45"):
        classify(load_run(Path("run")), sequences.from_arrays(pixels - 300.0))
    with pytest.raises(ValueError, match="expected images of 784 pixels, got 783 to 783"):
        classify(load_run(Path("run")), sequences.from_arrays(np.zeros((2, 783))))


def test_labels_are_written_with_their_probabilities():
    Labels(("a", "b, c"), np.array([[0.25, 0.75], [1.0, 0.0]])).write(Path("new/labels.csv"))
    with open("new/labels.csv", newline="") as file:
        assert list(csv.reader(file)) == [["label", "p_a", "p_b, c"], ["b, c", "0.25", "0.75"], ["a", "1", "0"]]
