"""The two ends of a model: from a task's input to features, and from features to a task's output."""

from typing import Any

import torch
from torch import Tensor, nn

from longwave.models.config import ModelConfig


class Encoder(nn.Module):
    """x (B, L, input_size) or tokens (B, L), and optional features of time (B, L, time_size), to (B, L, d_model)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.vocabulary:
            self.values: nn.Module = nn.Embedding(config.vocabulary, config.d_model)
        else:
            self.values = nn.Linear(config.input_size, config.d_model)
        self.time = nn.Linear(config.time_size, config.d_model, bias=False) if config.time_size else None

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """The sum of both; position-wise, so that one step is encoded as it is within a sequence."""
        encoded: Tensor = self.values(x)
        if self.time is not None:
            if time is None:
                raise ValueError(f"time: this model wants {self.time.in_features} features of time a step, got none")
            encoded = encoded + self.time(time)
        return encoded


class Decoder(nn.Module):
    """(B, L, d_model) to (B, output_size) for "mean" and "last", (B, L or horizon, output_size) else.

    `step` takes one step's features and a running state, and gives what forward would give if the sequence ended here.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.decoder == "forecast" and config.horizon < 1:
            raise ValueError(f"horizon: a forecast decoder needs at least 1 step, got {config.horizon}")
        self.kind, self.horizon = config.decoder, config.horizon
        self.linear = nn.Linear(config.d_model, config.output_size)

    def forward(
        self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None, valid: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The output, and for "mean" the sum and count so far."""
        if self.kind == "mean":
            kept = x if valid is None else torch.where(valid, x, 0)
            count = x.new_full((x.shape[0], 1), x.shape[1]) if lengths is None else lengths.to(x).unsqueeze(-1)
            total = kept.sum(1)
            if state is not None:
                total, count = total + state[0], count + state[1]
            return self.linear(total / count.clamp(min=1)), (total, count)
        if self.kind == "last":
            if lengths is None:
                return self.linear(x[:, -1]), None
            return self.linear(x[torch.arange(len(x), device=x.device), lengths.to(x.device).clamp(min=1) - 1]), None
        return self.linear(x[:, -self.horizon :] if self.kind == "forecast" else x), None

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step, x (B, d_model)."""
        if self.kind != "mean":
            return self.linear(x), None
        total, count = (x, x.new_ones(len(x), 1)) if state is None else (state[0] + x, state[1] + 1)
        return self.linear(total / count), (total, count)


class Window(nn.Module):
    """Normalisation of each forecast window by its known part: a level that drifts then costs the model nothing."""

    def __init__(self, kind: str, horizon: int) -> None:
        super().__init__()
        self.kind, self.horizon = kind, horizon

    def measure(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Shift and scale, (B, 1, channels), from the part of x (B, L, channels) before the horizon."""
        if self.kind == "none":
            return None
        known = x[:, : x.shape[1] - self.horizon]
        if self.kind == "last":
            return known[:, -1:], torch.ones_like(known[:, -1:])
        return known.mean(1, keepdim=True), known.std(1, keepdim=True, correction=0).clamp(min=1e-4)

    def normalise(self, x: Tensor, measured: tuple[Tensor, Tensor] | None) -> Tensor:
        """The known part in units of the window; the steps to forecast stay 0, which now means "as measured"."""
        if measured is None:
            return x
        known, unknown = x.split([x.shape[1] - self.horizon, self.horizon], dim=1)
        return torch.cat(((known - measured[0]) / measured[1], unknown), dim=1)

    def restore(self, y: Tensor, measured: tuple[Tensor, Tensor] | None) -> Tensor:
        """From units of the window back to those of the data."""
        return y if measured is None else y * measured[1] + measured[0]
