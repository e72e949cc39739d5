"""Pathfinder as a task: the benchmark's splits, pixels from 0 to 1, notes and errors."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from command import call
from pathfinder_files import write_pathfinder
from PIL import Image
from tiny import assert_resumes_to_the_bit

from longwave.io.download.catalogue import MissingData
from longwave.models import SequenceConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.pathfinder import task as pathfinder_task
from longwave.tasks.pathfinder.drawing import LEVELS, SETTINGS, draw
from longwave.tasks.pathfinder.task import PathfinderConfig
from longwave.tasks.sequences import data as sequences


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
    assert notes[0] == "images skipped because their files are empty: 1"
    assert notes[1].startswith("pathfinder was made with 30 examples and seed 0; the full set has 200,000")


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
    assert f"longwave data make pathfinder --data-dir {tmp_path}" in " ".join(capsys.readouterr().err.split())
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
    assert PathfinderConfig.action("predict") is ImageConfig.action("predict")


def test_random_data_has_the_shapes_of_the_real_task():
    batch = PathfinderConfig("pathx").on_random_data(rows=2).train.batch([0, 1])
    assert tuple(batch["x"].shape) == (2, 128 * 128, 1)
    assert 0 <= batch["x"].min() < 0.01 < 0.99 < batch["x"].max() <= 1


def test_centred_pixels_go_from_minus_one_to_one():
    x, plain = (PathfinderConfig(centred=c).on_random_data(rows=2).train.batch([0, 1])["x"] for c in (True, False))
    torch.testing.assert_close(x, 2 * plain - 1)


# The curriculum


def eased(folder, curriculum=2.0, **more):
    write_pathfinder(folder, dict.fromkeys(range(4), 20))
    return PathfinderConfig(curriculum=curriculum, **more).build(folder)


def is_plain(x):
    """Whether images are of the files, which have one colour each."""
    return x.amax(dim=(1, 2)) == x.amin(dim=(1, 2))


def test_epochs_of_the_curriculum_have_images_of_their_own_and_later_ones_those_of_the_set(tmp_path):
    task = eased(tmp_path, 1.5)
    index = range(len(task.train))
    first, second = (task.train_at(epoch, 0) for epoch in (0, 1))
    assert not is_plain(first.batch(index)["x"]).any()
    assert not is_plain(first.batch_within(index, index, 0.99)["x"]).any()
    assert not is_plain(second.batch_within(index, index, 0.49)["x"]).any()
    assert not torch.equal(first.batch(index)["x"], second.batch(index)["x"])
    assert not torch.equal(first.batch(index)["x"], task.train_at(0, 1).batch(index)["x"])
    own, later = task.train.batch(index), second.batch_within(index, index, 0.5)
    for name in own:
        assert torch.equal(later[name], own[name])
    assert task.train_at(2, 0) is task.train
    plain = PathfinderConfig().build(tmp_path)
    assert plain.train_at(0, 0) is plain.train
    for name in ("valid", "test"):
        assert is_plain(getattr(task, name).batch(range(5))["x"]).all()


def test_an_image_of_the_curriculum_is_the_same_whatever_its_batch(tmp_path):
    split = eased(tmp_path).train_at(1, 5)
    together = split.batch_within([7, 2, 11], range(20), 0.3)
    for k, index in enumerate([7, 2, 11]):
        alone = split.batch_within([index], [index], 0.3)
        assert torch.equal(together["x"][k], alone["x"][0])
        assert together["y"][k] == alone["y"][0]


def test_images_of_the_curriculum_grow_to_those_of_the_set_and_have_true_labels(tmp_path, monkeypatch):
    seen = []

    def recorded(setting, keys):
        found = list(draw(setting, keys))
        seen.extend((setting, image) for image in found)
        return found

    monkeypatch.setattr(pathfinder_task, "draw", recorded)
    split, index, setting = eased(tmp_path).train_at(0, 0), range(60), SETTINGS["pathfinder"]
    for place, lowest, highest in ((0.0, 0, 0), (0.5, 1, 3), (1.0, 4, 6)):
        seen.clear()
        batch = split.batch_within(index, index, place)
        assert sorted(batch["y"].tolist()) == sorted(image.label for _, image in seen)
        assert {own for own, _ in seen} == {setting.at_level(level) for level in range(lowest, highest + 1)}
        for own, image in seen[:20]:
            snakes = [[paddle for paddle in image.paddles if paddle.snake == k] for k in (0, 1)]
            assert [len(snake) for snake in snakes] == [own.paddles[0]] * 2
            starts, ends = ([tuple(snake[end][:2]) for snake in snakes] for end in (0, -1))
            start, end = (tuple(marker) for marker in image.markers.tolist())
            assert (starts.index(start) == ends.index(end)) == bool(image.label)


def test_levels_grow_from_two_dashes_without_distractors_to_the_set():
    for setting in SETTINGS.values():
        levels = [setting.at_level(level) for level in range(LEVELS)]
        assert (levels[0].paddles, levels[0].distractors) == ((2, 2), 0)
        assert levels[-1] == setting
        assert [own.paddles[0] for own in levels] == list(range(2, 15))
        assert [own.distractors for own in levels[:5]] == [0, 0, 0, 0, round(setting.distractors / 9)]
        assert all(a.distractors < b.distractors for a, b in pairwise(levels[3:]))


def test_the_curriculum_of_a_set_with_options_has_them_too(tmp_path):
    folder = write_pathfinder(tmp_path, {0: 30})
    made = '{"name": "pathfinder", "count": 30, "seed": 0, "options": ["all_orientations", "equal_contrast"]}'
    (folder / "made.json").write_text(made)
    setting = PathfinderConfig(curriculum=1.0).build(tmp_path).setting
    assert setting.all_orientations
    assert setting.contrasts == (1.0, 1.0)
    (folder / "made.json").write_text(made.replace("all_orientations", "of_another_version"))
    setting = PathfinderConfig(curriculum=1.0).build(tmp_path).setting
    assert not setting.all_orientations
    assert setting.contrasts == (1.0, 1.0)


def test_coarser_images_are_filtered_and_have_their_rate(tmp_path):
    task = eased(tmp_path, rates=(4.0,))
    fine = PathfinderConfig(curriculum=2.0).build(tmp_path).train_at(0, 0).batch([3, 8])
    coarse = task.train_at(0, 0).batch([3, 8])
    assert coarse["x"].shape == (2, 256, 1)
    assert coarse["rate"].tolist() == [4.0, 4.0]
    torch.testing.assert_close(coarse["x"].mean(), fine["x"].mean(), rtol=0.01, atol=0)  # nothing is lost in between
    assert task.spec.changes_rate


def test_what_is_no_number_of_epochs_of_a_curriculum_is_refused():
    for epochs in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="curriculum: expected a finite number of epochs, 0 or more, got"):
            PathfinderConfig(curriculum=epochs)


def test_a_run_with_a_curriculum_resumes_to_the_bit(tmp_path):
    task = eased(tmp_path / "data", rates=(1.0, 4.0))
    assert_resumes_to_the_bit(tmp_path, task, kind=SequenceConfig(d_model=4, n_layers=1, norm="batch"))
