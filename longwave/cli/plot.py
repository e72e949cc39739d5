"""`longwave plot`: draw pictures."""

from __future__ import annotations

from pathlib import Path


def main(arguments: list[str]) -> None:
    """Run `longwave plot ...`."""
    from longwave.cli._group import run_group

    run_group("plot", "Draw pictures.", {"init": plot_init}, arguments)


def plot_init(
    init: str = "legs",
    d_model: int = 64,
    d_state: int = 64,
    length: int = 1024,
    seed: int = 0,
    out: Path = Path("kernels.png"),
) -> None:
    """Draw the basis functions and the kernels of a newly initialised layer.

    Example: longwave plot init --init legt --out legt.png

    Args:
        init: Initialisation: legs, legt or lagt.
        d_model: Number of features, each with its own kernel and dt.
        d_state: States of each feature.
        length: Length of the kernels.
        seed: Seed of the layer.
        out: The picture to write; the suffix of its name decides the format.
    """
    import torch

    from longwave.layers.s4 import S4
    from longwave.pictures.kernels import draw_layer

    torch.manual_seed(seed)
    draw_layer(S4(d_model, d_state, init=init), length, out)
    print(out)
