"""Compiled steps of a U-Net: the weights and the states of its levels, in the order in which the library takes them."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.layers.compiled import block_weights, feed_forward_weights
from longwave.models.unet_levels import Centre, DownPool, FeedForward, Level, LevelState, UpPool
from longwave.ops import BlockWeights, FeedForwardWeights, LevelStates, LevelWeights, WeightType

Layers = list[BlockWeights | FeedForwardWeights]


def compiled_levels(level: Level, weights: WeightType) -> Callable[[Tensor, list[Any]], None] | None:
    """The steps of all levels, f(z, states) in place, with their weights as they are now.

    None if the backend does not serve one of the layers.
    """
    if any(p.dtype != torch.float32 for p in level.parameters()):
        return None
    found: list[LevelWeights] = []
    below: Level | Centre = level
    while isinstance(below, Level):
        down, up = _layers(below.down), _layers(below.up)
        if down is None or up is None:
            return None
        pools = _down(below.pool), _up(below.unpool)
        found.append(LevelWeights(below.width, below.pool.size, down, up, not below.down, *pools))
        below = below.below
    centre = _layers(below.layers)
    if centre is None:
        return None
    found.append(LevelWeights(len(found[-1].pool[0]), 0, (), centre, around=True))  # type: ignore[index]
    steps = ops.unet_steps(found, weights)
    if steps is None:
        return None
    known: list[Any] = [None, ()]  # the last state, which is that of the next call, and its tensors

    def run(z: Tensor, states: list[Any]) -> None:
        position, now = states
        if known[0] is not now:
            known[:] = now, list(_tensors(now))
        steps(z, position, known[1])

    return run


def _layers(layers: nn.ModuleList) -> Layers | None:
    """The weights of layers; None if one of them is not supported."""
    found: Layers = []
    for layer in layers:
        if type(layer) is FeedForward:
            weights: Any = feed_forward_weights(layer.norm, layer.widen, layer.narrow)
        else:
            weights = block_weights(layer)
        if weights is None:
            return None
        found.append(weights)
    return found


def _down(pool: DownPool) -> tuple[Tensor, Tensor]:
    """Weight and bias, with the inputs step by step instead of feature by feature."""
    weight = pool.linear.weight
    return weight.unflatten(1, (-1, pool.size)).mT.flatten(1), pool.linear.bias


def _up(pool: UpPool) -> tuple[Tensor, Tensor]:
    """Weight and bias, with the outputs step by step instead of feature by feature."""
    weight, bias = pool.linear.weight, pool.linear.bias
    order = torch.arange(len(bias), device=bias.device).view(-1, pool.size).T.flatten()
    return weight[order], bias[order]


def _tensors(state: Any) -> Iterable[LevelStates]:
    """The tensors of the states of all levels, from the first to the centre."""
    while isinstance(state, LevelState):
        yield LevelStates([_tensor(one) for one in (*state.down, *state.up)], state.begun, state.waiting)
        state = state.below
    yield LevelStates([_tensor(one) for one in state])


def _tensor(state: Any) -> Tensor | None:
    """The state of a mixer; that of a feed-forward is empty."""
    return state if isinstance(state, Tensor) else None
