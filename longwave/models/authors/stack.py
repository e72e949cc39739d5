"""Convert residual layers, encoders, decoders and stacks: the language model of WikiText-103, classifiers."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from torch import Tensor

from longwave.layers import S4Config
from longwave.models.adaptive import FACTOR
from longwave.models.authors.state_spaces import (
    System,
    Transforms,
    common_length,
    mixer_of,
    mixer_weights,
    take_system,
)
from longwave.models.authors.tensors import Tensors, all_alike
from longwave.models.base import ModelConfig
from longwave.models.sequence import SequenceConfig

Output = Literal["mean", "last", "sequence"]
Weights = dict[str, Tensor]
NORMS = {  # by a name that the others do not have: the kind, and the names of its tensors, ours and theirs
    "m": ("scalar", {"weight": "s", "shift": "m"}),
    "running_mean": ("batch", {name: name for name in ("weight", "bias", "running_mean", "running_var")}),
    "weight": ("layer", {name: name for name in ("weight", "bias")}),
}


class Converted(NamedTuple):
    """A converted model: our settings, and the weights by our names."""

    config: ModelConfig
    weights: Weights
    version: int  # of the authors' code


class Sublayer(NamedTuple):
    """A residual layer: S4 with the linear layer after it, or a feed-forward of two."""

    norm: str
    norm_weights: Weights
    linears: tuple[Weights, ...]
    system: System | None = None

    @property
    def kind(self) -> str:
        """S for S4, F for a feed-forward."""
        return "F" if self.system is None else "S"


def take_sublayer(tensors: Tensors, prefix: str, how: Transforms) -> Sublayer:
    """The residual layer whose names begin with `prefix`."""
    norm, norm_weights = take_norm(tensors, f"{prefix}norm.norm.")
    if tensors.has(f"{prefix}layer.ff."):
        linears = tensors.take_linear(f"{prefix}layer.ff.0.0."), tensors.take_linear(f"{prefix}layer.ff.2.")
        return Sublayer(norm, norm_weights, linears)
    system = take_system(tensors, prefix, how)
    output = f"{prefix}layer.output_linear."
    output += "0." if tensors.has(f"{output}0.") else ""  # then an activation, the GLU, follows
    return Sublayer(norm, norm_weights, (tensors.take_linear(output),), system)


def take_norm(tensors: Tensors, prefix: str) -> tuple[str, Weights]:
    """The kind of norm, and its weights by our names."""
    for mark, (kind, names) in NORMS.items():
        if prefix + mark in tensors:
            if f"{prefix}num_batches_tracked" in tensors:
                tensors.take(f"{prefix}num_batches_tracked")  # with a fixed momentum it has no effect
            return kind, {ours: tensors.take(prefix + theirs, None) for ours, theirs in names.items()}
    marks = ", ".join(f"{mark} ({kind})" for mark, (kind, _) in NORMS.items())
    raise ValueError(f"{prefix}: expected a norm, with one of {marks}, got none")


def has_glu(sublayers: Iterable[Sublayer]) -> bool:
    """Whether the linear layers after S4 have a GLU."""
    shapes = (sublayer.linears[0]["weight"].shape for sublayer in sublayers if sublayer.system is not None)
    outputs_per_input = all_alike("width behind S4", (outputs / inputs for outputs, inputs in shapes))
    return bool(outputs_per_input == 2)


def under(prefix: str, weights: Weights) -> Weights:
    """The weights with prefixed names."""
    return {prefix + name: tensor for name, tensor in weights.items()}


# The ends


def take_encoder(tensors: Tensors) -> tuple[dict[str, Any], Weights]:
    """Settings and weights of an embedding, or of a linear layer."""
    prefix = "encoder.0." if tensors.has("encoder.0.") else "encoder."
    if f"{prefix}bias" in tensors:
        weights = tensors.take_linear(prefix)
        return {"input_size": weights["weight"].shape[1]}, under("encoder.values.", weights)
    weight = tensors.take(f"{prefix}weight", None, None)
    return {"vocabulary": len(weight)}, {"encoder.values.weight": weight}


def take_decoder(tensors: Tensors) -> tuple[dict[str, Any], Weights]:
    """Settings and weights of the linear layer at the end."""
    prefix = "decoder.0." if tensors.has("decoder.0.") else "decoder."
    weights = tensors.take_linear(f"{prefix}output_transform.")
    return {"output_size": len(weights["weight"])}, under("decoder.linear.", weights)


def take_adaptive_ends(tensors: Tensors, d_model: int) -> tuple[dict[str, Any], Weights]:
    """Settings and weights of an adaptive embedding and of the softmax that shares its vectors."""
    vectors, projections = "encoder.0.emb_layers.", "encoder.0.emb_projs."
    tensors.drop_copies("loss.shared_out_projs.", projections)
    weights: Weights = {}
    sizes = []
    for i in range(tensors.count(vectors)):
        width = d_model // FACTOR**i
        words = tensors.take(f"{vectors}{i}.weight", None, width)
        sizes.append(len(words))
        weights[f"encoder.values.vectors.{i}"] = words
        weights[f"encoder.values.projections.{i}"] = tensors.take(f"{projections}{i}", d_model, width)
        weights[f"decoder.biases.{i}"] = tensors.take(f"loss.out_layers_biases.{i}", len(words))
    tails = len(sizes) - 1
    # They multiply by the projection from the right, and have the clusters in reverse: tail i is the i-th from the end.
    weights["decoder.projection"] = tensors.take("loss.out_projs.0", d_model, d_model).T
    weights["decoder.clusters.weight"] = tensors.take("loss.cluster_weight", tails, d_model).flip(0)
    weights["decoder.clusters.bias"] = tensors.take("loss.cluster_bias", tails).flip(0)
    vocabulary, cutoffs = sum(sizes), tuple(itertools.accumulate(sizes))[:-1]
    return {"vocabulary": vocabulary, "output_size": vocabulary, "cutoffs": cutoffs, "decoder": "sequence"}, weights


# Stacks


def convert_stack(tensors: Tensors, how: Transforms, decoder: Output) -> Converted:
    """A SequenceModel; `decoder` is its output unless it is a language model."""
    sublayers = [take_sublayer(tensors, f"model.layers.{k}.", how) for k in range(tensors.count("model.layers."))]
    blocks, mixers_per_block, feed_forward = _blocks(sublayers)
    systems = [sublayer.system for sublayer in sublayers if sublayer.system is not None]
    d_model = all_alike("number of features", (len(system.dt) for system in systems))
    mixer = replace(mixer_of(systems, how), length=common_length(system.length for system in systems))
    norm = all_alike("norm", (sublayer.norm for sublayer in sublayers))
    settings: dict[str, Any] = {"decoder": decoder}
    weights: Weights = {}
    for k, block in enumerate(blocks):
        weights |= under(f"blocks.{k}.", _block_weights(block, mixer))
    prenorm = tensors.has("model.norm.")  # which stands at the end, where the blocks begin with theirs
    if prenorm:
        last, norm_weights = take_norm(tensors, "model.norm.norm.")
        all_alike("norm", (norm, last))
        weights |= under("norm.", norm_weights)
    has_bins = tensors.has("encoder.0.emb_layers.")  # an adaptive softmax
    ends = [take_adaptive_ends(tensors, d_model)] if has_bins else []
    for more, more_weights in ends or [take_encoder(tensors), take_decoder(tensors)]:
        settings |= more
        weights |= more_weights
    config = SequenceConfig(
        d_model=d_model,
        n_layers=len(blocks) // mixers_per_block,
        mixers_per_block=mixers_per_block,
        mixer=mixer,
        norm=norm,
        prenorm=prenorm,
        glu=has_glu(sublayers),
        feed_forward=feed_forward,
        **settings,
    )
    return Converted(config, weights, systems[0].version)


def _blocks(sublayers: Sequence[Sublayer]) -> tuple[list[list[Sublayer]], int, int]:
    """Blocks of one S4 each, how many there are per feed-forward, and its width."""
    kinds = "".join(sublayer.kind for sublayer in sublayers)
    mixers = kinds.find("F") if "F" in kinds else 1
    group = "S" * mixers + "F" * ("F" in kinds)
    if not mixers or kinds != group * (len(kinds) // len(group)):
        raise ValueError(
            f"model.layers: expected S4 layers (S), with a feed-forward (F) after every so many of them, got {kinds}"
        )
    blocks: list[list[Sublayer]] = []
    for sublayer in sublayers:
        if sublayer.system is not None:
            blocks.append([])
        blocks[-1].append(sublayer)
    widths = [len(sublayer.linears[0]["weight"]) for sublayer in sublayers if sublayer.system is None]
    return blocks, mixers, all_alike("width of a feed-forward", widths) if widths else 0


def _block_weights(block: Sequence[Sublayer], mixer: S4Config) -> Weights:
    first, *rest = block
    assert first.system is not None
    weights = under("mixer.", mixer_weights(first.system, mixer))
    weights |= under("norm.", first.norm_weights) | under("linear.", first.linears[0])
    for feed_forward in rest:
        widen, narrow = feed_forward.linears
        weights |= under("feed_forward_norm.", feed_forward.norm_weights)
        weights |= under("feed_forward.0.", widen) | under("feed_forward.3.", narrow)
    return weights
