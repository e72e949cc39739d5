"""Waveforms and spectrograms show what is in the samples."""

import numpy as np
import pytest
from audio_files import sound
from matplotlib.figure import Figure

from longwave.tasks.audio.plots import show_frames, show_spectrogram, show_waveform


@pytest.mark.parametrize("length", [5, 999, 12_345])
def test_a_waveform_has_the_range_and_the_duration_of_its_samples(length):
    samples = sound("noise", length)[:, None]
    axes = Figure().subplots()
    show_waveform(axes, samples, length / 8000)
    drawn = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (drawn.min(), drawn.max()) == (samples.min(), samples.max())
    assert axes.get_xlim() == (0, length / 8000)


@pytest.mark.parametrize("rate", [8000, 44_100])
def test_a_spectrogram_is_brightest_at_the_tone(rate):
    axes = Figure().subplots()
    show_spectrogram(axes, np.sin(2 * np.pi * 1000 * np.arange(rate) / rate)[:, None], rate)
    (image,) = axes.images
    level = np.asarray(image.get_array())
    kilohertz = level.mean(axis=1).argmax() / (len(level) - 1) * rate / 2000
    assert kilohertz == pytest.approx(1, abs=0.1)
    assert image.get_extent() == [0, 1, 0, rate / 2000]


def test_silence_and_constant_coefficients_are_drawn():
    axes = Figure().subplots()
    show_spectrogram(axes, np.zeros((10, 1)), 8000)
    show_frames(axes, np.ones((4, 20)), 1.0)
    assert all(np.isfinite(np.asarray(image.get_array())).all() for image in axes.images)
