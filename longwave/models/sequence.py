"""A deep sequence model: encoder, residual blocks, decoder; it streams if it is causal."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from longwave.core.settings import check_least, set_by_task
from longwave.layers import NORMS, Block, MixerConfig, S4Config
from longwave.layers.block import DropoutPlace
from longwave.layers.checks import advice, check_count, check_device, check_known, describe, valid_steps
from longwave.layers.compiled import compiled_steps, is_untouched
from longwave.models.adaptive import AdaptiveSoftmax
from longwave.models.base import MODELS, ModelConfig, Spec
from longwave.models.heads import Decoder, Encoder, Window
from longwave.models.hf_trainer import label_loss, takes_use_cache
from longwave.models.logistics import LogisticMixture, check_logistics
from longwave.models.pretrained import Pretrained
from longwave.models.recompute import recomputed
from longwave.ops import WeightType

# A damaged config.json would else build for minutes.
MOST_LAYERS, MOST_FEATURES = 10_000, 1 << 17


@MODELS.register("SequenceModel")
@takes_use_cache
@dataclass(frozen=True)
class SequenceConfig(ModelConfig):
    """A model from input to output; the defaults are the paper's common settings (S4, LegS, 64 states, GELU, GLU)."""

    d_model: int = 128
    """Features of every layer."""
    n_layers: int = 2
    """Residual blocks."""
    mixers_per_block: int = 1
    """Consecutive mixers in each block, each with its norm and residual sum, before the feed-forward."""
    mixer: MixerConfig = field(default_factory=S4Config)
    """The layer that mixes the steps in each block; a Transformer is attention with a feed-forward sublayer."""
    norm: Literal["layer", "batch", "scalar"] = "layer"
    """Norm of each block; scalar is the authors', with two numbers for all features."""
    prenorm: bool = True
    """Put the norm before the mixer, not after the residual sum."""
    dropout: float = 0.0
    """Dropout probability."""
    dropout_after: tuple[DropoutPlace, ...] = ("activation",)
    """Where features are dropped: after the mixer, after GELU (activation), after the linear layer with its GLU."""
    tie_dropout: bool = False
    """Share one dropout mask among all steps of a row."""
    glu: bool = True
    """Gated linear unit after the position-wise linear layer."""
    feed_forward: int = 0
    """Width of a feed-forward sublayer in each block, 0 for none."""
    gradient_checkpointing: bool = False
    """Compute each block again in the backward pass, which takes less memory and more time."""
    cutoffs: tuple[int, ...] = ()
    """Tokens (most common first) at which bins begin, each with shorter vectors and its own softmax."""
    logistics: int = 0
    """Components of a mixture of discretised logistics, in place of a softmax over values in order; 0: a softmax."""
    decoder: Literal["mean", "last", "sequence", "forecast"] = "mean"
    """Mean over the steps, the last step, every step, or the last `horizon` steps."""
    window: Literal["none", "last", "standard"] = "none"
    """Forecasts only: shift each window by its last known value, or standardise it by its known part."""
    input_size: int = set_by_task(1)
    """Channels of the input (set by the task)."""
    vocabulary: int = set_by_task(0)
    """Number of tokens, if the input is tokens (set by the task)."""
    scale: int = set_by_task(0)
    """Number of ordered values that tokens stand for: neighbours start with similar vectors; 0: no order (set by the
    task)."""
    time_size: int = set_by_task(0)
    """Time features beside the input (set by the task)."""
    stamps: tuple[int, ...] = set_by_task(())
    """Number of values of each time stamp, if the time features are stamps, embedded (set by the task)."""
    output_size: int = set_by_task(1)
    """Outputs per sequence or per step (set by the task)."""
    horizon: int = set_by_task(0)
    """Steps to forecast (set by the task)."""

    def build(self) -> "SequenceModel":
        """A new model with these settings."""
        return SequenceModel(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides."""
        if spec.decoders and self.decoder not in spec.decoders:
            other = "; expected a PairModel (--model.kind PairModel)" if "pair" in spec.decoders else ""
            raise ValueError(f"decoder: this task needs {' or '.join(spec.decoders)}, got {self.decoder}{other}")
        if spec.is_causal and not self.mixer.is_causal:
            raise ValueError(
                "bidirectional: this task needs a causal model, since a step must not see later ones; set "
                "bidirectional to False (--model.mixer.no-bidirectional)"
            )
        check_logistics(self, spec)
        return replace(self.with_sizes(spec), mixer=self.mixer.for_length(spec.length))

    @property
    def label(self) -> str:
        """Display name in tables."""
        return self.mixer.label

    @property
    def streams(self) -> bool:
        """Whether the model can take a sequence step by step."""
        return self.mixer.is_causal

    @property
    def takes_any_length(self) -> bool:
        """Yes, unless it forecasts, or has an adaptive softmax or a mixture of logistics."""
        return self.decoder != "forecast" and not self.cutoffs and not self.logistics

    @property
    def supports_rate(self) -> bool:
        """Whether the mixer supports it."""
        return self.mixer.supports_rate

    @property
    def refuses_gaps(self) -> str | None:
        """As for the mixer."""
        return self.mixer.refuses_gaps


class SequenceModel(Pretrained, nn.Module):
    """y, state = model(x); y_t, state = model.step(x_t, state); model.save_pretrained(folder).

    It is built from settings, SequenceModel(config), from keywords, SequenceModel(d_model=64, input_size=3), or from
    both, where the keywords replace settings. A mixer is given by its name, mixer="lstm", or by its settings,
    mixer=S4Config(d_state=16).
    """

    gives_features = True

    def __init__(self, config: SequenceConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = SequenceConfig.by_keyword(config, **settings)
        check_count("d_model", config.d_model, MOST_FEATURES)
        check_count("n_layers", config.n_layers, MOST_LAYERS)
        check_count("mixers_per_block", config.mixers_per_block, MOST_LAYERS)
        check_least(config, feed_forward=0)
        self.config = config
        self.encoder = Encoder(config)
        # A block of several mixers is as many of our blocks, of which the last has the feed-forward sublayer.
        per_block = [0] * (config.mixers_per_block - 1) + [config.feed_forward]
        self.blocks: Any = nn.ModuleList(_block(config, width) for width in per_block * config.n_layers)
        self.norm = NORMS[config.norm](config.d_model) if config.prenorm else None
        self.decoder: Any = _decoder(config, self.encoder)
        self.window = Window(config.window, config.horizon if config.decoder == "forecast" else 0)
        if config.window != "none" and (config.decoder != "forecast" or config.input_size != config.output_size):
            raise ValueError(
                f"window: {config.window!r} needs a forecast of the input channels, "
                f"got decoder {config.decoder!r}, {config.input_size} channels in and {config.output_size} out"
            )

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        rate: float = 1.0,
        gaps: Tensor | None = None,
        need_state: bool = False,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The output for x (B, L, input_size) or tokens (B, L), and the state after it if it is wanted.

        cu_seqlens  bounds of the sequences that x (1, total, ...) holds end to end, as S4 and S4D take them
        gaps        (B, L) the time since the row before, in units of the usual step, as S4D takes them
        labels      then (loss, output) is returned: the mean cross-entropy of whole numbers, one per output and not
                    shifted, where -100 is no label, or the mean squared error of floating-point numbers
        """
        if not isinstance(x, Tensor):
            said = f"{describe(x)}{advice('x', x, as_float=not self.config.vocabulary)}"
            raise ValueError(f"x: expected a tensor (batch, length, channels), or tokens (batch, length), got {said}")
        if state is not None and self.config.decoder == "forecast":
            raise ValueError(
                "state: a forecast model takes a whole window at once; use forecast_by_steps to go step by step"
            )
        if cu_seqlens is not None:
            self._check_packed()
        valid = None
        if lengths is not None:
            lengths = torch.as_tensor(lengths)
            check_known("lengths", lengths, x)
            lengths = lengths.to(x.device)
            valid = valid_steps(lengths, x)
            # Whatever stands in the padding, even NaN, must not reach a weight's gradient.
            x = torch.where(valid if x.ndim == 3 else valid.squeeze(-1), x, 0)
            if time is not None:
                check_device("time", time, x.device)
                time = torch.where(valid, time, 0)
        measured = self.window.measure(x, lengths)
        z = self.encoder(self.window.normalise(x, measured, lengths), time, self.window.unknown(x, lengths))
        states, decoder_state = (None, None) if state is None else state
        given: dict[str, Any] = {"lengths": lengths, "cu_seqlens": cu_seqlens, "rate": rate, "need_state": need_state}
        given["gaps"] = gaps
        z, after = self._through_blocks(z, states, valid=valid, **given)
        y, decoder_state = self.decoder(z, decoder_state, lengths=lengths, valid=valid)
        y = self.window.restore(y, measured)
        return (y, (after, decoder_state) if need_state else None) if labels is None else (label_loss(y, labels), y)

    def features(
        self, x: Tensor, states: Sequence[Any] | None = None, *, need_state: bool = True
    ) -> tuple[Tensor, list[Any]]:
        """The decoder's input for x (B, L, input_size) or tokens (B, L), and the states of the blocks after it."""
        return self._through_blocks(self.encoder(x), states, need_state=need_state)

    def nll(self, x: Tensor, y: Tensor, state: Any = None, *, need_state: bool = False) -> tuple[Tensor, Any]:
        """-log p in nats of the tokens y (B, L) that follow tokens x (B, L), and the state after them if it is wanted.

        Where y is -100 there is no token, and 0. An adaptive softmax does not work out all logits for it.
        """
        z, after = self.features(x, None if state is None else state[0], need_state=need_state)
        return self.decoder.nll(z, y), (after, None) if need_state else None

    def _through_blocks(
        self,
        z: Tensor,
        states: Sequence[Any] | None,
        *,
        valid: Tensor | None = None,
        constants: Sequence[Any] | None = None,
        **settings: Any,
    ) -> tuple[Tensor, list[Any]]:
        """Blocks and the norm after them; `settings` are those of a block."""
        after, none = [], [None] * len(self.blocks)
        recompute = self.config.gradient_checkpointing and torch.is_grad_enabled()
        blocks = map(recomputed, self.blocks) if recompute else self.blocks
        for block, before, kept in zip(blocks, states or none, constants or none, strict=True):
            z, s = block(z, before, valid=valid, constants=kept, **settings)
            after.append(s)
        return z if self.norm is None else self.norm(z, valid), after

    def _check_packed(self) -> None:
        """Refuse packed sequences where the rest of the model would mix them."""
        what = "pad the sequences and give their lengths"
        if self.config.decoder != "sequence":
            raise ValueError(f'cu_seqlens: expected decoder "sequence", got "{self.config.decoder}"; {what}')
        if self.training and self.config.tie_dropout and self.config.dropout:
            raise ValueError(f"cu_seqlens: with tie_dropout all packed sequences would share one mask; {what}")

    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""
        return [block.initial_state(batch) for block in self.blocks], None

    def step(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        unknown: Tensor | None = None,
        rate: float = 1.0,
        gap: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """One step: x (B, input_size) or tokens (B,). The output is what forward gives if the sequence ends here.

        Without a state it is the first step of a sequence; forward returns a state with need_state=True. A forecast
        model takes and gives values in units of the window (see `Window`), and `unknown` (1,) is 1 where x is 0 because
        it is to be forecast; `forecast_by_steps` does it all.
        """
        if self.training and self.config.norm == "batch":
            raise ValueError("step: batch norm in training mode mixes all steps of a batch; call model.eval() first")
        states, decoder_state = self.initial_state(x.shape[0]) if state is None else state
        z, after = self.step_features(x, states, time=time, unknown=unknown, rate=rate, gap=gap)
        y, decoder_state = self.decoder.step(z, decoder_state)
        return y, (after, decoder_state)

    def step_features(
        self,
        x: Tensor,
        states: Sequence[Any],
        *,
        time: Tensor | None = None,
        unknown: Tensor | None = None,
        rate: float = 1.0,
        gap: Tensor | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """One step as far as the decoder, (B, d_model), and the states of the blocks after it."""
        z = self.encoder(x.unsqueeze(1), None if time is None else time.unsqueeze(1), unknown).squeeze(1)
        after = []
        for block, before in zip(self.blocks, states, strict=True):
            z, s = block.step(z, before, rate=rate, gap=gap)
            after.append(s)
        if self.norm is not None:
            z = self.norm(z.unsqueeze(1), None).squeeze(1)
        return z, after

    def compiled_steps(self, rate: float = 1.0, weights: WeightType = "float32") -> Any:
        """A step of all blocks, in place, by the backend's own function; None if it has none."""
        # A model that was changed goes by its own step, whatever it is.
        ours = type(self).step is SequenceModel.step and is_untouched(self)
        return compiled_steps(self.blocks, rate, weights) if ours else None

    def check_states(self, states: Sequence[Any], batch: int) -> None:
        """Check the state of each mixer."""
        for block, state in zip(self.blocks, states, strict=True):
            block.mixer.check_state(state, batch, next(block.parameters()).device)

    def chunk_constants(self, longest: int, rate: float = 1.0) -> list[Any]:
        """Constants of each block for chunks of up to `longest` steps, derived from its parameters."""
        return [block.chunk_constants(longest, rate) for block in self.blocks]

    def chunk_features(
        self, x: Tensor, states: Sequence[Any], *, rate: float = 1.0, constants: list[Any]
    ) -> tuple[Tensor, list[Any]]:
        """Some steps as far as the decoder, (B, L, d_model), and the states of the blocks after them."""
        return self._through_blocks(self.encoder(x), states, rate=rate, need_state=True, constants=constants)

    def forecast_by_steps(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """The forecast of a whole window (B, context + horizon, channels) by the recurrence, one step at a time."""
        measured = self.window.measure(x)
        x = self.window.normalise(x, measured)
        unknown = self.window.unknown(x)
        state, outputs = self.initial_state(len(x)), []
        for k in range(x.shape[1]):
            time_k = None if time is None else time[:, k]
            y, state = self.step(x[:, k], state, time=time_k, unknown=None if unknown is None else unknown[k])
            outputs.append(y)
        return self.window.restore(torch.stack(outputs[-self.config.horizon :], dim=1), measured)


def _decoder(config: SequenceConfig, encoder: Encoder) -> nn.Module:
    if config.logistics:
        if config.decoder != "sequence" or config.cutoffs:
            raise ValueError(
                "logistics: a mixture of logistics predicts a value at each step; expected decoder sequence and no "
                f"cutoffs, got decoder {config.decoder} and cutoffs {config.cutoffs}"
            )
        return LogisticMixture(config.d_model, config.output_size, config.logistics)
    if not config.cutoffs:
        return Decoder(config)
    if config.decoder != "sequence" or not config.vocabulary or config.output_size != config.vocabulary:
        raise ValueError(
            "cutoffs: an adaptive softmax predicts the next token at each step; expected decoder sequence, tokens "
            f"as input and as many outputs, got decoder {config.decoder}, {config.vocabulary} tokens and "
            f"{config.output_size} outputs"
        )
    embedding: Any = encoder.values
    return AdaptiveSoftmax(embedding, config.dropout)


def _block(config: SequenceConfig, feed_forward: int) -> Block:
    mixer = config.mixer.build(config.d_model)
    return Block(
        mixer,
        config.d_model,
        norm=config.norm,
        prenorm=config.prenorm,
        dropout=config.dropout,
        dropout_after=config.dropout_after,
        tie_dropout=config.tie_dropout,
        glu=config.glu,
        feed_forward=feed_forward,
        mix_features=not mixer.mixes_features,
    )
