"""Waveforms: next-sample prediction, each sample one of 256 codes; custom audio, and spoken digits.

Clips are scaled by their own lowest and highest sample, and cut into windows of one length, which begin with silence as
the start token. Windows are encoded on access: the samples stay in the memory-mapped array.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.settings import at_least
from longwave.io.audio import Clips
from longwave.io.download import catalogue
from longwave.tasks.audio.clip_lists import ClipList, from_folder, speech_commands, spoken_digits
from longwave.tasks.audio.clips import FEW_BAD, cache_folder, random_clips, read_clips
from longwave.tasks.autoregressive import PADDING, AutoregressiveTask, shifted
from longwave.tasks.base import SPLITS, TASKS, Baselines, Batch, TaskConfig
from longwave.tasks.statistics import digest
from longwave.tasks.waveform.quantize import CODES, ENCODINGS, SILENCE, Code, scaled

Index = NDArray[np.int64]
HELD = 0.06  # share of the windows of custom audio for validation, and for the test
COUNTED = 2**24  # the most training samples that the baselines are fitted to
PRIOR = 16  # pseudo-counts of the unigram distribution in the bigram model
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, eq=False)
class ClipWindows:
    """Consecutive windows of clips; the last of a clip may be short."""

    clips: Clips
    ranges: NDArray[np.float32]  # (clips, 2) lowest and highest sample of each
    places: Index  # (n, 2) clip and first sample of each window
    length: int
    encoding: Code

    def __len__(self) -> int:
        return len(self.places)

    @property
    def counts(self) -> Index:
        """(n,) samples of each window."""
        return np.minimum(self.clips.lengths[self.places[:, 0]] - self.places[:, 1], self.length)

    def codes(self, index: int) -> NDArray[np.uint8]:
        """The codes of a window."""
        clip, first = self.places[index].tolist()
        start, end = self.clips.starts[clip] + first, self.clips.starts[clip] + self.clips.lengths[clip]
        samples = self.clips.values[start : min(end, start + self.length), 0] * np.float32(self.clips.unit)
        return ENCODINGS[self.encoding].encode(scaled(samples, *self.ranges[clip].tolist()))

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length)."""
        tokens = np.full((len(indices), self.length), SILENCE, np.int64)
        there = np.zeros(tokens.shape, np.bool_)
        for row, known, index in zip(tokens, there, indices, strict=True):
            codes = self.codes(index)
            row[: len(codes)], known[: len(codes)] = codes, True
        return shifted(tokens, there, start=SILENCE)


@dataclass(frozen=True, kw_only=True)
class WaveformTask(AutoregressiveTask):
    """Predict the next sample of a waveform."""

    report_module: ClassVar[str | None] = "longwave.tasks.waveform.report"
    has_values: ClassVar[bool] = True

    train: ClipWindows  # type: ignore[assignment]
    valid: ClipWindows  # type: ignore[assignment]
    test: ClipWindows  # type: ignore[assignment]

    @property
    def sampling_rate(self) -> int:
        return self.test.clips.sampling_rate

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Samples of each split, and a digest of the clips and windows."""
        known = np.frombuffer(self.test.clips.digest.encode(), np.uint8)
        return {
            "samples": {name: int(split.counts.sum()) for name, split in self.splits.items()},
            "digest": digest(known, *(split.places for split in self.splits.values())),
        }

    def describe(self) -> dict[str, Any]:
        facts = {"sampling_rate": self.sampling_rate, "encoding": self.test.encoding, "length": self.length}
        return super().describe() | facts

    def baselines(self) -> Baselines:
        """The uniform, the unigram, and the bigram distribution smoothed by the unigram."""
        counts = _followers(self.train, COUNTED)
        share = (counts.sum(0) + 1) / (counts.sum() + CODES)
        after = (counts + PRIOR * share) / (counts.sum(1, keepdims=True) + PRIOR)
        models = {"uniform": np.full((CODES, CODES), 1 / CODES), "unigram": share[None].repeat(CODES, 0)}
        models["bigram"] = after
        scores: Baselines = {name: {} for name in models}
        for split, windows in (("valid", self.valid), ("test", self.test)):
            found = _followers(windows)
            for name, chances in models.items():
                loss = -float((found * np.log(chances)).sum() / found.sum())
                scores[name][split] = self.reported({"loss": loss})
        return scores


def _followers(windows: ClipWindows, most: int | None = None) -> NDArray[np.float64]:
    """(256, 256) bigram counts, of at most `most` samples, spread over the windows."""
    count = len(windows) if most is None else min(len(windows), max(1, most // windows.length))
    found = np.zeros(CODES * CODES)
    for index in np.linspace(0, len(windows) - 1, count).astype(int).tolist():
        batch = windows.batch([index])
        before, codes = batch["x"].numpy()[0], batch["y"].numpy()[0]
        is_there = codes != PADDING
        found += np.bincount(before[is_there] * CODES + codes[is_there], minlength=CODES * CODES)
    return found.reshape(CODES, CODES)


@TASKS.register("waveform")
@dataclass(frozen=True)
class WaveformConfig(TaskConfig):
    """Audio, predicted sample by sample."""

    actions: ClassVar[Mapping[str, str]] = {"generate": "longwave.tasks.waveform.generate"}

    data: Literal["own", "sc09", "fsdd"] = "own"
    """Custom audio, in `folder`; the digits of Speech Commands, with its official splits; free spoken digits."""
    folder: Path | None = None
    """Custom audio: a folder of WAV, FLAC or OGG files; docs: waveforms."""
    encoding: Code = "mu-law"
    """256 codes by the mu law, finer for quiet sounds, or in equal steps."""
    length: int = at_least(2, 8192)
    """Samples per window, in training and evaluation."""
    sampling_rate: int | None = at_least(1, None)
    """Sampling rate in Hz that all clips are resampled to; none: the most common one."""
    max_bad: int = at_least(0, FEW_BAD)
    """Unreadable files that may be skipped; they are listed. More are refused."""

    @property
    def is_self_describing(self) -> bool:
        return self.sampling_rate is not None

    def build(self, data_dir: Path | None = None) -> WaveformTask:
        listed, progress = self._listed(data_dir), Patient()
        cache = cache_folder(data_dir)
        read = read_clips(listed, cache, sampling_rate=self.sampling_rate, max_bad=self.max_bad)
        progress.start("measuring the range of clips", len(read.clips))
        ranges = np.empty((len(read.clips), 2), np.float32)
        for k in range(len(read.clips)):
            clip = read.clips.clip(k)
            ranges[k] = clip.min(), clip.max()
            progress.advance(1)
        progress.end()
        splits = None if listed.splits is None else np.array([listed.splits[k] for k in read.rows.tolist()])
        task = self._task(read.clips, ranges, splits, listed.source)
        return replace(task, notes=(*listed.notes, *read.notes))

    def on_random_data(self, rows: int, seed: int = 0) -> WaveformTask:
        clips = random_clips(3 * rows, self.length, self.sampling_rate or 16_000, 1, seed)
        ranges = np.repeat(np.array([[-4, 4]], np.float32), 3 * rows, axis=0)
        return self._task(clips, ranges, np.repeat(np.array(SPLITS), rows), "noise")

    def _task(
        self, clips: Clips, ranges: NDArray[np.float32], splits: NDArray[np.str_] | None, source: str
    ) -> WaveformTask:
        places = _windows(clips, self.length)
        if splits is None:
            held = max(1, round(HELD * len(places)))
            if len(places) < 3:
                raise ValueError(
                    f"{source}: expected at least three windows of {self.length:,} samples, one per split, got "
                    f"{len(places)} at {clips.sampling_rate:,} Hz; give more audio, or use shorter windows (--length)"
                )
            parts = np.split(places, [len(places) - 2 * held, len(places) - held])
            own = dict(zip(SPLITS, parts, strict=True))
        else:
            own = {name: places[splits[places[:, 0]] == name] for name in SPLITS}
            if missing := [name for name, some in own.items() if not len(some)]:
                raise ValueError(f"{source}: expected audio in all three splits, got none for {missing[0]}")
        windows: dict[str, Any] = {
            name: ClipWindows(clips, ranges, some, self.length, self.encoding) for name, some in own.items()
        }
        return WaveformTask(
            name="waveform" if self.data == "own" else f"{self.data}-waveform",
            vocabulary=CODES,
            is_ordered=True,
            goal="bits_per_sample",
            unit="sample",
            origin=source,
            **windows,
        )

    def _listed(self, data_dir: Path | None) -> ClipList:
        """The files, with their splits if known."""
        if self.data != "own" and self.folder is not None:
            raise ValueError(f"folder: expected none with data {self.data}, got {self.folder}; `waveform` takes one")
        if self.data == "sc09":
            listed, _ = speech_commands(catalogue.require("speech-commands", data_dir), DIGITS)
            if listed.splits is None:
                raise ValueError(f"{listed.source}: expected its official lists of validation and test clips, got none")
            return listed
        if self.data == "fsdd":
            return spoken_digits(catalogue.require("fsdd", data_dir))
        if self.folder is None:
            raise ValueError("waveform: expected --folder FOLDER, your audio, got none")
        return _folder(self.folder)


def _folder(folder: Path) -> ClipList:
    """All files below a folder in natural order, with splits if its subfolders are named after them."""
    listed = from_folder(folder, labelled=False)
    order = sorted(range(len(listed)), key=lambda k: _natural(listed.names[k]))
    paths, names = tuple(listed.paths[k] for k in order), tuple(listed.names[k] for k in order)
    return replace(listed, paths=paths, names=names, splits=listed.splits and tuple(listed.splits[k] for k in order))


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which 9 comes before 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _windows(clips: Clips, length: int) -> Index:
    """(n, 2) clip and first sample of each window, clip by clip."""
    counts = -(-clips.lengths // length)
    clip = np.repeat(np.arange(len(clips)), counts)
    first = np.arange(len(clip)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack((clip, first * length), axis=1).astype(np.int64)
