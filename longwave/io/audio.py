"""Reading audio: WAV, FLAC and OGG files of any sampling rate, once, into one array that is mapped into memory.

values          8- and 16-bit files stay whole numbers of 16 bits; others become floats, of which 1 is full scale
sampling rates  all clips get one rate, the commonest or the one asked for, by a polyphase filter
channels        mixed down to their mean, or kept if all files have as many
bad files       empty, truncated, damaged, or with samples that are not finite: named and counted, never left out
                in silence; more than a few are refused

Sound as it comes is read in blocks of samples: from a file of any length, or raw from a pipe.
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

from longwave.core.progress import Progress, Silent
from longwave.io.mapped import Put, mapped

Channels = Literal["mix", "keep"]
Block = NDArray[np.float32]  # (samples, channels), 1 is full scale
RAW_BYTES = 2  # of a sample from a pipe
ENDINGS = (".wav", ".flac", ".ogg", ".oga")
FULL_SCALE = 32768  # of 16 bits
WHOLE = ("PCM_16", "PCM_U8", "PCM_S8")  # subtypes that 16 bits hold exactly
UNKNOWN_SIZE = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # what a WAV file from a pipe says of its data
SHOWN = 5  # bad files that a message names
FORMAT = 1  # of the cache: a change of what is read gives other keys


class BadFile(ValueError):
    """A file that cannot be used, with the reason."""


@dataclass(frozen=True)
class Header:
    """What a file says of itself."""

    sampling_rate: int
    channels: int
    is_whole: bool  # whether 16 bits hold its samples exactly


@dataclass(frozen=True, eq=False)
class Clips:
    """Clips one after the other, in an array that may lie on the disk."""

    values: NDArray[Any]  # (total, channels): int16, or float32
    lengths: NDArray[np.int64]  # (n,)
    sampling_rate: int
    names: tuple[str, ...]  # (n,) of the files, as they were listed
    digest: str = ""  # of values and lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(n,)."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    @property
    def channels(self) -> int:
        """Numbers of a sample."""
        return int(self.values.shape[1])

    @property
    def unit(self) -> float:
        """What the values are to be multiplied by for 1 to be full scale."""
        return 1 / FULL_SCALE if self.values.dtype.kind == "i" else 1.0

    def clip(self, k: int) -> NDArray[np.float32]:
        """Clip k (length, channels), of which 1 is full scale."""
        start = int(self.starts[k])
        return np.asarray(self.values[start : start + int(self.lengths[k])] * np.float32(self.unit), np.float32)


@dataclass(frozen=True, eq=False)
class Recordings:
    """What was read of some files."""

    clips: Clips
    rows: NDArray[np.int64]  # (n,) which of the files the clips are
    notes: tuple[str, ...]


# One file


def read_header(path: Path) -> Header:
    """Sampling rate, channels and resolution, without the samples."""
    import soundfile

    _check_file(path)
    try:
        with soundfile.SoundFile(path) as file:
            return Header(file.samplerate, file.channels, file.subtype in WHOLE)
    except (soundfile.SoundFileError, OSError, TypeError) as error:  # TypeError: headerless, by the ending .raw
        raise BadFile(f"expected a WAV, FLAC or OGG file, and it cannot be read ({_reason(error)})") from error


def read_samples(path: Path, dtype: Literal["int16", "float32"] = "float32") -> tuple[NDArray[Any], int]:
    """The samples (n, channels) and their rate."""
    import soundfile

    _check_file(path)
    try:
        with soundfile.SoundFile(path) as file:
            expected, rate = file.frames, file.samplerate
            samples = file.read(dtype=dtype, always_2d=True)
    except (soundfile.SoundFileError, OSError, TypeError) as error:
        raise BadFile(f"expected a WAV, FLAC or OGG file, and it cannot be read ({_reason(error)})") from error
    if not len(samples):
        raise BadFile("expected samples, got none")
    if len(samples) < expected:
        raise BadFile(f"the file is truncated: expected {expected:,} samples, got {len(samples):,}")
    if dtype == "float32" and not np.isfinite(samples).all():
        first = int(np.argmin(np.isfinite(samples).all(axis=1)))
        raise BadFile(
            f"sample {first:,}: expected a finite number, got {samples[first][~np.isfinite(samples[first])][0]}"
        )
    return samples, rate


def wav_bytes(samples: NDArray[np.floating], sampling_rate: int) -> bytes:
    """Samples (n,) or (n, channels), of which 1 is full scale, as a WAV file of 16 bits."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.asarray(samples, np.float32).clip(-1, 1), sampling_rate, "PCM_16", format="WAV")
    return file.getvalue()


def resampled(samples: NDArray[np.float32], before: int, after: int) -> NDArray[np.float32]:
    """Samples (n, channels) at another rate, by a polyphase filter that removes what the new rate cannot hold."""
    if before == after:
        return samples
    from scipy.signal import resample_poly

    common = math.gcd(before, after)
    return np.asarray(resample_poly(samples, after // common, before // common, axis=0), np.float32)


def _check_file(path: Path) -> None:
    """Refuse what libsndfile would read as a shorter clip: a WAV file that ends before its data do."""
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


def _reason(error: Exception) -> str:
    """What libsndfile says, without the path."""
    text = str(getattr(error, "error_string", error))
    return text.rpartition(": ")[2].strip().rstrip(".")


# Many files


def read(
    paths: Sequence[Path],
    names: Sequence[str],
    source: str,
    *,
    sampling_rate: int | None = None,
    channels: Channels = "mix",
    most_bad: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Recordings:
    """The clips in some files, at one sampling rate: the commonest, or the one given.

    `names` are what messages call them, and `source` is where they are from. With a cache they are read once, and then
    mapped into memory as long as names, sizes and times of change of the files stay the same.
    """
    if not paths:
        raise ValueError(f"{source}: expected files that end in {', '.join(ENDINGS)}, got none")
    work = _Reading(paths, names, sampling_rate, channels, most_bad, source, progress or Silent())
    if cache is None:
        pieces: list[NDArray[Any]] = []
        facts, kept, digest = work.read(pieces.append), True, ""
        values: NDArray[Any] = np.concatenate(pieces)
    else:
        found = mapped(cache, _key(paths, names, sampling_rate, channels), work.read)
        values, facts, kept, digest = found.values, found.facts, found.is_kept, found.digest
    check_bad(facts["bad"], len(paths), most_bad, source)
    rows = np.array(facts["rows"], np.int64)
    lengths = np.array(facts["lengths"], np.int64)
    digest = hashlib.sha256(digest.encode() + lengths.tobytes()).hexdigest()
    clips = Clips(values, lengths, facts["sampling_rate"], tuple(names[k] for k in rows.tolist()), digest)
    notes = list(_notes(facts, len(paths)))
    if not kept:
        notes.append(f"{cache} cannot be written to, so that all clips are read anew for each run, into memory")
    return Recordings(clips, rows, tuple(notes))


@dataclass(frozen=True)
class _Reading:
    """Files to read."""

    paths: Sequence[Path]
    names: Sequence[str]
    sampling_rate: int | None
    channels: Channels
    most_bad: int
    source: str
    progress: Progress

    def read(self, put: Put) -> dict[str, Any]:
        """Put the samples of one file after the other; which files they are, how long, and what was done to them."""
        bad: list[tuple[str, str]] = []
        headers = self._headers(bad)
        check_bad(bad, len(self.paths), self.most_bad, self.source)
        rates = Counter(header.sampling_rate for header in headers.values())
        rate = self.sampling_rate or max(rates, key=lambda rate: (rates[rate], rate))
        wide = Counter(header.channels for header in headers.values())
        count = 1 if self.channels == "mix" else max(wide, key=lambda count: wide[count])
        is_whole = all(h.is_whole and (h.sampling_rate, h.channels) == (rate, count) for h in headers.values())
        rows, lengths = [], []
        self.progress.start(f"reading {self.source}", len(headers))
        for k, header in headers.items():
            self.progress.advance(1)
            try:
                if self.channels == "keep" and header.channels != count:
                    raise BadFile(f"expected {count} channels, as most files have, got {header.channels}")
                samples, _ = read_samples(self.paths[k], "int16" if is_whole else "float32")
            except BadFile as error:
                bad.append((self.names[k], str(error)))
                continue
            if not is_whole:
                mixed = samples.mean(axis=1, keepdims=True) if self.channels == "mix" else samples
                samples = resampled(np.asarray(mixed, np.float32), header.sampling_rate, rate)
            put(samples)
            rows.append(k)
            lengths.append(len(samples))
        check_bad(bad, len(self.paths), self.most_bad, self.source)
        return {
            "sampling_rate": rate,
            "rows": rows,
            "lengths": lengths,
            "bad": bad,
            "rates": {str(other): n for other, n in rates.items() if other != rate},
            "mixed": sum(n for c, n in wide.items() if c > 1) if self.channels == "mix" else 0,
        }

    def _headers(self, bad: list[tuple[str, str]]) -> dict[int, Header]:
        """What each file says of itself, by its number; those that cannot be read are `bad`."""
        headers = {}
        self.progress.start(f"looking at {self.source}", len(self.paths))
        for k, path in enumerate(self.paths):
            self.progress.advance(1)
            try:
                headers[k] = read_header(path)
            except BadFile as error:
                bad.append((self.names[k], str(error)))
        return headers


def check_bad(bad: Sequence[Sequence[str]], count: int, most: int, source: str) -> None:
    """Refuse more bad files than may be left out, or nothing but bad files."""
    if len(bad) > most or len(bad) == count:
        raise ValueError(
            f"{source}: {len(bad):,} of {count:,} files cannot be used: {listed(bad)}; mend or remove them"
        )


def listed(bad: Sequence[Sequence[str]]) -> str:
    """The first of some bad files, with the reasons."""
    more = f"; and {len(bad) - SHOWN:,} more" if len(bad) > SHOWN else ""
    return "; ".join(f"{name}: {reason}" for name, reason in bad[:SHOWN]) + more


def _notes(facts: dict[str, Any], count: int) -> Iterator[str]:
    """What was done to the files."""
    if facts["bad"]:
        yield f"{len(facts['bad'])} of {count:,} files cannot be used and were left out: {listed(facts['bad'])}"
    rate, others = facts["sampling_rate"], facts["rates"]
    if others:
        text = ", ".join(f"{n:,} of {int(other):,} Hz" for other, n in sorted(others.items(), key=lambda o: int(o[0])))
        yield f"clips that were resampled to {rate:,} Hz: {text}"
    if facts["mixed"]:
        yield f"clips with several channels that were mixed down to one: {facts['mixed']:,}"


def _key(paths: Sequence[Path], names: Sequence[str], sampling_rate: int | None, channels: Channels) -> str:
    """What stands for the samples of some files: their names, sizes and times of change, and how they are read."""
    total = hashlib.sha256(json.dumps([FORMAT, sampling_rate, channels]).encode())
    for path, name in zip(paths, names, strict=True):
        try:
            status = path.stat()
            total.update(json.dumps([name, str(path), status.st_size, status.st_mtime_ns]).encode())
        except OSError:
            total.update(json.dumps([name, str(path), None]).encode())
    return total.hexdigest()[:32]


# Sound as it comes


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
    frame = RAW_BYTES * channels
    while data := pipe.read(size * frame):
        whole = data[: len(data) // frame * frame]
        if whole:
            yield (np.frombuffer(whole, "<i2") / np.float32(32768)).astype(np.float32).reshape(-1, channels)


def steps(seconds: float, sampling_rate: float, name: str) -> int:
    """A time as a number of samples, at least 1."""
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name}: expected seconds above 0, got {seconds}")
    return max(1, round(seconds * sampling_rate))
