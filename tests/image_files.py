"""MNIST and CIFAR-10 in miniature, in the format of the published files."""

import gzip
from pathlib import Path

import numpy as np


def idx(values: np.ndarray) -> bytes:
    """An IDX file of unsigned bytes."""
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.astype(np.uint8).tobytes()


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 28 x 28 whose label can be read off: a bar in row 2 label + 4, on dark noise."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = generator.integers(0, 40, (count, 28, 28))
    for image, label in zip(images, labels, strict=True):
        image[2 * label + 4, 6:22] = 255
    return images, labels


def write_mnist(data: Path, train: int = 60, test: int = 20, zipped: bool = True) -> Path:
    folder = data / "mnist"
    folder.mkdir(parents=True)
    for part, count, seed in (("train", train, 0), ("t10k", test, 1)):
        images, labels = digits(count, seed)
        for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = idx(values)
            path = folder / (f"{name}.gz" if zipped else name)
            path.write_bytes(gzip.compress(content, 1) if zipped else content)
    return folder


def write_cifar10(data: Path, count: int = 12) -> Path:
    """Images whose red, green and blue planes are told apart: red is the row, green the column, blue the label."""
    folder = data / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for k, name in enumerate([f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]):
        records = []
        for i in range(count):
            label = (i + k) % 10
            red, green = np.mgrid[0:32, 0:32]
            planes = np.stack([red, green, np.full((32, 32), 10 * label)]).astype(np.uint8)
            records.append(bytes([label]) + planes.tobytes())
        (folder / name).write_bytes(b"".join(records))
    return folder
