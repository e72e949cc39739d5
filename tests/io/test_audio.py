"""Reading audio: formats, sampling rates, channels, bad files, and the array that is kept."""

import errno
import struct

import numpy as np
import pytest
import soundfile
from audio_files import sound, write

from longwave.core import files
from longwave.io import audio
from longwave.io.audio import BadFile, read_header, read_samples, resampled


def read(folder, cache=None, **settings):
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    return audio.read(paths, [path.name for path in paths], "clips", cache or folder / "cache", **settings)


# One file


@pytest.mark.parametrize(
    ("name", "subtype", "resolution"),
    [
        ("a.wav", "PCM_U8", 2**-7),
        ("a.wav", "PCM_16", 2**-15),
        ("a.wav", "PCM_24", 2**-23),
        ("a.wav", "PCM_32", 2**-23),  # of float32
        ("a.wav", "FLOAT", 2**-24),
        ("a.wav", "DOUBLE", 2**-24),
        ("a.flac", "PCM_16", 2**-15),
        ("a.flac", "PCM_24", 2**-23),
        ("a.ogg", "VORBIS", 0.1),  # which is lossy
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_is_read_to_its_resolution(name, subtype, resolution, channels, tmp_path):
    one = sound("tone", 4000)
    samples = np.stack([one, -one][:channels], axis=1)
    path = write(tmp_path / name, samples, 8000, subtype)
    found, rate = read_samples(path)
    assert (rate, found.shape, found.dtype) == (8000, (4000, channels), np.float32)
    assert np.abs(found - samples).max() <= 1.01 * resolution
    header = read_header(path)
    assert (header.sampling_rate, header.channels) == (8000, channels)
    assert header.is_whole == (subtype in ("PCM_U8", "PCM_16"))


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_samples(path):
    soundfile.write(path, np.zeros(0), 8000)


def with_number(value):
    def spoil(path):
        samples = sound("noise", 1000)
        samples[123] = value
        soundfile.write(path, samples, 8000, "FLOAT")

    return spoil


BAD = {
    "empty": ("a.wav", lambda path: path.write_bytes(b""), "the file is empty"),
    "a cut header": ("a.wav", lambda path: path.write_bytes(path.read_bytes()[:30]), "its header ends before the sa"),
    "cut samples": ("a.wav", half, r"truncated: expected 2,000 bytes of samples, got 978"),
    "a cut FLAC file": ("a.flac", half, "truncated|cannot be read"),
    "no samples": ("a.wav", without_samples, "expected samples, got none"),
    "NaN": ("a.wav", with_number(np.nan), "sample 123: expected a finite number, got nan"),
    "an infinity": ("a.wav", with_number(-np.inf), "sample 123: expected a finite number, got -inf"),
    "text": ("a.wav", lambda path: path.write_text("no audio at all"), "expected a WAV, FLAC or OGG file"),
    "a folder": ("a.wav", lambda path: (path.unlink(), path.mkdir()), "cannot be opened"),
    "nothing": ("a.wav", lambda path: path.unlink(), "cannot be opened"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_the_reason(case, tmp_path):
    name, spoil, message = BAD[case]
    path = write(tmp_path / name, sound("noise", 1000), 8000)
    spoil(path)
    with pytest.raises(BadFile, match=message):
        read_samples(path)


def test_a_wav_file_from_a_pipe_which_does_not_know_its_size_is_read(tmp_path):
    path = write(tmp_path / "a.wav", sound("noise", 1000), 8000)
    content = path.read_bytes()
    place = content.index(b"data") + 4
    path.write_bytes(content[:place] + struct.pack("<I", 0xFFFFFFFF) + content[place + 4 :])
    assert len(read_samples(path)[0]) == 1000


# Sampling rates


@pytest.mark.parametrize(("before", "after"), [(16000, 8000), (8000, 16000), (44100, 8000), (11025, 8000)])
def test_a_tone_is_the_same_tone_at_another_rate(before, after):
    tone = {rate: np.sin(2 * np.pi * 440 * np.arange(rate) / rate)[:, None] for rate in (before, after)}
    found = resampled(tone[before].astype(np.float32), before, after)
    inside = slice(after // 10, -after // 10)  # of a tone that is not cut off
    assert found.shape == tone[after].shape
    assert np.abs(found - tone[after])[inside].max() < 0.005  # the ripple of the filter


def test_what_the_new_rate_cannot_hold_is_removed():
    high = np.sin(2 * np.pi * 6000 * np.arange(16000) / 16000)[:, None].astype(np.float32)
    assert np.abs(resampled(high, 16000, 8000)[800:-800]).max() < 0.01
    assert np.abs(high[::2]).max() > 0.9  # as every second sample would have it: a tone of 2 kHz


def test_clips_get_the_commonest_rate_or_the_one_that_is_asked_for(tmp_path):
    for k, rate in enumerate((8000, 16000, 8000, 4000)):
        write(tmp_path / f"{k}.wav", sound("tone", rate // 10, rate), rate)
    found = read(tmp_path)
    assert (found.clips.sampling_rate, found.clips.lengths.tolist()) == (8000, [800] * 4)
    assert found.notes == ("clips resampled to 8,000 Hz: 1 from 4,000 Hz, 1 from 16,000 Hz",)
    assert read(tmp_path, sampling_rate=16000).clips.lengths.tolist() == [1600] * 4
    np.testing.assert_array_equal(found.clips.clip(0), read_samples(tmp_path / "0.wav")[0])


# Channels and numbers


def test_16_bits_stay_whole_numbers_and_other_files_become_floats(tmp_path):
    samples = np.array([-32768, -1, 0, 1, 32767], np.int16)
    write(tmp_path / "a.wav", samples, 8000, "PCM_16")
    clips = read(tmp_path).clips
    assert (clips.values.dtype, clips.values[:, 0].tolist()) == (np.int16, samples.tolist())
    assert clips.clip(0)[:, 0].tolist() == (samples / 32768).tolist()
    write(tmp_path / "b.wav", np.array([0.25, -0.5]), 8000, "FLOAT")
    clips = read(tmp_path).clips
    assert clips.values.dtype == np.float32
    np.testing.assert_array_equal(clips.clip(0)[:, 0], np.float32(samples / 32768))
    assert clips.clip(1)[:, 0].tolist() == [0.25, -0.5]


def test_channels_are_mixed_down_or_kept(tmp_path):
    pair = np.stack([sound("noise", 100, seed=k) for k in (1, 2)], axis=1)
    write(tmp_path / "a.wav", pair, 8000, "FLOAT")
    mixed, kept = read(tmp_path), read(tmp_path, channels="keep")
    np.testing.assert_allclose(mixed.clips.clip(0)[:, 0], pair.mean(axis=1), atol=1e-7)
    assert mixed.notes == ("clips mixed down to one channel: 1",)
    np.testing.assert_allclose(kept.clips.clip(0), pair, atol=1e-7)
    write(tmp_path / "b.wav", pair, 8000, "FLOAT")
    write(tmp_path / "c.wav", pair[:, 0], 8000, "FLOAT")
    with pytest.raises(
        ValueError, match=r"1 of 3 files cannot be used: c.wav: expected 2 channels, as most files have"
    ):
        read(tmp_path, channels="keep")


# Many files


def test_bad_files_are_named_and_more_than_a_few_are_refused(tmp_path):
    for k in range(10):
        write(tmp_path / f"{k}.wav", sound("noise", 50 + k), 8000)
    for k in range(7):
        (tmp_path / f"{k}.wav").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"clips: 7 of 10 files cannot be used: 0.wav: the file is empty; .*and 2 more; fix"
    ):
        read(tmp_path, max_bad=6)
    found = read(tmp_path, max_bad=7)
    assert found.rows.tolist() == [7, 8, 9]
    assert found.clips.names == ("7.wav", "8.wav", "9.wav")
    assert found.notes[0].startswith("7 of 10 files cannot be used and were skipped: 0.wav: the file is empty; 1.wav")
    for k in range(7, 10):
        (tmp_path / f"{k}.wav").write_bytes(b"")
    with pytest.raises(ValueError, match="10 of 10 files cannot be used"):
        read(tmp_path, max_bad=100)


def test_no_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"clips: expected files that end in .wav, .flac, .ogg, .oga, got none"):
        audio.read([], [], "clips", tmp_path)


# The cache


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "clips"
    for k in range(4):
        write(folder / f"{k}.wav", sound("noise", 50 + k, seed=k), 8000, "PCM_16" if k else "FLOAT")
    return folder


def test_files_are_read_once_and_then_mapped_into_memory(clips, tmp_path, monkeypatch):
    first = read(clips, cache=tmp_path / "cache")
    assert isinstance(first.clips.values, np.memmap)
    monkeypatch.setattr(audio, "read_samples", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr(audio, "read_header", lambda *_: pytest.fail("read again"))
    again = read(clips, cache=tmp_path / "cache")
    np.testing.assert_array_equal(again.clips.values, first.clips.values)
    assert (again.clips.digest, again.clips.names, again.notes) == (first.clips.digest, first.clips.names, first.notes)


def test_a_changed_file_or_another_rate_is_read_anew(clips, tmp_path):
    first = read(clips, cache=tmp_path / "cache")
    write(clips / "2.wav", sound("noise", 90), 8000)
    second = read(clips, cache=tmp_path / "cache")
    assert second.clips.lengths.tolist() == [50, 51, 90, 53]
    assert second.clips.digest != first.clips.digest
    assert read(clips, cache=tmp_path / "cache", sampling_rate=4000).clips.lengths.tolist() == [25, 26, 45, 27]


def test_the_digest_is_of_the_samples_wherever_the_files_are(clips, tmp_path):
    first = read(clips, cache=tmp_path / "cache")
    elsewhere = clips.rename(tmp_path / "moved")
    assert read(elsewhere, cache=tmp_path / "other").clips.digest == first.clips.digest


@pytest.mark.parametrize("ending", [".raw", ".json"])
def test_an_incomplete_cache_is_made_again(clips, tmp_path, ending):
    first = read(clips, cache=tmp_path / "cache").clips.values.copy()
    (part,) = (tmp_path / "cache").glob(f"*{ending}")
    part.write_bytes(part.read_bytes()[:-7])
    np.testing.assert_array_equal(read(clips, cache=tmp_path / "cache").clips.values, first)


def test_what_is_refused_leaves_nothing_behind(clips, tmp_path):
    half(clips / "3.wav")
    with pytest.raises(ValueError, match=r"1 of 4 files cannot be used: 3.wav: the file is truncated"):
        read(clips, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(read(clips, cache=tmp_path / "cache", max_bad=1).clips) == 3
    with pytest.raises(ValueError, match="1 of 4 files cannot be used"):  # which the cache knows, too
        read(clips, cache=tmp_path / "cache")


def test_clips_are_read_into_memory_where_the_cache_cannot_be_written(clips, tmp_path, monkeypatch):
    first = read(clips, cache=tmp_path / "cache")

    def refuse(path):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(files, "atomic", refuse)
    found = read(clips, cache=tmp_path / "other")
    assert not isinstance(found.clips.values, np.memmap)
    np.testing.assert_array_equal(found.clips.values, first.clips.values)
    assert found.clips.digest == first.clips.digest
    assert "other is not writable, so every run reads all clips again" in found.notes[-1]
