"""What mixes the steps of a sequence: the interface of all such layers, their settings, and their registry."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from longwave.layers.rates import Trainable
from longwave.registry import Registry
from longwave.settings import Settings


class Mixer(Protocol):
    """y, state = mixer(u) for u (B, L, H); y_t, state = mixer.step(u_t, state); see S4 for what the arguments mean."""

    def __call__(
        self,
        u: Tensor,
        state: Any = None,
        *,
        lengths: Tensor | None = None,
        rate: float = 1.0,
        need_state: bool = True,
    ) -> tuple[Tensor, Any]:
        """The whole sequence."""
        ...

    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""
        ...

    def step(self, u: Tensor, state: Any, *, rate: float = 1.0) -> tuple[Tensor, Any]:
        """One step."""
        ...


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
    def knows_time(self) -> bool:
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
    def knows_time(self) -> bool:
        """Yes: it is dt."""
        return True


MIXERS: Registry[type[MixerConfig]] = MixerConfig.registry


def make_mixer(kind: str, d_model: int, **settings: Any) -> nn.Module:
    """A mixer by its name; a setting that it does not know is refused."""
    return MIXERS.find(kind).from_dict(settings, f"mixer {kind}").build(d_model)
