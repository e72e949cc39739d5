"""Images read pixel by pixel, row by row: sMNIST, pMNIST (in one fixed random order) and sCIFAR (three channels).

The files are those that are published: MNIST's IDX files, compressed or not, and the binary version of CIFAR-10. Pixels
stay in memory as bytes; a batch is a lookup and a scaling, far below the time of a training step.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.data import catalogue
from longwave.data.images import read_cifar10, read_mnist
from longwave.data.random import GOLDEN, mixed, shuffled
from longwave.data.sequences import Sequences
from longwave.data.statistics import deviation_or_one
from longwave.models import Spec
from longwave.registry import nearest
from longwave.settings import check_least
from longwave.tasks.base import TASKS, Batch, Split, TaskConfig
from longwave.tasks.classification import ClassificationTask, ClassifierInput

Bytes = NDArray[np.uint8]
VALID_SHARE = 10  # one in so many training images is for validation
PERMUTATION_SEED = 784  # of pMNIST
PADDING = 4  # pixels that a random crop may shift by, as is usual for CIFAR
DIGITS = tuple("0123456789")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class ImageSet:
    """An image task of the paper."""

    data: str  # its name in the catalogue
    classes: tuple[str, ...]
    paper: float  # accuracy of S4 in tab:image
    paper_augmented: float | None = None  # the same with augmentation, where the paper has it
    permuted: bool = False
    flips: bool = False  # a mirrored image shows the same thing; a mirrored digit does not


SETS = {
    "smnist": ImageSet("mnist", DIGITS, 0.9963),
    "pmnist": ImageSet("mnist", DIGITS, 0.9870, permuted=True),
    "scifar": ImageSet("cifar10", OBJECTS, 0.9113, 0.9316, flips=True),
}


def load(
    name: str, augment: bool = False, split_seed: int = 0, data_dir: str | os.PathLike[str] | None = None
) -> "ImageTask":
    """An image task; its files are looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache.

    One in ten training images, drawn by `split_seed`, is for validation. Pixels are standardised, each channel by the
    mean and deviation of the images that are left.
    """
    if name not in SETS:
        raise ValueError(f"data: there is no image task {name!r}; {nearest(name, SETS)}")
    chosen = SETS[name]
    path = catalogue.require(chosen.data, None if data_dir is None else Path(data_dir))
    read = read_mnist if chosen.data == "mnist" else read_cifar10
    (pixels, labels), (test_pixels, test_labels) = read(path)
    order = shuffled(len(pixels), split_seed)
    n_valid = len(pixels) // VALID_SHARE
    valid, train = np.sort(order[:n_valid]), np.sort(order[n_valid:])
    mean, deviation = _statistics(pixels[train])
    pixel_order = permutation(pixels[0, ..., 0].size) if chosen.permuted else None

    def images(pixels: Bytes, labels: Bytes) -> Images:
        scale = np.array(mean, np.float32), np.array(deviation, np.float32)
        return Images(pixels, labels.astype(np.int64), pixel_order, *scale)

    splits = {
        "train": images(pixels[train], labels[train]),
        "valid": images(pixels[valid], labels[valid]),
        "test": images(test_pixels, test_labels),
    }
    height, width = pixels.shape[1:3]
    paper = chosen.paper_augmented if augment else chosen.paper
    return ImageTask(
        name=name,
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        paper={} if paper is None else {"accuracy": paper},
        inputs=ClassifierInput(classes=chosen.classes, mean=mean, deviation=deviation, length=height * width),
        counts={split: tuple(np.bincount(own.labels, minlength=10).tolist()) for split, own in splits.items()},
        origin=str(path),
        size=(height, width),
        order=pixel_order,
        crops=PADDING if augment else 0,
        flips=augment and chosen.flips,
    )


def permutation(steps: int = 784) -> NDArray[np.int64]:
    """pMNIST's order: step k shows the pixel permutation()[k]. One for ever; every publication drew its own."""
    return shuffled(steps, PERMUTATION_SEED)


@dataclass(frozen=True, eq=False)
class Images:
    """Images in memory, and their labels; a batch has them as sequences of standardised pixels.

    All of it is numpy's, on one thread: what torch would save by sharing so little work, its threads lose by waiting.
    """

    pixels: Bytes  # (n, height, width, channels)
    labels: NDArray[np.int64]  # (n,)
    order: NDArray[np.int64] | None  # (height * width,): which pixel each step shows; None: row by row
    mean: NDArray[np.float32]  # (channels,)
    deviation: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, height * width, channels), y (B,)."""
        index = np.asarray(indices, dtype=np.int64)
        return self.sequences(self.pixels[index], index)

    def sequences(self, pixels: Bytes, index: NDArray[np.int64]) -> Batch:
        """The batch of the images at `index`, that shows these pixels (B, height, width, channels)."""
        steps = pixels.reshape(len(pixels), -1, len(self.mean))
        x = (steps if self.order is None else steps[:, self.order]).astype(np.float32)
        flat = x.reshape(len(x), -1)  # long rows: three channels at a time are slow
        flat -= np.tile(self.mean, x.shape[1])
        flat /= np.tile(self.deviation, x.shape[1])
        return {"x": torch.from_numpy(x), "y": torch.from_numpy(self.labels[index])}


@dataclass(frozen=True, eq=False)
class AugmentedImages:
    """Images as one epoch sees them: shifted, the border mirrored into what is uncovered, and perhaps flipped.

    What is drawn for an image follows from seed, epoch and index alone, whatever the batches and processes.
    """

    images: Images
    epoch: int
    seed: int
    crops: int  # pixels that an image may be shifted by, each way
    flips: bool

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, indices: Sequence[int]) -> Batch:
        """As that of `Images`."""
        index = np.asarray(indices, dtype=np.int64)
        height, width = self.images.pixels.shape[1:3]
        draw = random_bits(self.seed, self.epoch, index)
        shifts = 2 * self.crops + 1
        down = (draw >> np.uint64(1)) % np.uint64(shifts)
        right = (draw >> np.uint64(33)) % np.uint64(shifts)
        rows = mirrored(np.arange(height) + down[:, None].astype(np.int64) - self.crops, height)
        columns = mirrored(np.arange(width) + right[:, None].astype(np.int64) - self.crops, width)
        if self.flips:
            flip = (draw & np.uint64(1)).astype(bool)
            columns[flip] = columns[flip, ::-1]
        pixels = self.images.pixels[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return self.images.sequences(pixels, index)


def mirrored(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Places beyond 0 ... size - 1 mirrored at the border, which is repeated: -1 is 0, -2 is 1 (symmetric padding)."""
    places = np.where(places < 0, -1 - places, places)
    return np.where(places >= size, 2 * size - 1 - places, places)


def random_bits(seed: int, epoch: int, index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 random bits for each index: the output function of SplitMix64, applied to seed, epoch and index in turn."""
    state = np.zeros(len(index), np.uint64)
    for part in (np.uint64(seed % 2**64), np.uint64(epoch), index.astype(np.uint64)):
        state = mixed(state + part + GOLDEN)  # wraps, as it should
    return state


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
        """As for other sequences, with the size of the image for those models that see it whole."""
        return replace(super().spec, image_size=self.size)

    def train_at(self, epoch: int, seed: int) -> Split:
        """The training set, with other crops and flips in each epoch if they are asked for."""
        if not self.crops and not self.flips:
            return self.train
        return AugmentedImages(self.train, epoch, seed, self.crops, self.flips)

    def picture(self, x: Tensor) -> NDArray[np.float64]:
        """A sequence (length, channels) of anything, put back into the plane: (height, width, channels)."""
        values = x.detach().cpu().double().numpy()
        if self.order is not None:
            unordered = np.empty_like(values)
            unordered[self.order] = values
            values = unordered
        return values.reshape(*self.size, -1)


@TASKS.register("images")
@dataclass(frozen=True)
class ImageConfig(TaskConfig):
    """A task of images read pixel by pixel."""

    data: Literal["smnist", "pmnist", "scifar"] = "smnist"
    """Digits, digits in one fixed random order of their pixels, or colour images."""
    augment: bool = False
    """Mild augmentation: crops with symmetric padding, and flips where a mirrored image means the same."""
    split_seed: int = 0
    """Seed of the choice of one training image in ten for validation."""

    def __post_init__(self) -> None:
        check_least(self, split_seed=0)

    def build(self, data_dir: Path | None = None) -> ImageTask:
        """The task with its images."""
        return load(self.data, self.augment, self.split_seed, data_dir)

    def arrange(self, sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
        """New images, as pixels from 0 to 255, row by row, in the form that a trained model sees; and notes."""
        values, notes = arranged(sequences, inputs)
        if SETS[self.data].permuted:
            order = permutation(inputs.length or 0)
            values = values.reshape(len(sequences), -1, inputs.channels)[:, order].reshape(values.shape)
        return values, notes


def arranged(sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
    """New images, as pixels from 0 to 255, row by row, scaled as in training; and notes."""
    if sequences.length != inputs.length:
        lengths = f"{sequences.lengths.min()} to {sequences.lengths.max()}"
        raise ValueError(f"{sequences.source}: expected images of {inputs.length} pixels, got {lengths}")
    low, high, notes = sequences.values.min(), sequences.values.max(), []
    if low < 0 or high > 255:
        raise ValueError(f"{sequences.source}: expected pixels from 0 to 255, got {low:g} to {high:g}")
    if high <= 1:
        notes.append(f"pixels are expected from 0 to 255, and these are from {low:g} to {high:g}")
    return inputs.standardise(sequences.values), notes


def _statistics(pixels: Bytes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, exactly, from how often each of the 256 values occurs."""
    values = np.arange(256.0)
    means, deviations = [], []
    for channel in range(pixels.shape[-1]):
        share = np.bincount(pixels[..., channel].ravel(), minlength=256) / pixels[..., channel].size
        mean = share @ values
        means.append(float(mean))
        deviations.append(math.sqrt(share @ (values - mean) ** 2))
    return tuple(means), deviation_or_one(np.array(deviations))
