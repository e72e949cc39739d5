"""S4 and S4D against a plain FFT convolution of the same size, their growth with length, and their steps."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, growth_of, in_fresh_process, machine
from longwave.bench.numbers import megabytes, milliseconds
from longwave.core.text_table import TextTable
from longwave.layers.s4 import S4
from longwave.layers.s4d import S4D
from longwave.layers.state_space import StateSpaces

H, N = 256, 64
SHAPES = ((8, 4096), (16, 1024), (1, 16384))
QUICK_SHAPES = ((8, 1024), (1, 4096))
GROWTH_H = 8
GROWTH_EXPONENTS = range(10, 21)
QUICK_GROWTH_EXPONENTS = range(10, 16)
STEPS = (10, 100, 1000, 10000)
QUICK_STEPS = (10, 100, 1000)
BURST, TURNS = 10, 20  # steps that are timed at once, and how often
# Of S4, and then of S4D, with the gradient into y; `into_state`: into the state after the last step too.
MODES = {
    "length": "length= given",
    "default": "default",
    "default_state": "default, with state",
    "default_into_state": "gradient into it too",
    "s4d": "S4D",
    "s4d_state": "S4D, with state",
    "s4d_into_state": "S4D, gradient into it too",
}
MEMORY_MODES = ("length", "default", "s4d")
COLUMNS = {"seconds": "S4", "s4d_seconds": "S4D"}  # of growth and of steps


@BENCHES.register("layer")
@dataclass(frozen=True)
class LayerBench(Bench):
    """Time S4, S4D and a plain FFT convolution, the growth of both layers with length, and their steps.

    Example: longwave bench layer --json > layer.json
    """

    def run(self, progress: Progress) -> Result:
        """Ratios to a convolution, growth with length, and seconds of a step."""
        rows = []
        for batch, L in QUICK_SHAPES if self.quick else SHAPES:
            progress(f"layer, batch {batch}, length {L:,}")
            rows.append(in_fresh_process(time_row, batch=batch, L=L, repeats=3 if self.quick else 7))
            if not self.quick:
                for mode in MEMORY_MODES:
                    progress(f"memory of the {mode} mode, batch {batch}, length {L:,}")
                    rows[-1][f"{mode}_memory_bytes"] = in_fresh_process(memory, batch=batch, L=L, mode=mode)
        growth = []
        for exponent in QUICK_GROWTH_EXPONENTS if self.quick else GROWTH_EXPONENTS:
            L = 1 << exponent
            progress(f"growth, length {L:,}")
            layers = zip(COLUMNS, (S4(GROWTH_H, N, length=L), S4D(GROWTH_H, N)), strict=True)
            u = torch.randn(1, L, GROWTH_H, requires_grad=True)
            passes = {column: functools.partial(layer_pass, layer, u) for column, layer in layers}
            growth.append({"L": L, **best_times(passes, repeats=3)})
        progress("steps")
        return {
            "bench": "layer",
            "H": H,
            "N": N,
            "machine": machine(),
            "rows": rows,
            "growth": growth,
            "growth_H": GROWTH_H,
            "growth_exponents": {
                column: _slope([(math.log(row["L"]), math.log(row[column])) for row in growth]) for column in COLUMNS
            },
            "steps": _steps(QUICK_STEPS if self.quick else STEPS),
        }

    def tables(self, result: Result) -> list[TextTable]:
        """The layer over a convolution, its growth, its step."""
        rows = []
        for row in result["rows"]:
            seconds = row["seconds"]
            cells = [str(row["batch"]), f"{row['L']:,}", milliseconds(seconds["conv"])]
            cells += [f"{milliseconds(seconds[mode])} = {row[f'{mode}_over_conv']:.2f}" for mode in MODES]
            rows.append(cells + [megabytes(row.get(f"{mode}_memory_bytes")) for mode in MEMORY_MODES])
        title = f"Layer, forward + backward, over a plain FFT convolution: {result['H']} features, N = {result['N']}"
        memories = (f"memory, {MODES[mode]}" for mode in MEMORY_MODES)
        exponents = result["growth_exponents"]
        return [
            TextTable(title, ("batch", "length", "convolution", *MODES.values(), *memories), rows),
            TextTable(
                f"Growth with length: {result['growth_H']} features, batch 1",
                ("length", "S4, length= given", "S4D"),
                [(f"{row['L']:,}", *(milliseconds(row[column]) for column in COLUMNS)) for row in result["growth"]],
                notes=[f"time of {name} grows as length^{exponents[column]:.2f}" for column, name in COLUMNS.items()],
            ),
            TextTable(
                "One step, batch 1",
                ("after so many steps", *COLUMNS.values()),
                [
                    (f"{row['after']:,}", *(f"{row[column] * 1e6:.0f} us" for column in COLUMNS))
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
            "s4d_into_state": lambda: layer_pass(diagonal, u, into_state=True),
        },
        repeats,
    )
    ratios = {f"{mode}_over_conv": seconds[mode] / seconds["conv"] for mode in MODES}
    return {"batch": batch, "L": L, "seconds": seconds, **ratios}


def _steps(marks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Seconds of a step after so many steps, of S4 and of S4D: of the fastest burst of steps, in turns."""
    layers = {column: layer.requires_grad_(False) for column, layer in zip(COLUMNS, (S4(H, N), S4D(H, N)), strict=True)}
    states = {column: layer.initial_state(1) for column, layer in layers.items()}
    u, rows = torch.randn(1, H), list[dict[str, Any]]()
    for before, after in pairwise((0, *marks)):
        states = {column: take_steps(layer, u, states[column], after - before) for column, layer in layers.items()}
        # In bursts: in the first step of a turn the processor's caches hold the data of the other layer.
        bursts: dict[str, Callable[[], object]] = {
            column: functools.partial(take_steps, layer, u, states[column], BURST) for column, layer in layers.items()
        }
        seconds = best_times(bursts, TURNS)
        rows.append({"after": after, **{column: seconds[column] / BURST for column in COLUMNS}})
    return rows


def take_steps(layer: StateSpaces, u: torch.Tensor, state: torch.Tensor, count: int) -> torch.Tensor:
    """The state after so many steps with the same input."""
    for _ in range(count):
        _, state = layer.step(u, state)
    return state


def _slope(points: list[tuple[float, float]]) -> float:
    """The least-squares slope: the exponent of time over length."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def memory(batch: int, L: int, mode: str) -> int:
    """Bytes that a layer needs, forward and backward."""

    def make(length: int, rows: int) -> Callable[[], None]:
        layer = S4D(H, N) if mode == "s4d" else S4(H, N, length=length if mode == "length" else None)
        return functools.partial(layer_pass, layer, torch.randn(rows, length, H, requires_grad=True))

    return growth_of(make(64, 1), make(L, batch))
