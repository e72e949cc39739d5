"""A model's recurrence with weights that stay as they are: what generation and streaming run on.

`model.step` may be called between two steps of an optimiser, so that it looks at its parameters each time, and it
leaves the state it was given as it was. Here both are settled once, and where the compiled library serves the model,
one call of it takes a step through all blocks and moves the states on in place.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from longwave import kernels
from longwave.kernels import native
from longwave.kernels.native_model import Affine, BlockSteps, ResidualBlock
from longwave.layers import S4, Block
from longwave.layers.block import LayerNorm, MaskedBatchNorm, is_plain
from longwave.layers.checks import check_count, check_rate
from longwave.models.model import SequenceModel


class Recurrence:
    """y = steps(x) for one step after the other, with the weights of `model` as they are now, and without gradients.

    state   where an earlier call of the model left off; it is copied. None: the state before the first step
    """

    def __init__(self, model: SequenceModel, batch: int, state: Any = None, *, rate: float = 1.0) -> None:
        check_count("batch", batch)
        check_rate(rate)
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
        if len(x) != self.batch:
            raise ValueError(f"x: expected {self.batch} rows, as the state has, got {len(x)}")
        z = model.encoder(x.unsqueeze(1)).squeeze(1).float().contiguous()
        self._blocks(z, self._states)
        y, self._decoder_state = model.decoder.step(z if model.norm is None else model.norm(z), self._decoder_state)
        return y


def _compiled(model: nn.Module, rate: float) -> BlockSteps | None:
    """The steps of all blocks by the compiled library, if it serves each of them as it is."""
    if not isinstance(model, SequenceModel) or model.training or _is_watched(model):
        return None
    if any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return None
    if kernels.backend() != "native":
        return None
    blocks = [_weights(block, rate) for block in model.blocks]
    return None if any(block is None for block in blocks) else BlockSteps([b for b in blocks if b is not None])


def _own(block: Any, state: Tensor, batch: int) -> Tensor:
    """A copy of a layer's state that the compiled step, which reads raw memory, may work on."""
    block.mixer.check_state(state, batch)
    return state.to(torch.complex64).resolve_conj().clone(memory_format=torch.contiguous_format)


def _weights(block: nn.Module, rate: float) -> ResidualBlock | None:
    """What the compiled step reads of a block; None if something in it is not what it knows."""
    if type(block) is not Block or type(block.mixer) is not S4 or block.linear is None or not is_plain(block.linear):
        return None
    norm, widths = _norm(block.norm), [block.mixer.d_model]
    feed_forward = None
    if block.feed_forward is not None:
        widen, activation, _, narrow = cast("tuple[Any, Any, Any, Any]", tuple(block.feed_forward))
        wide_norm = _norm(block.feed_forward_norm)
        if wide_norm is None or type(activation) is not nn.GELU or not (is_plain(widen) and is_plain(narrow)):
            return None
        feed_forward = wide_norm, (widen.weight, widen.bias), (narrow.weight, narrow.bias)
        widths.append(widen.out_features)
    if norm is None or not BlockSteps.serves(*widths):
        return None
    constants = block.mixer.step_constants(rate)
    return ResidualBlock(
        native.pack_step(*constants.discrete, constants.C),
        constants.D,
        block.prenorm,
        norm,
        (block.linear.weight, block.linear.bias),
        feed_forward,
    )


def _norm(norm: nn.Module) -> Affine | None:
    if type(norm) is LayerNorm:
        return Affine(norm.weight, norm.bias, norm.eps)
    if type(norm) is MaskedBatchNorm:
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return Affine(scale, norm.bias - norm.running_mean * scale, None)
    return None


def _is_watched(model: nn.Module) -> bool:
    """Whether a hook wants to see, or change, what a module is given or gives."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
