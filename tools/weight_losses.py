"""Losses of a run with weights in float32, bfloat16, float16 and int8.

    python tools/weight_losses.py runs/NAME --sequences 32

The compiled steps go through sequences of the validation set, side by side, as they do in generation: bits per token by
the type of their weights.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from longwave.models import Recurrence
from longwave.ops import WEIGHT_TYPES
from longwave.runs import load_run

SIDE_BY_SIDE = 32


@torch.no_grad()
def losses(model: Any, split: Any, count: int) -> tuple[dict[str, float], int]:
    """Bits per token by the type of the weights, and the number of tokens in at most `count` sequences of a split."""
    found = dict.fromkeys(WEIGHT_TYPES, 0.0)
    tokens, count = 0, min(count, len(split))
    for first in range(0, count, SIDE_BY_SIDE):
        batch = split.batch(range(first, min(first + SIDE_BY_SIDE, count)))
        x, y = batch["x"], batch["y"]
        tokens += y.numel()
        for weights in WEIGHT_TYPES:
            steps = Recurrence(model, len(x), weights=weights)
            for k in range(x.shape[1]):
                found[weights] += float(cross_entropy(steps(x[:, k]), y[:, k], reduction="sum")) / math.log(2)
    return {weights: loss / tokens for weights, loss in found.items()}, tokens


def main(arguments: list[str] | None = None) -> None:
    """Print the loss with each type of weights, and what it adds to that of float32."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run on text")
    parser.add_argument("--sequences", type=int, default=2 * SIDE_BY_SIDE, help="of the validation set")
    options = parser.parse_args(arguments)
    if options.sequences < 1:
        parser.error(f"--sequences: expected at least 1, got {options.sequences}")
    try:
        run = load_run(options.run)
        found, tokens = losses(run.load_best("cpu").eval(), run.build_task().valid, options.sequences)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    for weights, loss in found.items():
        print(f"{weights:9} {loss:.5f} bits per token, {loss - found['float32']:+.6f}; {tokens:,} tokens")


if __name__ == "__main__":
    main()
