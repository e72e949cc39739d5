"""MFCC against values computed by hand: silence, a tone at a frequency of the spectrum, and noise by the definition."""

import math

import numpy as np
from scipy import fft, signal

from longwave.tasks.audio.mfcc import dct, frames_of, hann, mel_filters, mfcc


def triangle(mel, frequency):
    """The weight of a frequency in Hz in one of the 64 triangles."""
    top = 2595 * math.log10(1 + 8000 / 700)
    low, middle, high = (700 * (10 ** (top * k / 65 / 2595) - 1) for k in (mel, mel + 1, mel + 2))
    return max(0.0, min((frequency - low) / (middle - low), (high - frequency) / (high - middle)))


def test_a_second_is_161_frames_of_20():
    assert mfcc(np.zeros(16000)).shape == (161, 20)
    assert mfcc(np.zeros((2, 3, 16000))).shape == (2, 3, 161, 20)
    assert frames_of(16000) == 161


def test_silence_is_the_floor_in_the_first_coefficient_alone():
    """sqrt(64) log(1e-6), and 0."""
    found = mfcc(np.zeros(1000))
    np.testing.assert_allclose(found[:, 0], 8 * math.log(1e-6), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1:], 0, atol=1e-11)


def test_a_tone_has_the_coefficients_that_follow_by_hand():
    """At 800 Hz, bin 10, a Hann window leaves amplitude * 200/4 there and half of that in the bins beside it."""
    tone = 0.3 * np.cos(2 * np.pi * 800 * np.arange(1600) / 16000)
    power = {720: (0.3 * 25) ** 2, 800: (0.3 * 50) ** 2, 880: (0.3 * 25) ** 2}
    mel = [sum(triangle(k, f) * p for f, p in power.items()) for k in range(64)]
    log = [math.log(energy + 1e-6) for energy in mel]
    expected = [
        (math.sqrt(1 / 64) if n == 0 else math.sqrt(2 / 64))
        * sum(value * math.cos(math.pi * n * (k + 0.5) / 64) for k, value in enumerate(log))
        for n in range(20)
    ]
    np.testing.assert_allclose(mfcc(tone)[8], expected, rtol=1e-6, atol=1e-6)  # rounding beside a floor of 1e-6


def test_noise_has_the_coefficients_of_the_definition():
    """Reflected by hand, by the sums of the discrete Fourier transform, triangle by triangle."""
    x = np.random.default_rng(0).standard_normal(450)
    padded = np.concatenate([x[100:0:-1], x, x[-2:-102:-1]])
    n = np.arange(200)
    for frame in range(5):
        piece = padded[100 * frame : 100 * frame + 200] * signal.get_window("hann", 200)
        power = [abs(sum(piece * np.exp(-2j * np.pi * k * n / 200))) ** 2 for k in range(101)]
        mel = [sum(triangle(k, 80 * b) * power[b] for b in range(101)) for k in range(64)]
        expected = fft.dct(np.log(np.array(mel) + 1e-6), norm="ortho")[:20]
        np.testing.assert_allclose(mfcc(x)[frame], expected, rtol=1e-9, atol=1e-9)


def test_the_triangles_add_up_to_one_between_the_first_and_the_last():
    filters = mel_filters(2000, 16000)
    frequencies = np.arange(1001) * 8
    first, last = 700 * (10 ** (np.array([1, 64]) / 65 * math.log10(1 + 8000 / 700)) - 1)
    inside = (frequencies > first) & (frequencies < last)
    np.testing.assert_allclose(filters[inside].sum(axis=1), 1, rtol=1e-12)
    assert (mel_filters(200, 16000).max(axis=0) == 0).any()  # low ones, between two of the 101 frequencies


def test_window_and_dct_are_scipys():
    x = np.random.default_rng(0).standard_normal((3, 64))
    np.testing.assert_allclose(hann(200), signal.get_window("hann", 200), atol=1e-15)
    np.testing.assert_allclose(x @ dct(64, 20), fft.dct(x, norm="ortho")[:, :20], atol=1e-13)


def test_a_clip_shorter_than_a_frame_gets_zeros():
    short = np.random.default_rng(0).standard_normal(60)
    np.testing.assert_array_equal(mfcc(short), mfcc(np.concatenate([short, np.zeros(140)])))
    assert len(mfcc(short)) == frames_of(60)
