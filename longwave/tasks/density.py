"""Density of images: next-token prediction pixel by pixel, row by row, each pixel one of 256 values; MNIST."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.data import catalogue
from longwave.data.images import read_mnist
from longwave.data.random import shuffled
from longwave.settings import check_least
from longwave.tasks.autoregressive import AutoregressiveTask, TokenWindows
from longwave.tasks.base import TASKS, TaskConfig
from longwave.tasks.images import VALID_SHARE, Bytes


@dataclass(frozen=True, kw_only=True)
class DensityTask(AutoregressiveTask):
    """Predict the next pixel of an image. START, before the first, is a dark pixel."""

    size: tuple[int, int]  # height and width

    def test_images(self, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Images of the test set, (n, height, width)."""
        images: NDArray[np.uint8] = self.test.tokens.reshape(-1, *self.size)[list(indices)]
        return images

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        return super().describe() | {"size": list(self.size)}


@TASKS.register("density")
@dataclass(frozen=True)
class DensityConfig(TaskConfig):
    """Images, predicted pixel by pixel."""

    data: Literal["mnist"] = "mnist"
    """Which images."""
    split_seed: int = 0
    """Seed of the choice of one training image in ten for validation."""

    def __post_init__(self) -> None:
        check_least(self, split_seed=0)

    def build(self, data_dir: Path | None = None) -> DensityTask:
        """The task with its images."""
        return load(self.data, self.split_seed, data_dir)


def load(name: str = "mnist", split_seed: int = 0, data_dir: str | os.PathLike[str] | None = None) -> DensityTask:
    """The images of a data set as a task; one training image in ten, drawn by `split_seed`, is for validation."""
    if name != "mnist":
        raise ValueError(f"data: expected mnist, got {name!r}")
    path = catalogue.require(name, None if data_dir is None else Path(data_dir))
    (train, _), (test, _) = read_mnist(path)
    order = shuffled(len(train), split_seed)
    held = len(train) // VALID_SHARE
    height, width = train.shape[1:3]

    def windows(images: Bytes) -> TokenWindows:
        return TokenWindows(images.reshape(-1), height * width)

    return DensityTask(
        name=f"{name}-density",
        train=windows(train[np.sort(order[held:])]),
        valid=windows(train[np.sort(order[:held])]),
        test=windows(test),
        vocabulary=256,
        goal="bits_per_dim",
        unit="dim",
        origin=str(path),
        size=(height, width),
    )
