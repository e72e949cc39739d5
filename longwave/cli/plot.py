"""`longwave plot`: draw pictures."""

from __future__ import annotations

from pathlib import Path


def main(arguments: list[str]) -> None:
    """Run `longwave plot ...`."""
    from longwave.cli._group import run_group

    run_group("plot", "Draw pictures.", {"init": plot_init, "basis": plot_basis, "nodes": plot_nodes}, arguments)


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
        init: Initialisation: legs, legt, lagt, fout, random-nplr, s4d-legs, s4d-lin or s4d-inv.
        d_model: Number of features, each with its own kernel and dt.
        d_state: States of each feature.
        length: Length of the kernels.
        seed: Seed of the layer.
        out: The picture to write; the suffix of its name decides the format.
    """
    import torch

    from longwave.layers import S4, S4D
    from longwave.pictures.kernels import draw_layer
    from longwave.ssm import nplr

    torch.manual_seed(seed)
    layer = S4 if len(nplr(init, 2).P) else S4D
    draw_layer(layer(d_model, d_state, init=init), length, out)
    print(out)


def plot_basis(init: str = "legs", d_state: int = 64, longest: float = 3.0, out: Path = Path("basis.png")) -> None:
    """Draw with which weights an initialisation remembers inputs, by their age.

    Example: longwave plot basis --init fout --out fout.png

    Args:
        init: Initialisation: legs, legt, lagt, fout, random-nplr, s4d-legs, s4d-lin or s4d-inv.
        d_state: Number of states; the smoothest six are drawn.
        longest: The largest age, in units of the system's own time.
        out: The picture to write; the suffix of its name decides the format.
    """
    import torch

    from longwave.pictures.basis import draw_basis

    torch.manual_seed(0)  # for the one that is random
    draw_basis(init, d_state, out, longest)
    print(out)


def plot_nodes(
    init: str = "legs",
    d_state: int = 64,
    length: int = 16384,
    dt: tuple[float, ...] = (0.001, 0.01, 0.1),
    seed: int = 0,
    out: Path = Path("nodes.png"),
) -> None:
    """Draw the spectrum of long kernels and the few points that it is interpolated from.

    Example: longwave plot nodes --dt 0.003 0.03 --out nodes.png

    Args:
        init: Initialisation: legs, legt, lagt, fout or random-nplr.
        d_state: States of the system.
        length: Length of the kernels.
        dt: Step sizes, one panel each.
        seed: Seed of the output map.
        out: The picture to write; the suffix of its name decides the format.
    """
    import torch

    from longwave.pictures.nodes import draw_nodes

    torch.manual_seed(0)  # for the one that is random
    draw_nodes(init, d_state, length, dt, out, seed)
    print(out)
