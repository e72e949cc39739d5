"""Augmentation of audio clips: low-pass filters, and bursts of noise.

A model trained on them relies less on high frequencies and on silence. So it keeps more of its accuracy when samples
are dropped, which aliases high frequencies to low ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.random import mixed, random_bits
from longwave.tasks.base import Batch, ChangedSplit

Values = NDArray[np.float64]
LOWEST_CUTOFF = 0.2  # of half the sampling frequency
LOUDEST, QUIETEST = 5.0, -25.0  # dB of a burst, relative to the deviation of its clip
NARROWEST = 0.1  # bandwidth of a burst, of half the sampling frequency
SOFTNESS = 0.02  # of the edges of a burst, as a share of the band and of the clip
OWN = np.uint64(0x6E6F697365)  # sets these draws apart from others of the same seed, epoch and example


@dataclass(frozen=True, eq=False)
class Disturbed(ChangedSplit):
    """A training set of clips, augmented for one epoch; the draws for a clip depend on seed, epoch and index."""

    share: float  # of the clips that are low-pass filtered, and, independently, that get a burst of noise
    epoch: int
    seed: int

    def batch(self, indices: Sequence[int]) -> Batch:
        """The batch of the split with augmented x; padding is unchanged."""
        batch = self.split.batch(indices)
        x = batch["x"].numpy().copy()
        lengths = batch["lengths"].tolist() if "lengths" in batch else [x.shape[1]] * len(x)
        bits = mixed(random_bits(self.seed, self.epoch, np.asarray(indices, np.int64)) + OWN)
        for row, length, own in zip(x, lengths, bits.tolist(), strict=True):
            row[:length] = disturbed(row[:length].astype(np.float64), self.share, own)
        return batch | {"x": torch.from_numpy(x)}


def disturbed(x: Values, share: float, seed: int) -> Values:
    """A clip (L, channels), low-pass filtered with probability `share`, and with probability `share` with a burst."""
    draw = np.random.PCG64(seed)
    is_duller, is_noisy, *where = _uniform(draw, 7)
    heard = duller(x, LOWEST_CUTOFF + (1 - LOWEST_CUTOFF) * where[0]) if is_duller < share else x
    if is_noisy >= share:
        return heard
    lowest = (1 - 2 * NARROWEST) * where[1]
    highest = lowest + NARROWEST + (1 - lowest) * where[2]
    begins, ends = sorted(1.6 * place - 0.3 for place in where[3:5])  # may lie outside, to cover the ends of the clip
    loudness = QUIETEST + (LOUDEST - QUIETEST) * float(_uniform(draw, 1)[0])
    noise = band_noise(draw, x.shape, lowest, highest) * _within(np.linspace(0, 1, len(x)), begins, ends)[:, None]
    return heard + noise * x.std() * 10 ** (loudness / 20)


def duller(x: Values, cutoff: float) -> Values:
    """x (L, channels) low-pass filtered, the cutoff in units of half the sampling frequency: 24 dB/octave, no delay."""
    spectrum = np.fft.rfft(x, axis=0)
    response = 1 / np.sqrt(1 + (2 * np.fft.rfftfreq(len(x)) / cutoff) ** 8)
    return np.fft.irfft(spectrum * response[:, None], len(x), axis=0)


def band_noise(draw: np.random.PCG64, shape: tuple[int, ...], lowest: float, highest: float) -> Values:
    """Noise (L, channels) of deviation 1 between two frequencies, in units of half the sampling frequency.

    Amplitudes are equal and phases random: it needs only uniform numbers, which are the same in every numpy version.
    """
    length, channels = shape
    frequencies = 2 * np.fft.rfftfreq(length)
    phases = _uniform(draw, len(frequencies) * channels).reshape(-1, channels)
    spectrum = np.exp(2j * np.pi * phases) * _within(frequencies, lowest, highest)[:, None]
    noise = np.fft.irfft(spectrum, length, axis=0)
    return np.asarray(noise / max(float(noise.std()), np.finfo(np.float64).tiny))


def _within(places: NDArray[np.floating], first: float, last: float) -> Values:
    """1 between two places and 0 elsewhere, with soft edges."""
    return (1 + np.tanh((places - first) / SOFTNESS)) * (1 + np.tanh((last - places) / SOFTNESS)) / 4


def _uniform(draw: np.random.PCG64, count: int) -> Values:
    """Uniform numbers in [0, 1) of 53 random bits each."""
    return np.asarray((draw.random_raw(count) >> np.uint64(11)) * 2.0**-53, np.float64)
