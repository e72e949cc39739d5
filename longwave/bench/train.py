"""A training step of a deep model, counted in plain FFT convolutions of its size, and where its time goes."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from longwave import kernels
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, in_fresh_process, machine
from longwave.layers import NORMS
from longwave.layers.s4 import S4
from longwave.models import ModelConfig, SequenceModel

BATCH, L, H, LAYERS = 50, 784, 64, 4


def run(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """The table, one row for each norm."""
    rows = []
    for norm in ("batch",) if quick else ("batch", "layer"):
        progress(f"a training step, {norm} norm")
        rows.append(in_fresh_process(time_step, norm=norm, repeats=5 if quick else 15))
    return {"bench": "train", "batch": BATCH, "L": L, "H": H, "layers": LAYERS, "machine": machine(), "rows": rows}


def time_step(norm: Literal["batch", "layer"], repeats: int) -> dict[str, Any]:
    """Seconds of a step (forward and backward), of a convolution, and of each part of the step at its size."""
    torch.manual_seed(0)
    kernels.native.keep_memory()  # as training does; the convolution gains from it too
    config = ModelConfig(
        d_model=H, n_layers=LAYERS, norm=norm, dropout=0.1, tie_dropout=True, output_size=10, length=L
    )  # fmt: skip
    model = SequenceModel(config).train()
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
        "convolution": lambda: _both_ways(kernels.convolve(u, K, D), gradient, u, K, D),
        "GELU, dropout, linear layer, GLU, residual": lambda: _both_ways(
            kernels.gated_mix(u, z, keep, linear.weight, linear.bias), gradient, u, z, *linear.parameters()
        ),
        f"{norm} norm": lambda: _both_ways(norm_layer(u), gradient, u, *norm_layer.parameters()),
    }


def _both_ways(output: Tensor, gradient: Tensor, *leaves: Tensor) -> None:
    output.backward(gradient)
    for leaf in leaves:
        leaf.grad = None
