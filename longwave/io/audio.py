"""Reading audio: WAV, FLAC and OGG files of any sampling rate, once, into one memory-mapped array.

values          8- and 16-bit files stay 16-bit integers; others become floats, 1 being full scale
sampling rates  all clips are resampled to one rate, the most common or the one asked for, by a polyphase filter
channels        mixed down to their mean, or kept if all files have the same number
bad files       empty, truncated, damaged, or with samples that are NaN or inf: named and counted, never skipped
                silently; more than a few are refused

Streams are read in blocks of samples: from a file of any length, or raw from a pipe.
"""

import hashlib
import io
import json
import math
import os
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import SILENT, Progress
from longwave.io.mapped import Put, mapped

Channels = Literal["mix", "keep"]
Block = NDArray[np.float32]  # (samples, channels), 1 is full scale
RAW_BYTES = 2  # per sample from a pipe
ENDINGS = (".wav", ".flac", ".ogg", ".oga")
FULL_SCALE = 32768  # of 16 bits
WHOLE = ("PCM_16", "PCM_U8", "PCM_S8")  # subtypes that 16 bits hold exactly
UNKNOWN_SIZE = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # the data size in a WAV file from a pipe
SHOWN = 5  # bad files that a message names
FORMAT = 1  # of the cache: bump it when the reader changes, so that keys differ


class BadFile(ValueError):
    """A file that cannot be used, with the reason."""


@dataclass(frozen=True)
class Header:
    """Properties of a file, from its header."""

    sampling_rate: int
    channels: int
    is_whole: bool  # whether 16 bits hold its samples exactly


@dataclass(frozen=True, eq=False)
class Clips:
    """Concatenated clips, in an array that may be memory-mapped."""

    values: NDArray[Any]  # (total, channels): int16, or float32
    lengths: NDArray[np.int64]  # (n,)
    sampling_rate: int
    names: tuple[str, ...]  # (n,) of the files, as they were listed
    digest: str = ""  # of values and lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    @property
    def channels(self) -> int:
        return int(self.values.shape[1])

    @property
    def unit(self) -> float:
        """The factor that scales values so that 1 is full scale."""
        return 1 / FULL_SCALE if self.values.dtype.kind == "i" else 1.0

    def clip(self, k: int) -> NDArray[np.float32]:
        """Clip k (length, channels), 1 being full scale."""
        start = int(self.starts[k])
        return np.asarray(self.values[start : start + int(self.lengths[k])] * np.float32(self.unit), np.float32)


@dataclass(frozen=True, eq=False)
class Recordings:
    """The clips read from a list of files."""

    clips: Clips
    rows: NDArray[np.int64]  # (n,) the index of each clip in the list of files
    notes: tuple[str, ...]


# One file


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An audio file, open to be read; BadFile if it is empty, truncated or in another format."""
    import soundfile

    _check_file(path)
    try:
        with soundfile.SoundFile(path) as file:
            yield file
    except (soundfile.SoundFileError, OSError, TypeError) as error:  # TypeError: headerless, by the ending .raw
        reason = str(getattr(error, "error_string", error)).rpartition(": ")[2].strip().rstrip(".")  # without the path
        raise BadFile(f"expected a WAV, FLAC or OGG file, but it cannot be read ({reason})") from error


def read_header(path: Path) -> Header:
    """Sampling rate, channels and resolution, without the samples."""
    with _opened(path) as file:
        return Header(file.samplerate, file.channels, file.subtype in WHOLE)


def read_samples(path: Path, dtype: Literal["int16", "float32"] = "float32") -> tuple[NDArray[Any], int]:
    """The samples (n, channels) and their rate."""
    with _opened(path) as file:
        expected, rate = file.frames, file.samplerate
        samples = file.read(dtype=dtype, always_2d=True)
    if not len(samples):
        raise BadFile("expected samples, got none")
    if len(samples) < expected:
        raise BadFile(f"the file is truncated: expected {expected:,} samples, got {len(samples):,}")
    if dtype == "float32" and not np.isfinite(samples).all():
        first = int(np.argmin(np.isfinite(samples).all(axis=1)))
        value = samples[first][~np.isfinite(samples[first])][0]
        raise BadFile(f"sample {first:,}: expected a finite number, got {value}")
    return samples, rate


def wav_bytes(samples: NDArray[np.floating], sampling_rate: int) -> bytes:
    """Samples (n,) or (n, channels), 1 being full scale, as a 16-bit WAV file."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.asarray(samples, np.float32).clip(-1, 1), sampling_rate, "PCM_16", format="WAV")
    return file.getvalue()


def resampled(samples: NDArray[np.float32], before: int, after: int) -> NDArray[np.float32]:
    """Samples (n, channels) at another rate, by a polyphase filter without aliasing."""
    if before == after:
        return samples
    from scipy.signal import resample_poly

    common = math.gcd(before, after)
    return np.asarray(resample_poly(samples, after // common, before // common, axis=0), np.float32)


def _check_file(path: Path) -> None:
    """Refuse a WAV file that ends before its data does, which libsndfile would read as a shorter clip."""
    try:
        size = path.stat().st_size
        if not size:
            raise BadFile("the file is empty")
        with open(path, "rb") as file:
            if file.read(4) != b"RIFF" or file.read(8)[4:] != b"WAVE":
                return
            while len(head := file.read(8)) == 8:
                name, length = struct.unpack("<4sI", head)
                left = size - file.tell()
                if name == b"data":
                    if length > left and length not in UNKNOWN_SIZE:
                        raise BadFile(f"the file is truncated: expected {length:,} bytes of samples, got {left:,}")
                    return
                file.seek(length + length % 2, os.SEEK_CUR)
        raise BadFile("the file is truncated: its header ends before the samples")
    except OSError as error:
        raise BadFile(f"it cannot be opened ({error.strerror})") from error


# Many files


def read(
    paths: Sequence[Path],
    names: Sequence[str],
    source: str,
    cache: Path,
    *,
    sampling_rate: int | None = None,
    channels: Channels = "mix",
    max_bad: int = 0,
    progress: Progress = SILENT,
) -> Recordings:
    """The clips in a list of files, at one sampling rate: the most common, or the one given.

    Messages use `names` for the files and `source` for where they are from. Files are read once into the folder
    `cache`, and then memory-mapped as long as their names, sizes and modification times stay the same.
    """
    if not paths:
        raise ValueError(f"{source}: expected files that end in {', '.join(ENDINGS)}, got none")

    def make(put: Put) -> dict[str, Any]:
        return _read_files(paths, names, source, sampling_rate, channels, max_bad, progress, put)

    found = mapped(cache, _key(paths, names, sampling_rate, channels), make)
    facts = found.facts
    check_bad(facts["bad"], len(paths), max_bad, source)
    rows = np.array(facts["rows"], np.int64)
    lengths = np.array(facts["lengths"], np.int64)
    digest = hashlib.sha256(found.digest.encode() + lengths.tobytes()).hexdigest()
    clips = Clips(found.values, lengths, facts["sampling_rate"], tuple(names[k] for k in rows.tolist()), digest)
    notes = list(_notes(facts, len(paths)))
    if not found.is_kept:
        notes.append(f"{cache} is not writable, so every run reads all clips again into memory")
    return Recordings(clips, rows, tuple(notes))


def _read_files(
    paths: Sequence[Path],
    names: Sequence[str],
    source: str,
    sampling_rate: int | None,
    channels: Channels,
    max_bad: int,
    progress: Progress,
    put: Put,
) -> dict[str, Any]:
    """Concatenate the samples of files; returns which files, their lengths, and what was done to them."""
    bad: list[tuple[str, str]] = []
    headers = {}
    progress.start(f"scanning {source}", len(paths))
    for k, path in enumerate(paths):
        progress.advance(1)
        try:
            headers[k] = read_header(path)
        except BadFile as error:
            bad.append((names[k], str(error)))
    check_bad(bad, len(paths), max_bad, source)
    rates = Counter(header.sampling_rate for header in headers.values())
    rate = sampling_rate or max(rates, key=lambda rate: (rates[rate], rate))
    wide = Counter(header.channels for header in headers.values())
    count = 1 if channels == "mix" else max(wide, key=lambda count: wide[count])
    is_whole = all(h.is_whole and (h.sampling_rate, h.channels) == (rate, count) for h in headers.values())
    rows, lengths = [], []
    progress.start(f"reading {source}", len(headers))
    for k, header in headers.items():
        progress.advance(1)
        try:
            if channels == "keep" and header.channels != count:
                raise BadFile(f"expected {count} channels, as most files have, got {header.channels}")
            samples, _ = read_samples(paths[k], "int16" if is_whole else "float32")
        except BadFile as error:
            bad.append((names[k], str(error)))
            continue
        if not is_whole:
            mixed = samples.mean(axis=1, keepdims=True) if channels == "mix" else samples
            samples = resampled(np.asarray(mixed, np.float32), header.sampling_rate, rate)
        put(samples)
        rows.append(k)
        lengths.append(len(samples))
    check_bad(bad, len(paths), max_bad, source)
    return {
        "sampling_rate": rate,
        "rows": rows,
        "lengths": lengths,
        "bad": bad,
        "rates": {str(other): n for other, n in rates.items() if other != rate},
        "mixed": sum(n for c, n in wide.items() if c > 1) if channels == "mix" else 0,
    }


def check_bad(bad: Sequence[Sequence[str]], count: int, most: int, source: str) -> None:
    """Refuse more bad files than may be skipped, or nothing but bad files."""
    if len(bad) > most or len(bad) == count:
        raise ValueError(f"{source}: {len(bad):,} of {count:,} files cannot be used: {listed(bad)}; fix or remove them")


def listed(bad: Sequence[Sequence[str]]) -> str:
    """The first bad files, with reasons."""
    more = f"; and {len(bad) - SHOWN:,} more" if len(bad) > SHOWN else ""
    return "; ".join(f"{name}: {reason}" for name, reason in bad[:SHOWN]) + more


def _notes(facts: dict[str, Any], count: int) -> Iterator[str]:
    if facts["bad"]:
        yield f"{len(facts['bad'])} of {count:,} files cannot be used and were skipped: {listed(facts['bad'])}"
    rate, others = facts["sampling_rate"], facts["rates"]
    if others:
        text = ", ".join(
            f"{n:,} from {int(other):,} Hz" for other, n in sorted(others.items(), key=lambda o: int(o[0]))
        )
        yield f"clips resampled to {rate:,} Hz: {text}"
    if facts["mixed"]:
        yield f"clips mixed down to one channel: {facts['mixed']:,}"


def _key(paths: Sequence[Path], names: Sequence[str], sampling_rate: int | None, channels: Channels) -> str:
    """A cache key: the names, sizes and modification times of the files, and how they are read."""
    total = hashlib.sha256(json.dumps([FORMAT, sampling_rate, channels]).encode())
    for path, name in zip(paths, names, strict=True):
        try:
            status = path.stat()
            total.update(json.dumps([name, str(path), status.st_size, status.st_mtime_ns]).encode())
        except OSError:
            total.update(json.dumps([name, str(path), None]).encode())
    return total.hexdigest()[:32]


# Streams


@contextmanager
def open_sound(path: Path) -> Iterator[Any]:
    """An open audio file, with `samplerate` and `channels`; one that cannot be read is a ValueError."""
    import soundfile

    try:
        with soundfile.SoundFile(Path(path).expanduser()) as file:
            yield file
    except soundfile.SoundFileError as error:
        raise ValueError(f"{path}: expected an audio file (WAV, FLAC, OGG), got {error}") from error


def file_blocks(file: Any, source: str, size: int, channels: int) -> Iterator[Block]:
    """Blocks of at most `size` samples of an open file, mixed down if the model has one channel."""
    if channels not in (1, file.channels):
        raise ValueError(f"{source}: expected {channels} channels, as in training, got {file.channels}")
    first = 0
    for block in file.blocks(blocksize=size, dtype="float32", always_2d=True):
        if not np.isfinite(block).all():
            step = first + int(np.argmin(np.isfinite(block).all(axis=1)))
            raise ValueError(f"{source}: the sample at {step / file.samplerate:g} s is NaN or inf")
        first += len(block)
        yield block if block.shape[1] == channels else block.mean(axis=1, keepdims=True)


def raw_blocks(pipe: IO[bytes], size: int, channels: int) -> Iterator[Block]:
    """Blocks of at most `size` samples from a pipe: 16-bit little-endian, interleaved; a cut last one is dropped."""
    frame = RAW_BYTES * channels
    while data := pipe.read(size * frame):
        if whole := data[: len(data) // frame * frame]:
            yield (np.frombuffer(whole, "<i2") / np.float32(FULL_SCALE)).astype(np.float32).reshape(-1, channels)


def steps(seconds: float, sampling_rate: float, name: str) -> int:
    """A duration as a number of samples, at least 1."""
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name}: expected a positive number of seconds, got {seconds}")
    return max(1, round(seconds * sampling_rate))
