"""Generate images value by value, from scratch or from the upper half of a test image."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longwave.core.progress import Patient
from longwave.core.settings import typed
from longwave.models.generate import stream
from longwave.pictures.style import check_path, save
from longwave.tasks.actions import check_kind
from longwave.tasks.autoregressive import START
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.density.plots import draw_completions, draw_samples
from longwave.tasks.density.task import reads_of
from longwave.tasks.text.generate import Sampling

SAMPLES, COMPLETIONS, COPIES = 32, 6, 4
Images = NDArray[np.uint8]  # (n, height, width), or (n, height, width, 3) in colour

# `choice` has temperature, top_k, top_p and seed of `longwave.generate`.


def draw_images(run: TrainedRun, count: int, *, device: str = "auto", **choice: Any) -> Images:
    """Generate images from scratch with the best weights of a run."""
    size = _size(run)
    return complete(run.load_best(device), np.empty((count, 0), np.uint8), size, 1, **choice)


def complete_images(
    run: TrainedRun,
    indices: Sequence[int],
    copies: int,
    data_dir: str | Path | None = None,
    *,
    device: str = "auto",
    **choice: Any,
) -> tuple[Images, Images]:
    """Test images (n, height, width), and each upper half completed `copies` times: (n, copies, height, width)."""
    _size(run)
    task: Any = run.build_task(data_dir)
    wrong = [k for k in indices if not 0 <= k < len(task.test)]
    if wrong:
        raise ValueError(f"images: expected test images from 0 to {len(task.test) - 1}, got {wrong[0]}")
    images = task.test_images(indices)
    return images, complete_halves(run.load_best(device), images, copies, **choice)


def _size(run: TrainedRun) -> tuple[int, ...]:
    """Height and width of the images of a run, and 3 if they are in colour."""
    check_kind(run, "generate", ACTION, "generates images")
    return run.fact("size", lambda size: typed(size, tuple[int, ...], "height and width"))


def complete_halves(model: nn.Module, images: Images, copies: int, **choice: Any) -> Images:
    """Each image with its lower half generated: (n, copies, height, width) or (..., 3)."""
    count, height, *_ = images.shape
    upper = images[:, : height // 2].reshape(count, -1)
    return complete(model, upper, images.shape[1:], copies, **choice).reshape(count, copies, *images.shape[1:])


def complete(model: nn.Module, known: Images, size: tuple[int, ...], copies: int, **choice: Any) -> Images:
    """Images (n * copies, *size) whose first values are `known` (n, k)."""
    begin = torch.from_numpy(np.repeat(known, copies, axis=0)).long()
    reads = reads_of(size)
    given = begin if reads is None else reads(begin, 0)
    prompt = torch.cat((torch.full((len(begin), 1), START), given), dim=1)
    length, progress, rest = int(np.prod(size)) - begin.shape[1], Patient(), []
    progress.start(f"generating {len(begin)} images", length)
    for values, _ in stream(model, prompt, length, **choice, reads=reads):
        rest.append(values.cpu())
        progress.advance(1)
    progress.end()
    return torch.cat((begin, torch.stack(rest, dim=1)), dim=1).numpy().astype(np.uint8).reshape(-1, *size)


@dataclass(frozen=True)
class Options(Sampling):
    """Generate images, or complete the lower half of test images, as one picture.

    Example: longwave generate runs/mnist-density-small-seed0 --count 32 --out digits.png

    Example: longwave generate runs/mnist-density-small-seed0 --complete --images 0 1 2 3 --out halves.png
    """

    count: int | None = None
    """Number of images, 32 by default; with --complete, number of test images, 6 by default."""
    complete: bool = False
    """Complete test images: give the upper half, generate the lower."""
    images: tuple[int, ...] = ()
    """Which test images to complete, counted from 0."""
    out: Path | None = None
    """The picture to write, samples.png or completions.png by default."""
    data_dir: Path | None = None
    """Folder of the data sets, if it has moved since training (with --complete)."""


def _generate(run: TrainedRun, options: Options) -> Iterator[str]:
    if options.count is not None and options.count < 1:
        raise ValueError(f"count: expected at least 1, got {options.count}")
    is_completion = options.complete or bool(options.images)
    out = options.out or Path("completions.png" if is_completion else "samples.png")
    check_path(out, "out")
    choice, began = options.choice(), time.perf_counter()
    if is_completion:
        indices = options.images or tuple(range(options.count or COMPLETIONS))
        originals, made = complete_images(run, indices, COPIES, options.data_dir, device=options.device, **choice)
        figure, count = draw_completions(originals, made), made.shape[0] * made.shape[1]
    else:
        images = draw_images(run, options.count or SAMPLES, device=options.device, **choice)
        figure, count = draw_samples(images), len(images)
    seconds = time.perf_counter() - began
    options.print_seed(choice)
    save(figure, out, dpi=120)
    print(f"{count} images in {seconds:.1f} s, {count / seconds:.3g} per second", file=sys.stderr)
    yield f"picture: {out}\n"


ACTION = Action(Options, _generate, draw_images)
