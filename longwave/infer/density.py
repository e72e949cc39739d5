"""Images drawn pixel by pixel: from nothing, or from the upper half of a test image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.infer.base import GENERATORS, Action
from longwave.infer.generate import generate
from longwave.infer.text import Sampling
from longwave.pictures.images import draw_completions, draw_samples
from longwave.pictures.style import check_path
from longwave.tasks.autoregressive import START
from longwave.train.folder import RunFolder

SAMPLES, COMPLETIONS, COPIES = 32, 6, 4

# `choice` is what `longwave.generate` takes of temperature, top_k, top_p and seed.


def draw_images(folder: str | Path, count: int, *, device: str = "auto", **choice: Any) -> NDArray[np.uint8]:
    """Images from nothing, (count, height, width), with the best weights of a run."""
    return _draw(RunFolder.open(folder), count, device, **choice)


def _draw(folder: RunFolder, count: int, device: str, **choice: Any) -> NDArray[np.uint8]:
    height, width = _size(folder)
    pixels = complete(folder.load_best(device), np.empty((count, 0), np.uint8), height * width, 1, **choice)
    return pixels.reshape(count, height, width)


def complete_images(
    folder: str | Path,
    indices: Sequence[int],
    copies: int,
    data_dir: str | Path | None = None,
    *,
    device: str = "auto",
    **choice: Any,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Test images (n, height, width), and each upper half completed `copies` times: (n, copies, height, width)."""
    return _complete(RunFolder.open(folder), indices, copies, data_dir, device, **choice)


def _complete(
    folder: RunFolder, indices: Sequence[int], copies: int, data_dir: str | Path | None, device: str, **choice: Any
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    _size(folder)
    task: Any = folder.build_task(data_dir)
    wrong = [k for k in indices if not 0 <= k < len(task.test)]
    if wrong:
        raise ValueError(f"images: expected numbers from 0 to {len(task.test) - 1} of test images, got {wrong[0]}")
    images = task.test_images(indices)
    return images, complete_halves(folder.load_best(device), images, copies, **choice)


def _size(folder: RunFolder) -> tuple[int, int]:
    """Height and width of the images of a run."""
    if folder.config.experiment.task.kind != "density":
        kind = folder.config.experiment.task.kind
        raise ValueError(f"{folder.path}: expected a run on images to generate, got one of the kind {kind}")
    height, width = folder.config.task["size"]
    return height, width


def complete_halves(model: nn.Module, images: NDArray[np.uint8], copies: int, **choice: Any) -> NDArray[np.uint8]:
    """Of each image (n, height, width) the upper half, with lower halves drawn: (n, copies, height, width)."""
    count, height, width = images.shape
    upper = images[:, : height // 2].reshape(count, -1)
    return complete(model, upper, height * width, copies, **choice).reshape(count, copies, height, width)


def complete(model: nn.Module, known: NDArray[np.uint8], length: int, copies: int, **choice: Any) -> NDArray[np.uint8]:
    """Sequences of pixels (n * copies, length) that begin as those of `known` (n, k) do."""
    begin = torch.from_numpy(np.repeat(known, copies, axis=0)).long()
    prompt = torch.cat((torch.full((len(begin), 1), START), begin), dim=1)
    rest: Tensor = generate(model, prompt, length - begin.shape[1], **choice)
    return torch.cat((begin, rest.cpu()), dim=1).numpy().astype(np.uint8)


@dataclass(frozen=True)
class Options(Sampling):
    """Generate images, or complete the lower half of test images, as one picture.

    Example: longwave generate runs/mnist-density-small-seed0 --count 32 --out digits.png

    Example: longwave generate runs/mnist-density-small-seed0 --complete --images 0 1 2 3 --out halves.png
    """

    count: int | None = None
    """How many images, by default 32; with --complete, how many test images, by default 6."""
    complete: bool = False
    """Of test images, show the upper half and draw the lower."""
    images: tuple[int, ...] = ()
    """Which test images to complete, from 0 on."""
    out: Path | None = None
    """The picture to write; by default samples.png or completions.png."""
    data_dir: Path | None = None
    """Folder with the data sets, if it is not where it was in training (for --complete)."""


def _generate(folder: RunFolder, options: Options) -> Iterator[str]:
    if options.count is not None and options.count < 1:
        raise ValueError(f"count: expected at least 1, got {options.count}")
    is_completion = options.complete or bool(options.images)
    out = options.out or Path("completions.png" if is_completion else "samples.png")
    check_path(out, "out")
    choice = options.choice()
    if is_completion:
        indices = options.images or tuple(range(options.count or COMPLETIONS))
        figure = draw_completions(*_complete(folder, indices, COPIES, options.data_dir, options.device, **choice))
    else:
        figure = draw_samples(_draw(folder, options.count or SAMPLES, options.device, **choice))
    options.print_seed(choice)
    figure.savefig(out, dpi=120)
    yield f"picture: {out}\n"


GENERATORS.register("density")(Action(Options, _generate))
