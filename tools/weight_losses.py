"""Losses of a run with weights in float32, bfloat16, float16 and int8.

    python tools/weight_losses.py runs/NAME [SEQUENCES]

The compiled steps go through sequences of the validation set, side by side, as they do in generation: bits per token by
the type of their weights.
"""

import math
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from longwave.models import Recurrence
from longwave.ops import WEIGHT_TYPES
from longwave.runs import load_run

SIDE_BY_SIDE = 32


@torch.no_grad()
def main() -> None:
    """Print the loss with each type of weights, and what it adds to that of float32."""
    run = load_run(Path(sys.argv[1]))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2 * SIDE_BY_SIDE
    model, split = run.load_best("cpu"), run.build_task().valid
    losses = dict.fromkeys(WEIGHT_TYPES, 0.0)
    tokens = 0
    for first in range(0, min(count, len(split)), SIDE_BY_SIDE):
        batch = split.batch(range(first, min(first + SIDE_BY_SIDE, count, len(split))))
        x, y = batch["x"], batch["y"]
        tokens += y.numel()
        for weights in WEIGHT_TYPES:
            steps = Recurrence(model, len(x), weights=weights)
            for k in range(x.shape[1]):
                losses[weights] += float(cross_entropy(steps(x[:, k]), y[:, k], reduction="sum")) / math.log(2)
    for weights, loss in losses.items():
        more = (loss - losses["float32"]) / tokens
        print(f"{weights:9} {loss / tokens:.5f} bits per token, {more:+.6f}; {tokens:,} tokens")


if __name__ == "__main__":
    main()
