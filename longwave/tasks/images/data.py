"""Reading images: MNIST's IDX files, compressed or not, and the binary version of CIFAR-10."""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

UInt8 = NDArray[np.uint8]


def read_mnist(folder: Path) -> tuple[tuple[UInt8, UInt8], tuple[UInt8, UInt8]]:
    """(pixels (n, 28, 28, 1), labels (n,)) of the training set, and of the test set."""
    train, test = (
        _labelled(
            read_idx(_file(folder, f"{part}-images-idx3-ubyte"), (None, 28, 28))[..., None],
            read_idx(_file(folder, f"{part}-labels-idx1-ubyte"), (None,)),
            folder,
        )
        for part in ("train", "t10k")
    )
    return train, test


def read_idx(path: Path, shape: tuple[int | None, ...]) -> UInt8:
    """The bytes in an IDX file of this shape: zero, zero, type, dimensions, sizes (big-endian), data."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            data = gzip.decompress(file.read()) if zipped else file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: the gzip file is damaged ({error}); download it again") from error
    magic = bytes((0, 0, 8, len(shape)))  # 8: unsigned bytes
    if data[:4] != magic:
        raise ValueError(
            f"{path}: expected an IDX file of unsigned bytes in {len(shape)} dimensions, which begins with "
            f"{magic.hex(' ')}, got {data[:4].hex(' ') or 'nothing'}; download it again"
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
            "the file may be cut off: download it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(sizes)


def read_cifar10(folder: Path) -> tuple[tuple[UInt8, UInt8], tuple[UInt8, UInt8]]:
    """(pixels (n, 32, 32, 3), labels (n,)) of the training set, and of the test set."""
    batches = [read_cifar10_batch(folder / f"data_batch_{k}.bin") for k in range(1, 6)]
    train = np.concatenate([pixels for pixels, _ in batches]), np.concatenate([labels for _, labels in batches])
    return train, read_cifar10_batch(folder / "test_batch.bin")


def read_cifar10_batch(path: Path) -> tuple[UInt8, UInt8]:
    """One file of the binary version: records of a label, then 1024 bytes each of red, green and blue, row by row."""
    data = np.fromfile(path, np.uint8)
    record = 1 + 3 * 32 * 32
    if not len(data) or len(data) % record:
        raise ValueError(
            f"{path}: expected records of {record:,} bytes, got {len(data):,} bytes in all; "
            "the file may be cut off, or not be the binary version: download it again"
        )
    records = data.reshape(-1, record)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return _labelled(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].copy(), path)


def grey(colours: UInt8) -> UInt8:
    """(n, height, width, 3) bytes of red, green and blue as (n, height, width, 1) of grey.

    0.299 red + 0.587 green + 0.114 blue in units of 1/65536, rounded: whole numbers, and those of Pillow's mode L.
    """
    found = np.empty((*colours.shape[:-1], 1), np.uint8)
    for start in range(0, len(colours), 1000):  # a few megabytes at a time
        red, green, blue = np.moveaxis(colours[start : start + 1000].astype(np.uint32), -1, 0)
        found[start : start + 1000, ..., 0] = (19_595 * red + 38_470 * green + 7_471 * blue + 32_768) >> 16
    return found


def _labelled(pixels: UInt8, labels: UInt8, source: Path) -> tuple[UInt8, UInt8]:
    if not len(pixels) == len(labels) > 0:
        raise ValueError(f"{source}: expected a label for each image, got {len(labels):,} for {len(pixels):,} images")
    if labels.max() > 9:
        raise ValueError(f"{source}: expected labels from 0 to 9, got {labels.max()}; download it again")
    return pixels, labels


def _file(folder: Path, name: str) -> Path:
    """The compressed file, as published, or the uncompressed one."""
    zipped = folder / f"{name}.gz"
    return zipped if zipped.is_file() else folder / name


def _times(sizes: Sequence[Any]) -> str:
    return " x ".join("any" if size is None else f"{size:,}" for size in sizes)
