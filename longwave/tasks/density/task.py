"""Density of images: next-token prediction of pixel values from 0 to 255, row by row; MNIST and CIFAR-10.

A grey pixel is one value; a colour pixel is three (red, green, blue), which a model reads with their channel.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.core.random import shuffled
from longwave.core.settings import at_least
from longwave.io.download import catalogue
from longwave.tasks.autoregressive import AutoregressiveTask, Interleaved, TokenWindows
from longwave.tasks.base import SPLITS, TASKS, Baselines, Scores, TaskConfig
from longwave.tasks.images.data import read_cifar10, read_mnist
from longwave.tasks.images.task import VALID_SHARE, Bytes


@dataclass(frozen=True)
class DensitySet:
    """Images whose density is learned."""

    data: str  # its name in the catalogue
    read: Callable[[Path], tuple[tuple[Bytes, Bytes], tuple[Bytes, Bytes]]]  # (pixels, labels) to train and to test
    valid_share: int  # one training image in this many is for validation
    paper: Scores = field(default_factory=dict)  # of the paper's large S4, on the test set


SETS = {
    "mnist": DensitySet("mnist", read_mnist, VALID_SHARE),
    "cifar": DensitySet("cifar10", read_cifar10, 50, {"bits_per_dim": 2.85}),  # tab:cifar-generation
}


@dataclass(frozen=True, kw_only=True)
class DensityTask(AutoregressiveTask):
    """Predict the next value of an image. START, before the first value of a grey image, is a dark pixel."""

    report_module: ClassVar[str | None] = "longwave.tasks.density.report"
    has_values: ClassVar[bool] = True

    size: tuple[int, ...]  # height and width, and 3 if there are colours

    def test_images(self, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Images of the test set, (n, height, width) or (n, height, width, 3)."""
        images: NDArray[np.uint8] = self.test.tokens.reshape(-1, *self.size)[list(indices)]
        return images

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"size": list(self.size)}

    def baselines(self) -> Baselines:
        uniform = self.reported({"loss": math.log(self.vocabulary)})
        return {"uniform": {"valid": uniform, "test": uniform}, **super().baselines()}


@TASKS.register("density")
@dataclass(frozen=True)
class DensityConfig(TaskConfig):
    """Images, predicted value by value."""

    pipeline: ClassVar[str | None] = "unconditional-image-generation"
    actions: ClassVar[Mapping[str, str]] = {"generate": "longwave.tasks.density.generate"}

    data: Literal["mnist", "cifar"] = "mnist"
    """Which images."""
    split_seed: int = at_least(0, 0)
    """Seed of the random validation split: one training image in ten of MNIST, one in fifty of CIFAR-10."""
    ordered: bool = True
    """Initialise the embeddings of neighbouring values to be similar, so that a model need not learn their order."""

    @property
    def is_self_describing(self) -> bool:
        return True  # the size of the images is that of the data set

    def build(self, data_dir: Path | None = None) -> DensityTask:
        chosen = SETS[self.data]
        path = catalogue.require(chosen.data, data_dir)
        (train, _), (test, _) = chosen.read(path)
        order = shuffled(len(train), self.split_seed)
        held = max(1, len(train) // chosen.valid_share)
        images = {"train": train[np.sort(order[held:])], "valid": train[np.sort(order[:held])], "test": test}
        return self._task(images, str(path))

    def on_random_data(self, rows: int, seed: int = 0) -> DensityTask:
        shape = (28, 28, 1) if self.data == "mnist" else (32, 32, 3)
        images = np.random.default_rng(seed).integers(256, size=(rows, *shape), dtype=np.uint8)
        return self._task(dict.fromkeys(SPLITS, images), "noise")

    def _task(self, images: dict[str, Bytes], origin: str) -> DensityTask:
        height, width, channels = images["train"].shape[1:]
        size = (height, width) if channels == 1 else (height, width, channels)
        reads = reads_of(size)
        splits: dict[str, Any] = {
            name: TokenWindows(own.reshape(-1), height * width * channels, reads=reads) for name, own in images.items()
        }
        return DensityTask(
            name=f"{self.data}-density",
            vocabulary=256,
            is_ordered=self.ordered,
            goal="bits_per_dim",
            unit="dim",
            origin=origin,
            size=size,
            reads=reads,
            paper=SETS[self.data].paper,
            **splits,
        )


def reads_of(size: tuple[int, ...]) -> Interleaved | None:
    """The input coding of images of this size: colour values with their channel, grey values as they are."""
    return Interleaved(size[2]) if len(size) == 3 else None
