"""Encoder and decoder of a model: from a task's input to features, and from features to its output."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from longwave.layers.checks import (
    check_beside,
    check_choice,
    check_device,
    check_range,
    check_strided,
    describe,
    valid_steps,
)
from longwave.models.adaptive import NO_TOKEN, AdaptiveEmbedding, Product, wide

if TYPE_CHECKING:
    from longwave.models.sequence import SequenceConfig

DECODERS = ("mean", "last", "sequence", "forecast")
WINDOWS = ("none", "last", "standard")
NEITHER = {torch.bool, torch.complex32, torch.complex64, torch.complex128}  # of whole numbers and real ones


class Encoder(nn.Module):
    """x (B, L, input_size) or tokens (B, L), and optional features of time (B, L, time_size), to (B, L, d_model)."""

    def __init__(self, config: "SequenceConfig") -> None:
        super().__init__()
        self.reads_tokens = bool(config.vocabulary)
        if config.vocabulary and config.cutoffs:
            self.values: nn.Module = AdaptiveEmbedding(
                config.vocabulary, config.d_model, config.cutoffs, config.dropout
            )
        elif config.vocabulary:
            self.values = nn.Embedding(config.vocabulary, config.d_model)
            if config.scale:
                order_vectors(self.values.weight, config.scale)
        else:
            self.values = nn.Linear(config.input_size, config.d_model)
        self.time: nn.Module | None = None
        if config.stamps:
            self.time = StampEmbedding(config.stamps, config.d_model)
        elif config.time_size:
            self.time = nn.Linear(config.time_size, config.d_model, bias=False)
        # A step to forecast comes in as 0, which is a value like any other: this, or its stamps, tell the two apart.
        is_marked = config.decoder == "forecast" and not config.stamps
        self.unknown = nn.Parameter(torch.randn(config.d_model)) if is_marked else None

    def forward(self, x: Tensor, time: Tensor | None = None, unknown: Tensor | None = None) -> Tensor:
        """The sum of all; position-wise, so that one step is encoded as it is within a sequence.

        `unknown` (L, 1) or (B, L, 1) is 1 where a value is to be forecast, else 0; only forecast models have it.
        """
        self._check(x)
        encoded: Tensor = self.values(x)
        if self.unknown is not None and unknown is not None:
            encoded = encoded + unknown.to(self.unknown) * self.unknown
        if self.time is not None:
            if time is None:
                raise ValueError(f"time: this model needs {self.time.in_features} time features per step, got none")
            check_device("time", time, encoded.device)
            if isinstance(self.time, StampEmbedding) and unknown is not None:
                time = torch.where(unknown > 0, 0, time)
            encoded = encoded + self.time(time)
        return encoded

    def _check(self, x: Tensor) -> None:
        """Tokens or numbers, whichever the model has, where its weights are."""
        if x.is_floating_point() == self.reads_tokens or x.dtype in NEITHER:
            expected = "whole numbers, the tokens" if self.reads_tokens else "floating-point numbers"
            raise ValueError(f"x: expected {expected}, got {describe(x)}")
        values = self.values
        weight = getattr(values, "weight", None)
        if x.layout is not torch.strided or (isinstance(weight, Tensor) and x.device != weight.device):
            check_strided("x", x)
            check_beside("x", x, weight, values)


class StampEmbedding(nn.Module):
    """Time stamps (B, L, stamps), whole numbers such as the month and the hour, to the sum of their vectors.

    Stamps of steps to forecast come as 0. Months and days count from 1, so that their vectors 0 mark these steps.
    """

    def __init__(self, sizes: tuple[int, ...], d_model: int) -> None:
        super().__init__()
        self.in_features = len(sizes)
        self.vectors = nn.ModuleList(nn.Embedding(size, d_model) for size in sizes)

    def forward(self, stamps: Tensor) -> Tensor:
        """(B, L, d_model)."""
        if stamps.shape[-1] != self.in_features:
            raise ValueError(f"time: expected {self.in_features} stamps per step, got {stamps.shape[-1]}")
        each = stamps.long().unbind(-1)
        return torch.stack([vectors(one) for vectors, one in zip(self.vectors, each, strict=True)]).sum(0)


@torch.no_grad()
def order_vectors(vectors: Tensor, scale: int) -> None:
    """Let vectors (tokens, d_model) of values in order begin as sines and cosines of the value, slow ones the largest.

    The last tokens are the values 0 ... scale - 1 of each channel in turn; what is before them keeps its vector. So a
    model need not find out from examples that 100 is next to 101, which takes most of its first hundreds of steps.
    """
    tokens, d_model = vectors.shape
    if not 1 < scale <= tokens:
        raise ValueError(f"scale: expected from 2 to {tokens} values, the tokens of the model, got {scale}")
    angles = math.pi * torch.linspace(0, 1, scale)[:, None] * torch.arange(1, d_model // 2 + 2)  # (scale, pitches)
    waves = torch.stack((angles.cos(), angles.sin()), dim=-1) / torch.arange(1, d_model // 2 + 2).sqrt()[:, None]
    waves = waves.flatten(1)[:, :d_model]
    waves /= waves.square().mean().sqrt()
    channels = tokens // scale
    shift = torch.randn(channels, 1, d_model) / 2  # tells the channels apart
    vectors[tokens - channels * scale :] = (waves + shift).flatten(0, 1).to(vectors)


class Decoder(nn.Module):
    """(B, L, d_model) to (B, output_size) for "mean" and "last", (B, L or horizon, output_size) else.

    `step` takes one step's features and a running state, and gives what forward would give if the sequence ended here.
    """

    def __init__(self, config: "SequenceConfig") -> None:
        super().__init__()
        check_choice("decoder", config.decoder, DECODERS)
        if config.decoder == "forecast" and config.horizon < 1:
            raise ValueError(f"horizon: a forecast decoder needs at least 1 step, got {config.horizon}")
        self.kind, self.horizon = config.decoder, config.horizon
        self.linear = nn.Linear(config.d_model, config.output_size)

    def forward(
        self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None, valid: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The output, and for "mean" the sum and count so far, for "last" the last step so far."""
        if state is not None:
            self._check_state(x, state)
        batch = x.shape[0]  # len(x) would be a number in an exported graph
        rows = torch.arange(batch, device=x.device)
        if self.kind == "mean":
            kept = wide(x if valid is None else torch.where(valid, x, 0))
            count = kept.new_full((batch, 1), x.shape[1]) if lengths is None else lengths.to(kept).unsqueeze(-1)
            total = kept.sum(1)
            if state is not None:
                total, count = total + state[0], count + state[1]
            return self.linear((total / count.clamp(min=1)).to(x.dtype)), (total, count)
        if self.kind == "last":
            last = x[:, -1] if lengths is None else x[rows, lengths.to(x.device).clamp(min=1) - 1]
            if lengths is not None and state is not None:
                # A row that ended in an earlier chunk has no step in this one.
                last = torch.where((lengths.to(x.device) > 0).unsqueeze(-1), last, state)
            return self.linear(last), last
        if self.kind == "forecast":
            steps = torch.arange(-self.horizon, 0, device=x.device)
            x = x[:, -self.horizon :] if lengths is None else x[rows[:, None], lengths.to(x.device)[:, None] + steps]
        return self.linear(x), None

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step, x (B, d_model)."""
        if state is not None:
            self._check_state(x, state)
        if self.kind != "mean":
            return self.linear(x), x if self.kind == "last" else None
        total, count = (wide(x), wide(x.new_ones(x.shape[0], 1))) if state is None else (state[0] + x, state[1] + 1)
        return self.linear((total / count).to(x.dtype)), (total, count)

    def by_products(self, product: Product) -> Callable[[Tensor], Tensor]:
        """Compute `step` for features (B, d_model) with another function for the linear layer, without a state."""
        if self.kind not in ("sequence", "forecast"):
            raise ValueError(f"decoder: expected an output at every step, got {self.kind!r}")
        return product(self.linear.weight, self.linear.bias)

    def nll(self, x: Tensor, y: Tensor) -> Tensor:
        """-log p(y) in nats for features (B, L, d_model) and tokens y (B, L); 0 where y is -100, no token."""
        logits = wide(self.linear(x)).flatten(0, 1)
        losses = nn.functional.cross_entropy(logits, y.flatten(), ignore_index=NO_TOKEN, reduction="none")
        return losses.view_as(y)

    def _check_state(self, x: Tensor, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            check_device("state", part, x.device)


class Window(nn.Module):
    """Normalisation of each forecast window by its known part: a level that drifts then costs the model nothing."""

    def __init__(self, kind: str, horizon: int) -> None:
        super().__init__()
        check_choice("window", kind, WINDOWS)
        self.kind, self.horizon = kind, horizon

    def measure(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor] | None:
        """Shift and scale, (B, 1, channels), from the part of x (B, L, channels) before the horizon."""
        if self.kind == "none":
            return None
        if lengths is None:
            known = x[:, : self._known_steps(x, None)]
            if self.kind == "last":
                return known[:, -1:], torch.ones_like(known[:, -1:])
            mean, var = known.mean(1, keepdim=True), known.var(1, keepdim=True, correction=0)
        else:
            counts = self._known_steps(x, lengths)
            if self.kind == "last":
                last = x[torch.arange(len(x), device=x.device), counts - 1].unsqueeze(1)
                return last, torch.ones_like(last)
            known = valid_steps(counts, x)
            mean = torch.where(known, x, 0).sum(1, keepdim=True) / counts[:, None, None]
            var = torch.where(known, x - mean, 0).square().sum(1, keepdim=True) / counts[:, None, None]
        return mean, var.clamp(min=1e-8).sqrt()  # clamped before the root, whose slope at 0 is infinite

    def unknown(self, x: Tensor, lengths: Tensor | None = None) -> Tensor | None:
        """A mask (L, 1), or (B, L, 1) with lengths: 1 for steps to forecast, else 0; None if nothing is forecast."""
        if self.horizon == 0:
            return None
        known = self._known_steps(x, lengths)
        known = known if lengths is None else known.unsqueeze(-1)
        steps = torch.arange(x.shape[1], device=x.device)
        flags = (steps >= known) & (steps < known + self.horizon)
        return flags.unsqueeze(-1).to(torch.get_default_dtype())

    def normalise(self, x: Tensor, measured: tuple[Tensor, Tensor] | None, lengths: Tensor | None = None) -> Tensor:
        """The known part in units of the window; the steps to forecast stay 0, which now means "as measured"."""
        unknown = self.unknown(x, lengths)
        if measured is None or unknown is None:
            return x
        return torch.where(unknown > 0, x, (x - measured[0]) / measured[1])

    def restore(self, y: Tensor, measured: tuple[Tensor, Tensor] | None) -> Tensor:
        """From units of the window back to those of the data."""
        return y if measured is None else y * measured[1] + measured[0]

    def _known_steps(self, x: Tensor, lengths: Tensor | None) -> Any:
        """Number of known steps of x, per row if there are lengths."""
        least = self.horizon + (self.kind != "none")
        L, which = x.shape[1], f"{self.horizon} of them to forecast"
        if not torch.compiler.is_compiling() and least > L:
            raise ValueError(f"x: expected at least {least} steps, {which}, got {L}")
        if lengths is None:
            return L - self.horizon
        check_range("lengths", lengths, least, L, f", {which}")
        return lengths.to(x.device) - self.horizon
