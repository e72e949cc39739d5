"""Images drawn pixel by pixel with a trained run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from longwave.layers import S4Config
from longwave.models import UNet
from longwave.runs import load_run
from longwave.tasks.autoregressive import Interleaved, shifted
from longwave.tasks.density.generate import complete, complete_halves, complete_images, draw_images
from longwave.tasks.images.data import read_mnist

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("density")
    return Path("run")


def test_images_from_nothing_need_no_data_and_follow_from_the_seed(run):
    Path("data").rename("gone")
    drawn = draw_images(load_run(run), 2, seed=0)
    assert (drawn.shape, drawn.dtype) == ((2, 28, 28), np.uint8)
    np.testing.assert_array_equal(drawn, draw_images(load_run("run"), 2, device="cpu", seed=0))


def test_completions_keep_the_upper_half_of_test_images(run):
    Path("data").rename("moved")
    originals, made = complete_images(load_run("run"), [5, 2], 3, "moved", seed=0)
    (_, _), (test, _) = read_mnist(Path("moved/mnist"))
    np.testing.assert_array_equal(originals, test[[5, 2], ..., 0])
    assert made.shape == (2, 3, 28, 28)
    for copy in range(3):
        np.testing.assert_array_equal(made[:, copy, :14], originals[:, :14])
    assert (made[:, 0, 14:] != made[:, 1, 14:]).any()


def test_images_that_are_not_there_are_refused(run):
    for index in (8, -1):
        with pytest.raises(ValueError, match=f"images: expected test images from 0 to 7, got {index}"):
            complete_images(load_run(run), [0, index], 1)


def test_a_run_on_other_than_images_is_refused(trained_runs):
    trained_runs.fetch("text")
    with pytest.raises(ValueError, match="run: expected a run that generates images, got one of kind text"):
        draw_images(load_run(Path("run")), 1)


def test_colours_are_drawn_as_the_model_predicts_them_from_what_it_reads():
    """The likeliest values, chosen step by step, are those of one pass over the image with its channels."""
    torch.manual_seed(0)
    model = UNet(d_model=8, n_layers=1, vocabulary=769, output_size=256, mixer=S4Config(d_state=4)).eval()
    images = np.random.default_rng(0).integers(256, size=(2, 4, 3, 3), dtype=np.uint8)
    made = complete_halves(model, images, 2, temperature=0)
    assert (made.shape, made.dtype) == ((2, 2, 4, 3, 3), np.uint8)
    np.testing.assert_array_equal(made[:, :, :2], np.repeat(images[:, None, :2], 2, axis=1))
    whole = made[:, 0].reshape(2, -1).astype(np.int64)
    with torch.no_grad():
        logits, _ = model(shifted(whole, whole >= 0, Interleaved(3))["x"])
    np.testing.assert_array_equal(logits.argmax(-1).numpy()[:, 18:], whole[:, 18:])
    assert complete(model, np.empty((3, 0), np.uint8), (2, 2, 3), 1, seed=0).shape == (3, 2, 2, 3)
