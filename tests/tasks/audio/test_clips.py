"""Audio tasks: batches, scales, splits, notes and baselines, on clips made here."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from audio_files import KINDS, sound, write, write_clips, write_fsdd, write_speech_commands
from tiny import assert_resumes_to_the_bit

from longwave.io.audio import Clips, read_samples
from longwave.io.download.catalogue import MissingData
from longwave.models import SequenceConfig, WaveformCNNConfig
from longwave.tasks.audio.clips import POSITIONS, Scale, one_scale, scale_by_position
from longwave.tasks.audio.mfcc import mfcc
from longwave.tasks.audio.task import AudioConfig
from longwave.tasks.base import call
from longwave.tasks.speech_commands import task as speech_commands
from longwave.tasks.speech_commands.task import SETS, SpeechCommandsConfig, by_speaker, stratified
from longwave.tasks.spoken_digits.task import SpokenDigitsConfig

TEN = SETS["sc10"].words
SPEECH = SpeechCommandsConfig("sc10")


# Free spoken digits


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    write_fsdd(folder)
    return folder


def names(split):
    return [split.clips.names[row] for row in split.rows]


def test_the_first_five_takes_are_the_test_set_and_the_next_validate(digits):
    task = SpokenDigitsConfig(valid_takes=1).build(digits)
    takes = {
        name: {int(clip[:-4].split("_")[2]) for clip in names(split)}
        for name, split in vars(task).items()
        if name in ("train", "valid", "test")
    }
    assert takes == {"train": {6}, "valid": {5}, "test": {0, 1, 2, 3, 4}}
    assert task.counts == {"train": (2,) * 10, "valid": (2,) * 10, "test": (10,) * 10}
    assert [int(name[0]) for name in names(task.test)] == task.test.labels.tolist()
    with pytest.raises(ValueError, match="expected at least takes 0 to 10 of every digit, got none of 0, "):
        SpokenDigitsConfig().build(digits)


def test_clips_of_unequal_length_are_scaled_by_one_number_and_padded_with_zeros(digits):
    task = SpokenDigitsConfig(valid_takes=1).build(digits)
    heard = np.concatenate([task.train.clips.clip(row) for row in task.train.rows])
    assert task.inputs.mean == pytest.approx((heard.mean(),), abs=1e-8)
    assert task.inputs.deviation == pytest.approx((heard.std(),), rel=1e-6)
    batch = task.test.batch([3, 0])
    assert (batch["lengths"].tolist(), tuple(batch["x"].shape)) == ([150, 120], (2, 150, 1))
    path = digits / "free-spoken-digit-dataset" / "recordings" / names(task.test)[0]
    expected = (read_samples(path)[0] - task.inputs.mean) / task.inputs.deviation
    np.testing.assert_allclose(batch["x"][1, :120], expected, atol=1e-5)
    assert not batch["x"][1, 120:].any()


def test_missing_digits_are_named(tmp_path):
    with pytest.raises(MissingData, match="longwave data get fsdd"):
        SpokenDigitsConfig().build(tmp_path)


def test_a_silent_training_set_is_refused():
    clips = Clips(np.full((10, 1), 0.5, np.float32), np.array([4, 6]), 8000, ("a", "b"))
    with pytest.raises(ValueError, match="here: expected training clips with sound, got 2 silent ones"):
        one_scale(clips, np.arange(2), "here")


def test_a_run_on_clips_of_similar_length_resumes_to_the_bit(digits, tmp_path):
    task = SpokenDigitsConfig(valid_takes=1).build(digits)
    assert_resumes_to_the_bit(tmp_path, task, kind=SequenceConfig(d_model=4, n_layers=1, norm="batch"), bucket=2)


def test_the_baselines_are_the_prior_and_ridge_regression_on_mfcc(digits):
    found = SpokenDigitsConfig(valid_takes=1).build(digits).baselines()
    assert list(found) == ["class prior", "ridge on MFCC"]
    assert found["class prior"]["test"]["accuracy"] == 0.1
    assert found["ridge on MFCC"]["test"]["accuracy"] > 0.8  # every digit is a tone of its own


# Custom clips


@pytest.fixture
def clips(tmp_path):
    return write_clips(tmp_path / "clips", 33)


def test_a_folder_of_clips_is_divided_class_by_class(clips, tmp_path):
    task = AudioConfig(folder=clips).build(tmp_path)
    assert task.inputs.classes == KINDS
    assert task.counts == {"train": (9, 9, 9), "valid": (1, 1, 1), "test": (1, 1, 1)}
    assert (task.inputs.sampling_rate, task.inputs.length, task.notes) == (8000, None, ())
    assert task.fingerprint == AudioConfig(folder=clips).build(tmp_path / "other").fingerprint
    assert task.fingerprint != AudioConfig(folder=clips, split_seed=1).build(tmp_path).fingerprint
    found = task.baselines()
    assert found["ridge on MFCC"]["test"]["accuracy"] >= 2 / 3


def test_rates_channels_and_bad_files_are_noted(clips, tmp_path):
    write(clips / "tone" / "other.wav", np.stack([sound("tone", 400, 16000)] * 2, axis=1), 16000)
    (clips / "tone" / "broken.wav").write_bytes(b"RIFF")
    task = AudioConfig(folder=clips).build(tmp_path)
    assert [note.split(":")[0] for note in task.notes] == [
        "1 of 35 files cannot be used and were skipped",
        "clips resampled to 8,000 Hz",
        "clips mixed down to one channel",
    ]
    assert len(task.train) + len(task.valid) + len(task.test) == 34
    with pytest.raises(ValueError, match=r"1 of 35 files cannot be used: tone/broken.wav"):
        AudioConfig(folder=clips, max_bad=0).build(tmp_path)
    (clips / "tone" / "broken.wav").unlink()
    assert AudioConfig(folder=clips, sampling_rate=4000).build(tmp_path).inputs.sampling_rate == 4000


def test_channels_that_are_kept_share_one_scale(tmp_path):
    for k in range(9):
        pair = np.stack([sound(KINDS[k % 3], 100, seed=k), 0.1 * sound("noise", 100, seed=k)], axis=1)
        write(tmp_path / "clips" / KINDS[k % 3] / f"{k}.wav", pair)
    task = AudioConfig(folder=tmp_path / "clips", channels="keep").build(tmp_path)
    assert task.spec.input_size == 2
    assert len(set(task.inputs.mean)) == len(set(task.inputs.deviation)) == 1  # what is quieter stays quieter


def test_long_clips_are_cut_if_that_is_asked_for(clips, tmp_path):
    task = AudioConfig(folder=clips, seconds=0.015).build(tmp_path)
    assert task.train.lengths.max() == task.train.batch(range(27))["x"].shape[1] == 120
    assert task.notes == ("clips cut to their first 0.015 seconds: 24",)


def test_splits_come_from_a_column_and_classes_can_count_alike(clips, tmp_path):
    rows = [f"{kind}/{k}.wav,{kind},{'test' if k < 6 else 'train'}" for k in range(33) for kind in [KINDS[k % 3]]]
    (clips / "list.csv").write_text("\n".join(["file,label,part", *rows[:-2]]) + "\n")
    task = AudioConfig(csv=clips / "list.csv", split="part", balance=True).build(tmp_path)
    assert task.counts["test"] == (2, 2, 2)
    assert "no sequence is marked valid: 3 of the training set are held out for it" in task.notes
    assert task.goal == "balanced_accuracy"
    assert float(task.train.batch(range(len(task.train)))["weight"].mean()) == pytest.approx(1)
    assert "balanced_accuracy" in task.baselines()["ridge on MFCC"]["test"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folder": None}, "expected either --folder FOLDER or --csv FILE, got neither"),
        ({"sampling_rate": 0}, "sampling_rate: expected at least 1, got 0"),
        ({"seconds": 0.0}, "seconds: expected a number above 0, got 0.0"),
        ({"max_bad": -1}, "max_bad: expected at least 0, got -1"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(clips, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(AudioConfig(folder=clips), **changes).build(tmp_path)


def test_too_few_clips_of_a_class_are_refused(tmp_path):
    for k in range(7):
        write(tmp_path / "clips" / ("a" if k < 5 else "b") / f"{k}.wav", sound("noise", 50))
    with pytest.raises(ValueError, match="clips: class 'b' has 2 clips, too few for one in each split"):
        AudioConfig(folder=tmp_path / "clips").build(tmp_path)


# Speech Commands: splits


def test_ten_words_are_divided_70_15_15_word_by_word():
    """With the sizes of the paper's split of 34,975 clips."""
    labels = np.repeat(np.arange(10), [3498] * 5 + [3497] * 5)
    train, rest = stratified(labels, np.arange(34_975), 0.7, 0)
    valid, test = stratified(labels, rest, 0.5, 1)
    assert (len(train), len(valid), len(test)) == SETS["sc10"].counts
    assert np.array_equal(np.sort(np.concatenate([train, valid, test])), np.arange(34_975))
    for part, share in ((train, 0.7), (valid, 0.15), (test, 0.15)):
        assert np.abs(np.bincount(labels[part]) - share * np.bincount(labels)).max() <= 1.5
    assert np.array_equal(stratified(labels, np.arange(34_975), 0.7, 0)[0], train)
    assert not np.array_equal(stratified(labels, np.arange(34_975), 0.7, 5)[0], train)


def test_no_speaker_is_in_two_splits():
    speakers = np.random.default_rng(0).integers(40, size=500).astype(str)
    members = np.arange(0, 500, 2)
    splits = by_speaker(tuple(speakers), members, 0, "here")
    assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), members)
    heard = [set(speakers[rows]) for rows in splits.values()]
    assert sum(map(len, heard)) == len(set.union(*heard))
    assert [len(rows) / 250 for rows in splits.values()] == pytest.approx([0.7, 0.15, 0.15], abs=0.06)


def test_three_speakers_are_enough_for_three_splits_and_two_are_not():
    for seed in range(6):
        splits = by_speaker(("a", "b", "b", "b", "b", "b", "c"), np.arange(7), seed, "here")
        assert min(map(len, splits.values())) >= 1
    with pytest.raises(ValueError, match="here: expected clips of at least three speakers, one per split, got 2"):
        by_speaker(("a", "b"), np.arange(2), 0, "here")


# Speech Commands: the tasks


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Ten words by six speakers, of whom the last speaks for half a second."""
    folder = tmp_path_factory.mktemp("words")
    write_speech_commands(folder, TEN, speakers=6, short=1)
    return folder


def test_a_part_of_the_data_is_refused_unless_it_is_divided_anew(words):
    with pytest.raises(ValueError, match=r"expected all 34,975 clips of sc10, got 50; .*--task.resplit speaker"):
        SPEECH.build(words)
    with pytest.raises(
        ValueError, match="expected all 105,829 clips of sc35, got 60, and its official lists are missing"
    ):
        SpeechCommandsConfig("sc35").build(words)
    for task in (
        replace(SPEECH, resplit="speaker").build(words),
        SpeechCommandsConfig("sc35", resplit="speaker").build(words),
    ):
        assert "this score is not comparable with the paper's" in task.notes[-1]
        assert task.paper == {}
        heard = [{name[-21:] for name in names(split)} for split in (task.train, task.valid, task.test)]
        assert sum(map(len, heard)) == len(set.union(*heard))


def whole(monkeypatch, name, counts):
    """As if these were all clips of a set."""
    monkeypatch.setitem(speech_commands.SETS, name, replace(SETS[name], counts=counts))


def test_ten_words_leave_out_clips_that_are_not_a_second_and_know_the_paper(words, monkeypatch):
    whole(monkeypatch, "sc10", (35, 7, 8))
    task = SPEECH.build(words)
    assert task.inputs.classes == ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
    assert [len(split) for split in (task.train, task.valid, task.test)] == [35, 7, 8]
    assert task.notes[0] == "clips skipped because they are not exactly one second long, as in the paper: 10"
    assert task.paper == {"accuracy": 0.9832}
    assert [name.split("/")[0] for name in names(task.train)] == [TEN[k] for k in task.train.labels]
    apart = replace(SPEECH, split="speaker").build(words)
    assert (apart.paper, apart.notes[-1][:35]) == ({}, "no speaker is in two splits, unlike")


def test_all_words_follow_the_official_lists_and_short_clips_get_zeros(tmp_path, monkeypatch):
    folder = write_speech_commands(tmp_path, ("bed", "cat", "down"), speakers=4, short=4)
    monkeypatch.setitem(
        speech_commands.SETS, "sc35", replace(SETS["sc35"], words=("bed", "cat", "down"), counts=(6, 3, 3))
    )
    for name, speaker in (("validation_list.txt", 1), ("testing_list.txt", 2)):
        lines = [f"{word}/{speaker:08x}_nohash_0.wav" for word in ("bed", "cat", "down")]
        (folder / name).write_text("\n".join(lines) + "\n")
    task = SpeechCommandsConfig("sc35").build(tmp_path)
    assert names(task.valid) == [f"{word}/00000001_nohash_0.wav" for word in ("bed", "cat", "down")]
    assert [name[-14] for name in names(task.train)] == ["0", "3"] * 3
    assert task.spec.length == 16_000
    x = task.test.batch([0])["x"][0]
    assert x.shape == (16_000, 1)
    np.testing.assert_allclose(x[8000:], 0, atol=1e-7)  # zeros in all clips, and so in their mean
    assert task.train.scale.deviation[8000:] == pytest.approx(0.32768)


def test_samples_are_scaled_by_the_published_formula(words):
    """(x_t - mean_t) / (std_t + 0.32768), of the training clips."""
    task = replace(SPEECH, resplit="speaker").build(words)
    heard = np.stack([task.train.clips.clip(row)[:, 0].astype(np.float64) for row in task.train.rows])
    mean, deviation = heard.mean(axis=0), heard.std(axis=0, ddof=1)
    x = task.test.clips.clip(int(task.test.rows[1]))[:, 0]
    found = task.test.batch([1])["x"][0, :, 0]
    np.testing.assert_allclose(found, (x - mean) / (deviation + 0.32768), atol=1e-5)
    scale = Scale.from_bytes(task.artifacts()[POSITIONS])
    np.testing.assert_array_equal(scale.mean, task.train.scale.mean)
    np.testing.assert_array_equal(scale.deviation, task.train.scale.deviation)
    assert task.inputs.by_position


def test_the_scale_of_positions_does_not_depend_on_how_many_are_read_together(words, monkeypatch):
    task = replace(SPEECH, resplit="speaker").build(words)
    monkeypatch.setattr("longwave.tasks.audio.clips.TOGETHER", 16_000 * 7)
    again = scale_by_position(task.train.clips, task.train.rows, 16_000, 0.32768)
    np.testing.assert_allclose(again.deviation, task.train.scale.deviation, rtol=1e-6)
    np.testing.assert_allclose(again.mean, task.train.scale.mean, atol=1e-8)


def test_mfcc_are_standardised_coefficient_by_coefficient(words):
    task = SpeechCommandsConfig("sc10", features="mfcc", resplit="speaker").build(words)
    batch = task.train.batch(range(len(task.train)))
    assert tuple(batch["x"].shape[1:]) == (161, 20)
    np.testing.assert_allclose(batch["x"].mean((0, 1)), 0, atol=1e-4)
    np.testing.assert_allclose(batch["x"].flatten(0, 1).std(0), 1, atol=1e-3)
    path = words / "speech_commands_v0.02" / names(task.test)[2]
    expected = (mfcc(read_samples(path)[0][:, 0]) - task.inputs.mean) / task.inputs.deviation
    np.testing.assert_allclose(task.test.batch([2])["x"][0], expected, atol=1e-4)
    quiet = SpeechCommandsConfig("sc10", features="mfcc", resplit="speaker", scale=2**-15).build(words)
    assert not torch.allclose(quiet.test.batch([2])["x"], task.test.batch([2])["x"], atol=0.1)


# Models


@pytest.mark.parametrize(
    "config",
    [SpokenDigitsConfig(), SPEECH, SpeechCommandsConfig("sc35"), SpeechCommandsConfig("sc10", features="mfcc")],
)
def test_random_data_has_the_shapes_of_the_real_task(config):
    task = config.on_random_data(rows=3)
    expected = {"fsdd": (3, 3500, 1), "sc10-raw": (3, 16000, 1), "sc35-raw": (3, 16000, 1), "sc10-mfcc": (3, 161, 20)}
    assert tuple(task.train.batch(range(3))["x"].shape) == expected[task.name]
    assert task.spec.output_size == (35 if task.name == "sc35-raw" else 10)
    assert torch.equal(task.test.batch([1])["x"], config.on_random_data(rows=3).test.batch([1])["x"])


@pytest.mark.parametrize("config", [SequenceConfig(d_model=4, n_layers=1), WaveformCNNConfig(width=2, n_layers=2)])
def test_padding_of_clips_changes_nothing(digits, config):
    task = SpokenDigitsConfig(valid_takes=1).build(digits)
    model = config.resolve(task.spec).build().eval()
    with torch.no_grad():
        together = call(model, task.test.batch([4, 0]))
        alone = call(model, task.test.batch([0]))
    torch.testing.assert_close(together[1:], alone, rtol=1e-4, atol=1e-5)


# Real data


def linked(name, folder):
    """A public set among the real data, in a folder of the test's own, where its clips may be kept."""
    real = Path(os.environ.get("LONGWAVE_DATA", "nowhere")) / name
    if not real.is_dir():
        pytest.skip("LONGWAVE_DATA names no folder with this set")
    (folder / name).symlink_to(real.resolve())
    return folder


def test_the_real_digits_are_the_published_ones(tmp_path):
    task = SpokenDigitsConfig().build(linked("free-spoken-digit-dataset", tmp_path))
    assert [len(split) for split in (task.train, task.valid, task.test)] == [2400, 300, 300]
    lengths = task.train.clips.lengths
    assert (lengths.min(), lengths.max(), lengths.sum()) == (1148, 18262, 10_498_424)
    assert task.train.clips.values.dtype == np.int16


def test_the_real_words_divided_anew_keep_speakers_apart(tmp_path):
    task = replace(SPEECH, resplit="speaker").build(linked("speech_commands_v0.02", tmp_path))
    deviation = task.train.scale.deviation
    assert 0.33 < deviation.min() < deviation.max() < 0.6  # a gain of 2 to 3
    heard = [{name[-21:-13] for name in names(split)} for split in (task.train, task.valid, task.test)]
    assert sum(map(len, heard)) == len(set.union(*heard))


# Other sampling rates


@pytest.mark.parametrize("name", ["digits", "audio", "words"])
def test_clips_train_at_several_rates_and_dt_follows(name, digits, words, clips, tmp_path):
    rates = (0.5, 2.0)
    task = {
        "digits": lambda: SpokenDigitsConfig(valid_takes=1, rates=rates).build(digits),
        "audio": lambda: AudioConfig(folder=clips, rates=rates).build(tmp_path),
        "words": lambda: replace(SPEECH, resplit="speaker", rates=rates).build(words),
    }[name]()
    assert (task.spec.changes_rate, task.spec.length) == (True, None)
    split = task.train_at(epoch=0, seed=0)
    drawn = [split.batch([k]) for k in range(12)]
    assert {float(batch["rate"][0]) for batch in drawn} == set(rates)
    for k, batch in enumerate(drawn):
        plain = task.train.batch([k])["x"]
        if float(batch["rate"][0]) == 2:
            torch.testing.assert_close(batch["x"], plain[:, ::2])
        else:
            assert batch["x"].shape[1] == 2 * plain.shape[1]
    with pytest.raises(ValueError, match=r"rates: expected a number from 1/64 to 64"):
        SpokenDigitsConfig(rates=(0.0,))


def test_a_run_at_drawn_rates_on_clips_of_similar_length_resumes_to_the_bit(digits, tmp_path):
    task = SpokenDigitsConfig(valid_takes=1, rates=(1.0, 2.0)).build(digits)
    assert_resumes_to_the_bit(tmp_path, task, kind=SequenceConfig(d_model=4, n_layers=1, norm="batch"), bucket=2)


@pytest.mark.parametrize(("rate", "length"), [(2.0, 8000), (1.5, 10_667), (0.5, 32_000)])
def test_clips_of_another_rate_are_scaled_by_the_statistics_of_their_moments(words, rate, length):
    """At half the frequency by those of every second position, as if the scaled clip had been thinned out."""
    settings = replace(SPEECH, resplit="speaker")
    task = settings.build(words)
    artifact = task.artifacts().__getitem__
    recorded = round(16_000 / rate)
    some = Clips(np.ones((recorded, 1), np.float32), np.array([recorded]), recorded, ("new",))
    split, _ = settings.arrange(some, task.inputs, artifact)
    batch = split.batch([0])
    assert tuple(batch["x"].shape) == (1, length, 1)
    assert batch["rate"].tolist() == pytest.approx([rate], rel=1e-4)
    whole_clip = Clips(np.ones((16_000, 1), np.float32), np.array([16_000]), 16_000, ("new",))
    plain = settings.arrange(whole_clip, task.inputs, artifact)[0].batch([0])
    assert "rate" not in plain
    if rate == 2:
        torch.testing.assert_close(batch["x"], plain["x"][:, ::2])


def test_frames_of_mfcc_have_the_sampling_rate_of_training(words):
    settings = SpeechCommandsConfig("sc10", features="mfcc", resplit="speaker")
    task = settings.build(words)
    some = Clips(np.ones((8000, 1), np.float32), np.array([8000]), 8000, ("new",))
    with pytest.raises(
        ValueError, match="expected 16,000 Hz, as MFCC are computed at the rate of training, got 8,000 Hz"
    ):
        settings.arrange(some, task.inputs, task.artifacts().__getitem__)
