"""Images read pixel by pixel, row by row: sMNIST, pMNIST (in one fixed random order) and sCIFAR (three channels).

The files are those that are published: MNIST's IDX files, compressed or not, and the binary version of CIFAR-10. Pixels
stay in memory as bytes; a batch is a lookup and a scaling, far below the time of a training step.
"""

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.tasks import download
from longwave.tasks.base import Batch, Split, deviation_or_one
from longwave.tasks.classification import ClassificationTask, ClassifierInput, shuffled
from longwave.tasks.series import nearest

Bytes = NDArray[np.uint8]
VALID_SHARE = 10  # one in so many training images is for validation
PERMUTATION_SEED = 784  # of pMNIST
PADDING = 4  # pixels that a random crop may shift by, as is usual for CIFAR
DIGITS = tuple("0123456789")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class NamedSet:
    """An image task of the paper."""

    data: str  # as `download` calls it
    classes: tuple[str, ...]
    paper: float  # accuracy of S4 in tab:image
    paper_augmented: float | None = None  # the same with augmentation, where the paper has it
    permuted: bool = False
    flips: bool = False  # a mirrored image shows the same thing; a mirrored digit does not


SETS = {
    "smnist": NamedSet("mnist", DIGITS, 0.9963),
    "pmnist": NamedSet("mnist", DIGITS, 0.9870, permuted=True),
    "scifar": NamedSet("cifar10", OBJECTS, 0.9113, 0.9316, flips=True),
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
    path = download.require(chosen.data, None if data_dir is None else Path(data_dir))
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

    parts = {
        "train": images(pixels[train], labels[train]),
        "valid": images(pixels[valid], labels[valid]),
        "test": images(test_pixels, test_labels),
    }
    height, width, channels = pixels.shape[1:]
    paper = chosen.paper_augmented if augment else chosen.paper
    return ImageTask(
        name=name,
        train=parts["train"],
        valid=parts["valid"],
        test=parts["test"],
        input_size=channels,
        output_size=len(chosen.classes),
        paper={} if paper is None else {"accuracy": paper},
        inputs=ClassifierInput(chosen.classes, mean, deviation, height * width),
        counts={part: tuple(np.bincount(split.labels, minlength=10).tolist()) for part, split in parts.items()},
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
        state = state + part + np.uint64(0x9E3779B97F4A7C15)  # wraps, as it should
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state


@dataclass(frozen=True, kw_only=True)
class ImageTask(ClassificationTask):
    """Say what an image shows, from its pixels one after the other."""

    train: Images
    valid: Images
    test: Images
    size: tuple[int, int]  # height and width
    order: NDArray[np.int64] | None = None  # which pixel each step shows; None: row by row
    crops: int = 0
    flips: bool = False

    def train_at(self, epoch: int, seed: int) -> Split:
        """The train part, with other crops and flips in each epoch if they are asked for."""
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


# Files


def read_mnist(folder: Path) -> tuple[tuple[Bytes, Bytes], tuple[Bytes, Bytes]]:
    """(pixels (n, 28, 28, 1), labels (n,)) to train and to test."""
    train, test = (
        _labelled(
            read_idx(_file(folder, f"{part}-images-idx3-ubyte"), (None, 28, 28))[..., None],
            read_idx(_file(folder, f"{part}-labels-idx1-ubyte"), (None,)),
            folder,
        )
        for part in ("train", "t10k")
    )
    return train, test


def read_idx(path: Path, shape: tuple[int | None, ...]) -> Bytes:
    """The bytes in an IDX file, which must have this shape: zero, zero, type, dimensions, sizes (big-endian), data."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            data = gzip.decompress(file.read()) if zipped else file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: the gzip file is damaged ({error}); fetch it again") from error
    magic = bytes((0, 0, 8, len(shape)))  # 8: unsigned bytes
    if data[:4] != magic:
        raise ValueError(
            f"{path}: expected an IDX file of unsigned bytes in {len(shape)} dimensions, which begins with "
            f"{magic.hex(' ')}, got {data[:4].hex(' ') or 'nothing'}; fetch it again"
        )
    start = 4 + 4 * len(shape)
    sizes = tuple(np.frombuffer(data[4:start].ljust(4 * len(shape), b"\0"), ">u4").tolist())
    if any(wanted not in (None, size) for wanted, size in zip(shape, sizes, strict=True)):
        raise ValueError(
            f"{path}: expected an array of {_times(shape)}, got {_times(sizes)}; is it another set's file?"
        )
    if len(data) != start + math.prod(sizes):
        raise ValueError(
            f"{path}: expected {start + math.prod(sizes):,} bytes for {_times(sizes)}, got {len(data):,}; "
            "the file may be cut off: fetch it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(sizes)


def read_cifar10(folder: Path) -> tuple[tuple[Bytes, Bytes], tuple[Bytes, Bytes]]:
    """(pixels (n, 32, 32, 3), labels (n,)) to train and to test."""
    batches = [read_cifar10_batch(folder / f"data_batch_{k}.bin") for k in range(1, 6)]
    train = np.concatenate([pixels for pixels, _ in batches]), np.concatenate([labels for _, labels in batches])
    return train, read_cifar10_batch(folder / "test_batch.bin")


def read_cifar10_batch(path: Path) -> tuple[Bytes, Bytes]:
    """One file of the binary version: records of a label, then 1024 bytes each of red, green and blue, row by row."""
    data = np.fromfile(path, np.uint8)
    record = 1 + 3 * 32 * 32
    if not len(data) or len(data) % record:
        raise ValueError(
            f"{path}: expected records of {record:,} bytes, got {len(data):,} bytes in all; "
            "the file may be cut off, or not be the binary version: fetch it again"
        )
    records = data.reshape(-1, record)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return _labelled(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].copy(), path)


def _labelled(pixels: Bytes, labels: Bytes, source: Path) -> tuple[Bytes, Bytes]:
    if not len(pixels) == len(labels) > 0:
        raise ValueError(f"{source}: expected a label for each image, got {len(labels):,} for {len(pixels):,} images")
    if labels.max() > 9:
        raise ValueError(f"{source}: expected labels from 0 to 9, got {labels.max()}; fetch it again")
    return pixels, labels


def _file(folder: Path, name: str) -> Path:
    """The compressed file, as it is published, or what is in it."""
    zipped = folder / f"{name}.gz"
    return zipped if zipped.is_file() else folder / name


def _times(sizes: Sequence[Any]) -> str:
    return " x ".join("any" if size is None else f"{size:,}" for size in sizes)


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
