"""Mel-frequency cepstral coefficients (MFCC).

At 16 kHz: frames of 200 samples every 100, centred, with the ends reflected; a Hann window; the power of the 101
frequencies; 64 triangles, equally wide in mel, over all of them; the natural logarithm; the first 20 coefficients of an
orthonormal DCT-II. A second is 161 frames of 20 numbers.
"""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
FRAME = 200  # samples at 16 kHz, every half frame
MELS = 64
COEFFICIENTS = 20
FLOOR = 1e-6  # below which power is silence


def mfcc(x: NDArray[np.floating], sampling_rate: int = 16_000, frame: int = FRAME) -> Matrix:
    """x (..., length), of which 1 is full scale, as (..., 1 + length // (frame // 2), COEFFICIENTS)."""
    hop = frame // 2
    if x.shape[-1] < frame:  # too short to be reflected
        x = np.concatenate([x, np.zeros((*x.shape[:-1], frame - x.shape[-1]))], axis=-1)
    ends = [(0, 0)] * (x.ndim - 1)
    padded = np.pad(x.astype(np.float64), [*ends, (hop, hop)], mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, frame, axis=-1)[..., ::hop, :]
    power = np.abs(np.fft.rfft(frames * hann(frame), axis=-1)) ** 2
    return np.asarray(np.log(power @ mel_filters(frame, sampling_rate) + FLOOR) @ dct(MELS, COEFFICIENTS))


def frames_of(length: int) -> int:
    """Number of frames of a clip of that length."""
    return 1 + max(length, FRAME) // (FRAME // 2)


def hann(frame: int) -> Matrix:
    """The periodic Hann window (frame,)."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame))


def mel_filters(frame: int, sampling_rate: int) -> Matrix:
    """(frame // 2 + 1, MELS): triangles between MELS + 2 points, equally far apart in mel, from 0 to half the rate.

    Each is 1 at its middle point. Low ones may lie between two frequencies of the spectrum, and are then 0.
    """
    frequencies = np.arange(frame // 2 + 1) * sampling_rate / frame
    top = 2595 * np.log10(1 + sampling_rate / 2 / 700)
    points = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    low, middle, high = points[:-2], points[1:-1], points[2:]
    rise = (frequencies[:, None] - low) / (middle - low)
    fall = (high - frequencies[:, None]) / (high - middle)
    return np.asarray(np.maximum(0, np.minimum(rise, fall)))


def dct(size: int, count: int) -> Matrix:
    """(size, count): x @ dct(size, count) are the first coefficients of the orthonormal DCT-II of x (..., size)."""
    basis = np.cos(np.pi / size * (np.arange(size)[:, None] + 0.5) * np.arange(count))
    basis *= np.sqrt(2 / size)
    basis[:, 0] /= np.sqrt(2)
    return np.asarray(basis)
