"""Images, predicted pixel by pixel."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import digits, write_mnist

from longwave.data import catalogue
from longwave.tasks import density, images


def test_a_window_is_an_image_row_by_row_behind_a_dark_pixel(tmp_path):
    write_mnist(tmp_path)
    task = density.load(data_dir=tmp_path)
    pixels, _ = digits(20, seed=1)
    batch = task.test.batch([3, 5])
    assert torch.equal(batch["y"], torch.from_numpy(pixels[[3, 5]].reshape(2, 784)))
    assert torch.equal(batch["x"][:, 1:], batch["y"][:, :-1])
    assert batch["x"][:, 0].tolist() == [0, 0]
    np.testing.assert_array_equal(task.test_images([3, 5]), pixels[[3, 5]])
    assert (task.length, task.spec.output_size, task.goal) == (784, 256, "bits_per_dim")
    assert task.describe()["size"] == [28, 28]


def test_the_parts_are_those_of_the_classification_of_the_same_images(tmp_path):
    write_mnist(tmp_path)
    task, labelled = density.load(split_seed=4, data_dir=tmp_path), images.load("smnist", False, 4, tmp_path)
    for part in ("train", "valid", "test"):
        found = getattr(task, part).tokens.reshape(-1, 28, 28, 1)
        np.testing.assert_array_equal(found, getattr(labelled, part).pixels)


def test_scores_are_bits_and_no_perplexity(tmp_path):
    write_mnist(tmp_path)
    task = density.load(data_dir=tmp_path)
    assert set(task.baselines()["unigram"]["test"]) == {"loss", "bits_per_dim"}
    with pytest.raises(ValueError, match="data: expected mnist, got 'cifar'"):
        density.load("cifar")


def test_real_digits_need_two_bits_a_pixel_by_the_unigram_model():
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("LONGWAVE_DATA is not set: no real data to read")
    try:
        task = density.load(data_dir=Path(folder))
    except catalogue.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert (len(task.train), len(task.valid), len(task.test)) == (54_000, 6_000, 10_000)
    assert task.baselines()["unigram"]["test"]["bits_per_dim"] == pytest.approx(1.967, abs=0.001)
