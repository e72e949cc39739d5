"""A training step of a deep model, in units of a plain FFT convolution of its size, and the share of each part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.kernel import plain_convolution
from longwave.bench.measure import best_times, in_fresh_process
from longwave.bench.numbers import milliseconds
from longwave.core.text_table import TextTable
from longwave.layers import NORMS, S4, S4D, MixerConfig, S4Config, S4DConfig
from longwave.layers.state_space import StateSpaces
from longwave.models import SequenceConfig

BATCH, L, H, LAYERS = 50, 784, 64, 4


@BENCHES.register("train")
@dataclass(frozen=True)
class TrainBench(Bench):
    """Time a training step of a small deep model in units of a plain FFT convolution, with the share of each part.

    Example: longwave bench train
    """

    def measure(self, progress: Progress) -> Result:
        """One row per norm and mixer; quick: batch norm only."""
        rows = []
        for norm in ("batch",) if self.quick else ("batch", "layer"):
            progress(f"a training step, {norm} norm")
            rows.extend(in_fresh_process(time_steps, norm=norm, repeats=5 if self.quick else 15, device=self.where))
        return {"batch": BATCH, "L": L, "H": H, "layers": LAYERS, "rows": rows}

    def tables(self, result: Result) -> list[TextTable]:
        sizes = f"{result['layers']} layers, {result['H']} features, length {result['L']}, batch {result['batch']}"
        rows, notes = [], []
        for row in result["rows"]:
            model, step = f"{row['mixer']}, {row['norm']} norm", row["step_seconds"]
            for part, seconds in [*row["parts_seconds"].items(), ("the whole step", step)]:
                rows.append((model, part, milliseconds(seconds), f"{seconds / step:.0%}"))
            unit = f"{row['step_over_conv']:.2f} FFT convolutions of {milliseconds(row['conv_seconds'])}"
            notes.append(f"{model}: the whole step takes as long as {unit}")
        title = f"Training step, forward + backward: {sizes}"
        return [
            TextTable(title, ("model", "part", "time", "share"), rows, notes, text=("model", "part"), sections="model")
        ]


def time_steps(norm: Literal["batch", "layer"], repeats: int, device: str = "cpu") -> list[dict[str, Any]]:
    """Seconds of a step of each mixer (forward and backward), of a convolution, and of each part of a step."""
    torch.manual_seed(0)
    ops.keep_memory()  # as training does; the convolution gains from it too
    mixers: dict[str, MixerConfig] = {"S4": S4Config(length=L), "S4D": S4DConfig()}
    signal, kernel = (torch.randn(shape, device=device, requires_grad=True) for shape in ((BATCH, H, L), (H, L)))
    parts = _parts(norm, device)
    functions: dict[str, Callable[[], None]] = {"conv": lambda: plain_convolution(signal, kernel), **parts}
    functions |= {f"{name}, step": _step(mixer, norm, device) for name, mixer in mixers.items()}
    functions |= {"S4, kernel": _kernel(S4(H, length=L).to(device)), "S4D, kernel": _kernel(S4D(H).to(device))}
    seconds, rows = best_times(functions, repeats, device), []
    for name in mixers:
        step = seconds[f"{name}, step"]
        shares = {"kernel": seconds[f"{name}, kernel"], **{part: seconds[part] for part in parts}}
        shares = {part: LAYERS * value for part, value in shares.items()}
        rows.append(
            {
                "norm": norm,
                "mixer": name,
                "step_seconds": step,
                "conv_seconds": seconds["conv"],
                "step_over_conv": step / seconds["conv"],
                "parts_seconds": shares | {"the rest": step - sum(shares.values())},
            }
        )
    return rows


def _step(mixer: MixerConfig, norm: Literal["batch", "layer"], device: str) -> Callable[[], None]:
    config = SequenceConfig(
        d_model=H, n_layers=LAYERS, mixer=mixer, norm=norm, dropout=0.1, tie_dropout=True, output_size=10
    )
    model = config.build().train().to(device)
    x, y = torch.randn(BATCH, L, 1, device=device), torch.randint(10, (BATCH,), device=device)

    def step() -> None:
        nn.functional.cross_entropy(model(x)[0], y).backward()
        model.zero_grad()

    return step


def _kernel(layer: StateSpaces) -> Callable[[], None]:
    """The kernel of one layer, forward and backward."""
    gradient = layer.kernel(L).detach()
    return lambda: _both_ways(layer.kernel(L), gradient, *layer.parameters())


def _parts(norm: str, device: str) -> dict[str, Callable[[], None]]:
    """The parts of a block besides the kernel, each forward and backward."""
    norm_layer, linear = NORMS[norm](H).train().to(device), nn.Linear(H, 2 * H).to(device)
    shapes = (BATCH, L, H), (BATCH, L, H), (1, H, L), (H,)
    u, z, K, D = (torch.randn(shape, device=device, requires_grad=True) for shape in shapes)
    keep, gradient = torch.rand(BATCH, H, device=device), torch.randn(BATCH, L, H, device=device)
    return {
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
