"""A training step of a deep model, in units of a plain FFT convolution of its size, and the share of each part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, in_fresh_process, machine
from longwave.bench.tables import Table, milliseconds
from longwave.layers import NORMS, S4, S4Config
from longwave.models import SequenceConfig

BATCH, L, H, LAYERS = 50, 784, 64, 4


@BENCHES.register("train")
@dataclass(frozen=True)
class TrainBench(Bench):
    """Time a training step of a small deep model in units of a plain FFT convolution, with the share of each part.

    Example: longwave bench train
    """

    def run(self, progress: Progress) -> Result:
        """One row for each norm; quick: batch norm only."""
        rows = []
        for norm in ("batch",) if self.quick else ("batch", "layer"):
            progress(f"a training step, {norm} norm")
            rows.append(in_fresh_process(time_step, norm=norm, repeats=5 if self.quick else 15))
        return {"bench": "train", "batch": BATCH, "L": L, "H": H, "layers": LAYERS, "machine": machine(), "rows": rows}

    def tables(self, result: Result) -> list[Table]:
        """One row for each part of the step."""
        sizes = f"{result['layers']} layers, {result['H']} features, length {result['L']}, batch {result['batch']}"
        rows, notes = [], []
        for row in result["rows"]:
            norm, step = row["norm"], row["step_seconds"]
            for part, seconds in [*row["parts_seconds"].items(), ("the whole step", step)]:
                rows.append((norm, part, milliseconds(seconds), f"{seconds / step:.0%}"))
            unit = f"{row['step_over_conv']:.2f} FFT convolutions of {milliseconds(row['conv_seconds'])}"
            notes.append(f"{norm} norm: the whole step takes as long as {unit}")
        title = f"Training step, forward + backward: {sizes}"
        return [Table(title, ("norm", "part", "time", "share"), rows, notes, text=("norm", "part"), sections="norm")]


def time_step(norm: Literal["batch", "layer"], repeats: int) -> dict[str, Any]:
    """Seconds of a step (forward and backward), of a convolution, and of each part of the step at its size."""
    torch.manual_seed(0)
    ops.keep_memory()  # as training does; the convolution gains from it too
    config = SequenceConfig(
        d_model=H,
        n_layers=LAYERS,
        mixer=S4Config(length=L),
        norm=norm,
        dropout=0.1,
        tie_dropout=True,
        output_size=10,
    )
    model = config.build().train()
    x, y = torch.randn(BATCH, L, 1), torch.randint(10, (BATCH,))
    signal, kernel = torch.randn(BATCH, H, L, requires_grad=True), torch.randn(H, L, requires_grad=True)

    def step() -> None:
        nn.functional.cross_entropy(model(x)[0], y).backward()
        model.zero_grad()

    functions = {"step": step, "conv": lambda: plain_convolution(signal, kernel), **_parts(norm)}
    seconds = best_times(functions, repeats)
    step_seconds, conv_seconds = seconds.pop("step"), seconds.pop("conv")
    parts = {name: LAYERS * value for name, value in seconds.items()}
    return {
        "norm": norm,
        "step_seconds": step_seconds,
        "conv_seconds": conv_seconds,
        "step_over_conv": step_seconds / conv_seconds,
        "parts_seconds": parts | {"the rest": step_seconds - sum(parts.values())},
    }


def _parts(norm: str) -> dict[str, Callable[[], None]]:
    """What one block does, part by part, each forward and backward."""
    layer, norm_layer, linear = S4(H, length=L), NORMS[norm](H).train(), nn.Linear(H, 2 * H)
    u, z = torch.randn(BATCH, L, H, requires_grad=True), torch.randn(BATCH, L, H, requires_grad=True)
    K = layer.kernel(L).detach().unsqueeze(0).requires_grad_()
    D, keep, gradient = layer.D.detach().clone().requires_grad_(), torch.rand(BATCH, H), torch.randn(BATCH, L, H)
    return {
        "kernel": lambda: _both_ways(layer.kernel(L), K.detach()[0], *layer.parameters()),
        "convolution": lambda: _both_ways(ops.convolve(u, K, D), gradient, u, K, D),
        "GELU, dropout, linear layer, GLU, residual": lambda: _both_ways(
            ops.gated_mix(u, z, keep, linear.weight, linear.bias), gradient, u, z, *linear.parameters()
        ),
        f"{norm} norm": lambda: _both_ways(norm_layer(u), gradient, u, *norm_layer.parameters()),
    }


def _both_ways(output: Tensor, gradient: Tensor, *leaves: Tensor) -> None:
    output.backward(gradient)
    for leaf in leaves:
        leaf.grad = None
