"""`longwave plot`: draw pictures."""

from __future__ import annotations

from pathlib import Path

MOST_STATES, MOST_VALUES = 4096, 1 << 26  # what a picture can be drawn of within seconds and some gigabytes


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
    _check_sizes(d_state=d_state, d_model=d_model, length=length, seed=seed)
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
    _check_sizes(d_state=d_state)
    _check_positive("longest", longest)
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


def _check_sizes(d_state: int, d_model: int = 1, length: int = 2, seed: int = 0) -> None:
    """Refuse what nothing can be drawn of, or not within the memory of a machine."""
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
