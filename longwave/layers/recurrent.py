"""LSTM and GRU as mixers: torch's own recurrences, with padding and states as the other mixers have them."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from longwave.layers.checks import check_choice, check_states, without_autocast, wrong_state
from longwave.layers.mixer import MIXERS, Mixer, MixerConfig

State = tuple[Tensor, ...]  # (B, d_model) each: h for a GRU, h and c for an LSTM


class Recurrent(Mixer):
    """y, state = layer(u) for u (B, L, d_model); y_t, state = layer.step(u_t, state).

    kind           "lstm" or "gru", with as many hidden units as features
    bidirectional  a second recurrence runs backwards, and the two outputs are added; then there is no state and no step
    return_state   False: forward returns y alone, as nn.Sequential expects; `step` returns (y_t, state) all the same
    """

    mixes_features = True
    shown = ("d_model", "kind", "bidirectional", "return_state")

    def __init__(
        self,
        d_model: int,
        *,
        kind: Literal["lstm", "gru"] = "lstm",
        bidirectional: bool = False,
        return_state: bool = True,
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state)
        check_choice("kind", kind, ("lstm", "gru"))
        self.kind = kind
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
    ) -> tuple[Float[Tensor, "batch L d_model"], State]:
        """Run torch's recurrence, packed if there is padding; a step takes O(d_model^2)."""
        with without_autocast(u):
            z = u.to(self._dtype)
            y, after = self._run(z, state) if lengths is None else self._run_padded(z, state, lengths)
            if self.bidirectional:
                y = y.unflatten(-1, (2, self.d_model)).sum(-2)
        return y, after

    def _initial_state(self, batch: int) -> State:
        """A state of zeros."""
        zeros = self._placed()[0].new_zeros(batch, self.d_model)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def _run(self, z: Any, state: State | None) -> tuple[Any, State]:
        """Over z or a packed z; torch takes states as (directions, B, d_model), and a GRU's without a tuple."""
        start = None if state is None else tuple(s.to(self._dtype).unsqueeze(0) for s in state)
        y, after = self.cell(z, start if start is None or self.kind == "lstm" else start[0])
        return y, tuple(s[0] for s in (after if self.kind == "lstm" else (after,)))

    def _run_padded(self, z: Tensor, state: State | None, lengths: Tensor) -> tuple[Tensor, State]:
        # Packing wants a step in every row: rows of none run over one zero, and what comes of it is put right below.
        packed = pack_padded_sequence(z, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        y, after = self._run(packed, state)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=z.shape[1])
        before = tuple(torch.zeros_like(s) for s in after) if state is None else state
        some = (lengths > 0).unsqueeze(-1)
        return y, tuple(torch.where(some, a, b) for a, b in zip(after, before, strict=True))

    @property
    def _dtype(self) -> torch.dtype:
        return self._placed()[0].dtype

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return next(self.cell.parameters()), self.cell

    def _check_state(self, state: State, batch: int, device: torch.device) -> None:
        count, shape = (2 if self.kind == "lstm" else 1), (batch, self.d_model)
        if (
            not isinstance(state, tuple)
            or len(state) != count
            or not check_states(device, **{name: (s, shape, True) for name, s in zip("hc", state, strict=False)})
        ):
            raise wrong_state(state, f"a tuple of {count} tensors {shape}")


@dataclass(frozen=True)
class RecurrentConfig(MixerConfig):
    """The common settings of LSTM and GRU."""

    layer: ClassVar[type[Mixer]] = Recurrent
    bidirectional: bool = False
    """Bidirectional; can stream only with a sliding window."""


@MIXERS.register("lstm")
@dataclass(frozen=True)
class LSTMConfig(RecurrentConfig):
    """A long short-term memory."""

    fixed: ClassVar[dict[str, Any]] = {"kind": "lstm"}


@MIXERS.register("gru")
@dataclass(frozen=True)
class GRUConfig(RecurrentConfig):
    """A gated recurrent unit."""

    fixed: ClassVar[dict[str, Any]] = {"kind": "gru"}
