"""Compiled steps of residual blocks: which blocks are supported, and the weights they need."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from longwave import ops
from longwave.layers.block import Block, Dropout, LayerNorm, MaskedBatchNorm, ScalarNorm, is_plain
from longwave.layers.s4 import S4
from longwave.layers.s4d import S4D
from longwave.layers.state_space import StateSpaces
from longwave.ops import Affine, BlockWeights, FeedForwardWeights, WeightType


def compiled_steps(
    blocks: Iterable[nn.Module], rate: float = 1.0, weights: WeightType = "float32"
) -> Callable[[Tensor, Sequence[Tensor]], None] | None:
    """The steps of all blocks with their weights as they are now; None if the backend does not serve one of them."""
    blocks = list(blocks)
    if any(p.dtype != torch.float32 for block in blocks for p in block.parameters()):
        return None
    found = [block_weights(block, rate) for block in blocks]
    known = [block for block in found if block is not None]
    return ops.block_steps(known, weights) if len(known) == len(blocks) else None


def block_weights(block: nn.Module, rate: float = 1.0) -> BlockWeights | None:
    """The weights that the compiled step reads from a block; None if the block is not supported."""
    if type(block) is not Block or type(block.mixer) not in (S4, S4D) or type(block.dropout) is not Dropout:
        return None
    d_model = block.mixer.d_model
    norm, linear = _norm(block.norm, d_model), _linear(block.linear)
    feed_forward = None
    if block.feed_forward is not None:
        parts = list(block.feed_forward)
        if [type(part) for part in parts] != [nn.Linear, nn.GELU, Dropout, nn.Linear] or parts[1].approximate != "none":
            return None
        feed_forward = feed_forward_weights(block.feed_forward_norm, parts[0], parts[3])
        if feed_forward is None:
            return None
    if norm is None or linear is None:
        return None
    constants = cast(StateSpaces, block.mixer).step_constants(rate)
    return BlockWeights(*constants[:3], block.prenorm, norm, linear, feed_forward)


def feed_forward_weights(norm: nn.Module, widen: nn.Module, narrow: nn.Module) -> FeedForwardWeights | None:
    """The weights of a feed-forward sublayer with GELU; None if it is not supported."""
    first, last = _linear(widen), _linear(narrow)
    if first is None or last is None:
        return None
    before = _norm(norm, first[0].shape[1])
    return None if before is None else (before, first, last)


def _linear(linear: nn.Module | None) -> tuple[Tensor, Tensor] | None:
    if linear is None or not is_plain(linear) or linear.bias is None:
        return None
    return linear.weight, linear.bias


def _norm(norm: nn.Module, d_model: int) -> Affine | None:
    if type(norm) is LayerNorm and norm.weight is not None and norm.bias is not None:
        return Affine(norm.weight, norm.bias, norm.eps)
    if type(norm) is MaskedBatchNorm:
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return Affine(scale, norm.bias - norm.running_mean * scale, None)
    if type(norm) is ScalarNorm:
        scale = norm.weight.expand(d_model)
        return Affine(scale, torch.zeros_like(scale), 0.0, float(norm.shift))
    return None


def is_untouched(model: nn.Module) -> bool:
    """Whether a model is just its weights: in evaluation mode, without hooks or replaced methods or parameters."""
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return False
    for module in model.modules():
        watched = module._forward_hooks or module._forward_pre_hooks
        if module.training or watched or {"forward", "step"} & vars(module).keys():
            return False
    return all(type(p) is nn.Parameter for p in model.parameters())
