"""Pathfinder and Path-X of the Long Range Arena: grey images, pixel by pixel, row by row, of two classes.

The pixels are memory-mapped: Path-X has 3.3 GB of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.random import mixed, random_bits
from longwave.core.settings import at_least
from longwave.io.download import making
from longwave.io.download.catalogue import data_dir as data_folder
from longwave.tasks.base import SPLITS, TASKS, Batch, ChangedSplit, Split
from longwave.tasks.classify.task import ClassifierInput
from longwave.tasks.images.task import Bytes, Images, ImageTask, ImageTaskConfig
from longwave.tasks.pathfinder.drawing import LEVELS, SETTINGS, Setting, draw
from longwave.tasks.pathfinder.layout import read
from longwave.tasks.rates import check_rates, drawn
from longwave.tasks.sequences.task import check_classes, count_labels
from longwave.tasks.statistics import digest

CLASSES = ("apart", "connected")
PAPER = {"pathfinder": 0.942, "pathx": 0.9635}  # tab:lra, with the updated settings
RELEASE = Path("lra_release") / "lra_release"  # of the benchmark's archive, below where it was unpacked
SHARE = 10  # one image in this many is for validation, and one for the test
OWN = np.uint64(0x6561736965)  # sets these draws apart from others of the same seed, epoch and example
SPREAD = 2  # range of difficulty levels that are drawn at one time


@dataclass(frozen=True, eq=False)
class EasierImages(ChangedSplit):
    """The training set in an epoch of the curriculum: easier images are drawn instead of its own.

    All snakes of the set are long and hidden among distractors, so no part of the task can be learned before the rest.
    Here they start alone, with two dashes, and grow to those of the set. The draws depend on seed, epoch, index and the
    batch's place in the epoch.
    """

    split: Images
    setting: Setting  # of the set
    curriculum: float  # epochs
    epoch: int
    seed: int

    def batch(self, indices: Sequence[int]) -> Batch:
        return self.batch_within(indices, indices)

    def batch_within(self, indices: Sequence[int], whole: Sequence[int], place: float = 0.0) -> Batch:
        """A batch after the share `place` of the epoch."""
        progress = (self.epoch + place) / self.curriculum
        if progress >= 1:
            return self.split.batch(indices)
        index = np.asarray(indices, dtype=np.int64)
        bits = mixed(random_bits(self.seed, self.epoch, index) + OWN)
        below = SPREAD * (bits >> np.uint64(40)) / 2**24
        levels = np.rint(np.maximum(0, (LEVELS - 1) * progress - below)).astype(np.int64)
        pixels, labels = np.empty((len(index), *self.split.pixels.shape[1:]), np.uint8), np.empty(len(index), np.int64)
        for level in np.unique(levels).tolist():
            own = np.flatnonzero(levels == level)
            for k, drawn_image in zip(own, draw(self.setting.at_level(level), mixed(bits[own])), strict=True):
                pixels[k], labels[k] = drawn_image.pixels.reshape(pixels.shape[1:]), drawn_image.label
        return self.split.sequences(pixels, index) | {"y": torch.from_numpy(labels)}


@dataclass(frozen=True, kw_only=True)
class PathfinderTask(ImageTask):
    """Classify images of snakes, with a curriculum of easier ones if asked for."""

    setting: Setting
    curriculum: float = 0.0  # epochs

    def train_at(self, epoch: int, seed: int) -> Split:
        split: Split = self.train
        if epoch < self.curriculum:
            split = EasierImages(self.train, self.setting, self.curriculum, epoch, seed)
        # Filtered, as a thin dash could disappear between the pixels that are kept.
        return drawn(split, self.rates, epoch, seed, antialias=True)


@TASKS.register("pathfinder")
@dataclass(frozen=True)
class PathfinderConfig(ImageTaskConfig):
    """Whether two marked ends in an image belong to one snake of dashes."""

    data: Literal["pathfinder", "pathx"] = "pathfinder"
    """Images of 32 x 32 pixels, or of 128 x 128."""
    split_seed: int = at_least(0, 42)
    """Seed of the order that is split 80/10/10; 42 is the benchmark's."""
    centred: bool = False
    """Pixels from -1 to 1, as in the authors' first code, instead of 0 to 1."""
    curriculum: float = 0.0
    """Epochs of a curriculum that begins with easier images, from snakes of two dashes up to those of the set."""
    rates: tuple[float, ...] = ()
    """Sampling rates to train at, one per batch: 4 merges four pixels of a row into one, with four times the dt;
    none: the original rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rates(self.rates, "rates")
        if not 0 <= self.curriculum < math.inf:
            raise ValueError(f"curriculum: expected a finite number of epochs, 0 or more, got {self.curriculum}")

    def build(self, data_dir: Path | None = None) -> PathfinderTask:
        data_dir = _with_release(self.data, data_dir)
        folder, size = making.require(self.data, data_dir), SETTINGS[self.data].size
        progress = Patient()
        found = read(folder, size, progress)
        progress.end()
        notes = [f"images skipped because their files are empty: {found.empty}"] * (found.empty > 0)
        if not isinstance(found.pixels, np.memmap):
            notes.append(f"{folder} is not writable, so every run reads all images again into memory")
        made = making.made(self.data, data_dir)
        notes += making.notes(self.data, data_dir)
        indices = self._splits(len(found.rows), str(folder))
        task = self._task(found.pixels, {name: (found.labels[own], found.rows[own]) for name, own in indices.items()})
        check_classes(task.counts, CLASSES, str(folder), ", or take more images", notes)
        options = set() if made is None else set(made.options) & set(making.MAKERS[self.data].options)
        return replace(
            task,
            setting=SETTINGS[self.data].with_options(**dict.fromkeys(options, True)),
            origin=str(folder),
            notes=tuple(notes),
            # With some pixels, as a set with other options has the same metadata.
            digest=digest(np.frombuffer(bytes.fromhex(found.digest), np.uint8), found.rows, found.pixels[:100]),
        )

    def on_random_data(self, rows: int, seed: int = 0) -> PathfinderTask:
        size, random = SETTINGS[self.data].size, np.random.default_rng(seed)
        pixels = random.integers(256, size=(rows, size, size, 1), dtype=np.uint8)
        return self._task(pixels, dict.fromkeys(SPLITS, (np.arange(rows) % 2, np.arange(rows))))

    def _task(self, pixels: Bytes, examples: dict[str, tuple[NDArray[Any], NDArray[Any]]]) -> PathfinderTask:
        """The task on labels, and their rows of the pixels, by split."""
        size = SETTINGS[self.data].size
        mean, deviation = (127.5, 127.5) if self.centred else (0.0, 255.0)
        scale = np.array([mean], np.float32), np.array([deviation], np.float32)
        splits: dict[str, Any] = {
            name: Images(pixels, labels, None, *scale, rows) for name, (labels, rows) in examples.items()
        }
        return PathfinderTask(
            name=self.data,
            paper={"accuracy": PAPER[self.data]},
            inputs=ClassifierInput(classes=CLASSES, mean=(mean,), deviation=(deviation,), length=size * size),
            counts=count_labels(splits, 2),
            size=(size, size),
            setting=SETTINGS[self.data],
            curriculum=self.curriculum,
            rates=self.rates,
            **splits,
        )

    def _splits(self, count: int, source: str) -> dict[str, NDArray[np.int64]]:
        """80/10/10 in torch's random order, as the benchmark's users have it."""
        held = count // SHARE
        if not held:
            raise ValueError(f"{source}: expected at least {SHARE} images, one of them to test, got {count}")
        order = torch.randperm(count, generator=torch.Generator().manual_seed(self.split_seed)).numpy()
        return dict(zip(SPLITS, np.split(order, [count - 2 * held, count - held]), strict=True))


def _with_release(name: str, explicit: Path | None) -> Path:
    """The data folder, or the benchmark's unpacked archive in it if only that has the set."""
    folder = data_folder(explicit)
    inner = folder / RELEASE
    return inner if making.is_there(name, inner) and not making.is_there(name, folder) else folder
