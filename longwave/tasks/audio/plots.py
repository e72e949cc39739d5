"""Pictures of audio: waveforms, spectrograms, MFCC."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import BLUE, as_drawn, panels

PIXELS = 1000  # across a waveform: more samples are drawn as the range of each pixel
SLICES = 200  # of a spectrogram, approximately
RANGE = 60  # dB below the loudest that are visible
COLUMNS = 3  # sounds in a row


def show_waveform(axes: Any, samples: NDArray[np.floating], seconds: float, colour: str = BLUE) -> None:
    """The first channel of samples (n, channels) over time; many samples as their range."""
    x = np.asarray(samples[:, 0], np.float64)
    edges = np.linspace(0, len(x), min(PIXELS, len(x)) + 1).astype(int)[:-1]
    low, high = np.minimum.reduceat(x, edges), np.maximum.reduceat(x, edges)
    time = edges * seconds / len(x)
    axes.fill_between(time, low, high, color=colour, linewidth=0.6)
    axes.set_xlim(0, seconds)
    axes.tick_params(labelsize=7)


def show_spectrogram(axes: Any, samples: NDArray[np.floating], sampling_rate: int) -> None:
    """The power of the first channel by time and frequency, in dB below the loudest."""
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
    """Coefficients (frames, coefficients) over time, each standardised."""
    spread = frames - frames.mean(axis=0)
    spread = spread / np.where(spread.std(axis=0) > 0, spread.std(axis=0), 1.0)
    axes.imshow(
        spread.T, origin="lower", aspect="auto", extent=(0, seconds, 0, frames.shape[1]), cmap="RdBu_r", vmin=-3, vmax=3
    )
    axes.set_ylabel("MFCC", fontsize=7)
    axes.tick_params(labelsize=7)


def sound_panels(count: int, height: float, deep: int = 2) -> tuple[Any, Any]:
    """A figure, and `deep` axes below each other for each of `count` sounds, three in a row; the last one is larger."""
    rows = math.ceil(count / COLUMNS)
    figure, flat = panels(10, height * rows, deep * rows, COLUMNS, height_ratios=[1, 2][-deep:] * rows)
    own = flat.reshape(rows, deep, COLUMNS).swapaxes(1, 2).reshape(-1, deep)
    for axes in own[count:].ravel():
        axes.axis("off")
    for axes in own[:count]:
        axes[-1].set_xlabel("seconds", fontsize=7)
    return figure, own[:count]


def show_sound(axes: Any, samples: NDArray[np.floating], sampling_rate: int, title: str) -> None:
    """The waveform and the spectrogram of samples (n, channels)."""
    wave, spectrum = axes
    wave.set_title(title, fontsize=8)
    show_waveform(wave, samples, len(samples) / sampling_rate)
    wave.set_xticklabels([])
    show_spectrogram(spectrum, samples, sampling_rate)


def draw_sounds(sounds: Mapping[str, NDArray[np.floating]], sampling_rate: int) -> Any:
    """Sounds (n,) by name: the waveform and spectrogram of each."""
    figure, axes = sound_panels(len(sounds), 2.5)
    for own, (name, samples) in zip(axes, sounds.items(), strict=True):
        show_sound(own, samples[:, None], sampling_rate, as_drawn(name))
        own[0].set_ylim(-1, 1)
    return figure
