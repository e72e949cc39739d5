"""Waveforms, predicted sample by sample."""

import numpy as np
import pytest
import torch
from audio_files import sound, write, write_fsdd, write_speech_commands, write_tones

from longwave.io.audio import read_samples
from longwave.tasks.autoregressive import PADDING
from longwave.tasks.waveform.quantize import ENCODINGS, SILENCE, scaled
from longwave.tasks.waveform.task import DIGITS, WaveformConfig


def test_every_sample_of_every_file_is_a_target_once(tmp_path):
    """In natural order: 88 % of the windows to train on, then 6 % to validate and 6 % to test."""
    folder = tmp_path / "music"
    clips = {name: sound("noise", 70 + 10 * k, seed=k) for k, name in enumerate(["2.wav", "10.wav", "a/1.wav"])}
    for name, samples in clips.items():
        write(folder / name, samples, subtype="PCM_16")
    task = WaveformConfig(folder=folder, length=30).build(tmp_path)
    assert (len(task.train), len(task.valid), len(task.test)) == (7, 1, 1)
    found = [task.train.batch(range(7)), task.valid.batch([0]), task.test.batch([0])]
    targets = torch.cat([batch["y"].flatten() for batch in found])
    expected = []
    for name in ("2.wav", "10.wav", "a/1.wav"):
        samples, _ = read_samples(folder / name)
        expected.append(ENCODINGS["mu-law"].encode(scaled(samples[:, 0], samples.min(), samples.max())))
    own = targets[targets != PADDING].numpy()
    np.testing.assert_array_equal(own, np.concatenate(expected))
    assert task.fingerprint["samples"] == {"train": 180, "valid": 30, "test": 30}


def test_a_window_comes_in_behind_silence_one_sample_late(tmp_path):
    write_tones(tmp_path / "music")
    task = WaveformConfig(folder=tmp_path / "music", length=40, encoding="linear").build(tmp_path)
    batch = task.test.batch([0, 1])
    assert batch["x"][:, 0].tolist() == [SILENCE, SILENCE]
    assert torch.equal(batch["x"][:, 1:], batch["y"][:, :-1])
    assert (task.spec.vocabulary, task.spec.output_size, task.spec.length, task.goal) == (
        256,
        256,
        40,
        "bits_per_sample",
    )
    assert task.spec.scale == 256  # codes are in order
    facts = task.describe()
    assert (facts["sampling_rate"], facts["encoding"], facts["length"]) == (8000, "linear", 40)


def test_the_bigram_beats_the_unigram_beats_chance_on_tones(tmp_path):
    write_tones(tmp_path / "music", count=40)
    scores = WaveformConfig(folder=tmp_path / "music", length=100).build(tmp_path).baselines()
    for split in ("valid", "test"):
        uniform, unigram, bigram = (scores[name][split]["bits_per_sample"] for name in ("uniform", "unigram", "bigram"))
        assert uniform == pytest.approx(8)
        assert bigram < unigram < 8


def test_baselines_are_their_definitions(tmp_path):
    """Sums over all samples, one by one."""
    write_tones(tmp_path / "music")
    task = WaveformConfig(folder=tmp_path / "music", length=100).build(tmp_path)
    batch = task.train.batch(range(len(task.train)))
    x, y = (batch[name][batch["y"] != PADDING].numpy() for name in ("x", "y"))
    share = (np.bincount(y, minlength=256) + 1) / (len(y) + 256)
    held = task.test.batch(range(len(task.test)))
    losses = []
    for before, code in zip(held["x"].flatten().tolist(), held["y"].flatten().tolist(), strict=True):
        if code != PADDING:
            follows = ((x == before) & (y == code)).sum() + 16 * share[code]
            losses.append(-np.log2(follows / ((x == before).sum() + 16)))
    assert task.baselines()["bigram"]["test"]["bits_per_sample"] == pytest.approx(np.mean(losses))


def test_folders_called_train_valid_and_test_are_the_splits(tmp_path):
    for split, count in (("train", 3), ("validation", 1), ("test", 2)):
        write_tones(tmp_path / "music" / split, count, length=50)
    task = WaveformConfig(folder=tmp_path / "music", length=50).build(tmp_path)
    assert (len(task.train), len(task.valid), len(task.test)) == (3, 1, 2)


def test_spoken_digits_keep_their_splits(tmp_path):
    folder = write_fsdd(tmp_path)  # takes 0 to 6 of ten digits by two speakers
    write_tones(folder / "recordings", 1)
    (folder / "recordings" / "note 0.wav").rename(folder / "recordings" / "3_ann_10.wav")
    task = WaveformConfig("fsdd", length=200).build(tmp_path)
    assert [len(np.unique(split.places[:, 0])) for split in (task.train, task.valid, task.test)] == [1, 40, 100]
    assert task.sampling_rate == 8000


def test_the_digits_of_speech_commands_are_divided_by_its_lists(tmp_path):
    folder = write_speech_commands(tmp_path, ("yes", *DIGITS[:2]), speakers=4)
    settings = WaveformConfig("sc09", length=16_000)
    with pytest.raises(ValueError, match="expected its official lists of validation and test clips, got none"):
        settings.build(tmp_path)
    (folder / "validation_list.txt").write_text("zero/00000001_nohash_0.wav\n")
    (folder / "testing_list.txt").write_text("one/00000002_nohash_0.wav\none/00000003_nohash_0.wav\n")
    task = settings.build(tmp_path)
    assert (len(task.train), len(task.valid), len(task.test), task.length) == (5, 1, 2, 16_000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "waveform: expected --folder FOLDER, your audio, got none"),
        ({"data": "fsdd", "folder": "x"}, "folder: expected none with data fsdd"),
        (
            {"folder": "music", "length": 4000},
            "expected at least three windows of 4,000 samples, .*, got 2 at 8,000 Hz",
        ),
        ({"folder": "one"}, "expected audio in all three splits, got none for valid"),
    ],
)
def test_what_makes_no_task_is_refused(settings, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tones(tmp_path / "music", count=2)
    for split in ("train", "test", "valid"):
        write_tones(tmp_path / "one" / split, count=0 if split == "valid" else 1)
    with pytest.raises(ValueError, match=message):
        WaveformConfig(**settings | {name: tmp_path / settings[name] for name in settings if name == "folder"}).build(
            tmp_path
        )


def test_random_data_has_the_shape_of_the_task():
    task = WaveformConfig("sc09", length=64, sampling_rate=16_000).on_random_data(2)
    assert task.train.batch([0, 1])["x"].shape == (2, 64)
