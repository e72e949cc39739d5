"""Graphs to export: modules of torch's own operators, with named inputs and outputs.

carried   T steps with the state in and out, for models that carry one: the forms `step` and `blocks`
whole     whole sequences, up to a number of steps
forecast  whole windows, with the intervals of a run
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from longwave.exporting.mixers import Blocks, Direct, Fixed, Fourier, Steps, in_real_arithmetic
from longwave.models.pair import PairModel

MOST_DIRECT = 256  # steps up to which the sum itself is not slower than transforms (docs/results/export.md)
SOME = 2  # rows of the inputs that a graph is traced with; it takes any number


@dataclass(frozen=True, eq=False)
class Graph:
    """A module, its named inputs (as examples) and outputs, and the dynamic axes of the inputs."""

    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]
    axes: dict[str, dict[int, str]]
    most: dict[str, int] = field(default_factory=dict)  # sizes of these axes, where there is a limit
    steps: int = 0  # at a time, if there is a state


class Carried(nn.Module):
    """y and the state after it, from x (B, T, ...) or, without T, a step (B, ...), and the state before it.

    The state of all layers is one tensor (layers, B, H, N). A model whose output is a mean carries a sum and a count,
    too, in float64: a long stream outgrows float32.
    """

    def __init__(self, model: nn.Module, T: int | None) -> None:
        super().__init__()
        self.is_step = T is None
        self.model: Any = in_real_arithmetic(model, Steps if T is None else partial(Blocks, T=T))

    def forward(self, x: Tensor, state: Tensor, total: Tensor | None = None, count: Tensor | None = None) -> Any:
        """Compute y, the model's output as if the sequence ended at each step."""
        z, after = self.model.features(x.unsqueeze(1) if self.is_step else x, list(state.unbind(0)))
        carried = [torch.stack(after)]
        if total is not None and count is not None:
            totals = total.unsqueeze(1) + z.double().cumsum(1)
            counts = count + torch.arange(1, z.shape[1] + 1, dtype=torch.float64)
            z = (totals / counts.unsqueeze(-1)).to(z.dtype)
            carried += [totals[:, -1], counts[-1:]]
        y = outputs_of(self.model, z)
        return (y.squeeze(1) if self.is_step else y, *carried)


class Whole(nn.Module):
    """y from x and, if rows have lengths of their own, their lengths."""

    def __init__(self, model: nn.Module, longest: int, kernel: Callable[..., Fixed] | None = None) -> None:
        super().__init__()
        kernel = kernel or (Direct if longest <= MOST_DIRECT else Fourier)
        self.model = in_real_arithmetic(model, partial(kernel, longest=longest))

    def forward(self, x: Tensor, lengths: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        """The output of the model."""
        given = {name: value for name, value in (("lengths", lengths), ("time", time)) if value is not None}
        y: Tensor = self.model(x, **given)[0]
        return y


class Forecast(nn.Module):
    """The rows after x (B, context, columns): y (B, horizon, columns) and, with half-widths, the ends of intervals.

    `half_widths` are (levels, horizon, columns). If `independent`, each column is a row of its own to the model.
    """

    half_widths: Tensor | None

    def __init__(
        self,
        model: nn.Module,
        window: int,
        horizon: int,
        independent: bool,
        half_widths: Tensor | None,
        levels: Sequence[float],
    ) -> None:
        super().__init__()
        self.whole, self.horizon, self.independent = Whole(model, window), horizon, independent
        self.levels = tuple(levels)
        self.register_buffer("half_widths", half_widths)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Any:
        """y, and low and high (B, levels, horizon, columns)."""
        columns = x.shape[2]
        if self.independent and columns > 1:
            x = x.mT.reshape(-1, x.shape[1], 1)
            time = None if time is None else time.repeat_interleave(columns, dim=0)
        window = nn.functional.pad(x, (0, 0, 0, self.horizon))
        y = self.whole(window, time=time)[:, -self.horizon :]
        if self.independent and columns > 1:
            y = y.reshape(-1, columns, self.horizon).mT
        if self.half_widths is None:
            return y
        return y, y.unsqueeze(1) - self.half_widths, y.unsqueeze(1) + self.half_widths


def outputs_of(model: Any, z: Tensor) -> Tensor:
    """The model's outputs for the decoder's inputs (B, T, d_model), step by step."""
    y: Tensor = model.decoder(z)[0] if model.config.cutoffs else model.decoder.linear(z)
    return y


def carried(model: Any, T: int | None) -> Graph:
    """A graph of T steps at a time or, for None, of one step."""
    config = model.config
    _check_carries(config)
    if T is not None and (T < 2 or T & (T - 1)):
        raise ValueError(f"length: expected a power of two, the steps of a block, from 2 up, got {T}")
    module = Carried(model, T)
    layer = module.model.blocks[0].mixer
    x = example(config, (SOME,) if T is None else (SOME, T))
    inputs = {"x": x, "state": torch.zeros(len(module.model.blocks), SOME, layer.d_model, layer.d_state)}
    axes = {"x": {0: "batch"}, "state": {1: "batch"}}
    if config.decoder == "mean":
        inputs["total"] = torch.zeros(SOME, config.d_model, dtype=torch.float64)
        inputs["count"] = torch.zeros(1, dtype=torch.float64)
        axes |= {"total": {0: "batch"}, "count": {}}
    outputs = ("y", *(f"next_{name}" for name in inputs if name != "x"))
    return Graph(module, inputs, outputs, axes, steps=T or 1)


def whole(model: Any, longest: int, lengths: bool, kernel: Callable[..., Fixed] | None = None) -> Graph:
    """A graph of whole sequences of up to `longest` steps, optionally with lengths; of a U-Net, of exactly as many.

    `kernel` is Direct or Fourier, by default as the length suggests.
    """
    if longest < 2:
        raise ValueError(f"length: expected the steps of the longest sequence, at least 2, got {longest}")
    pairs = (2,) if isinstance(model, PairModel) else ()
    place = 1 + len(pairs)
    inputs = {"x": example(model.config, (SOME, *pairs, longest))}
    is_fixed = model.config.kind == "UNet"
    axes = {"x": {0: "batch"} if is_fixed else {0: "batch", place: "length"}}
    if lengths:
        inputs["lengths"] = torch.full((SOME, *pairs), longest)
        axes["lengths"] = {0: "batch"}
    return Graph(Whole(model, longest, kernel), inputs, ("y",), axes, {} if is_fixed else {"length": longest})


def forecast(
    model: Any,
    context: int,
    columns: int,
    independent: bool = False,
    half_widths: Tensor | None = None,
    levels: Sequence[float] = (),
) -> Graph:
    """A graph of forecasts from windows of `context` known rows."""
    config = model.config
    window = context + config.horizon
    inputs, axes = {"x": torch.randn(SOME, context, columns)}, {"x": {0: "batch"}}
    if config.time_size:
        inputs["time"], axes["time"] = torch.randn(SOME, window, config.time_size), {0: "batch"}
    outputs = ("y",) if half_widths is None else ("y", "low", "high")
    return Graph(Forecast(model, window, config.horizon, independent, half_widths, levels), inputs, outputs, axes)


def example(config: Any, shape: Sequence[int]) -> Tensor:
    """Random inputs (*shape, input_size) of a model, or random tokens of this shape."""
    generator = torch.Generator().manual_seed(0)
    if config.vocabulary:
        return torch.randint(config.vocabulary, tuple(shape), generator=generator)
    return torch.randn(*shape, config.input_size, generator=generator)


def _check_carries(config: Any) -> None:
    """Refuse a model without a state of fixed size."""
    if config.kind != "SequenceModel" or config.decoder == "forecast":
        raise ValueError(
            f"form: a {config.kind} takes whole sequences; expected --form whole, or a causal SequenceModel "
            "(--model.kind SequenceModel --model.mixer.no-bidirectional in training)"
        )
    if not config.streams:
        raise ValueError(
            "form: the model is bidirectional, so that every output depends on future steps; expected --form whole, or "
            "a causal model (--model.mixer.no-bidirectional in training)"
        )
