"""Plot the spectrum of a long kernel and the few points that it is interpolated from."""

from pathlib import Path

import torch

from longwave.pictures.style import BLUE, GREY, ORANGE, check_path, panels, save
from longwave.ssm import dplr, truncated_output_map
from longwave.ssm.nodes import SINGLE, Feature, divide


def draw_nodes(init: str, d_state: int, length: int, steps: tuple[float, ...], path: str | Path, seed: int = 0) -> None:
    """|K^| over the nodes, one panel for each step size: blocks, their points, and the nodes evaluated one by one."""
    check_path(path, "out")
    figure, rows = panels(9, 2.2 * len(steps) + 0.4, len(steps), sharex=True)
    count = length // 2 + 1
    for axes, dt in zip(rows, steps, strict=True):
        system = _system(init, d_state, length, dt, seed)
        blocks = divide(system, length, torch.float32)
        smooth = [block for block in blocks if block.is_smooth]
        nodes = torch.arange(count, dtype=torch.float64)
        axes.plot(1 + nodes, _size(system, nodes, length), color=BLUE, linewidth=1.2, zorder=2)
        x = torch.cos(torch.pi * (torch.arange(SINGLE.points, dtype=torch.float64) + 0.5) / SINGLE.points)
        for block in smooth:
            points = block.begin + (block.size - 1) / 2 + block.size / 2 * x
            points = points[points <= count - 1]
            axes.plot(1 + points, _size(system, points, length), ".", color=BLUE, markersize=4, zorder=3)
            axes.axvline(1 + block.begin - 0.5, color=GREY, linewidth=0.6, alpha=0.6, zorder=1)
        single = [block for block in blocks if not block.is_smooth]
        for block in single:
            axes.axvspan(0.5 + block.begin, 0.5 + block.begin + block.size, color=ORANGE, alpha=0.2, linewidth=0)
        evaluated, one_by_one = SINGLE.points * len(smooth), sum(block.size for block in single)
        axes.set(xscale="log", yscale="log", xlim=(1, count), ylabel="$|\\hat K|$")
        share = (evaluated + one_by_one) / count
        axes.set_title(
            f"dt = {dt:g}: {len(smooth)} blocks with {evaluated:,} points, {one_by_one:,} nodes one by one: "
            f"{share:.1%} of {count:,} nodes",
            fontsize=10,
        )
    rows[-1].set_xlabel(f"node + 1 ({init}, N = {d_state}, length {length:,})")
    save(figure, path, dpi=110)


def _system(init: str, d_state: int, length: int, dt: float, seed: int) -> Feature:
    """One feature with a random C."""
    Lambda, P, B, _ = dplr(init, d_state)
    generator = torch.Generator().manual_seed(seed)
    C = torch.randn(1, d_state // 2, dtype=torch.complex128, generator=generator)
    step = torch.tensor([dt], dtype=torch.float64)
    Lambda, P, B = Lambda[None], P[:, None], B[None]
    C_tilde = truncated_output_map(Lambda, P, C, step, length)[None]
    Lambda, P, B, C_tilde = (torch.view_as_real(t.contiguous()) for t in (Lambda, P, B, C_tilde))
    return Feature(Lambda, P, B, C_tilde, step)


def _size(system: Feature, k: torch.Tensor, length: int) -> torch.Tensor:
    """|K^| at real node numbers."""
    return torch.linalg.vector_norm(system.spectrum(k, length)[0, 0], dim=-1)
