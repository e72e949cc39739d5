"""`longwave plot`: pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def main(arguments: list[str]) -> None:
    """Run `longwave plot ...`."""
    from longwave.cli.group import run_group

    run_group("plot", "Draw pictures.", {"init": plot_init}, arguments)


def plot_init(
    init: Literal["legs", "legt", "lagt"] = "legs",
    d_model: int = 64,
    d_state: int = 64,
    length: int = 1024,
    seed: int = 0,
    out: Path = Path("kernels.png"),
) -> None:
    """Draw what a fresh layer remembers: its basis functions and its kernels.

    Example: longwave plot init --init legt --out legt.png

    Args:
        init: The initialisation.
        d_model: How many features, each with a kernel and a dt of its own.
        d_state: States of each feature.
        length: Length of the kernels.
        seed: Seed of the layer.
        out: The picture to write; its ending chooses the format.
    """
    import torch

    from longwave.layers.s4 import S4
    from longwave.report.kernels import draw_layer

    torch.manual_seed(seed)
    draw_layer(S4(d_model, d_state, init=init), length, out)
    print(out)
