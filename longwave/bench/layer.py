"""The layer against a plain FFT convolution of the same size, its growth with length, and its step."""

import functools
import math
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, growth_of, in_fresh_process, machine
from longwave.bench.tables import Table, megabytes, milliseconds
from longwave.layers.s4 import S4
from longwave.layers.s4d import S4D

H, N = 256, 64
SHAPES = ((8, 4096), (16, 1024), (1, 16384))
QUICK_SHAPES = ((8, 1024), (1, 4096))
GROWTH_H = 8
GROWTH_EXPONENTS = range(10, 21)
QUICK_GROWTH_EXPONENTS = range(10, 16)
STEPS = (10, 100, 1000, 10000)
QUICK_STEPS = (10, 100, 1000)
# Of S4, and then of S4D, with the gradient into y; `into_state`: into the state after the last step too.
MODES = ("length", "default", "default_state", "default_into_state", "s4d", "s4d_state")
STEP_COLUMNS = ("seconds", "s4d_seconds")


@BENCHES.register("layer")
@dataclass(frozen=True)
class LayerBench(Bench):
    """Time the layer, S4D and a plain FFT convolution, the layer's growth with length, and its step.

    Example: longwave bench layer --json > layer.json
    """

    def run(self, progress: Progress) -> Result:
        """Ratios to a convolution, growth with length, and seconds of a step."""
        rows = []
        for batch, L in QUICK_SHAPES if self.quick else SHAPES:
            progress(f"layer, batch {batch}, length {L:,}")
            rows.append(in_fresh_process(time_row, batch=batch, L=L, repeats=3 if self.quick else 7))
            if not self.quick:
                for mode in ("length", "default"):
                    progress(f"memory of the {mode} mode, batch {batch}, length {L:,}")
                    rows[-1][f"{mode}_memory_bytes"] = in_fresh_process(memory, batch=batch, L=L, mode=mode)
        growth = []
        for exponent in QUICK_GROWTH_EXPONENTS if self.quick else GROWTH_EXPONENTS:
            L = 1 << exponent
            progress(f"growth, length {L:,}")
            layer = S4(GROWTH_H, N, length=L)
            u = torch.randn(1, L, GROWTH_H, requires_grad=True)
            seconds = best_times({"layer": functools.partial(layer_pass, layer, u)}, repeats=3)["layer"]
            growth.append({"L": L, "seconds": seconds})
        progress("steps")
        return {
            "bench": "layer",
            "H": H,
            "N": N,
            "machine": machine(),
            "rows": rows,
            "growth": growth,
            "growth_H": GROWTH_H,
            "growth_exponent": _slope([(math.log(g["L"]), math.log(g["seconds"])) for g in growth]),
            "steps": _steps(QUICK_STEPS if self.quick else STEPS),
        }

    def tables(self, result: Result) -> list[Table]:
        """The layer over a convolution, its growth, its step."""
        rows = []
        for row in result["rows"]:
            seconds, modes = row["seconds"], MODES
            cells = [str(row["batch"]), f"{row['L']:,}", milliseconds(seconds["conv"])]
            cells += [f"{milliseconds(seconds[mode])} = {row[f'{mode}_over_conv']:.2f}" for mode in modes]
            rows.append(cells + [megabytes(row.get(f"{mode}_memory_bytes")) for mode in modes[:2]])
        title = f"Layer, forward + backward, over a plain FFT convolution: {result['H']} features, N = {result['N']}"
        columns = (
            "batch",
            "length",
            "convolution",
            "length= given",
            "default",
            "default, with state",
            "gradient into it too",
            "S4D",
            "S4D, with state",
        )
        return [
            Table(title, (*columns, "memory, length= given", "memory, default"), rows),
            Table(
                f"Growth with length: {result['growth_H']} features, batch 1",
                ("length", "time"),
                [(f"{row['L']:,}", milliseconds(row["seconds"])) for row in result["growth"]],
                notes=[f"time grows as length^{result['growth_exponent']:.2f}"],
            ),
            Table(
                "One step, batch 1",
                ("after so many steps", "S4", "S4D"),
                [
                    (f"{row['after']:,}", *(f"{row[name] * 1e6:.0f} us" for name in STEP_COLUMNS))
                    for row in result["steps"]
                ],
            ),
        ]


def layer_pass(layer: nn.Module, u: torch.Tensor, need_state: bool = False, into_state: bool = False) -> None:
    """Forward and backward of a layer; with `into_state` the state after the last step has a gradient of its own."""
    y, state = layer(u, need_state=need_state or into_state)
    outputs, gradients = ([y, state], [u.detach(), state.detach()]) if into_state else ([y], [u.detach()])
    torch.autograd.backward(outputs, gradients)
    u.grad = None
    for p in layer.parameters():
        p.grad = None


def time_row(batch: int, L: int, repeats: int) -> dict[str, Any]:
    """Seconds of a plain convolution and of the layer in its modes, at one shape."""
    torch.manual_seed(0)
    signal, kernel = torch.randn(batch, H, L, requires_grad=True), torch.randn(H, L, requires_grad=True)
    u = torch.randn(batch, L, H, requires_grad=True)
    fixed, free, diagonal = S4(H, N, length=L), S4(H, N), S4D(H, N)
    seconds = best_times(
        {
            "conv": lambda: plain_convolution(signal, kernel),
            "length": lambda: layer_pass(fixed, u),
            "default": lambda: layer_pass(free, u),
            "default_state": lambda: layer_pass(free, u, need_state=True),
            "default_into_state": lambda: layer_pass(free, u, into_state=True),
            "s4d": lambda: layer_pass(diagonal, u),
            "s4d_state": lambda: layer_pass(diagonal, u, need_state=True),
        },
        repeats,
    )
    ratios = {f"{mode}_over_conv": seconds[mode] / seconds["conv"] for mode in MODES}
    return {"batch": batch, "L": L, "seconds": seconds, **ratios}


def _steps(marks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Seconds of a step after so many steps, of S4 and of S4D: the fastest of the last ten."""
    rows: list[dict[str, Any]] = [{"after": mark} for mark in marks]
    for column, layer in zip(STEP_COLUMNS, (S4(H, N), S4D(H, N)), strict=True):
        layer.requires_grad_(False)
        state, u = layer.initial_state(1), torch.randn(1, H)
        times: list[float] = []
        for row, (before, after) in zip(rows, pairwise((0, *marks)), strict=True):
            for _ in range(before, after):
                start = time.perf_counter()
                _, state = layer.step(u, state)
                times.append(time.perf_counter() - start)
            row[column] = min(times[-10:])
    return rows


def _slope(points: list[tuple[float, float]]) -> float:
    """The least-squares slope: the exponent of time over length."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def memory(batch: int, L: int, mode: str) -> int:
    """Bytes that a layer needs, forward and backward."""
    small = S4(H, N, length=64 if mode == "length" else None), torch.randn(1, 64, H, requires_grad=True)
    layer = S4(H, N, length=L if mode == "length" else None), torch.randn(batch, L, H, requires_grad=True)
    return growth_of(functools.partial(layer_pass, *small), functools.partial(layer_pass, *layer))
