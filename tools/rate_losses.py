"""What a run on audio loses at a coarser sampling rate: by the dt that it is given, or by what the signal has lost.

    python tools/rate_losses.py runs/fsdd-seed0 --rate 2

The test clips, with samples dropped or filtered, are classified at the coarser rate, with dt multiplied; and brought
back to the rate of training by interpolation, with dt as it was. Both have the same signal. What they have less than
the clips as they are is the signal's loss, and where they differ is the rate's.
"""

import argparse
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longwave.tasks.audio.clips import ClipTask
from longwave.tasks.rates import sampled
from longwave.train.folder import RunFolder


@torch.no_grad()
def accuracy(model: Any, task: ClipTask, change: Callable[[Tensor], Tensor], rate: float) -> float:
    """The share of test clips that are classified right, each (1, L, channels) changed, at a rate."""
    right = 0
    for k in range(len(task.test)):
        batch = task.test.batch([k])
        x = batch["x"][:, : int(batch["lengths"][0])] if "lengths" in batch else batch["x"]
        right += int(model(change(x), rate=rate)[0].argmax(-1)[0] == batch["y"][0])
    return right / len(task.test)


def losses(model: Any, task: ClipTask, rate: int) -> dict[str, float]:
    """The accuracy of every combination of signal and rate."""
    found = {"as it is": accuracy(model, task, lambda x: x, 1.0)}
    for name, antialias in (("dropped", False), ("filtered", True)):

        def coarse(x: Tensor, antialias: bool = antialias) -> Tensor:
            return sampled(x, None, Fraction(rate), antialias)[0]

        def back(x: Tensor, coarse: Callable[[Tensor], Tensor] = coarse) -> Tensor:
            return sampled(coarse(x), None, Fraction(1, rate))[0]

        found[f"{name}, at rate {rate}"] = accuracy(model, task, coarse, float(rate))
        found[f"{name}, brought back to rate 1"] = accuracy(model, task, back, 1.0)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print what was found, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run on audio from samples")
    parser.add_argument("--rate", type=int, default=2, help="one in so many samples is kept")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    options = parser.parse_args(arguments)
    if options.rate < 2:
        parser.error(f"--rate: expected a whole number from 2 on, got {options.rate}")
    try:
        run = RunFolder.open(options.run)
        run.config.experiment.check_supports_rate("rate")
        task = run.build_task(options.data_dir)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if not isinstance(task, ClipTask) or task.inputs.features != "raw" or task.inputs.by_position:
        parser.error(f"{options.run}: expected a run on samples of audio that are scaled by one number")
    print(json.dumps(losses(run.load_best("cpu").eval(), task, options.rate), indent=2))


if __name__ == "__main__":
    main()
