"""Stacks of S4 and feed-forward layers: the language model of WikiText-103, classifiers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from longwave.layers import S4Config
from longwave.models.authors.layers import (
    Converted,
    Sublayer,
    Weights,
    has_glu,
    take_adaptive_ends,
    take_decoder,
    take_encoder,
    take_norm,
    take_sublayer,
    under,
)
from longwave.models.authors.state_spaces import Transforms, common_length, mixer_of, mixer_weights
from longwave.models.authors.tensors import Tensors, all_alike
from longwave.models.sequence import SequenceConfig

Output = Literal["mean", "last", "sequence"]


def convert_stack(tensors: Tensors, how: Transforms, decoder: Output) -> Converted:
    """A SequenceModel; `decoder` is what it puts out if it is no language model."""
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
    """Blocks of an S4 each, some with a feed-forward; how many blocks there are to one of these, and its width."""
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
