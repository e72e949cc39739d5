"""Plots of the kernels of state space layers."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longwave.layers.state_space import StateSpaces
from longwave.pictures.style import check_path, panels, save
from longwave.ssm import bilinear, hippo

COLUMNS = 10  # of images of kernels, two rows per layer


def draw_layer(layer: StateSpaces, L: int, path: str | Path) -> None:
    """Two panels: the states' responses to an impulse (the HiPPO basis), and all kernels of the layer, sorted by dt."""
    import matplotlib

    check_path(path, "out")
    figure, (left, right) = panels(12, 4.6, 1, 2, width_ratios=(1, 1.25))
    step, steps = 0.005, 800
    A_bar, B_bar = bilinear(*hippo(layer.init, layer.d_state), step)
    states, x = [], B_bar
    for _ in range(steps):
        states.append(x)
        x = A_bar @ x
    time = torch.arange(steps) * step
    shades = matplotlib.colormaps["viridis"]
    for n in range(min(6, layer.d_state)):
        left.plot(time, torch.stack(states)[:, n] / step, color=shades(n / 6), linewidth=1.6, label=f"n = {n}")
    left.set(title=f"{layer.init}: the first states after an impulse", xlabel="time", ylabel="state")
    left.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    left.legend(frameon=False, ncols=2)

    dt = layer.ssm().dt.detach().sort(descending=True).values
    image = _draw_sorted(right, layer, L, f"{len(dt)} kernels, each over its largest value")
    ticks = sorted({0, len(dt) // 2, len(dt) - 1})
    right.set_yticks([t + 0.5 for t in ticks], [f"dt = {dt[t]:.2g}" for t in ticks])
    figure.colorbar(image, ax=right, pad=0.01)
    save(figure, path, dpi=130)


def draw_kernels(layers: dict[str, StateSpaces], length: int) -> Any:
    """All kernels of some layers, each over its largest value, sorted by dt."""
    figure, parts = panels(10, 3.4, 1, len(layers))
    for axes, (name, layer) in zip(parts, layers.items(), strict=True):
        _draw_sorted(axes, layer, length, name)
    return figure


def _draw_sorted(axes: Any, layer: StateSpaces, length: int, title: str) -> Any:
    """One row per kernel, over the lag on a logarithmic axis."""
    K = _sorted_kernels(layer, length)
    x, y = range(1, length + 2), range(len(K) + 1)
    image = axes.pcolormesh(x, y, K.float().numpy(), cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True)
    axes.set_xscale("log")
    axes.set(title=title, xlabel="lag + 1 (steps)", ylabel="feature, dt falling upwards")
    return image


def draw_planes(layers: dict[str, StateSpaces], size: tuple[int, int]) -> Any:
    """Some kernels of each layer as images, row by row: lag 0 at the top left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.3 * len(layers)), layout="constrained")
    for part, (name, layer) in zip(figure.subfigures(len(layers), 1, squeeze=False)[:, 0], layers.items(), strict=True):
        K = _sorted_kernels(layer, size[0] * size[1])
        picked = torch.linspace(0, len(K) - 1, min(2 * COLUMNS, len(K))).round().long()
        part.suptitle(f"{name}, large dt first", fontsize=10)
        for axes, kernel in zip(part.subplots(2, COLUMNS).ravel(), K[picked], strict=False):
            # A square root: a kernel spans decades, and its tail is what reaches across the image.
            axes.imshow((kernel.sign() * kernel.abs().sqrt()).view(size).numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        for axes in part.axes:
            axes.axis("off")
    return figure


def _sorted_kernels(layer: StateSpaces, length: int) -> Tensor:
    """(H, length), the largest dt first, each over its largest value; of a two-sided layer, those that look back."""
    with torch.no_grad():
        K = layer.kernel(length)
        K = (K[0] if K.ndim == 3 else K)[layer.ssm().dt.argsort(descending=True)]
    return K / K.abs().amax(-1, keepdim=True).clamp(min=1e-12)
