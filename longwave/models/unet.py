"""A U-Net of state spaces: a causal model that sees a sequence at several sampling rates, with a skip at every layer.

After the paper's model of CIFAR-10 (sec:experiment-details-general-cifargen). On the way down, each level groups some
neighbouring steps into one of more features; on the way up, each of these becomes a group of steps again, one group
later: group g sees groups before g alone, and what is in the group itself comes by the skips. So the model is causal,
and its state is that of every layer, the steps of the groups that are not complete, and what the last complete ones
left for the steps to come.

With `skips` "stages" it is the shape of the authors' later model of audio (SaShiMi): pools alone on the way down, and a
skip around each stage on the way up.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from longwave.core.settings import check_least, set_by_task
from longwave.layers import MixerConfig, S4Config
from longwave.layers.block import LayerNorm
from longwave.layers.checks import check_choice, check_count, check_known, check_rate_is_one, valid_steps
from longwave.layers.compiled import is_untouched
from longwave.models.base import MODELS, ModelConfig, Spec
from longwave.models.heads import Decoder, Encoder
from longwave.models.logistics import LogisticMixture, check_logistics
from longwave.models.pretrained import Pretrained
from longwave.models.unet_levels import Level, Run
from longwave.models.unet_steps import compiled_levels
from longwave.ops import WeightType

Skips = Literal["layers", "stages"]
Norm = Literal["layer", "scalar"]  # batch norm would see steps that come later


@MODELS.register("UNet")
@dataclass(frozen=True)
class UNetConfig(ModelConfig):
    """A U-Net of causal mixers, with an output at every step; the defaults are the paper's model of CIFAR-10."""

    d_model: int = 128
    """Features of the first level."""
    n_layers: int = 8
    """Mixers per level on the down path, on the up path and in the centre."""
    poolings: tuple[int, ...] = (3, 4, 4)
    """Pooling factors: how many steps each level pools into one of the next."""
    widening: int = 2
    """Factor by which the features grow from each level to the next."""
    skips: Skips = "layers"
    """A skip connection from each layer of the down path to its counterpart; or no layers there, and one per stage."""
    feed_forward: int = 2
    """Width of the feed-forward sublayers, as a multiple of the features; 0 for none."""
    centre_feed_forward: bool = False
    """Feed-forward sublayers in the centre, too; with skips of stages it always has them."""
    mixer: MixerConfig = field(default_factory=S4Config)
    """The layer that mixes the steps of a level; it has to be causal."""
    norm: Norm = "layer"
    """Norm of each layer; scalar is the authors', with two numbers for all features. The last is a layer norm."""
    glu: bool = True
    """Gated linear unit after the position-wise linear layer of each mixer."""
    dropout: float = 0.0
    """Dropout probability, before the linear layer after each mixer and before the second of a feed-forward."""
    tie_dropout: bool = False
    """Share one dropout mask among all steps of a row."""
    logistics: int = 0
    """Components of a mixture of discretised logistics, in place of a softmax over values in order; 0: a softmax."""
    input_size: int = set_by_task(1)
    """Channels of the input (set by the task)."""
    vocabulary: int = set_by_task(0)
    """Number of tokens, if the input is tokens (set by the task)."""
    scale: int = set_by_task(0)
    """Number of ordered values that tokens stand for: neighbours start with similar vectors; 0: no order (set by the
    task)."""
    output_size: int = set_by_task(1)
    """Outputs per step (set by the task)."""
    length: int | None = set_by_task(None)
    """The length of all training sequences, if they share one: each level then has its own C~ (set by the task)."""

    decoder = "sequence"  # an output at every step
    streams = True  # a mixer that cannot is refused

    def build(self) -> "UNet":
        """A new model with these settings."""
        return UNet(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides; it must have an output at every step."""
        if "sequence" not in (spec.decoders or ("sequence",)) or spec.horizon or spec.time_size:
            wanted = " or ".join(spec.decoders) or "a forecast"
            raise ValueError(
                f"model: a UNet has an output at every step, and this task needs {wanted}; use another model "
                "(--model.kind SequenceModel)"
            )
        check_logistics(self, spec)
        return self.with_sizes(spec)

    @property
    def label(self) -> str:
        """Display name in tables."""
        return f"{self.mixer.label} U-Net"

    def at(self, depth: int) -> tuple[int, MixerConfig]:
        """Width and mixer of a level: 0 has the steps of the input, the last is the centre."""
        group = math.prod(self.poolings[:depth])
        mixer = self.mixer.for_length(None if self.length is None else self.length // group or None)
        return self.d_model * self.widening**depth, mixer


class UNet(Pretrained, nn.Module):
    """y, state = model(x); y_t, state = model.step(x_t, state); model.save_pretrained(folder).

    It is built from settings, UNet(config), from keywords, UNet(d_model=64, vocabulary=256, output_size=256), or from
    both. A sequence may have any length, and go on from a state at any step. A state is a list of what stands at each
    level, behind the number of steps so far (modulo those that the centre sees as one), and None, as a SequenceModel's.
    """

    def __init__(self, config: UNetConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = UNetConfig.by_keyword(config, **settings)
        for name in ("d_model", "n_layers", "widening"):
            check_count(name, getattr(config, name))
        if not config.poolings:
            raise ValueError("poolings: expected at least one pooling, such as 4 4, got none")
        for size in config.poolings:
            check_count("poolings", size)
        check_choice("skips", config.skips, get_args(Skips))
        check_choice("norm", config.norm, get_args(Norm))
        check_least(config, feed_forward=0)
        if not config.mixer.is_causal:
            raise ValueError("mixer: a UNet needs a causal one; expected bidirectional=False, got True")
        self.config = config
        self.group = math.prod(config.poolings)
        ends = replace(config.as_kind("SequenceModel"), decoder="sequence")
        self.encoder = Encoder(ends)
        self.levels = Level(config, 0)
        self.norm = LayerNorm(config.d_model)
        logistics = config.logistics
        self.decoder: Any = (
            LogisticMixture(config.d_model, config.output_size, logistics) if logistics else Decoder(ends)
        )

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        rate: float = 1.0,
        need_state: bool = False,
    ) -> tuple[Tensor, Any]:
        """The output for x (B, L, input_size) or tokens (B, L), and the state after it if it is wanted.

        Padding after `lengths` steps of a row changes none of its outputs: the model is causal. There is no state after
        rows of unequal lengths, since all rows have to be at the same place in their groups.
        """
        if time is not None:
            raise ValueError("time: a UNet takes no time features; expected None")
        if lengths is not None:
            if need_state or state is not None:
                raise ValueError("lengths: all rows of a state are at the same step; expected None with a state")
            lengths = torch.as_tensor(lengths)
            check_known("lengths", lengths, x)
            valid = valid_steps(lengths.to(x.device), x)
            x = torch.where(valid if x.ndim == 3 else valid.squeeze(-1), x, 0)  # even NaN may stand in the padding
        check_rate_is_one(rate, "a UNet")
        z, after = self._features(x, None if state is None else state[0], _convolution(need_state))
        return self.decoder(z)[0], (after, None) if need_state else None

    def nll(self, x: Tensor, y: Tensor, state: Any = None, *, need_state: bool = False) -> tuple[Tensor, Any]:
        """-log p in nats of the tokens y (B, L) that follow tokens x (B, L), and the state after them if it is wanted.

        Where y is -100 there is no token, and 0.
        """
        z, after = self._features(x, None if state is None else state[0], _convolution(need_state))
        return self.decoder.nll(z, y), (after, None) if need_state else None

    def _features(self, x: Tensor, states: list[Any] | None, run: Run) -> tuple[Tensor, list[Any]]:
        """The decoder's input (B, L, d_model) for x, and the states after it."""
        position = 0 if states is None else int(states[0])
        z, levels = self.levels(self.encoder(x), None if states is None else states[1], position, run)
        return self.norm(z), [torch.tensor((position + x.shape[1]) % self.group, device="cpu"), levels]

    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""
        check_count("batch", batch)
        return [torch.tensor(0, device="cpu"), self.levels.initial_state(batch)], None

    def step(self, x: Tensor, state: Any = None, *, rate: float = 1.0) -> tuple[Tensor, Any]:
        """One step: x (B, input_size) or tokens (B,); without a state, the first of a sequence.

        Most steps run the first level alone, and a level below only those that complete a group of steps above it.
        """
        states, _ = self.initial_state(len(x)) if state is None else state
        z, after = self.step_features(x, states, rate=rate)
        return self.decoder.step(z, None)[0], (after, None)

    def step_features(self, x: Tensor, states: Any, *, rate: float = 1.0) -> tuple[Tensor, list[Any]]:
        """One step as far as the decoder, (B, d_model), and the states after it."""
        check_rate_is_one(rate, "a UNet")
        z, after = self._features(x.unsqueeze(1), states, _recurrence)
        return z.squeeze(1), after

    def compiled_steps(self, rate: float = 1.0, weights: WeightType = "float32") -> Any:
        """A step of all levels, in place, by the backend's own function; None if it has none."""
        # A model that was changed goes by its own step, whatever it is.
        ours = rate == 1 and type(self).step is UNet.step and is_untouched(self)
        return compiled_levels(self.levels, weights) if ours else None

    def chunk_constants(self, longest: int, rate: float = 1.0) -> dict[nn.Module, Any]:
        """Constants of the layers for chunks of up to `longest` steps, derived from their parameters."""
        check_rate_is_one(rate, "a UNet")
        return self.levels.chunk_constants(longest)

    def chunk_features(
        self, x: Tensor, states: list[Any], *, rate: float = 1.0, constants: dict[nn.Module, Any]
    ) -> tuple[Tensor, list[Any]]:
        """Some steps as far as the decoder, (B, L, d_model), and the states after them."""
        check_rate_is_one(rate, "a UNet")

        def run(layer: Any, z: Tensor, state: Any) -> tuple[Tensor, Any]:
            return layer(z, state, need_state=True, constants=constants[layer])

        return self._features(x, states, run)


def _convolution(need_state: bool) -> Run:
    return lambda layer, z, state: layer(z, state, need_state=need_state)


def _recurrence(layer: Any, z: Tensor, state: Any) -> tuple[Tensor, Any]:
    y, state = layer.step(z.squeeze(1), state)
    return y.unsqueeze(1), state
