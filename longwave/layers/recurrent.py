"""LSTM and GRU as mixers: torch's own recurrences, with padding and states as the other mixers have them."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from longwave.layers.block import valid_steps
from longwave.layers.checks import (
    check_causal,
    check_count,
    check_input,
    check_lengths,
    check_rate_is_one,
    check_states,
    without_autocast,
    wrong_state,
)
from longwave.layers.mixer import MIXERS, Mixer, MixerConfig

State = tuple[Tensor, ...]  # (B, d_model) each: h for a GRU, h and c for an LSTM


class Recurrent(Mixer):
    """y, state = layer(u) for u (B, L, d_model); y_t, state = layer.step(u_t, state).

    kind           "lstm" or "gru", with as many hidden units as features
    bidirectional  a second recurrence runs backwards, and the two outputs are added; then there is no state and no step
    return_state   False: forward returns y alone, as nn.Sequential expects; `step` returns (y_t, state) all the same
    """

    mixes_features = True

    def __init__(
        self,
        d_model: int,
        *,
        kind: Literal["lstm", "gru"] = "lstm",
        bidirectional: bool = False,
        return_state: bool = True,
    ) -> None:
        super().__init__(return_state)
        check_count("d_model", d_model)
        if kind not in ("lstm", "gru"):
            raise ValueError(f"kind: expected 'lstm' or 'gru', got {kind!r}")
        self.d_model, self.kind, self.bidirectional = d_model, kind, bidirectional
        cell = nn.LSTM if kind == "lstm" else nn.GRU
        self.cell = cell(d_model, d_model, batch_first=True, bidirectional=bidirectional)

    def _mix(
        self,
        u: Float[Tensor, "batch L d_model"],
        state: State | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L d_model"], State | None]:
        """By torch's recurrence, packed if there is padding."""
        check_input(u, ("batch", "L", self.d_model), next(self.cell.parameters()), self.cell)
        check_rate_is_one(rate, f"a {self.kind.upper()}")
        if state is not None:
            self._check_state(state, u)
        with without_autocast(u):
            z = u.to(self._dtype)
            if lengths is None:
                y, after = self._run(z, state)
            else:
                y, after = self._run_padded(z, state, check_lengths(lengths, u))
            if self.bidirectional:
                y = y.unflatten(-1, (2, self.d_model)).sum(-2)
        return y.to(u.dtype), after if need_state and not self.bidirectional else None

    def initial_state(self, batch: int) -> State:
        """Zeros."""
        check_causal("initial_state", self.bidirectional)
        check_count("batch", batch)
        zeros = next(self.cell.parameters()).new_zeros(batch, self.d_model)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def step(
        self, u: Float[Tensor, "batch d_model"], state: State | None = None, *, rate: float = 1.0
    ) -> tuple[Float[Tensor, "batch d_model"], State]:
        """One step, in O(d_model^2); without a state, the first."""
        check_causal("step", self.bidirectional)
        check_input(u, ("batch", self.d_model), next(self.cell.parameters()), self.cell)
        y, after = self._mix(u.unsqueeze(1), state, lengths=None, rate=rate, need_state=True)
        assert after is not None
        return y.squeeze(1), after

    def _run(self, z: Any, state: State | None) -> tuple[Any, State]:
        """Over z or a packed z; torch wants states as (directions, B, d_model), and a GRU's without a tuple."""
        start = None if state is None else tuple(s.to(self._dtype).unsqueeze(0) for s in state)
        y, after = self.cell(z, start if start is None or self.kind == "lstm" else start[0])
        return y, tuple(s[0] for s in (after if self.kind == "lstm" else (after,)))

    def _run_padded(self, z: Tensor, state: State | None, lengths: Tensor) -> tuple[Tensor, State]:
        valid = valid_steps(lengths, z)
        z = torch.where(valid, z, 0)  # not a product: what stands there may be NaN
        # Packing wants a step in every row: rows of none run over one zero, and what comes of it is put right below.
        packed = pack_padded_sequence(z, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        y, after = self._run(packed, state)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=z.shape[1])
        before = tuple(torch.zeros_like(s) for s in after) if state is None else state
        some = (lengths > 0).unsqueeze(-1)
        return torch.where(valid, y, 0), tuple(torch.where(some, a, b) for a, b in zip(after, before, strict=True))

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.cell.parameters()).dtype

    def extra_repr(self) -> str:
        """The settings, as they are written in the constructor."""
        return (
            f"d_model={self.d_model}, kind={self.kind!r}, bidirectional={self.bidirectional}, "
            f"return_state={self.return_state}"
        )

    def _check_state(self, state: State, u: Tensor) -> None:
        check_causal("state", self.bidirectional)
        count, shape = (2 if self.kind == "lstm" else 1), (len(u), self.d_model)
        if (
            not isinstance(state, tuple)
            or len(state) != count
            or not check_states(u, **{name: (s, shape, True) for name, s in zip("hc", state, strict=False)})
        ):
            raise wrong_state(state, f"a tuple of {count} tensors {shape}")


@MIXERS.register("lstm")
@dataclass(frozen=True)
class LSTMConfig(MixerConfig):
    """A long short-term memory."""

    bidirectional: bool = False
    """Look both ways; such a model streams with a sliding window alone."""

    def build(self, d_model: int) -> nn.Module:
        """A new layer with these settings."""
        return Recurrent(d_model, kind="lstm", **vars(self))


@MIXERS.register("gru")
@dataclass(frozen=True)
class GRUConfig(MixerConfig):
    """A gated recurrent unit."""

    bidirectional: bool = False
    """Look both ways; such a model streams with a sliding window alone."""

    def build(self, d_model: int) -> nn.Module:
        """A new layer with these settings."""
        return Recurrent(d_model, kind="gru", **vars(self))
