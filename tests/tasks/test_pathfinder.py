"""Pathfinder as a task: the benchmark's splits, pixels from 0 to 1, notes and errors."""

import shutil

import numpy as np
import pytest
import torch
from command import call
from pathfinder_files import write_pathfinder
from PIL import Image

from longwave.data import sequences
from longwave.data.catalogue import MissingData
from longwave.infer.base import PREDICTORS
from longwave.tasks.pathfinder import PathfinderConfig


def values(split):
    return (255 * split.batch(range(len(split)))["x"][:, 0, 0]).round().int().tolist()


def test_splits_are_those_of_the_benchmark(tmp_path):
    write_pathfinder(tmp_path, {0: 10, 1: 10, 2: 10, 3: 9})
    task = PathfinderConfig().build(tmp_path)
    order = torch.randperm(39, generator=torch.Generator().manual_seed(42)).tolist()
    assert [len(split) for split in (task.train, task.valid, task.test)] == [33, 3, 3]
    assert values(task.train) + values(task.valid) + values(task.test) == order
    labels = torch.cat([split.batch(range(len(split)))["y"] for split in (task.train, task.valid, task.test)])
    assert labels.tolist() == [k % 10 % 2 for k in order]
    other = PathfinderConfig(split_seed=1).build(tmp_path)
    assert values(other.train) != values(task.train)
    assert task.paper == {"accuracy": 0.942}
    assert task.notes == ()


def test_pixels_are_from_0_to_1_row_by_row(tmp_path):
    folder = write_pathfinder(tmp_path, {0: 20})
    ramp = (np.arange(32 * 32) // 5).astype(np.uint8).reshape(32, 32)
    for path in folder.rglob("*.png"):
        Image.fromarray(ramp).save(path)
    task = PathfinderConfig().build(tmp_path)
    x = task.test.batch([1, 0])["x"]
    assert x.shape == (2, 1024, 1)
    torch.testing.assert_close(x[0, :, 0], torch.arange(1024).div(5, rounding_mode="floor") / 255)
    np.testing.assert_allclose(task.picture(x[0])[..., 0] * 255, ramp, atol=1e-4)
    assert task.spec.length == 1024
    assert task.spec.image_size == (32, 32)


def test_empty_images_and_sets_that_are_not_whole_are_noted(tmp_path):
    folder = write_pathfinder(tmp_path, {0: 30})
    next(folder.rglob("*.png")).write_bytes(b"")
    (folder / "made.json").write_text('{"name": "pathfinder", "count": 30, "seed": 0}')
    notes = PathfinderConfig().build(tmp_path).notes
    assert notes[0] == "images left out because their files are empty: 1"
    assert notes[1].startswith("pathfinder was made with 30 examples and seed 0; the whole set has 200,000")


def test_the_inner_folder_of_the_archive_is_found(tmp_path):
    inner = tmp_path / "lra_release" / "lra_release"
    write_pathfinder(inner, {0: 20}, size=128)
    task = PathfinderConfig("pathx").build(tmp_path)
    assert task.origin == str(inner / "pathfinder128")
    assert task.spec.length == 128**2


def test_a_set_that_is_missing_is_named_with_the_command_that_makes_it(tmp_path, capsys):
    with pytest.raises(MissingData, match="longwave data make pathx --data-dir"):
        PathfinderConfig("pathx").build(tmp_path)
    assert call("train", "lra-pathfinder", "--data-dir", str(tmp_path), "--out", str(tmp_path / "run")) == 2
    assert f"`longwave data make pathfinder --data-dir {tmp_path}`" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_too_few_images_are_refused(tmp_path):
    folder = write_pathfinder(tmp_path, {0: 9})
    with pytest.raises(ValueError, match="expected at least 10 images, one of them to test, got 9"):
        PathfinderConfig().build(tmp_path)
    shutil.rmtree(folder)
    write_pathfinder(tmp_path, {0: 1} | dict.fromkeys(range(1, 12), 1))
    with pytest.raises(ValueError, match="class 'connected' is in"):
        PathfinderConfig().build(tmp_path)


def test_new_images_are_seen_as_those_of_the_set(tmp_path):
    write_pathfinder(tmp_path, {0: 10, 1: 10})
    task = PathfinderConfig().build(tmp_path)
    pixels = np.asarray(task.test.pixels)[task.test.rows].reshape(len(task.test), -1, 1).astype(np.float64)
    values, notes = PathfinderConfig().arrange(sequences.from_arrays(pixels), task.inputs)
    np.testing.assert_array_equal(values.reshape(pixels.shape), task.test.batch(range(len(pixels)))["x"].numpy())
    assert notes == []
    with pytest.raises(ValueError, match="expected images of 1024 pixels, got 1000 to 1000"):
        PathfinderConfig().arrange(sequences.from_arrays(pixels[:, :1000]), task.inputs)
    assert PREDICTORS["pathfinder"] is PREDICTORS["images"]


def test_random_data_has_the_shapes_of_the_real_task():
    batch = PathfinderConfig("pathx").on_random_data(rows=2).train.batch([0, 1])
    assert tuple(batch["x"].shape) == (2, 128 * 128, 1)
    assert 0 <= batch["x"].min() < 0.01 < 0.99 < batch["x"].max() <= 1


def test_centred_pixels_go_from_minus_one_to_one():
    x, plain = (PathfinderConfig(centred=c).on_random_data(rows=2).train.batch([0, 1])["x"] for c in (True, False))
    torch.testing.assert_close(x, 2 * plain - 1)
