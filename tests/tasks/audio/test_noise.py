"""Clips that are made worse for training: what changes, what does not, and what it follows from."""

import numpy as np
import pytest
import torch
from audio_files import write_fsdd
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_resumes_to_the_bit

from longwave.models import SequenceConfig
from longwave.tasks.audio import noise as noise_module
from longwave.tasks.audio.noise import LOUDEST, LOWEST_CUTOFF, QUIETEST, Disturbed, band_noise, disturbed, duller
from longwave.tasks.speech_commands.task import SpeechCommandsConfig
from longwave.tasks.spoken_digits.task import SpokenDigitsConfig


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    write_fsdd(folder)
    return folder


def noisy_task(digits, **more):
    return SpokenDigitsConfig(valid_takes=1, noise=0.7, **more).build(digits)


def test_a_clip_is_disturbed_alike_whatever_its_batch_and_anew_in_each_epoch(digits):
    task = noisy_task(digits)
    one, two = task.train_at(0, 0), task.train_at(1, 0)
    length = one.batch([3])["x"].shape[1]
    torch.testing.assert_close(one.batch([5, 3])["x"][1, :length], one.batch([3])["x"][0], rtol=0, atol=0)
    changed = [not torch.equal(one.batch([k])["x"], task.train.batch([k])["x"]) for k in range(len(task.train))]
    assert 0.7 < np.mean(changed) <= 1  # of 0.91: duller, noisy, or both
    other = [not torch.equal(one.batch([k])["x"], two.batch([k])["x"]) for k in range(len(task.train))]
    assert np.mean(other) > 0.7
    assert not torch.equal(one.batch([3])["x"], task.train_at(0, 1).batch([3])["x"])


def test_labels_lengths_padding_and_the_other_splits_stay(digits):
    task, plain = noisy_task(digits), SpokenDigitsConfig(valid_takes=1).build(digits)
    indices = range(len(task.train))
    heard, clean = task.train_at(0, 0).batch(indices), plain.train.batch(indices)
    assert sorted(heard) == sorted(clean)
    for name in ("y", "lengths"):
        assert torch.equal(heard[name], clean[name])
    for row, length in zip(heard["x"], heard["lengths"].tolist(), strict=True):
        assert not row[length:].any()
    assert isinstance(task.train_at(0, 0), Disturbed)
    assert plain.train_at(0, 0) is plain.train
    for name in ("valid", "test"):
        assert torch.equal(getattr(task, name).batch([0, 1])["x"], getattr(plain, name).batch([0, 1])["x"])


@pytest.mark.parametrize("length", [256, 257])
@pytest.mark.parametrize("cutoff", [LOWEST_CUTOFF, 0.5])
def test_what_is_above_the_cutoff_falls_by_24_db_an_octave(length, cutoff):
    x = np.random.default_rng(0).standard_normal((length, 2))
    ratio = np.abs(np.fft.rfft(duller(x, cutoff), axis=0) / np.fft.rfft(x, axis=0))[:-1]
    frequency = (2 * np.fft.rfftfreq(length))[:-1, None]
    np.testing.assert_allclose(ratio, np.broadcast_to((1 + (frequency / cutoff) ** 8) ** -0.5, ratio.shape), atol=1e-12)


@pytest.mark.parametrize("length", [4000, 4001])
def test_noise_has_its_band_and_a_deviation_of_1(length):
    noise = band_noise(np.random.PCG64(0), (length, 1), 0.25, 0.5)
    assert noise.std() == pytest.approx(1)
    power = np.abs(np.fft.rfft(noise[:, 0])) ** 2
    frequency = 2 * np.fft.rfftfreq(length)
    assert power[(frequency > 0.2) & (frequency < 0.55)].sum() / power.sum() > 0.999


def test_bursts_are_as_loud_as_drawn_and_come_at_the_share(monkeypatch):
    monkeypatch.setattr(noise_module, "duller", lambda x, cutoff: x)
    x = 3 * np.random.default_rng(0).standard_normal((2000, 1))
    bursts = [disturbed(x, 0.5, seed) - x for seed in range(300)]
    assert 0.4 < np.mean([bool(burst.any()) for burst in bursts]) < 0.6
    decibels = [20 * np.log10(burst.std() / x.std()) for burst in bursts if burst.any()]
    assert LOUDEST - 3 < max(decibels) < LOUDEST + 1
    assert np.percentile(decibels, 10) < QUIETEST + 6  # short ones are quieter, over the whole clip


@given(length=st.integers(1, 40), channels=st.integers(1, 3), seed=st.integers(0, 2**64 - 1), share=st.floats(0, 1))
@settings(max_examples=30)
def test_clips_of_any_length_stay_finite_and_silence_stays_silent(length, channels, seed, share):
    x = np.random.default_rng(0).standard_normal((length, channels))
    assert np.isfinite(disturbed(x, share, seed)).all()
    assert not disturbed(np.zeros_like(x), share, seed).any()
    np.testing.assert_array_equal(disturbed(x, 0.0, seed), x)


def test_the_draws_are_those_of_every_version():
    """Raw bits of PCG64, which numpy guarantees; the values were worked out once, with numpy 2.4."""
    x = np.sin(np.arange(6.0))[:, None]
    expected = [-0.02589527908081821, 0.5427455357700336, 0.42981092175389024]
    expected += [0.25292662515744435, -0.6257008927118285, -0.4130971401291906]
    np.testing.assert_allclose(disturbed(x, 1.0, 1)[:, 0], expected, atol=1e-9)


def test_a_run_with_noise_resumes_to_the_bit(digits, tmp_path):
    task = noisy_task(digits, rates=(1.0, 2.0))
    assert_resumes_to_the_bit(tmp_path, task, kind=SequenceConfig(d_model=4, n_layers=1, norm="batch"), bucket=2)


def test_what_is_no_share_and_noise_in_coefficients_are_refused():
    with pytest.raises(ValueError, match=r"noise: expected a share of the training clips from 0 to 1, got 1\.5"):
        SpokenDigitsConfig(noise=1.5)
    with pytest.raises(ValueError, match="noise: expected 0 with MFCC, as noise is added to samples"):
        SpeechCommandsConfig("sc10", features="mfcc", noise=0.5)
