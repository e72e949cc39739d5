"""Pictures of what an S4 layer remembers."""

from pathlib import Path

import torch

from longwave.layers.s4 import S4
from longwave.ssm import bilinear, hippo


def draw_layer(layer: S4, L: int, path: Path) -> None:
    """Two panels: the states' responses to an impulse (the HiPPO basis), and all kernels of the layer, sorted by dt."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    path = Path(path)
    supported = pyplot.figure().canvas.get_supported_filetypes()
    pyplot.close()
    if path.suffix.lstrip(".").lower() not in supported:
        raise ValueError(f"out: expected a picture ending in one of {', '.join(sorted(supported))}, got {str(path)!r}")
    with torch.no_grad():
        K = layer.kernel(L)
        K = K[0] if layer.bidirectional else K
        dt, order = layer.ssm().dt.sort(descending=True)
    K = K[order] / K[order].abs().amax(-1, keepdim=True).clamp(min=1e-12)

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.6), width_ratios=(1, 1.25), layout="constrained")
    step, steps = 0.005, 800
    A_bar, B_bar = bilinear(*hippo(layer.init, layer.d_state), step)
    states, x = [], B_bar
    for _ in range(steps):
        states.append(x)
        x = A_bar @ x
    time = torch.arange(steps) * step
    shades = matplotlib.colormaps["viridis"]
    for n in range(6):
        left.plot(time, torch.stack(states)[:, n] / step, color=shades(n / 6), linewidth=1.6, label=f"n = {n}")
    left.set(title=f"{layer.init}: the first states after an impulse", xlabel="time", ylabel="state")
    left.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    left.legend(frameon=False, ncols=2)

    image = right.pcolormesh(
        range(1, L + 2),
        range(len(K) + 1),
        K.float().numpy(),
        cmap="RdBu_r",
        vmin=-1,
        vmax=1,
        shading="flat",
        rasterized=True,
    )
    right.set_xscale("log")
    right.set(
        title=f"{len(K)} kernels, each over its largest value",
        xlabel="lag (steps)",
        ylabel="feature, dt falling upwards",
    )
    ticks = sorted({0, len(K) // 2, len(K) - 1})
    right.set_yticks([t + 0.5 for t in ticks], [f"dt = {dt[t]:.2g}" for t in ticks])
    figure.colorbar(image, ax=right, pad=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
