"""A model's recurrence with weights that stay as they are: what generation and streaming run on.

`model.step` may be called between two steps of an optimiser, so that it looks at its parameters each time, and it
leaves the state it was given as it was. Here both are settled once, and where the compiled library serves the model,
one call of it takes a step through all blocks and moves the states on in place.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from longwave import kernels
from longwave.kernels import native
from longwave.kernels.native_model import Affine, BlockSteps, ResidualBlock
from longwave.layers import S4, Block
from longwave.layers.block import Dropout, LayerNorm, MaskedBatchNorm, is_plain
from longwave.layers.checks import check_count, check_rate
from longwave.models.model import SequenceModel


class Recurrence:
    """y = steps(x) for one step after the other, without gradients; the weights of `model` have to stay as they are.

    batch   how many rows
    state   where an earlier call of the model left off, which is not changed; None: the state before the first step
    rate    as for `model.step`
    """

    def __init__(self, model: SequenceModel, batch: int, state: Any = None, *, rate: float = 1.0) -> None:
        check_count("batch", batch)
        check_rate(rate)
        if model.config.decoder == "forecast":
            raise ValueError("model: a forecast model takes a whole window; forecast_by_steps goes step by step")
        self.model, self.batch, self.rate = model, batch, rate
        with torch.no_grad():
            states, self._decoder_state = model.initial_state(batch) if state is None else state
            self._states = list(states)
            self._blocks = _compiled(model, rate)
            if self._blocks is not None:
                self._states = [_own(block, s, batch) for block, s in zip(model.blocks, states, strict=True)]

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled library takes the steps, and not `model.step`."""
        return self._blocks is not None

    @property
    def state(self) -> Any:
        """The state as `model.step` takes it; the next step may change it in place."""
        return self._states, self._decoder_state

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """The output for x (B, input_size) or tokens (B,)."""
        model = self.model
        if self._blocks is None:
            y, (self._states, self._decoder_state) = model.step(x, self.state, rate=self.rate)
            return y
        z = model.encoder(x.unsqueeze(1)).squeeze(1)
        if z.shape != (self.batch, model.config.d_model):
            expected = "tokens" if model.config.vocabulary else f"{model.config.input_size} numbers"
            raise ValueError(f"x: expected {self.batch} rows of {expected}, as the state has, got {tuple(x.shape)}")
        z = z.to(torch.float32, memory_format=torch.contiguous_format, copy=True)  # the steps work in place
        self._blocks(z, self._states)
        y, self._decoder_state = model.decoder.step(z if model.norm is None else model.norm(z), self._decoder_state)
        return y


def _compiled(model: nn.Module, rate: float) -> BlockSteps | None:
    """The steps of all blocks by the compiled library, if it serves each of them as it is."""
    if not isinstance(model, SequenceModel) or type(model).step is not SequenceModel.step or not _is_untouched(model):
        return None
    if any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return None
    if kernels.backend() != "native":
        return None
    blocks = [_weights(block, rate) for block in model.blocks]
    known = [block for block in blocks if block is not None]
    return BlockSteps(known) if known and len(known) == len(blocks) else None


def _own(block: Any, state: Tensor, batch: int) -> Tensor:
    """A copy of a layer's state that the compiled step, which reads raw memory, may work on."""
    block.mixer.check_state(state, batch)
    return state.to("cpu", torch.complex64).resolve_conj().clone(memory_format=torch.contiguous_format)


def _weights(block: nn.Module, rate: float) -> ResidualBlock | None:
    """What the compiled step reads of a block; None if something in it is not what it knows."""
    if type(block) is not Block or type(block.mixer) is not S4 or type(block.dropout) is not Dropout:
        return None
    norm, linear, widths = _norm(block.norm), _linear(block.linear), [block.mixer.d_model]
    feed_forward = None
    if block.feed_forward is not None:
        parts = list(block.feed_forward)
        if [type(part) for part in parts] != [nn.Linear, nn.GELU, Dropout, nn.Linear] or parts[1].approximate != "none":
            return None
        wide_norm, widen, narrow = _norm(block.feed_forward_norm), _linear(parts[0]), _linear(parts[3])
        if wide_norm is None or widen is None or narrow is None:
            return None
        feed_forward = wide_norm, widen, narrow
        widths.append(len(widen[0]))
    if norm is None or linear is None or not BlockSteps.serves(*widths):
        return None
    constants = block.mixer.step_constants(rate)
    packed = native.pack_step(*constants.discrete, constants.C)
    return ResidualBlock(packed, constants.D, block.prenorm, norm, linear, feed_forward)


def _linear(linear: nn.Module | None) -> tuple[Tensor, Tensor] | None:
    if linear is None or not is_plain(linear) or linear.bias is None:
        return None
    return linear.weight, linear.bias


def _norm(norm: nn.Module) -> Affine | None:
    if type(norm) is LayerNorm and norm.weight is not None and norm.bias is not None:
        return Affine(norm.weight, norm.bias, norm.eps)
    if type(norm) is MaskedBatchNorm:
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return Affine(scale, norm.bias - norm.running_mean * scale, None)
    return None


def _is_untouched(model: nn.Module) -> bool:
    """Whether a model is its weights: in evaluation, no hook on it, no method or parameter exchanged for another."""
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return False
    for module in model.modules():
        watched = module._forward_hooks or module._forward_pre_hooks
        if module.training or watched or {"forward", "step"} & vars(module).keys():
            return False
    return all(type(p) is nn.Parameter for p in model.parameters())
