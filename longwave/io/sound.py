"""Sound as it comes: blocks of samples from a file of any length, or raw from a pipe."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.float32]  # (samples, channels), 1 is full scale
BYTES = 2  # of a raw sample


@contextmanager
def open_sound(path: Path) -> Iterator[Any]:
    """An audio file, with `samplerate` and `channels`; what cannot be read is refused with a reason."""
    import soundfile

    try:
        with soundfile.SoundFile(Path(path).expanduser()) as file:
            yield file
    except soundfile.SoundFileError as error:
        raise ValueError(f"{path}: expected an audio file (WAV, FLAC, OGG), got {error}") from error


def file_blocks(file: Any, source: str, size: int, channels: int) -> Iterator[Block]:
    """Blocks of at most `size` samples of an open file, mixed down if one channel is wanted of several."""
    if channels not in (1, file.channels):
        raise ValueError(f"{source}: expected {channels} channels, as in training, got {file.channels}")
    first = 0
    for block in file.blocks(blocksize=size, dtype="float32", always_2d=True):
        if not np.isfinite(block).all():
            step = first + int(np.argmin(np.isfinite(block).all(axis=1)))
            raise ValueError(f"{source}: the sample at {step / file.samplerate:g} s is not a finite number")
        first += len(block)
        yield block if block.shape[1] == channels else block.mean(axis=1, keepdims=True)


def raw_blocks(pipe: IO[bytes], size: int, channels: int) -> Iterator[Block]:
    """Blocks of at most `size` samples from a pipe: 16 bits with sign, little-endian, channels interleaved.

    A sample that the end of the pipe cuts off is left out.
    """
    frame = BYTES * channels
    while data := pipe.read(size * frame):
        whole = data[: len(data) // frame * frame]
        if whole:
            yield (np.frombuffer(whole, "<i2") / np.float32(32768)).astype(np.float32).reshape(-1, channels)


def steps(seconds: float, sampling_rate: float, name: str) -> int:
    """A time as a number of samples, at least 1."""
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name}: expected seconds above 0, got {seconds}")
    return max(1, round(seconds * sampling_rate))
