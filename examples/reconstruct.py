"""What a state remembers: a signal, and what is left of its past in 64 numbers, for each HiPPO family.

Run with `python examples/reconstruct.py`; it prints how far the reconstruction is off and writes a picture of it.

The state of a HiPPO system holds the coefficients of the past input in a family of functions of age (docs/hippo.md);
summed up again, they give the past back: all of it, ever more coarsely (LegS), a window of it (LegT, FouT), or a past
that fades (LagT).
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.polynomial.laguerre import lagvander
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from longwave.pictures.style import BLUE, check_path
from longwave.ssm import hippo

PICTURE = Path("demo/reconstruct.png")
N, STEPS = 64, 2000
Array = NDArray[np.float64]


def legendre(x: Array) -> Array:
    """The orthonormal Legendre polynomials of an interval of length 1, at x in [-1, 1]."""
    return legvander(x, N - 1) * np.sqrt(2 * np.arange(N) + 1)


def fourier(age: Array) -> Array:
    """Cosines and sines of n + 1/2 cycles in an interval of length 1, side by side."""
    angle = math.pi * np.outer(age, 2 * np.arange(N // 2) + 1)
    return math.sqrt(2) * np.stack((np.cos(angle), np.sin(angle)), axis=-1).reshape(len(age), N)


# Of each family: the time of one step, the functions of age that the states are coefficients of, and the age up to
# which it is compared with the signal.
FAMILIES: dict[str, tuple[float, Callable[[Array], Array], float]] = {
    "legs": (1 / 500, lambda age: legendre(2 * np.exp(-age) - 1), 4.0),
    "legt": (1 / 1200, lambda age: legendre(1 - 2 * age), 1.0),
    "lagt": (1 / 16, lambda age: np.exp(-age / 2)[:, None] * lagvander(age, N - 1), 75.0),
    "fout": (1 / 1200, fourier, 1.0),
}


def make_signal() -> Array:
    """A smooth random signal with a slow trend, STEPS long."""
    noise = np.random.default_rng(1).standard_normal(STEPS)
    frequency = np.fft.rfftfreq(STEPS, 1 / STEPS)
    smooth = np.fft.irfft(np.fft.rfft(noise) * np.exp(-((frequency / 12) ** 2)), STEPS)
    return smooth / smooth.std() + np.sin(np.arange(STEPS) / 600)


def final_state(init: str, dt: float, signal: Array) -> Array:
    """The state after the signal, which holds its value for each step; exact."""
    A, B = hippo(init, N)
    joint = torch.zeros(N + 1, N + 1, dtype=torch.float64)
    joint[:N, :N], joint[:N, N] = A * dt, B * dt
    step = torch.linalg.matrix_exp(joint).numpy()
    state = np.zeros(N)
    for value in signal:
        state = step[:N, :N] @ state + step[:N, N] * value
    return state


def reconstruct(init: str, signal: Array) -> tuple[Array, Array, float]:
    """Steps of the past that the state covers, what it says of them, and its error over their spread."""
    dt, functions, oldest = FAMILIES[init]
    steps = np.arange(min(STEPS, round(oldest / dt)))
    past = functions((steps + 0.5) * dt) @ final_state(init, dt, signal)
    true = signal[::-1][steps]
    return STEPS - 1 - steps, past, float(np.sqrt(np.mean((past - true) ** 2)) / true.std())


def main(picture: Path = PICTURE) -> dict[str, float]:
    """Reconstruct, print the errors, and draw."""
    from matplotlib.figure import Figure

    check_path(picture)
    signal, errors = make_signal(), {}
    table = Table("family", "steps", "error / spread", title=f"{N} states for the past", title_justify="left")
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    panels = figure.subplots(len(FAMILIES), 1, sharex=True)
    for axes, init in zip(panels, FAMILIES, strict=True):
        steps, past, errors[init] = reconstruct(init, signal)
        axes.plot(signal, color="0.75", linewidth=2.5, label="signal")
        axes.plot(steps, past, color=BLUE, linewidth=1.2, label=f"from {N} states")
        axes.set(ylim=(signal.min() - 1, signal.max() + 1), title=f"{init}: the last {len(steps):,} steps")
        axes.margins(x=0)
        table.add_row(init, f"{len(steps):,}", f"{errors[init]:.4f}")
    panels[0].legend(frameon=False, loc="upper left", ncols=2)
    panels[-1].set_xlabel("step; the state is that after the last one")
    figure.savefig(picture, dpi=110)
    Console().print(table)
    print(picture)
    return errors


if __name__ == "__main__":
    main()
