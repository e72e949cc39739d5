"""Pathfinder and Path-X of the Long Range Arena: grey images, pixel by pixel, row by row, of two classes.

The pixels stay on the disk, mapped into memory: Path-X has 3.3 GB of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.random import mixed, random_bits
from longwave.core.settings import check_least
from longwave.io.download import making
from longwave.io.download.catalogue import data_dir as data_folder
from longwave.tasks.base import TASKS, Batch, Split
from longwave.tasks.classify.task import ClassifierInput
from longwave.tasks.images.task import Bytes, Images, ImageTask, ImageTaskConfig, arranged
from longwave.tasks.pathfinder.drawing import LEVELS, SETTINGS, Setting, draw
from longwave.tasks.pathfinder.layout import read
from longwave.tasks.rates import check_rates, drawn
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.task import check_classes
from longwave.tasks.statistics import digest

CLASSES = ("apart", "connected")
PAPER = {"pathfinder": 0.942, "pathx": 0.9635}  # tab:lra, with the updated settings
RELEASE = Path("lra_release") / "lra_release"  # of the benchmark's archive, below where it was unpacked
SHARE = 10  # one image in so many is for validation, and one for the test
OWN = np.uint64(0x6561736965)  # sets these draws apart from others of the same seed, epoch and example
SPREAD = 2  # levels of difficulty that are drawn at one time, up to the highest of them


@dataclass(frozen=True, eq=False)
class MappedImages(Images):
    """Some of the images of an array that may lie on the disk."""

    rows: NDArray[np.int64]  # (n,) of the array

    def batch(self, indices: Sequence[int]) -> Batch:
        """As that of `Images`."""
        index = np.asarray(indices, dtype=np.int64)
        return self.sequences(self.pixels[self.rows[index]], index)


@dataclass(frozen=True, eq=False)
class EasierImages:
    """A training set in an epoch of the curriculum: in place of its images, easier ones are drawn.

    In all images of the set the snakes are long and hidden among distractors, so that no part of the task can be
    learned before the rest. Here they have two dashes and stand alone to begin with, and grow to those of the set. What
    is drawn follows from seed, epoch, index and the batch's place in the epoch.
    """

    images: MappedImages
    setting: Setting  # of the set
    curriculum: float  # epochs
    epoch: int
    seed: int

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, indices: Sequence[int]) -> Batch:
        """As at the beginning of the epoch."""
        return self.batch_within(indices, indices)

    def batch_within(self, indices: Sequence[int], whole: Sequence[int], place: float = 0.0) -> Batch:
        """As that of `Images`; after the share `place` of the epoch."""
        progress = (self.epoch + place) / self.curriculum
        if progress >= 1:
            return self.images.batch(indices)
        index = np.asarray(indices, dtype=np.int64)
        bits = mixed(random_bits(self.seed, self.epoch, index) + OWN)
        below = SPREAD * (bits >> np.uint64(40)) / 2**24
        levels = np.rint(np.maximum(0, (LEVELS - 1) * progress - below)).astype(np.int64)
        pixels, labels = np.empty((len(index), *self.images.pixels.shape[1:]), np.uint8), np.empty(len(index), np.int64)
        for level in np.unique(levels).tolist():
            own = np.flatnonzero(levels == level)
            for k, drawn_image in zip(own, draw(self.setting.at_level(level), mixed(bits[own])), strict=True):
                pixels[k], labels[k] = drawn_image.pixels.reshape(pixels.shape[1:]), drawn_image.label
        return self.images.sequences(pixels, index) | {"y": torch.from_numpy(labels)}


@dataclass(frozen=True, kw_only=True)
class PathfinderTask(ImageTask):
    """Classify images of snakes, easier ones before those of the set if a curriculum is asked for."""

    train: MappedImages
    setting: Setting
    curriculum: float = 0.0  # epochs

    def train_at(self, epoch: int, seed: int) -> Split:
        """The training set; in the epochs of the curriculum, easier images in its place."""
        split: Split = self.train
        if epoch < self.curriculum:
            split = EasierImages(self.train, self.setting, self.curriculum, epoch, seed)
        # Filtered: of a dash that is thinner than what is dropped, nothing might be left.
        return drawn(split, self.rates, epoch, seed, antialias=True)


@TASKS.register("pathfinder")
@dataclass(frozen=True)
class PathfinderConfig(ImageTaskConfig):
    """Whether two marked ends in an image belong to one snake of dashes."""

    data: Literal["pathfinder", "pathx"] = "pathfinder"
    """Images of 32 x 32 pixels, or of 128 x 128."""
    split_seed: int = 42
    """Seed of the order in which images are taken to train, validate and test, 80/10/10; 42 is the benchmark's."""
    centred: bool = False
    """Pixels from -1 to 1, as in the authors' first code, instead of 0 to 1."""
    curriculum: float = 0.0
    """Epochs, at the beginning, of easier images, which are drawn: from snakes of two dashes up to those of the set."""
    rates: tuple[float, ...] = ()
    """Sampling rates to train at, one for each batch: 4 has one pixel in place of four of a row, and four times the
    dt; none: as they are."""

    def __post_init__(self) -> None:
        check_least(self, split_seed=0)
        check_rates(self.rates, "rates")
        if not 0 <= self.curriculum < math.inf:
            raise ValueError(f"curriculum: expected a finite number of epochs, 0 or more, got {self.curriculum}")

    def build(self, data_dir: Path | None = None) -> PathfinderTask:
        """The task with its images."""
        data_dir = _with_release(self.data, data_dir)
        folder, size = making.require(self.data, data_dir), SETTINGS[self.data].size
        progress = Patient()
        found = read(folder, size, progress)
        progress.end()
        notes = [f"images left out because their files are empty: {found.empty}"] * (found.empty > 0)
        if not isinstance(found.pixels, np.memmap):
            notes.append(f"{folder} cannot be written to, so that all images are read anew for each run, into memory")
        made = making.made(self.data, data_dir)
        notes += making.notes(self.data, data_dir)
        indices = self._splits(len(found.rows), str(folder))
        splits = {
            name: self._images(found.pixels, found.labels[index], found.rows[index]) for name, index in indices.items()
        }
        counts = {name: np.bincount(split.labels, minlength=len(CLASSES)) for name, split in splits.items()}
        check_classes(counts, CLASSES, str(folder), ", or take more images", notes)
        options = set() if made is None else set(made.options) & set(making.MAKERS[self.data].options)
        return replace(
            self._task(splits),
            setting=SETTINGS[self.data].with_options(**dict.fromkeys(options, True)),
            origin=str(folder),
            notes=tuple(notes),
            # Pixels of a few, too: a set with other options has the same metadata.
            digest=digest(np.frombuffer(bytes.fromhex(found.digest), np.uint8), found.rows, found.pixels[:100]),
        )

    def on_random_data(self, rows: int, seed: int = 0) -> PathfinderTask:
        """The task on random pixels."""
        size, random = SETTINGS[self.data].size, np.random.default_rng(seed)
        pixels = random.integers(256, size=(rows, size, size, 1), dtype=np.uint8)
        images = self._images(pixels, np.arange(rows) % 2, np.arange(rows))
        return self._task(dict.fromkeys(("train", "valid", "test"), images))

    @property
    def _scale(self) -> tuple[float, float]:
        """What is subtracted from bytes, and what they are then divided by."""
        return (127.5, 127.5) if self.centred else (0.0, 255.0)

    def _images(self, pixels: Bytes, labels: NDArray[np.int64], rows: NDArray[np.int64]) -> MappedImages:
        mean, deviation = (np.full(1, value, np.float32) for value in self._scale)
        return MappedImages(pixels, labels, None, mean, deviation, rows)

    def _task(self, splits: dict[str, MappedImages]) -> PathfinderTask:
        size, (mean, deviation) = SETTINGS[self.data].size, self._scale
        counts = {name: np.bincount(split.labels, minlength=len(CLASSES)) for name, split in splits.items()}
        return PathfinderTask(
            name=self.data,
            train=splits["train"],
            valid=splits["valid"],
            test=splits["test"],
            paper={"accuracy": PAPER[self.data]},
            inputs=ClassifierInput(classes=CLASSES, mean=(mean,), deviation=(deviation,), length=size * size),
            counts={name: tuple(count.tolist()) for name, count in counts.items()},
            size=(size, size),
            setting=SETTINGS[self.data],
            curriculum=self.curriculum,
            rates=self.rates,
        )

    def _splits(self, count: int, source: str) -> dict[str, NDArray[np.int64]]:
        """By torch's generator, as the benchmark's users do."""
        held = count // SHARE
        if not held:
            raise ValueError(f"{source}: expected at least {SHARE} images, one of them to test, got {count}")
        order = torch.randperm(count, generator=torch.Generator().manual_seed(self.split_seed)).numpy()
        return {
            "train": order[: count - 2 * held],
            "valid": order[count - 2 * held : count - held],
            "test": order[count - held :],
        }

    def arrange(self, sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
        """New images, as pixels from 0 to 255, row by row, in the form that a trained model sees; and notes."""
        return arranged(sequences, inputs)


def _with_release(name: str, explicit: Path | None) -> Path:
    """The data folder, or the folder of the benchmark's archive below it, if that alone has the set."""
    folder = data_folder(explicit)
    inner = folder / RELEASE
    return inner if making.is_there(name, inner) and not making.is_there(name, folder) else folder
