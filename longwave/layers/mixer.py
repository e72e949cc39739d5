"""Mixers, layers that mix the steps of a sequence: their interface, their settings, and their registry."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from longwave.core.registry import Registry
from longwave.core.settings import Settings
from longwave.layers.checks import (
    check_causal,
    check_count,
    check_gaps,
    check_input,
    check_lengths,
    check_rate_is_one,
    valid_steps,
)
from longwave.layers.packed import check_packed
from longwave.layers.rates import Trainable


class Mixer(nn.Module):
    """y, state = mixer(u) for u (B, L, H); y_t, state = mixer.step(u_t, state).

    Arguments are checked and padding is hidden here, once for all mixers; a kind has `_mix`, `_initial_state`,
    `_check_state` and, if a step is more than a sequence of length 1, `_step`.

    return_state  False: forward returns y alone, as nn.Sequential expects, and computes no state; `step` returns both
                  all the same
    """

    mixes_features = False  # whether it mixes features as well as steps, so that a block adds no linear layer
    SSM_PARAMETERS: tuple[str, ...] = ()  # names of dt, A and B: of low learning rate, without weight decay
    DT_PARAMETERS: tuple[str, ...] = ()  # of these, dt
    OUTPUT_PARAMETERS: tuple[str, ...] = ()  # C
    refuses_gaps = "only S4D (s4d) takes rows at irregular times; use s4d"  # why, where it does not take them
    shown: tuple[str, ...] = ("d_model", "bidirectional", "return_state")  # settings that `repr` shows

    def __init__(self, d_model: int, *, bidirectional: bool = False, return_state: bool = True) -> None:
        super().__init__()
        check_count("d_model", d_model)
        self.d_model, self.bidirectional, self.return_state = d_model, bidirectional, return_state

    def forward(
        self,
        u: Tensor,
        state: Any = None,
        *,
        lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        rate: float = 1.0,
        gaps: Tensor | None = None,
        need_state: bool = True,
        constants: Any = None,
    ) -> Any:
        """y (B, L, H) in u's dtype, and the state after the last step (None if bidirectional or not needed).

        state       where an earlier call left off
        lengths     (B,) how many steps of each row count: the rest is padding, which has no effect, and y is 0 there
        cu_seqlens  (n + 1,) where each of n sequences begins that u (1, total, H) holds end to end, and the last ends;
                    each starts from a zero state and has a state after it, (n, ...) (S4 and S4D only)
        rate        u is sampled at 1/rate of the frequency that the layer was trained at (state spaces only)
        gaps        (B, L) the time since the row before, in units of the usual step, for rows at irregular times (S4D
                    only)
        constants   what `chunk_constants` returned for this rate and at least L steps
        """
        need_state = need_state and self.return_state and not self.bidirectional
        if cu_seqlens is not None:
            self._checked(u, None, None, rate)
            packed = check_packed(cu_seqlens, u, state=state, lengths=lengths, gaps=gaps, constants=constants)
            y, after = self._mix_packed(u, packed, rate=rate, need_state=need_state)
            return (y.to(u.dtype), after) if self.return_state else y.to(u.dtype)
        z, lengths, valid = self._checked(u, state, lengths, rate)
        if gaps is not None:
            if constants is not None:
                raise ValueError(
                    "constants: expected None beside gaps, since these need no kernel; give one of the two"
                )
            y, after = self._mix_irregular(z, check_gaps(gaps, u, valid), state, rate=rate, need_state=need_state)
        else:
            kept = {} if constants is None else {"constants": constants}
            y, after = self._mix(z, state, lengths=lengths, rate=rate, need_state=need_state, **kept)
        if valid is not None:
            y = torch.where(valid, y, 0)
        y = y.to(u.dtype)
        return (y, after if need_state else None) if self.return_state else y

    def _checked(
        self, u: Tensor, state: Any, lengths: Tensor | None, rate: float
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """u with 0 for padding, the lengths where u is, and which steps count; bad arguments are refused."""
        check_input(u, ("batch", "L", self.d_model), *self._placed())
        self._check_rate(rate)
        if state is not None:
            self.check_state(state, u.shape[0], u.device)
        if lengths is None:
            return u, None, None
        lengths = check_lengths(lengths, u)
        valid = valid_steps(lengths, u)
        return torch.where(valid, u, 0), lengths, valid  # not a product: what stands there may be NaN

    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""
        check_causal("initial_state", self.bidirectional)
        check_count("batch", batch)
        return self._initial_state(batch)

    def step(self, u: Tensor, state: Any = None, *, rate: float = 1.0, gap: Tensor | None = None) -> tuple[Tensor, Any]:
        """One step: y_t (B, H) and the next state; without a state, the first step of a sequence.

        gap  (B,) the time since the step before, in units of the usual step (S4D only)
        """
        check_causal("step", self.bidirectional)
        check_input(u, ("batch", self.d_model), *self._placed())
        self._check_rate(rate)
        state = self.initial_state(u.shape[0]) if state is None else state
        self._check_state(state, u.shape[0], u.device)
        if gap is None:
            y, after = self._step(u, state, rate)
        else:
            one = u.unsqueeze(1)
            gaps = check_gaps(gap.unsqueeze(-1), one, None)
            y, after = self._mix_irregular(one, gaps, state, rate=rate, need_state=True)
            y = y.squeeze(1)
        return y.to(u.dtype), after

    def check_state(self, state: Any, batch: int, device: torch.device) -> None:
        """Refuse a state that does not fit this layer, for so many rows on this device."""
        check_causal("state", self.bidirectional)
        self._check_state(state, batch, device)

    def chunk_constants(self, longest: int, rate: float = 1.0) -> Any:
        """Constants for chunks of up to `longest` steps, derived from the parameters, for the caller to keep."""
        return None

    @abstractmethod
    def _mix(
        self, u: Tensor, state: Any, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, Any]:
        """y (B, L, H) and the state after each row's `lengths` steps; u is 0 after them."""

    def _mix_packed(self, u: Tensor, lengths: Sequence[int], *, rate: float, need_state: bool) -> tuple[Tensor, Any]:
        """y (1, total, H) and the states after sequences of these lengths, end to end in u."""
        raise ValueError(f"cu_seqlens: only S4 and S4D take it, got {type(self).__name__}; pad, and give lengths")

    def _mix_irregular(
        self, u: Tensor, gaps: Tensor, state: Any, *, rate: float, need_state: bool
    ) -> tuple[Tensor, Any]:
        """y (B, L, H) of rows at irregular times and the state after them; a row after a gap of 0 is padding."""
        raise ValueError(f"gaps: {self.refuses_gaps}")

    @abstractmethod
    def _initial_state(self, batch: int) -> Any:
        """The state before the first step."""

    @abstractmethod
    def _check_state(self, state: Any, batch: int, device: torch.device) -> None:
        """Refuse a state that does not fit this layer."""

    def _step(self, u: Tensor, state: Any, rate: float) -> tuple[Tensor, Any]:
        """y_t (B, H) and the next state."""
        y, after = self._mix(u.unsqueeze(1), state, lengths=None, rate=rate, need_state=True)
        return y.squeeze(1), after

    def extra_repr(self) -> str:
        """The settings, as they are written in the constructor."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)

    def _check_rate(self, rate: float) -> None:
        check_rate_is_one(rate, type(self).__name__)

    def _placed(self) -> tuple[Tensor, nn.Module]:
        """A parameter, whose device is that of the layer, and the module that has it."""
        return next(self.parameters()), self


@dataclass(frozen=True)
class MixerConfig(Settings):
    """The settings of a mixer: its fields are the keywords of the layer's constructor."""

    registry: ClassVar[Registry[Any]] = Registry("mixer", "longwave.layers")
    layer: ClassVar[type[Mixer]]  # the class of the layer
    fixed: ClassVar[dict[str, Any]] = {}  # keywords of its constructor that are the same in all layers of this kind

    def build(self, d_model: int) -> Mixer:
        """A new layer with these settings."""
        return self.layer(d_model, **self.fixed, **vars(self))

    @property
    def label(self) -> str:
        """Display name in tables."""
        return self.kind.upper() if len(self.kind) <= 4 else self.kind

    @property
    def is_causal(self) -> bool:
        """Whether a step sees only those before it."""
        return not getattr(self, "bidirectional", False)

    @property
    def supports_rate(self) -> bool:
        """Whether the layer knows the time between steps, and so can follow another sampling rate."""
        return False

    @property
    def refuses_gaps(self) -> str | None:
        """Why the layer does not take rows at irregular times; None: it does."""
        return self.layer.refuses_gaps

    @property
    def has_fixed_state(self) -> bool:
        """Whether the state of a causal layer takes the same memory after any number of steps."""
        return True

    def for_length(self, length: int | None) -> "MixerConfig":
        """The settings for sequences of one length, or of any (None); the same for most layers."""
        return self


@dataclass(frozen=True)
class StateSpaceConfig(MixerConfig):
    """Settings that all layers of state spaces share."""

    supports_rate = True  # it scales dt
    d_state: int = 64
    """State size of each feature."""
    init: str = "legs"
    """Initialisation of the state spaces: legs, legs-clipped, legt, lagt, fout, random-nplr; s4d-legs, s4d-lin,
    s4d-inv."""
    bidirectional: bool = False
    """Bidirectional; can stream only with a sliding window."""
    n_ssm: int | None = None
    """Number of distinct state spaces, shared by the features."""
    dt_min: float = 0.001
    """Lower bound of the initial dt."""
    dt_max: float = 0.1
    """Upper bound of the initial dt."""
    trainable: Trainable = True
    """Train dt, A and B (True), none of them (False), or those named; C and D are always trained."""


MIXERS: Registry[type[MixerConfig]] = MixerConfig.registry


def make_mixer(kind: str, d_model: int, **settings: Any) -> Mixer:
    """A mixer by its name; an unknown setting is refused."""
    return MIXERS.find(kind).from_dict(settings, f"mixer {kind}").build(d_model)
