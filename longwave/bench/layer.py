"""S4 and S4D against a plain FFT convolution of the same size, their growth with length, and their steps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, exponent, growth_of, in_fresh_process
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

    def measure(self, progress: Progress) -> Result:
        """Ratios to a convolution, growth with length, and seconds of a step."""
        rows, growth = [], []
        for batch, L in QUICK_SHAPES if self.quick else SHAPES:
            progress(f"layer, batch {batch}, length {L:,}")
            rows.append(in_fresh_process(time_row, batch=batch, L=L, repeats=3 if self.quick else 7, device=self.where))
            if not self.quick:
                for mode in MEMORY_MODES:
                    progress(f"memory of the {mode} mode, batch {batch}, length {L:,}")
                    rows[-1][f"{mode}_memory_bytes"] = in_fresh_process(
                        memory, batch=batch, L=L, mode=mode, device=self.where
                    )
        for L in (1 << power for power in (QUICK_GROWTH_EXPONENTS if self.quick else GROWTH_EXPONENTS)):
            progress(f"growth, length {L:,}")
            layers = zip(COLUMNS, (S4(GROWTH_H, N, length=L), S4D(GROWTH_H, N)), strict=True)
            u = torch.randn(1, L, GROWTH_H, device=self.where, requires_grad=True)
            passes = {name: partial(layer_pass, layer.to(self.where), u) for name, layer in layers}
            growth.append({"L": L, **best_times(passes, 3, self.where)})
        progress("steps")
        return {
            "H": H,
            "N": N,
            "rows": rows,
            "growth": growth,
            "growth_H": GROWTH_H,
            "growth_exponents": {name: exponent([(row["L"], row[name]) for row in growth]) for name in COLUMNS},
            "steps": _steps(QUICK_STEPS if self.quick else STEPS, self.where),
        }

    def tables(self, result: Result) -> list[TextTable]:
        rows = []
        for row in result["rows"]:
            seconds = row["seconds"]
            cells = [str(row["batch"]), f"{row['L']:,}", milliseconds(seconds["conv"])]
            cells += [f"{milliseconds(seconds[mode])} = {row[f'{mode}_over_conv']:.2f}" for mode in MODES]
            rows.append(cells + [megabytes(row.get(f"{mode}_memory_bytes")) for mode in MEMORY_MODES])
        title = f"Layer, forward + backward, over a plain FFT convolution: {result['H']} features, N = {result['N']}"
        memories = (f"memory, {MODES[mode]}" for mode in MEMORY_MODES)
        exponents = result["growth_exponents"]
        growth = [(f"{row['L']:,}", *(milliseconds(row[name]) for name in COLUMNS)) for row in result["growth"]]
        steps = [(f"{row['after']:,}", *(f"{row[name] * 1e6:.0f} us" for name in COLUMNS)) for row in result["steps"]]
        return [
            TextTable(title, ("batch", "length", "convolution", *MODES.values(), *memories), rows),
            TextTable(
                f"Growth with length: {result['growth_H']} features, batch 1",
                ("length", "S4, length= given", "S4D"),
                growth,
                notes=[f"time of {label} grows as length^{exponents[name]:.2f}" for name, label in COLUMNS.items()],
            ),
            TextTable("One step, batch 1", ("steps before", *COLUMNS.values()), steps),
        ]


def layer_pass(layer: nn.Module, u: torch.Tensor, need_state: bool = False, into_state: bool = False) -> None:
    """Forward and backward of a layer; with `into_state` the state after the last step has a gradient, too."""
    y, state = layer(u, need_state=need_state or into_state)
    outputs, gradients = ([y, state], [u.detach(), state.detach()]) if into_state else ([y], [u.detach()])
    torch.autograd.backward(outputs, gradients)
    u.grad = None
    for p in layer.parameters():
        p.grad = None


def make_layer(mode: str, L: int) -> StateSpaces:
    """S4 or S4D as a mode has it, for sequences of L steps."""
    return S4D(H, N) if mode == "s4d" else S4(H, N, length=L if mode == "length" else None)


def time_row(batch: int, L: int, repeats: int, device: str = "cpu") -> dict[str, Any]:
    """Seconds of a plain convolution and of the layer in its modes, at one shape."""
    torch.manual_seed(0)
    shapes = (batch, H, L), (H, L), (batch, L, H)
    signal, kernel, u = (torch.randn(shape, device=device, requires_grad=True) for shape in shapes)
    passes: dict[str, Callable[[], None]] = {"conv": partial(plain_convolution, signal, kernel)}
    for mode in MEMORY_MODES:
        layer = make_layer(mode, L).to(device)
        passes[mode] = partial(layer_pass, layer, u)
        if mode != "length":
            passes[f"{mode}_state"] = partial(layer_pass, layer, u, need_state=True)
            passes[f"{mode}_into_state"] = partial(layer_pass, layer, u, into_state=True)
    seconds = best_times(passes, repeats, device)
    ratios = {f"{mode}_over_conv": seconds[mode] / seconds["conv"] for mode in MODES}
    return {"batch": batch, "L": L, "seconds": seconds, **ratios}


def _steps(marks: tuple[int, ...], device: str = "cpu") -> list[dict[str, Any]]:
    """Seconds of a step after each number of steps, of S4 and S4D in turns: mean of the fastest burst."""
    layers = dict(zip(COLUMNS, (S4(H, N), S4D(H, N)), strict=True))
    layers = {column: layer.requires_grad_(False).to(device) for column, layer in layers.items()}
    states = {column: layer.initial_state(1) for column, layer in layers.items()}
    u, rows = torch.randn(1, H, device=device), list[dict[str, Any]]()
    for before, after in pairwise((0, *marks)):
        states = {column: take_steps(layer, u, states[column], after - before) for column, layer in layers.items()}
        # In bursts: in the first step of a turn the processor's caches hold the data of the other layer.
        bursts: dict[str, Callable[[], object]] = {
            column: partial(take_steps, layer, u, states[column], BURST) for column, layer in layers.items()
        }
        seconds = best_times(bursts, TURNS, device)
        rows.append({"after": after, **{column: seconds[column] / BURST for column in COLUMNS}})
    return rows


def take_steps(layer: StateSpaces, u: torch.Tensor, state: torch.Tensor, count: int) -> torch.Tensor:
    """The state after `count` steps with the same input."""
    for _ in range(count):
        _, state = layer.step(u, state)
    return state


def memory(batch: int, L: int, mode: str, device: str = "cpu") -> int:
    """Bytes that a layer needs, forward and backward."""
    small, whole = (
        partial(
            layer_pass,
            make_layer(mode, length).to(device),
            torch.randn(rows, length, H, device=device, requires_grad=True),
        )
        for rows, length in ((1, 64), (batch, L))
    )
    return growth_of(small, whole, device)
