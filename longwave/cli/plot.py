"""`longwave plot`: draw pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

MOST_STATES, MOST_VALUES = 4096, 1 << 26  # the most that is drawn in seconds and a few gigabytes


INITS = "legs, legs-clipped, legt, lagt, fout, random-nplr; also s4d-legs, s4d-lin and s4d-inv, except for nodes."
Init = Annotated[str, arg(help=f"Initialisation: {INITS}")]
States = Annotated[int, arg(help="Number of states of each feature.")]
Length = Annotated[int, arg(help="Length of the kernels.")]
Seed = Annotated[int, arg(help="Seed of the random parameters.")]
Out = Annotated[Path, arg(help="The picture to write; its suffix decides the format.")]


def plot_init(
    init: Init = "legs",
    d_model: int = 64,
    d_state: States = 64,
    length: Length = 1024,
    seed: Seed = 0,
    out: Out = Path("kernels.png"),
) -> None:
    """Draw the basis functions and the kernels of a newly initialised layer.

    Example: longwave plot init --init legt --out legt.png

    Args:
        d_model: Number of features, each with its own kernel and dt.
    """
    _check_sizes(d_state=d_state, d_model=d_model, length=length, seed=seed)
    import torch

    from longwave.layers import S4, S4D
    from longwave.pictures.kernels import draw_layer
    from longwave.ssm import nplr

    torch.manual_seed(seed)
    layer = S4 if len(nplr(init, 2).P) else S4D
    draw_layer(layer(d_model, d_state, init=init), length, out)
    print(out)


def plot_basis(init: Init = "legs", d_state: States = 64, longest: float = 3.0, out: Out = Path("basis.png")) -> None:
    """Draw how an initialisation weights past inputs by age, for its six smoothest states.

    Example: longwave plot basis --init fout --out fout.png

    Args:
        longest: The largest age, in the system's own unit of time.
    """
    _check_sizes(d_state=d_state)
    _check_positive("longest", longest)
    import torch

    from longwave.pictures.basis import draw_basis

    torch.manual_seed(0)  # for the one that is random
    draw_basis(init, d_state, out, longest)
    print(out)


def plot_nodes(
    init: Init = "legs",
    d_state: States = 64,
    length: Length = 16384,
    dt: tuple[float, ...] = (0.001, 0.01, 0.1),
    seed: Seed = 0,
    out: Out = Path("nodes.png"),
) -> None:
    """Draw the spectrum of long kernels and the few points that it is interpolated from.

    Example: longwave plot nodes --dt 0.003 0.03 --out nodes.png

    Args:
        dt: Step sizes, one panel each.
    """
    _check_sizes(d_state=d_state, length=length, seed=seed)
    for step in dt:
        _check_positive("dt", step)
    if not dt:
        raise ValueError("dt: expected one step size or more, got none")
    import torch

    from longwave.pictures.nodes import draw_nodes

    torch.manual_seed(0)  # for the one that is random
    draw_nodes(init, d_state, length, dt, out, seed)
    print(out)


def _check_sizes(d_state: int, d_model: int = 1, length: Length = 2, seed: int = 0) -> None:
    """Refuse sizes with nothing to draw, or too much for the memory."""
    for name, value, least, most in (
        ("d_state", d_state, 2, MOST_STATES),
        ("d_model", d_model, 1, MOST_VALUES),
        ("length", length, 2, MOST_VALUES),
        ("seed", seed, 0, 2**63 - 1),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name}: expected a whole number from {least} to {most:,}, got {value}")
    if d_state * d_model * length > MOST_VALUES:
        raise ValueError(
            f"length: expected at most {MOST_VALUES // (d_state * d_model):,} for {d_model} features of {d_state} "
            f"states each, got {length:,}"
        )


def _check_positive(name: str, value: float) -> None:
    if not 1e-9 <= value <= 1e9:
        raise ValueError(f"{name}: expected a number from 1e-9 to 1e9, got {value:g}")


COMMANDS = {"init": plot_init, "basis": plot_basis, "nodes": plot_nodes}
