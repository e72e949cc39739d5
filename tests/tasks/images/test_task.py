"""Images, pixel by pixel: files, splits, the fixed permutation, augmentation."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import digits, write_cifar10, write_mnist

from longwave.core.random import random_bits
from longwave.io.download import catalogue
from longwave.tasks.images import task as images
from longwave.tasks.images.data import grey, read_cifar10
from longwave.tasks.images.task import AugmentedImages, ImageConfig, mirrored, permutation


@pytest.fixture
def data(tmp_path):
    write_mnist(tmp_path)
    write_cifar10(tmp_path)
    return tmp_path


@pytest.fixture
def smnist(data):
    return ImageConfig(data="smnist").build(data)


@pytest.mark.parametrize("name", images.SETS)
def test_random_images_ask_the_same_of_a_model_as_those_of_the_files(name, data):
    random = ImageConfig(name, augment=True).on_random_data(rows=3)
    assert random.spec == ImageConfig(name, augment=True).build(data).spec
    batch, again = (ImageConfig(name).on_random_data(3).train.batch([0, 2]) for _ in range(2))
    assert batch["x"].shape == (2, random.spec.length, random.spec.input_size)
    assert torch.equal(batch["x"], again["x"])
    assert random.train_at(0, 0).batch([1])["x"].isfinite().all()


# Files


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_is_read_compressed_or_not(tmp_path, zipped):
    write_mnist(tmp_path, zipped=zipped)
    task = ImageConfig(data="smnist").build(tmp_path)
    expected, labels = digits(20, seed=1)
    batch = task.test.batch(range(20))
    np.testing.assert_array_equal(batch["y"], labels)
    shown = batch["x"][..., 0].numpy() * task.inputs.deviation[0] + task.inputs.mean[0]
    np.testing.assert_allclose(shown.reshape(20, 28, 28), expected, atol=1e-4)


def test_cifar10_has_red_green_and_blue_of_each_pixel_row_by_row(data):
    task = ImageConfig(data="scifar").build(data)
    batch = task.test.batch([3])
    shown = batch["x"][0].numpy() * np.array(task.inputs.deviation) + np.array(task.inputs.mean)
    rows, columns = np.divmod(np.arange(1024), 32)
    np.testing.assert_allclose(shown[:, 0], rows, atol=1e-4)
    np.testing.assert_allclose(shown[:, 1], columns, atol=1e-4)
    np.testing.assert_allclose(shown[:, 2], 10 * batch["y"].item(), atol=1e-4)


def test_grey_images_have_the_published_scale_and_one_channel(data):
    """Grey is 0.299 red + 0.587 green + 0.114 blue, rounded; x = (grey / 255 - 122.6 / 255) / (61 / 255)."""
    task = ImageConfig(data="grey-cifar", split_seed=42).build(data)
    assert (task.spec.input_size, task.spec.length, task.spec.image_size) == (1, 1024, (32, 32))
    assert (task.inputs.mean, task.inputs.deviation, task.paper) == ((122.6,), (61.0,), {"accuracy": 0.8865})
    batch = task.test.batch([3])
    rows, columns = np.divmod(np.arange(1024), 32)
    shown = (0.299 * rows + 0.587 * columns + 0.114 * 10 * batch["y"].item() + 0.5) // 1
    expected = (shown / 255 - 122.6 / 255) / (61 / 255)
    np.testing.assert_allclose(batch["x"][0, :, 0].numpy(), expected, atol=1e-6)


def test_grey_images_are_split_as_in_the_authors_code(data):
    """Of torch's order, the last tenth is to validate."""
    task = ImageConfig(data="grey-cifar", split_seed=42).build(data)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(42))
    whole, labels = read_cifar10(data / "cifar-10-batches-bin")[0]
    for split, index in ((task.train, order[:54]), (task.valid, order[54:])):
        np.testing.assert_array_equal(split.labels, labels[index.sort().values])
        np.testing.assert_array_equal(split.pixels, grey(whole[index.sort().values]))


def test_missing_files_are_named_with_where_to_put_them(tmp_path):
    for name, command in (("pmnist", "longwave data get mnist"), ("scifar", "longwave data get cifar10")):
        with pytest.raises(catalogue.MissingData, match=command):
            ImageConfig(data=name).build(tmp_path)
    with pytest.raises(ValueError, match='data: expected "smnist" or "pmnist" or "scifar" or "grey-cifar", got'):
        ImageConfig.from_dict({"data": "sminst"})


# Parts and scale


def test_one_training_image_in_ten_is_for_validation_and_the_seed_chooses_which(data):
    def shown(task, part):
        split = getattr(task, part)
        return {row.tobytes() for row in split.pixels}

    task, same, other = (ImageConfig(data="smnist", split_seed=seed).build(data) for seed in (0, 0, 1))
    assert (len(task.train), len(task.valid), len(task.test)) == (54, 6, 20)
    assert not shown(task, "train") & shown(task, "valid")
    assert len(shown(task, "train") | shown(task, "valid")) == 60
    assert shown(task, "valid") == shown(same, "valid") != shown(other, "valid")


def test_pixels_are_standardised_by_the_train_part_alone(data):
    task = ImageConfig(data="scifar").build(data)
    x = task.train.batch(range(len(task.train)))["x"].double()
    torch.testing.assert_close(x.mean((0, 1)), torch.zeros(3, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 1), correction=0), torch.ones(3, dtype=torch.float64), atol=1e-5, rtol=0)
    assert task.inputs.mean == pytest.approx(tuple(task.train.pixels.mean(axis=(0, 1, 2))), rel=1e-12)


def test_a_task_says_what_it_is(smnist):
    spec = smnist.spec
    assert (spec.input_size, spec.output_size, spec.length, spec.image_size) == (1, 10, 784, (28, 28))
    assert (smnist.goal, smnist.higher_is_better, smnist.paper) == ("accuracy", True, {"accuracy": 0.9963})
    described = smnist.describe()
    assert described["examples"] == {"train": 54, "valid": 6, "test": 20}
    assert described["counts"]["test"] == [2] * 10


# The permutation


def test_the_permutation_of_pmnist_is_pinned():
    order = permutation()
    assert sorted(order) == list(range(784))
    assert order[:8].tolist() == [52, 757, 10, 713, 337, 199, 430, 331]
    assert int((order * np.arange(784)).sum()) == 119999797


def test_pmnist_shows_the_pixels_of_smnist_in_that_order(data, smnist):
    pmnist = ImageConfig(data="pmnist").build(data)
    rows, permuted = smnist.train.batch([5])["x"], pmnist.train.batch([5])["x"]
    torch.testing.assert_close(permuted, rows[:, permutation()])
    assert not torch.equal(permuted, rows)
    np.testing.assert_array_equal(pmnist.picture(permuted[0]), smnist.picture(rows[0]))


# Augmentation


def test_augmented_images_are_crops_of_the_mirrored_border_cut_one_by_one(data):
    task = ImageConfig(data="scifar", augment=True).build(data)
    split = task.train_at(epoch=2, seed=7)
    indices = list(range(len(split)))
    x = split.batch(indices)["x"].numpy().reshape(-1, 32, 32, 3)
    draws = [int(bits) for bits in random_bits(7, 2, np.array(indices))]
    seen = set()
    for index, draw in zip(indices, draws, strict=True):
        flip, down, right = draw & 1, (draw >> 1) % 9, (draw >> 33) % 9
        image = task.picture(task.train.batch([index])["x"][0])
        cut = np.pad(image, ((4, 4), (4, 4), (0, 0)), mode="symmetric")[down : down + 32, right : right + 32]
        np.testing.assert_allclose(x[index], cut[:, ::-1] if flip else cut, atol=1e-6)
        seen.add((flip, down, right))
    assert len(seen) > 30  # of 54 images
    torch.testing.assert_close(split.batch(indices)["y"], task.train.batch(indices)["y"])


def test_an_augmented_batch_follows_from_seed_epoch_and_index_alone(data):
    task = ImageConfig(data="scifar", augment=True).build(data)

    def shown(epoch, seed, indices):
        return task.train_at(epoch, seed).batch(indices)["x"]

    whole = shown(1, 0, range(20))
    torch.testing.assert_close(shown(1, 0, [13, 4]), whole[[13, 4]])  # in any batch, in any process
    assert not torch.equal(shown(2, 0, range(20)), whole)
    assert not torch.equal(shown(1, 1, range(20)), whole)


def test_digits_are_cropped_and_not_flipped_and_evaluation_is_never_augmented(data):
    task = ImageConfig(data="pmnist", augment=True).build(data)
    split = task.train_at(0, 0)
    assert isinstance(split, AugmentedImages)
    assert (split.crops, split.flips) == (4, False)
    assert task.paper == {}  # the paper has no such figure
    assert ImageConfig(data="scifar", augment=True).build(data).paper == {"accuracy": 0.9316}
    plain = ImageConfig(data="pmnist").build(data)
    assert plain.train_at(0, 0) is plain.train
    for part in ("valid", "test"):
        torch.testing.assert_close(getattr(task, part).batch([1])["x"], getattr(plain, part).batch([1])["x"])


def test_mirrored_is_numpys_symmetric_padding():
    np.testing.assert_array_equal(mirrored(np.arange(-4, 10), 6), np.pad(np.arange(6), 4, mode="symmetric"))


def test_random_bits_have_no_pattern_that_shows():
    draws = random_bits(3, 4, np.arange(20_000))
    bits = (draws[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.02  # 5.6 deviations
    assert len(np.unique(draws)) == len(draws)
    assert (
        len(np.unique([random_bits(s, e, np.array([i])) for s in range(4) for e in range(4) for i in range(4)])) == 64
    )


# Real data


@pytest.mark.parametrize(
    ("name", "parts", "mean"),
    [
        ("smnist", (54_000, 6_000, 10_000), 33.3),
        ("scifar", (45_000, 5_000, 10_000), 125.3),
        ("grey-cifar", (45_000, 5_000, 10_000), 122.6),
    ],
)
def test_real_images_have_the_published_sizes(name, parts, mean):
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("LONGWAVE_DATA is not set: no real data to read")
    try:
        task = ImageConfig(data=name).build(Path(folder))
    except catalogue.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert (len(task.train), len(task.valid), len(task.test)) == parts
    assert task.inputs.mean[0] == pytest.approx(mean, abs=0.1)
    assert sum(task.counts["test"]) == 10_000


def test_some_of_the_images_are_trained_on_and_the_others_stay_as_they_are(tmp_path):
    write_cifar10(tmp_path)
    whole = ImageConfig("scifar").build(tmp_path)
    part = ImageConfig("scifar", train_size=20).build(tmp_path)
    assert (len(part.train), len(part.valid), len(part.test)) == (20, len(whole.valid), len(whole.test))
    np.testing.assert_array_equal(part.valid.pixels, whole.valid.pixels)
    of_whole = {image.tobytes() for image in whole.train.pixels}
    assert all(image.tobytes() in of_whole for image in part.train.pixels)
    np.testing.assert_array_equal(ImageConfig("scifar", train_size=20).build(tmp_path).train.pixels, part.train.pixels)
    with pytest.raises(ValueError, match=f"train_size: expected 1 to {len(whole.train)} training images"):
        ImageConfig("scifar", train_size=len(whole.train) + 1).build(tmp_path)
