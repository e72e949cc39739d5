"""What mixes the steps of a sequence: the interface of all such layers, their settings, and their registry."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from longwave.core.registry import Registry
from longwave.core.settings import Settings
from longwave.layers.rates import Trainable


class Mixer(nn.Module):
    """y, state = mixer(u) for u (B, L, H); y_t, state = mixer.step(u_t, state).

    return_state  False: forward returns y alone, as nn.Sequential expects, and computes no state; `step` returns both
                  all the same
    """

    def __init__(self, return_state: bool) -> None:
        super().__init__()
        self.return_state = return_state

    def forward(
        self,
        u: Tensor,
        state: Any = None,
        *,
        lengths: Tensor | None = None,
        rate: float = 1.0,
        need_state: bool = True,
        **constants: Any,
    ) -> Any:
        """y (B, L, H) in u's dtype, and the state after the last step (None if bidirectional or not needed).

        state     where an earlier call left off
        lengths   (B,) how many steps of each row count: the rest is padding, which has no effect, and y is 0 there
        rate      u is sampled at 1/rate of the frequency that the layer was trained at (state spaces only)
        constants what `chunk_constants` returned for this rate and at least L steps (S4 and S4D only)
        """
        need_state = need_state and self.return_state
        y, after = self._mix(u, state, lengths=lengths, rate=rate, need_state=need_state, **constants)
        return (y, after) if self.return_state else y

    @abstractmethod
    def _mix(
        self, u: Tensor, state: Any, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, Any]:
        """What `forward` returns with its state."""

    @abstractmethod
    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""

    @abstractmethod
    def step(self, u: Tensor, state: Any = None, *, rate: float = 1.0) -> tuple[Tensor, Any]:
        """One step: y_t (B, H) and the next state; without a state, the first step of a sequence."""


@dataclass(frozen=True)
class MixerConfig(Settings):
    """The settings of a mixer: its fields are the keywords of the layer's constructor."""

    registry: ClassVar[Registry[Any]] = Registry("mixer", "longwave.layers")

    @abstractmethod
    def build(self, d_model: int) -> nn.Module:
        """A new layer with these settings."""
        raise TypeError(f"{type(self).__name__} does not say how to build its layer")

    @property
    def label(self) -> str:
        """What tables call a model of such layers."""
        return self.kind.upper() if len(self.kind) <= 4 else self.kind

    @property
    def is_causal(self) -> bool:
        """Whether a step sees those before it alone."""
        return not getattr(self, "bidirectional", False)

    @property
    def supports_rate(self) -> bool:
        """Whether the layer knows the time between steps, and so can follow another sampling rate."""
        return False

    @property
    def has_fixed_state(self) -> bool:
        """Whether the state of a causal layer takes the same memory after any number of steps."""
        return True

    def for_length(self, length: int | None) -> "MixerConfig":
        """The settings for sequences of one length, or of any (None); most layers do not care."""
        return self


@dataclass(frozen=True)
class StateSpaceConfig(MixerConfig):
    """What layers of state spaces have in common."""

    d_state: int = 64
    """States of each feature's state space."""
    init: str = "legs"
    """Initialisation of the state spaces: legs, legt, lagt, fout, random-nplr; s4d-legs, s4d-lin, s4d-inv."""
    bidirectional: bool = False
    """Look both ways; such a model streams with a sliding window alone."""
    n_ssm: int | None = None
    """Number of distinct state spaces that the features share."""
    dt_min: float = 0.001
    """Lower bound of the initial dt."""
    dt_max: float = 0.1
    """Upper bound of the initial dt."""
    trainable: Trainable = True
    """Train dt, A and B (True), none of them, or those that are named; C and D are trained in any case."""

    @property
    def supports_rate(self) -> bool:
        """Yes: it is dt."""
        return True


MIXERS: Registry[type[MixerConfig]] = MixerConfig.registry


def make_mixer(kind: str, d_model: int, **settings: Any) -> nn.Module:
    """A mixer by its name; a setting that it does not know is refused."""
    return MIXERS.find(kind).from_dict(settings, f"mixer {kind}").build(d_model)
