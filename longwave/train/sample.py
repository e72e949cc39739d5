"""What a trained run makes: text that goes on from a prompt, images from nothing or from their upper half."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.generate import generate, stream
from longwave.tasks.autoregressive import START
from longwave.tasks.density import DensityTask
from longwave.tasks.text import Bytes, Words
from longwave.train.config import DensityConfig, TaskConfig, TextConfig, from_dict
from longwave.train.experiments import build_task
from longwave.train.runs import VOCABULARY, load_best, read_config

# `choice` is what `longwave.generate` takes of temperature, top_k, top_p and seed.


def task_config(folder: Path) -> TextConfig | DensityConfig:
    """The task of a run that generates; any other run is refused."""
    task: TaskConfig = from_dict(read_config(folder)["experiment"]).task
    if not isinstance(task, TextConfig | DensityConfig):
        raise ValueError(
            f"{folder}: expected a run of text or of images to generate (text, wikitext2-bytes, mnist-density ...), "
            "got one that forecasts or classifies; use longwave predict"
        )
    return task


def read_codec(folder: Path) -> Bytes | Words:
    """How a run on text turns text into tokens and back."""
    task = task_config(folder)
    if not isinstance(task, TextConfig):
        raise ValueError(f"{folder}: expected a run on text, got one on images")
    return Bytes() if task.level == "bytes" else Words.read(folder / VOCABULARY)


def write_text(folder: Path, prompt: str, length: int, **choice: Any) -> Iterator[str]:
    """The prompt and `length` tokens after it, as text, piece by piece as they are made."""
    codec = read_codec(folder)
    given = codec.encode(prompt)
    steps = stream(load_best(folder), torch.tensor([[START, *given]]), length, **choice)

    def tokens() -> Iterator[int]:
        yield from given
        for step, _ in steps:
            yield int(step)

    return codec.decode(tokens())


def draw_images(folder: Path, count: int, **choice: Any) -> NDArray[np.uint8]:
    """Images from nothing, (count, height, width)."""
    height, width = image_size(folder)
    return complete(load_best(folder), np.empty((count, 0), np.uint8), height * width, 1, **choice).reshape(
        count, height, width
    )


def complete_images(
    folder: Path, indices: Sequence[int], copies: int, data_dir: Path | None = None, **choice: Any
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Test images (n, height, width), and what the run makes of the upper half of each: (n, copies, height, width)."""
    config, settings = read_config(folder), task_config(folder)
    stored = None if config["data_dir"] is None else Path(config["data_dir"])
    image_size(folder)
    task = build_task(settings, data_dir or stored)
    assert isinstance(task, DensityTask)
    wrong = [k for k in indices if not 0 <= k < len(task.test)]
    if wrong:
        raise ValueError(f"images: expected numbers from 0 to {len(task.test) - 1} of test images, got {wrong[0]}")
    images = task.test_images(indices)
    return images, complete_halves(load_best(folder), images, copies, **choice)


def image_size(folder: Path) -> tuple[int, int]:
    """Height and width of the images of a run."""
    if not isinstance(task_config(folder), DensityConfig):
        raise ValueError(f"{folder}: expected a run on images, got one on text")
    height, width = read_config(folder)["task"]["size"]
    return height, width


def complete_halves(model: nn.Module, images: NDArray[np.uint8], copies: int, **choice: Any) -> NDArray[np.uint8]:
    """Of each image (n, height, width) the upper half, with lower halves made up: (n, copies, height, width)."""
    count, height, width = images.shape
    upper = images[:, : height // 2].reshape(count, -1)
    return complete(model, upper, height * width, copies, **choice).reshape(count, copies, height, width)


def complete(model: nn.Module, known: NDArray[np.uint8], length: int, copies: int, **choice: Any) -> NDArray[np.uint8]:
    """Sequences of pixels (n * copies, length) that begin as those of `known` (n, k) do."""
    begin = torch.from_numpy(np.repeat(known, copies, axis=0)).long()
    prompt = torch.cat((torch.full((len(begin), 1), START), begin), dim=1)
    rest: Tensor = generate(model, prompt, length - begin.shape[1], **choice)
    return torch.cat((begin, rest.cpu()), dim=1).numpy().astype(np.uint8)
