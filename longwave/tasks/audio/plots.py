"""Clips of audio: waveforms, and spectrograms."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import BLUE, as_drawn

COLUMNS = 1000  # of a waveform: of more samples, the highest and lowest of each column are drawn
SLICES = 200  # of a spectrogram, about
RANGE = 60  # decibels below the loudest that are still seen


def show_waveform(axes: Any, samples: NDArray[np.floating], seconds: float, colour: str = BLUE) -> None:
    """The first channel of samples (n, channels) over time; the range of many samples, not all of them."""
    x = np.asarray(samples[:, 0], np.float64)
    edges = np.linspace(0, len(x), min(COLUMNS, len(x)) + 1).astype(int)[:-1]
    low, high = np.minimum.reduceat(x, edges), np.maximum.reduceat(x, edges)
    time = edges * seconds / len(x)
    axes.fill_between(time, low, high, color=colour, linewidth=0.6)
    axes.set_xlim(0, seconds)
    axes.tick_params(labelsize=7)


def show_spectrogram(axes: Any, samples: NDArray[np.floating], sampling_rate: int) -> None:
    """The power of the first channel, by time and frequency in kHz, in decibels below the loudest."""
    x = np.asarray(samples[:, 0], np.float64)
    frame = 1 << max(4, round(np.log2(max(1, 0.016 * sampling_rate))))
    x = np.pad(x, (frame // 2, frame))
    hop = max(1, min(frame // 2, len(samples) // SLICES))
    frames = np.lib.stride_tricks.sliding_window_view(x, frame)[: len(samples) : hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(frame), axis=1)) ** 2
    level = 10 * np.log10(power / (power.max() or 1.0) + 1e-12)
    extent = (0, len(samples) / sampling_rate, 0, sampling_rate / 2000)
    axes.imshow(level.T, origin="lower", aspect="auto", extent=extent, cmap="magma", vmin=-RANGE, vmax=0)
    axes.set_ylabel("kHz", fontsize=7)
    axes.tick_params(labelsize=7)


def show_frames(axes: Any, frames: NDArray[np.floating], seconds: float) -> None:
    """Coefficients (frames, coefficients) by time, each over its own range."""
    spread = frames - frames.mean(axis=0)
    spread = spread / np.where(spread.std(axis=0) > 0, spread.std(axis=0), 1.0)
    axes.imshow(
        spread.T, origin="lower", aspect="auto", extent=(0, seconds, 0, frames.shape[1]), cmap="RdBu_r", vmin=-3, vmax=3
    )
    axes.set_ylabel("MFCC", fontsize=7)
    axes.tick_params(labelsize=7)


def draw_sounds(sounds: Mapping[str, NDArray[np.floating]], sampling_rate: int) -> Any:
    """Sounds (n,) by their names: waveform and spectrogram of each, three in a row."""
    from matplotlib.figure import Figure

    columns = 3
    rows = math.ceil(len(sounds) / columns)
    figure = Figure(figsize=(10, 2.5 * rows), layout="constrained")
    panels = figure.subplots(2 * rows, columns, squeeze=False, gridspec_kw={"height_ratios": [1, 2] * rows})
    for axes in panels.flat[:]:
        axes.axis("off")
    for place, (name, samples) in enumerate(sounds.items()):
        row, column = divmod(place, columns)
        wave, spectrum = panels[2 * row, column], panels[2 * row + 1, column]
        wave.axis("on")
        spectrum.axis("on")
        wave.set_title(as_drawn(name), fontsize=8)
        show_waveform(wave, samples[:, None], len(samples) / sampling_rate)
        wave.set_ylim(-1, 1)
        wave.set_xticklabels([])
        show_spectrogram(spectrum, samples[:, None], sampling_rate)
        spectrum.set_xlabel("seconds", fontsize=7)
    return figure
