"""Images read pixel by pixel, row by row: sMNIST, pMNIST (in one fixed random order), sCIFAR and CIFAR-10 in grey.

Pixels stay in memory as bytes; a batch is a lookup and a scaling, far below the time of a training step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.random import random_bits, shuffled
from longwave.core.settings import at_least
from longwave.io.download import catalogue
from longwave.models import Spec
from longwave.tasks.base import SPLITS, TASKS, Batch, ChangedSplit, Split, TaskConfig
from longwave.tasks.classify.task import ClassificationTask, ClassifierInput
from longwave.tasks.images.data import grey, read_cifar10, read_mnist
from longwave.tasks.rates import check_rates, drawn
from longwave.tasks.sequences.data import Sequences, read_npz, read_rows
from longwave.tasks.sequences.task import count_labels
from longwave.tasks.statistics import deviation_or_one

Bytes = NDArray[np.uint8]
Floats = tuple[float, ...]
VALID_SHARE = 10  # one training image in this many is for validation
PERMUTATION_SEED = 784  # of pMNIST
PADDING = 4  # pixels that a random crop may shift by, as is usual for CIFAR
DIGITS = tuple("0123456789")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class ImageSet:
    """An image task of the paper."""

    data: str  # its name in the catalogue
    classes: tuple[str, ...]
    paper: float  # accuracy of S4 in tab:image, or in tab:lra with the updated settings
    paper_augmented: float | None = None  # the same with augmentation
    permuted: bool = False
    flips: bool = False  # a mirrored image shows the same thing; a mirrored digit does not
    grey: bool = False  # one channel, although the files have three
    scale: tuple[float, float] | None = None  # mean and deviation, where they were published; None: as measured
    published_split: bool = False  # that of the Long Range Arena

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        return (28, 28, 1) if self.data == "mnist" else (32, 32, 1 if self.grey else 3)


SETS = {
    "smnist": ImageSet("mnist", DIGITS, 0.9963),
    "pmnist": ImageSet("mnist", DIGITS, 0.9870, permuted=True),
    "scifar": ImageSet("cifar10", OBJECTS, 0.9113, 0.9316, flips=True),
    "grey-cifar": ImageSet(
        "cifar10", OBJECTS, 0.8865, flips=True, grey=True, scale=(122.6, 61.0), published_split=True
    ),
}


def permutation(steps: int = 784) -> NDArray[np.int64]:
    """pMNIST's order: step k shows pixel permutation()[k]. It is fixed here; every publication drew its own."""
    return shuffled(steps, PERMUTATION_SEED)


@dataclass(frozen=True, eq=False)
class Images:
    """Images and labels; batches are standardised in numpy, as threading costs more than it saves at this size."""

    pixels: Bytes  # (images, height, width, channels), which may be memory-mapped
    labels: NDArray[np.int64]  # (n,)
    order: NDArray[np.int64] | None  # (height * width,): which pixel each step shows; None: row by row
    mean: NDArray[np.float32]  # (channels,)
    deviation: NDArray[np.float32]
    rows: NDArray[np.int64] | None = None  # (n,) of `pixels`; None: all of them

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, height * width, channels), y (B,)."""
        index = np.asarray(indices, dtype=np.int64)
        return self.sequences(self.pixels[index if self.rows is None else self.rows[index]], index)

    def sequences(self, pixels: Bytes, index: NDArray[np.int64]) -> Batch:
        """The batch of the images at `index`, with these pixels (B, height, width, channels)."""
        steps = pixels.reshape(len(pixels), -1, len(self.mean))
        x = (steps if self.order is None else steps[:, self.order]).astype(np.float32)
        flat = x.reshape(len(x), -1)  # long rows: three channels at a time are slow
        flat -= np.tile(self.mean, x.shape[1])
        flat /= np.tile(self.deviation, x.shape[1])
        return {"x": torch.from_numpy(x), "y": torch.from_numpy(self.labels[index])}


@dataclass(frozen=True, eq=False)
class AugmentedImages(ChangedSplit):
    """Images as one epoch sees them: shifted and perhaps flipped, as drawn by seed, epoch and index alone."""

    split: Images
    epoch: int
    seed: int
    crops: int  # the largest shift in pixels, each way
    flips: bool

    def batch(self, indices: Sequence[int]) -> Batch:
        index = np.asarray(indices, dtype=np.int64)
        height, width = self.split.pixels.shape[1:3]
        draw = random_bits(self.seed, self.epoch, index)
        shifts = 2 * self.crops + 1
        down = (draw >> np.uint64(1)) % np.uint64(shifts)
        right = (draw >> np.uint64(33)) % np.uint64(shifts)
        rows = mirrored(np.arange(height) + down[:, None].astype(np.int64) - self.crops, height)
        columns = mirrored(np.arange(width) + right[:, None].astype(np.int64) - self.crops, width)
        if self.flips:
            flip = (draw & np.uint64(1)).astype(bool)
            columns[flip] = columns[flip, ::-1]
        pixels = self.split.pixels[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return self.split.sequences(pixels, index)


def mirrored(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Places beyond 0 ... size - 1 mirrored at the border, which is repeated: -1 is 0, -2 is 1 (symmetric padding)."""
    places = np.where(places < 0, -1 - places, places)
    return np.where(places >= size, 2 * size - 1 - places, places)


@dataclass(frozen=True, kw_only=True)
class ImageTask(ClassificationTask):
    """Classify images from their pixels, one after the other."""

    train: Images
    valid: Images
    test: Images
    size: tuple[int, int]  # height and width
    order: NDArray[np.int64] | None = None  # which pixel each step shows; None: row by row
    crops: int = 0
    flips: bool = False

    @property
    def spec(self) -> Spec:
        """Requirements of sequences, with the image size for models that see the whole image."""
        return replace(super().spec, image_size=self.size)

    @property
    def plane(self) -> tuple[int, int] | None:
        return self.size if self.order is None else None

    def train_at(self, epoch: int, seed: int) -> Split:
        split: Split = self.train
        if self.crops or self.flips:
            split = AugmentedImages(self.train, epoch, seed, self.crops, self.flips)
        return drawn(split, self.rates, epoch, seed)

    def at_rate(self, split: Split, rate: float, antialias: bool = False) -> Split:
        if self.order is not None:
            raise ValueError(f"rate: the pixels of {self.name} are in a random order and cannot be resampled")
        return super().at_rate(split, rate, antialias)

    def picture(self, x: Tensor) -> NDArray[np.float64]:
        """A sequence (length, channels) as an image: (height, width, channels)."""
        values = x.detach().cpu().double().numpy()
        if self.order is not None:
            unordered = np.empty_like(values)
            unordered[self.order] = values
            values = unordered
        return values.reshape(*self.size, -1)


@dataclass(frozen=True)
class ImageTaskConfig(TaskConfig):
    """Settings of tasks that classify images."""

    pipeline: ClassVar[str | None] = "image-classification"
    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.classify.predict"}

    def read_new(self, npz: Path | None, csv: Path | None, columns: Sequence[str] | None) -> Sequences:
        """New images in one of two files, as pixels from 0 to 255, row by row."""
        return read_npz(npz, labelled=False) if npz is not None else read_rows(csv or "", labelled=False)

    def arrange(self, sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
        """New images as a trained model sees them, and notes."""
        if sequences.length != inputs.length:
            lengths = f"{sequences.lengths.min()} to {sequences.lengths.max()}"
            raise ValueError(f"{sequences.source}: expected images of {inputs.length} pixels, got {lengths}")
        low, high, notes = sequences.values.min(), sequences.values.max(), []
        if low < 0 or high > 255:
            raise ValueError(f"{sequences.source}: expected pixels from 0 to 255, got {low:g} to {high:g}")
        if high <= 1:
            notes.append(f"expected pixels from 0 to 255, but these range from {low:g} to {high:g}")
        return inputs.standardise(sequences.values), notes


@TASKS.register("images")
@dataclass(frozen=True)
class ImageConfig(ImageTaskConfig):
    """Images to classify, pixel by pixel."""

    data: Literal["smnist", "pmnist", "scifar", "grey-cifar"] = "smnist"
    """Digits, digits with permuted pixels, colour images, or the same in greyscale."""
    augment: bool = False
    """Mild augmentation: crops with symmetric padding, and flips where mirroring keeps the class."""
    split_seed: int = at_least(0, 0)
    """Seed of the random validation split, one training image in ten."""
    train_size: int | None = None
    """Number of training images to use; None: all that are not used for validation."""
    rates: tuple[float, ...] = ()
    """Sampling rates to train at, one per batch: 2 keeps every second pixel and doubles dt; none: the original rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rates(self.rates, "rates")
        if self.rates and SETS[self.data].permuted:
            raise ValueError(f"rates: the pixels of {self.data} are in a random order and cannot be resampled")

    def build(self, data_dir: Path | None = None) -> ImageTask:
        """The task with its images, standardised by the training set, or by published numbers."""
        chosen = SETS[self.data]
        path = catalogue.require(chosen.data, data_dir)
        (pixels, labels), (test_pixels, test_labels) = (read_mnist if chosen.data == "mnist" else read_cifar10)(path)
        if chosen.grey:
            pixels, test_pixels = grey(pixels), grey(test_pixels)
        train, valid = _split(len(pixels), self.split_seed, chosen.published_split)
        if self.train_size is not None:
            if not 1 <= self.train_size <= len(train):
                raise ValueError(f"train_size: expected 1 to {len(train)} training images, got {self.train_size}")
            train = np.sort(train[shuffled(len(train), self.split_seed)[: self.train_size]])
        mean, deviation = _statistics(pixels[train])
        if chosen.scale is not None:
            mean, deviation = (chosen.scale[0],), (chosen.scale[1],)
        examples = {"train": (pixels[train], labels[train]), "valid": (pixels[valid], labels[valid])}
        task = self._task({**examples, "test": (test_pixels, test_labels)}, mean, deviation)
        paper = chosen.paper_augmented if self.augment else chosen.paper
        return replace(task, origin=str(path), paper={} if paper is None else {"accuracy": paper})

    def on_random_data(self, rows: int, seed: int = 0) -> ImageTask:
        chosen, draw = SETS[self.data], np.random.default_rng(seed)
        pixels = draw.integers(256, size=(rows, *chosen.shape), dtype=np.uint8)
        labels = draw.integers(len(chosen.classes), size=rows)
        return self._task(dict.fromkeys(SPLITS, (pixels, labels)), *_statistics(pixels))

    def _task(self, examples: dict[str, tuple[Bytes, NDArray[Any]]], mean: Floats, deviation: Floats) -> ImageTask:
        """The task on pixels and labels by split."""
        chosen, (height, width) = SETS[self.data], examples["train"][0].shape[1:3]
        order = permutation(height * width) if chosen.permuted else None
        scale = np.array(mean, np.float32), np.array(deviation, np.float32)
        splits: dict[str, Any] = {
            name: Images(pixels, labels.astype(np.int64), order, *scale) for name, (pixels, labels) in examples.items()
        }
        return ImageTask(
            name=self.data,
            inputs=ClassifierInput(classes=chosen.classes, mean=mean, deviation=deviation, length=height * width),
            counts=count_labels(splits, 10),
            size=(height, width),
            order=order,
            crops=PADDING if self.augment else 0,
            flips=self.augment and chosen.flips,
            rates=self.rates,
            **splits,
        )

    def arrange(self, sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
        values, notes = super().arrange(sequences, inputs)
        if SETS[self.data].permuted:
            order = permutation(inputs.length or 0)
            values = values.reshape(len(sequences), -1, inputs.channels)[:, order].reshape(values.shape)
        return values, notes


def _split(count: int, seed: int, is_published: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of the published training images are to train, and which to validate."""
    n_valid = count // VALID_SHARE
    if is_published:  # the authors' code with seed 42: the last tenth of torch's order
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()
        return np.sort(order[: count - n_valid]), np.sort(order[count - n_valid :])
    order = shuffled(count, seed)
    return np.sort(order[n_valid:]), np.sort(order[:n_valid])


def _statistics(pixels: Bytes) -> tuple[Floats, Floats]:
    """Mean and deviation of each channel, exact, from counts of the 256 values."""
    values = np.arange(256.0)
    means, deviations = [], []
    for channel in range(pixels.shape[-1]):
        share = np.bincount(pixels[..., channel].ravel(), minlength=256) / pixels[..., channel].size
        mean = share @ values
        means.append(float(mean))
        deviations.append(math.sqrt(share @ (values - mean) ** 2))
    return tuple(means), deviation_or_one(np.array(deviations))
