"""Plots of an initialisation's memory: the weights e^(sA) B of inputs of age s in its states."""

from pathlib import Path

import torch
from jaxtyping import Float64
from torch import Tensor

from longwave.pictures.style import check_path, panels, save
from longwave.ssm import dplr, hippo

SHOWN = 6  # states


def weights(init: str, d_state: int, age: Float64[Tensor, "ages"]) -> Float64[Tensor, "ages N"]:
    """e^(sA) B at equally spaced ages s from 0 on: the weights of an input of age s in the states.

    The states of a diagonal system are its modes, real and imaginary parts.
    """
    Lambda, P, B, _ = dplr(init, d_state)
    if not len(P):
        return torch.view_as_real(torch.exp(torch.outer(age.to(Lambda.dtype), Lambda)) * B).flatten(1)
    A, B = hippo(init, d_state)
    step, w = torch.linalg.matrix_exp(A * (age[1] - age[0])), [B]
    for _ in age[1:]:
        w.append(step @ w[-1])
    return torch.stack(w)


def draw_basis(init: str, d_state: int, path: str | Path, longest: float = 3.0) -> None:
    """The smoothest states of a system, each as a function of age, up to `longest`."""
    import matplotlib

    check_path(path, "out")
    age = torch.linspace(0, longest, 1200, dtype=torch.float64)
    w = weights(init, d_state, age)
    w = w[:, w.abs().amax(0) > 1e-9]  # a state that no input reaches says nothing
    roughness = w.diff(dim=0).square().sum(0) / w.square().sum(0)
    chosen = roughness.argsort(stable=True)[:SHOWN].sort().values
    figure, (axes,) = panels(8, 2.6)
    shades = matplotlib.colormaps["viridis"]
    for k, n in enumerate(chosen.tolist()):
        axes.plot(age, w[:, n], color=shades(k / SHOWN), linewidth=1.5)
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(title=f"{init}, N = {d_state}: its {len(chosen)} smoothest states", xlabel="age of the input")
    axes.margins(x=0)
    save(figure, path, dpi=110)
