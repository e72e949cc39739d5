"""Shared parts of audio tasks: batches of memory-mapped clips, scaling, baselines.

A clip is a sequence of samples, or of MFCC frames. Clips are scaled by one mean and deviation, which also works for a
stream; or position by position, as the paper's code does for Speech Commands.
"""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.random import shuffled
from longwave.io import audio
from longwave.io.audio import Clips, Recordings
from longwave.io.download import catalogue
from longwave.models import Spec
from longwave.tasks.audio.clip_lists import ClipList, from_csv
from longwave.tasks.audio.mfcc import mfcc
from longwave.tasks.audio.noise import Disturbed
from longwave.tasks.base import Baselines, Batch, Scores, Split, TaskConfig
from longwave.tasks.classify.task import ClassificationTask, ClassifierInput
from longwave.tasks.rates import MOST, check_rates, drawn
from longwave.tasks.sequences import linear
from longwave.tasks.sequences.task import class_weights, count_labels, row_weights
from longwave.tasks.statistics import digest

Index = NDArray[np.int64]
Values = NDArray[np.float32]
Features = Literal["raw", "mfcc"]
TOGETHER = 2**22  # numbers to read at a time
FITTED = 4000  # the most training clips that the baseline is fitted to
FRAME_SECONDS = 0.0125  # of the baseline's MFCC: 200 samples at 16 kHz
FEW_BAD = 10  # unreadable files that may be skipped, with a note
POSITIONS = "positions.npz"  # mean and deviation of each position, in a run that is scaled by position


@dataclass(frozen=True, kw_only=True)
class ClipInput(ClassifierInput):
    """Facts about its clips that a trained model needs."""

    sampling_rate: int  # of the audio, in Hz
    features: Features = "raw"
    by_position: bool = False  # scaled by POSITIONS in the run folder, instead of mean and deviation


@dataclass(frozen=True, eq=False)
class Scale:
    """x -> (x - mean) / deviation, with (channels,) numbers or with (length, channels) of them."""

    mean: Values
    deviation: Values

    def __call__(self, x: Values) -> Values:
        """x (length, channels), or (n, length, channels)."""
        return np.asarray((x - self.mean) / self.deviation, np.float32)

    def at_rate(self, rate: float, length: int) -> "Scale":
        """The scale for clips of `length` samples at 1/rate of the sampling frequency, interpolated in time."""
        if self.mean.ndim == 1 or rate == 1:
            return self
        moments, known = rate * np.arange(length), np.arange(len(self.mean))

        def at_moments(values: Values) -> Values:
            return np.stack([np.interp(moments, known, column) for column in values.T], axis=1).astype(np.float32)

        return Scale(at_moments(self.mean), at_moments(self.deviation))

    def to_bytes(self) -> bytes:
        file = io.BytesIO()
        np.savez(file, mean=self.mean, deviation=self.deviation)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Scale":
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(arrays["mean"], arrays["deviation"])


@dataclass(frozen=True, eq=False)
class ClipSplit:
    """Some of the clips of an array that may be memory-mapped."""

    clips: Clips
    rows: Index  # (n,) of the clips
    labels: Index  # (n,)
    scale: Scale
    length: int | None = None  # that all clips are padded with zeros or cut to; None: their own
    longest: int | None = None  # the length that clips of their own length are cut to
    weights: NDArray[np.float64] | None = None  # (n,) of the clips in balanced scores
    rate: float = 1.0  # multiplies dt: 2 for clips recorded at half the sampling frequency of training

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> Index:
        """(n,) valid steps."""
        if self.length is not None:
            return np.full(len(self), self.length)
        own = self.clips.lengths[self.rows]
        return own if self.longest is None else np.minimum(own, self.longest)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, longest of the batch, channels), y (B,); lengths (B,) if they differ; rate (B,) if it is not 1."""
        index = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[index]
        x = np.zeros((len(index), int(lengths.max(initial=0)), self.clips.channels), np.float32)
        unit = np.float32(self.clips.unit)
        for row, start, own, length in zip(
            x, self.clips.starts[self.rows[index]], self.clips.lengths[self.rows[index]], lengths, strict=True
        ):
            count = min(own, length)
            row[:count] = self.clips.values[start : start + count]
            row[:length] = self.scale(row[:length] * unit)
        batch = {"x": torch.from_numpy(x), "y": torch.from_numpy(self.labels[index])}
        if self.weights is not None:
            batch["weight"] = torch.from_numpy(self.weights[index])
        if self.rate != 1:
            batch["rate"] = torch.full((len(index),), self.rate)
        return batch if self.length is not None else batch | {"lengths": torch.from_numpy(lengths)}


# Scales


def one_scale(clips: Clips, rows: Index, source: str) -> tuple[float, float]:
    """Mean and deviation of all samples of some clips, over all channels, 1 being full scale."""
    count, total, squares = 0, 0.0, 0.0
    for row in rows.tolist():
        x = clips.clip(row).astype(np.float64)
        count, total, squares = count + x.size, total + float(x.sum()), squares + float((x * x).sum())
    mean = total / count
    variance = squares / count - mean**2
    if not variance > 1e-12 * max(1.0, mean**2):
        raise ValueError(f"{source}: expected training clips with sound, got {len(rows):,} silent ones")
    return mean, float(np.sqrt(variance))


def scale_by_position(clips: Clips, rows: Index, length: int, floor: float) -> Scale:
    """Mean, and deviation plus `floor`, of each position (length, channels) over some clips, padded with zeros."""
    total, squares = np.zeros((2, length, clips.channels))
    for block in _blocks(clips, rows, length):
        total += block.sum(axis=0)
        squares += (block * block).sum(axis=0)
    mean = total / len(rows)
    variance = (squares - len(rows) * mean**2).clip(0) / max(1, len(rows) - 1)
    return Scale(mean.astype(np.float32), (np.sqrt(variance) + floor).astype(np.float32))


def scale_by_channel(clips: Clips, rows: Index, length: int, floor: float) -> Scale:
    """Mean, and deviation plus `floor`, of each channel (channels,) over all steps of some clips of one length."""
    mean = sum(block.sum(axis=(0, 1)) for block in _blocks(clips, rows, length)) / (len(rows) * length)
    squares = sum(((block - mean) ** 2).sum(axis=(0, 1)) for block in _blocks(clips, rows, length))
    deviation = np.sqrt(squares / (len(rows) * length - 1)) + floor
    return Scale(np.asarray(mean, np.float32), np.asarray(deviation, np.float32))


def _blocks(clips: Clips, rows: Index, length: int) -> Iterator[NDArray[np.float64]]:
    """Clips of one length, (n, length, channels), some at a time; shorter ones padded with zeros."""
    together = max(1, TOGETHER // (length * clips.channels))
    starts, lengths = clips.starts, np.minimum(clips.lengths, length)
    for first in range(0, len(rows), together):
        some = rows[first : first + together]
        block = np.zeros((len(some), length, clips.channels))
        for row, start, own in zip(block, starts[some], lengths[some], strict=True):
            row[:own] = clips.values[start : start + own]
        yield block * clips.unit


# Tasks


@dataclass(frozen=True, kw_only=True)
class ClipTask(ClassificationTask):
    """Classify clips of audio."""

    report_module: ClassVar[str | None] = "longwave.tasks.audio.report"

    train: ClipSplit
    valid: ClipSplit
    test: ClipSplit
    inputs: ClipInput
    noise: float = 0.0  # share of the training clips that are degraded

    @property
    def spec(self) -> Spec:
        return replace(super().spec, longest=int(self.train.lengths.max()))

    def train_at(self, epoch: int, seed: int) -> Split:
        split: Split = Disturbed(self.train, self.noise, epoch, seed) if self.noise else self.train
        return drawn(split, self.rates, epoch, seed)

    def artifacts(self) -> dict[str, bytes]:
        return {POSITIONS: self.train.scale.to_bytes()} if self.inputs.by_position else {}

    def baselines(self) -> Baselines:
        """The class prior, and ridge regression on mean and deviation of the MFCC."""
        return {**super().baselines(), "ridge on MFCC": self._ridge()}

    def _ridge(self) -> dict[str, Scores]:
        fitted = np.sort(shuffled(len(self.train), 0)[:FITTED])
        x = self._summaries(self.train, fitted)
        y = 2 * np.eye(len(self.inputs.classes))[self.train.labels[fitted]] - 1
        known = {
            name: (self._summaries(split, np.arange(len(split))), split.labels)
            for name, split in (("valid", self.valid), ("test", self.test))
        }

        def error(ridge: linear.Ridge, name: str = "valid") -> float:
            return float((ridge(known[name][0]).argmax(1) != known[name][1]).mean())

        ridge = linear.fit(x, y, error)
        return {name: self.accuracies(labels, ridge(features).argmax(1)) for name, (features, labels) in known.items()}

    def _summaries(self, split: ClipSplit, index: Index) -> NDArray[np.float64]:
        """Mean and deviation over time of each MFCC of some clips, (n, features)."""
        rate = self.inputs.sampling_rate
        frame = max(8, 2 * round(FRAME_SECONDS * rate / 2))
        rows = []
        for k in index.tolist():
            x = split.clips.clip(int(split.rows[k]))[: int(split.lengths[k])]
            frames = x if self.inputs.features == "mfcc" else mfcc(x.mean(axis=1), rate, frame)
            rows.append(np.concatenate([frames.mean(0), frames.std(0)]))
        return np.stack(rows).astype(np.float64)


def cache_folder(data_dir: Path | None) -> Path:
    """The cache folder of clips."""
    return catalogue.data_dir(data_dir) / "cache" / "audio"


def read_clips(listed: ClipList, cache: Path, **reading: Any) -> Recordings:
    """The clips of a list of files, as `longwave.io.audio.read` reads them, with progress on the terminal."""
    progress = Patient()
    read = audio.read(listed.paths, listed.names, listed.source, cache, progress=progress, **reading)
    progress.end()
    return read


def random_clips(rows: int, length: int, sampling_rate: int, channels: int, seed: int) -> Clips:
    """Clips of noise."""
    values = np.random.default_rng(seed).standard_normal((rows * length, channels), np.float32)
    return Clips(values, np.full(rows, length), sampling_rate, tuple(f"clip {k}" for k in range(rows)))


def clip_task(
    name: str,
    clips: Clips,
    labels: Index,
    rows: dict[str, Index],
    inputs: ClipInput,
    *,
    scale: Scale | None = None,
    longest: int | None = None,
    balance: bool = False,
    **facts: Any,
) -> ClipTask:
    """The task on clips with labels (n,), each split at its `rows`; the scale is that of `inputs` by default."""
    scale = scale or scale_of(inputs)

    def split(own: Index) -> ClipSplit:
        weights = row_weights(labels[own]) if balance else None
        return ClipSplit(clips, own, labels[own], scale, inputs.length, longest, weights)

    splits: dict[str, Any] = {name: split(own) for name, own in rows.items()}
    counts = count_labels(splits, len(inputs.classes))
    return ClipTask(
        name=name,
        inputs=inputs,
        counts=counts,
        weights=class_weights(np.array(counts["train"])) if balance else None,
        goal="balanced_accuracy" if balance else "accuracy",
        digest=digest(np.frombuffer(clips.digest.encode(), np.uint8), labels, *rows.values()),
        **splits,
        **facts,
    )


def scale_of(inputs: ClipInput) -> Scale:
    """One mean and deviation per channel."""
    return Scale(np.array(inputs.mean, np.float32), np.array(inputs.deviation, np.float32))


@dataclass(frozen=True)
class ClipTaskConfig(TaskConfig):
    """Settings of tasks that classify audio."""

    pipeline: ClassVar[str | None] = "audio-classification"
    actions: ClassVar[Mapping[str, str]] = {
        "predict": "longwave.tasks.audio.predict",
        "stream": "longwave.tasks.classify.stream",
    }

    rates: tuple[float, ...] = field(default=(), kw_only=True)
    """Sampling rates to train at, one per batch: 2 keeps every second step and doubles dt; none: the original rate."""
    noise: float = field(default=0.0, kw_only=True)
    """Share of training clips that are low-pass filtered, and share that get a burst of noise, drawn in each epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rates(self.rates, "rates")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise: expected a share of the training clips from 0 to 1, got {self.noise}")

    @property
    def reading(self) -> dict[str, Any]:
        """Keywords for `longwave.io.audio.read`."""
        return {"channels": "mix", "max_bad": FEW_BAD}

    def read_list(self, csv: Path, labelled: bool) -> ClipList:
        """The files that a CSV file lists, in the columns of training."""
        return from_csv(csv, labelled=labelled)

    def arrange(self, clips: Clips, inputs: ClipInput, artifact: Callable[[str], bytes]) -> tuple[ClipSplit, list[str]]:
        """New clips as a trained model sees them, and notes; dt is scaled to their sampling rate.

        `artifact` reads a file that the task stored in the run folder.
        """
        return unlabelled(clips, scale_of(inputs), rate=rate_of(clips, inputs)), []


def rate_of(clips: Clips, inputs: ClipInput) -> float:
    """The factor on dt for clips, from their sampling rate and that of training."""
    rate = inputs.sampling_rate / clips.sampling_rate
    if not 1 / MOST <= rate <= MOST:
        raise ValueError(
            f"sampling_rate: expected one from 1/{MOST} to {MOST} times the {inputs.sampling_rate:,} Hz of training, "
            f"got {clips.sampling_rate:,} Hz"
        )
    return rate


def unlabelled(clips: Clips, scale: Scale, length: int | None = None, rate: float = 1.0) -> ClipSplit:
    """New clips to classify; `length` and `scale` are those of training."""
    if length is not None:
        length = math.ceil(length / rate)
        scale = scale.at_rate(rate, length)
    labels = np.zeros(len(clips), np.int64)
    return ClipSplit(clips, np.arange(len(clips)), labels, scale, length, rate=rate)
