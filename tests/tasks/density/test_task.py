"""Images, predicted pixel by pixel."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import digits, write_cifar10, write_mnist

from longwave.io.download import catalogue
from longwave.tasks.autoregressive import Interleaved
from longwave.tasks.density.task import DensityConfig
from longwave.tasks.images.task import ImageConfig


def test_a_window_is_an_image_row_by_row_behind_a_dark_pixel(tmp_path):
    write_mnist(tmp_path)
    task = DensityConfig().build(tmp_path)
    pixels, _ = digits(20, seed=1)
    batch = task.test.batch([3, 5])
    assert torch.equal(batch["y"], torch.from_numpy(pixels[[3, 5]].reshape(2, 784)))
    assert torch.equal(batch["x"][:, 1:], batch["y"][:, :-1])
    assert batch["x"][:, 0].tolist() == [0, 0]
    np.testing.assert_array_equal(task.test_images([3, 5]), pixels[[3, 5]])
    assert (task.length, task.spec.output_size, task.goal) == (784, 256, "bits_per_dim")
    assert task.spec.scale == 256  # grey values are in order
    assert task.describe()["size"] == [28, 28]


def test_the_parts_are_those_of_the_classification_of_the_same_images(tmp_path):
    write_mnist(tmp_path)
    task, labelled = DensityConfig(split_seed=4).build(tmp_path), ImageConfig(split_seed=4).build(tmp_path)
    for part in ("train", "valid", "test"):
        found = getattr(task, part).tokens.reshape(-1, 28, 28, 1)
        np.testing.assert_array_equal(found, getattr(labelled, part).pixels)


def test_scores_are_bits_and_no_perplexity(tmp_path):
    write_mnist(tmp_path)
    task = DensityConfig().build(tmp_path)
    for name in ("uniform", "unigram"):
        assert set(task.baselines()[name]["test"]) == {"loss", "bits_per_dim"}
    with pytest.raises(ValueError, match='data: expected "mnist" or "cifar", got'):
        DensityConfig.from_dict({"data": "cifar100"})


def test_eight_bits_are_what_a_model_needs_that_holds_all_values_alike(tmp_path):
    write_cifar10(tmp_path, count=10)
    task = DensityConfig(data="cifar").build(tmp_path)
    assert task.baselines()["uniform"]["test"]["bits_per_dim"] == pytest.approx(8)
    found = task.outcome(lambda x, **_: (torch.zeros(*x.shape, 256), None), task.test.batch([0, 3]))
    total, count = found.scores["loss"]
    assert count == 2 * 3072
    assert task.reported({"loss": float(total) / count})["bits_per_dim"] == pytest.approx(8)


def test_a_colour_image_is_read_with_the_channel_of_each_value(tmp_path):
    """Red, green, blue, pixel by pixel; 0 is the start alone, and not a dark pixel."""
    write_cifar10(tmp_path)
    task = DensityConfig(data="cifar").build(tmp_path)
    batch = task.test.batch([7])
    red, green = np.mgrid[0:32, 0:32]
    label = (7 + 5) % 10
    values = np.stack([red, green, np.full((32, 32), 10 * label)], axis=-1)
    assert torch.equal(batch["y"][0], torch.from_numpy(values.reshape(-1)))
    expected = (values + 1 + 256 * np.arange(3)).reshape(-1)
    assert torch.equal(batch["x"][0], torch.from_numpy(np.append(0, expected[:-1])))
    np.testing.assert_array_equal(task.test_images([7])[0], values)
    assert (task.spec.vocabulary, task.spec.scale, task.spec.output_size, task.length) == (769, 256, 256, 3072)
    assert (len(task.train), len(task.valid), len(task.test)) == (59, 1, 12)
    assert task.describe()["size"] == [32, 32, 3]


def test_values_are_read_by_their_place_as_arrays_and_as_tensors():
    reads = Interleaved(3)
    assert reads(np.array([[5, 0, 255, 7]]), 0).tolist() == [[6, 257, 768, 8]]
    assert reads(torch.tensor([[5], [0]]), 4).tolist() == [[262], [257]]


def test_real_digits_need_two_bits_a_pixel_by_the_unigram_model():
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("LONGWAVE_DATA is not set: no real data to read")
    try:
        task = DensityConfig().build(Path(folder))
    except catalogue.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert (len(task.train), len(task.valid), len(task.test)) == (54_000, 6_000, 10_000)
    assert task.baselines()["unigram"]["test"]["bits_per_dim"] == pytest.approx(1.967, abs=0.001)
