"""Images drawn pixel by pixel with a trained run."""

from pathlib import Path

import numpy as np
import pytest

from longwave.data.images import read_mnist
from longwave.infer.density import complete_images, draw_images


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("density")
    return Path("run")


def test_images_from_nothing_need_no_data_and_follow_from_the_seed(run):
    Path("data").rename("gone")
    drawn = draw_images(run, 2, seed=0)
    assert (drawn.shape, drawn.dtype) == ((2, 28, 28), np.uint8)
    np.testing.assert_array_equal(drawn, draw_images("run", 2, device="cpu", seed=0))


def test_completions_keep_the_upper_half_of_test_images(run):
    Path("data").rename("moved")
    originals, made = complete_images("run", [5, 2], 3, "moved", seed=0)
    (_, _), (test, _) = read_mnist(Path("moved/mnist"))
    np.testing.assert_array_equal(originals, test[[5, 2], ..., 0])
    assert made.shape == (2, 3, 28, 28)
    for copy in range(3):
        np.testing.assert_array_equal(made[:, copy, :14], originals[:, :14])
    assert (made[:, 0, 14:] != made[:, 1, 14:]).any()


def test_images_that_are_not_there_are_refused(run):
    for index in (8, -1):
        with pytest.raises(ValueError, match=f"images: expected numbers from 0 to 7 of test images, got {index}"):
            complete_images(run, [0, index], 1)


def test_a_run_on_other_than_images_is_refused(trained_runs):
    trained_runs.fetch("text")
    with pytest.raises(ValueError, match="run: expected a run on images to generate, got one of the kind text"):
        draw_images(Path("run"), 1)
