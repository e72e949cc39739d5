"""U-Nets with a skip at every layer, and SaShiMi, with one around each stage."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from longwave.layers import S4Config
from longwave.models.authors.stack import (
    Converted,
    Sublayer,
    Weights,
    has_glu,
    take_decoder,
    take_encoder,
    take_sublayer,
    under,
)
from longwave.models.authors.state_spaces import Transforms, common_length, mixer_of, mixer_weights
from longwave.models.authors.tensors import Tensors, all_alike
from longwave.models.unet import UNetConfig

DIRECTION, LENGTH = "linear.parametrizations.weight.original1", "linear.parametrizations.weight.original0"


class Half(NamedTuple):
    """The layers of a level in one direction, with the pool after them on the way down, before them on the way up."""

    layers: list[Sublayer]
    pool: Weights


class Place(NamedTuple):
    """The position of a layer: its depth (0: at the input's rate) and its direction."""

    depth: int
    layer: Sublayer


def convert_unet(tensors: Tensors, how: Transforms) -> Converted:
    """A UNet."""
    has_stages = tensors.has("model.u_layers.0.0.")
    down, up = _way_down(tensors, how), _way_up(tensors, how, has_stages)
    if len(up) != len(down):
        raise ValueError(f"expected as many pools in d_layers as in u_layers, got {len(down)} and {len(up)}")
    centre = [take_sublayer(tensors, f"model.c_layers.{k}.", how) for k in range(tensors.count("model.c_layers."))]
    centre_feed_forward = any(layer.kind == "F" for layer in centre)
    n_layers, feed_forward = _level_shape(down, centre, up, has_stages, has_stages or centre_feed_forward)
    places = _places(down, centre, up)
    sublayers = [place.layer for place in places.values()]
    systems = [sublayer.system for sublayer in sublayers if sublayer.system is not None]
    mixer = mixer_of(systems, how)
    norm = {name: tensors.take(f"model.norm.{name}", None) for name in ("weight", "bias")}
    poolings, widening = _pools(down, d_model=len(norm["weight"]))
    length = _length(places, poolings)
    (encoder, weights), (decoder, decoder_weights) = take_encoder(tensors), take_decoder(tensors)
    weights = weights | decoder_weights | under("norm.", norm)
    for depth, (going_down, going_up) in enumerate(zip(down, up, strict=True)):
        weights |= under(f"{_level(depth)}pool.", going_down.pool) | under(f"{_level(depth)}unpool.", going_up.pool)
    for prefix, place in places.items():
        weights |= under(prefix, _layer_weights(place.layer, mixer, length))
    config = UNetConfig(
        d_model=len(norm["weight"]),
        n_layers=n_layers,
        poolings=poolings,
        widening=widening,
        skips="stages" if has_stages else "layers",
        feed_forward=feed_forward,
        centre_feed_forward=centre_feed_forward and not has_stages,
        mixer=mixer,
        norm=all_alike("norm", (sublayer.norm for sublayer in sublayers)),
        glu=has_glu(sublayers),
        length=length,
    )
    return Converted(replace(config, **encoder, **decoder), weights, systems[0].version)


def _way_down(tensors: Tensors, how: Transforms) -> list[Half]:
    """The levels, that of the input first."""
    halves: list[Half] = []
    layers: list[Sublayer] = []
    for k in range(tensors.count("model.d_layers.")):
        prefix = f"model.d_layers.{k}."
        if tensors.has(f"{prefix}linear."):
            halves.append(Half(layers, _take_pool(tensors, prefix)))
            layers = []
        else:
            layers.append(take_sublayer(tensors, prefix, how))
    if layers or not halves:
        raise ValueError("model.d_layers: expected a pool at the end, got none")
    return halves


def _way_up(tensors: Tensors, how: Transforms, has_stages: bool) -> list[Half]:
    """The levels, that of the input first, which is their last. Where there are stages, each level has a list."""
    halves: list[Half] = []
    for j in range(tensors.count("model.u_layers.")):
        stage = f"model.u_layers.{j}."
        for prefix in [f"{stage}{k}." for k in range(tensors.count(stage))] if has_stages else [stage]:
            if tensors.has(f"{prefix}linear."):
                halves.append(Half([], _take_pool(tensors, prefix)))
            elif not halves:
                raise ValueError(f"{prefix}: expected a pool first, got none")
            else:
                halves[-1].layers.append(take_sublayer(tensors, prefix, how))
    return halves[::-1]


def _take_pool(tensors: Tensors, prefix: str) -> Weights:
    """A linear layer whose weight is g v / |v|, row by row; version 4 also stores the weight itself, v with g = |v|."""
    if f"{prefix}linear.weight" in tensors:
        direction = tensors.take(f"{prefix}linear.weight", None, None).float()
        length = direction.norm(dim=1, keepdim=True)
        direction = direction.where(length > 0, 1)  # a row of zeros has no direction: any will do
    else:
        length = tensors.take(f"{prefix}linear.weight_g", None, 1)
        direction = tensors.take(f"{prefix}linear.weight_v", None, None)
    return {LENGTH: length, DIRECTION: direction, "linear.bias": tensors.take(f"{prefix}linear.bias").flatten()}


def _pools(down: Sequence[Half], d_model: int) -> tuple[tuple[int, ...], int]:
    """Pooling factor and feature expansion of each pool."""
    poolings, widenings, width = [], [], d_model
    for half in down:
        wider, joined = half.pool[DIRECTION].shape
        poolings.append(joined // width)
        widenings.append(wider // width)
        width = wider
    return tuple(poolings), all_alike("widening of the pools", widenings)


def _level_shape(
    down: Sequence[Half], centre: Sequence[Sublayer], up: Sequence[Half], has_stages: bool, centre_has_all: bool
) -> tuple[int, int]:
    """S4 layers of a level, and the width of its feed-forward layers as a multiple of its features."""
    wide = [layer.linears[0]["weight"].shape for half in up for layer in half.layers if layer.system is None]
    feed_forward = (
        all_alike("multiple of a feed-forward", (outputs // inputs for outputs, inputs in wide)) if wide else 0
    )
    n_layers = sum(layer.system is not None for layer in centre)
    level = ("SF" if wide else "S") * n_layers
    for name, layers, expected in (
        *(("d_layers", half.layers, "" if has_stages else level) for half in down),
        ("c_layers", centre, level if centre_has_all else "S" * n_layers),
        *(("u_layers", half.layers, level) for half in up),
    ):
        kinds = "".join(layer.kind for layer in layers)
        if kinds != expected:
            raise ValueError(
                f"model.{name}: expected {expected or 'pools alone'} at a level (S4 and feed-forward layers), as a "
                f"U-Net of ours has with {n_layers} S4 layers in the centre, got {kinds or 'a pool alone'}"
            )
    return n_layers, feed_forward


def _level(depth: int) -> str:
    """The prefix of our names at a level."""
    return "levels." + "below." * depth


def _places(down: Sequence[Half], centre: Sequence[Sublayer], up: Sequence[Half]) -> dict[str, Place]:
    """Every layer, by the prefix of our names."""
    lists: list[tuple[int, str, Sequence[Sublayer]]] = [(len(down), "layers", centre)]
    for depth, (going_down, going_up) in enumerate(zip(down, up, strict=True)):
        lists += [(depth, "down", going_down.layers), (depth, "up", going_up.layers)]
    return {
        f"{_level(depth)}{name}.{k}.": Place(depth, layer)
        for depth, name, layers in lists
        for k, layer in enumerate(layers)
    }


def _length(places: Mapping[str, Place], poolings: Sequence[int]) -> int | None:
    """The length at the first level, if all C~ are of the lengths that follow from it; None: C is the parameter."""
    found = [(depth, layer.system.length) for depth, layer in places.values() if layer.system is not None]
    length = common_length(own for depth, own in found if depth == 0)
    if length is None or any(own != length // math.prod(poolings[:depth]) or not own for depth, own in found):
        return None
    return length


def _layer_weights(layer: Sublayer, mixer: S4Config, length: int | None) -> Weights:
    weights = under("norm.", layer.norm_weights)
    if layer.system is None:
        widen, narrow = layer.linears
        return weights | under("widen.", widen) | under("narrow.", narrow)
    own = replace(mixer, length=None if length is None else layer.system.length)
    return weights | under("linear.", layer.linears[0]) | under("mixer.", mixer_weights(layer.system, own))
