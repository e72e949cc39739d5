"""A step through a stack of residual blocks by the compiled library: their weights in the form that it reads."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from longwave.kernels import native


class _Norm(ctypes.Structure):
    _fields_ = (
        ("by_row", ctypes.c_int64),
        ("eps", ctypes.c_double),
        ("scale", ctypes.c_void_p),
        ("shift", ctypes.c_void_p),
    )


class _Linear(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_int64),
        ("panels", ctypes.c_int64),
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
    )


class _Block(ctypes.Structure):
    """What native.cpp calls a Block, field by field."""

    _fields_ = (
        ("N", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("constants", ctypes.c_void_p),
        ("D", ctypes.c_void_p),
        ("prenorm", ctypes.c_int64),
        ("glu", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("norm", _Norm),
        ("wide_norm", _Norm),
        ("linear", _Linear),
        ("widen", _Linear),
        ("narrow", _Linear),
    )


class Affine(NamedTuple):
    """A norm: scale and shift (H,), of a row standardised with `eps`, or of the row as it is if that is None."""

    scale: Tensor
    shift: Tensor
    eps: float | None


class ResidualBlock(NamedTuple):
    """The weights of a residual block, as torch has them; constants by `pack_step`. See layers.block.Block."""

    constants: Tensor
    D: Tensor
    prenorm: bool
    norm: Affine
    linear: tuple[Tensor, Tensor]  # weight (H or 2H, H) and bias
    feed_forward: tuple[Affine, tuple[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None  # norm, widen, narrow


MODEL_ROWS = 32  # kModelRows of native_model.inc


class BlockSteps:
    """Steps of a stack of residual blocks of S4 layers, in float32 and in place: `steps(x, states)`.

    The weights are copied, into the order in which the loops read them.
    """

    def __init__(self, blocks: Sequence[ResidualBlock]) -> None:
        self.H, self.lanes = len(blocks[0].D), native.vector_bits() // 32
        self._kept: list[Tensor] = []  # the library has their addresses only
        self._blocks = (_Block * len(blocks))(*[self._block(block) for block in blocks])
        self._scratch: Tensor | None = None
        self._hidden = max(block.hidden for block in self._blocks)

    @staticmethod
    def serves(*widths: int) -> bool:
        """Whether all of these widths are whole numbers of vectors."""
        return all(width % (native.vector_bits() // 32) == 0 for width in widths)

    def __call__(self, x: Tensor, states: Sequence[Tensor]) -> None:
        """x (batch, H) through all blocks, and states (batch, H, M), complex, one step on; all contiguous."""
        batch, threads = len(x), torch.get_num_threads()
        if self._scratch is None or len(self._scratch) < threads:
            size = MODEL_ROWS * (2 * self.H + self._hidden)
            self._scratch = torch.empty(threads, size, dtype=torch.float32, device="cpu")
        addresses = (ctypes.c_void_p * len(states))(*[state.data_ptr() for state in states])
        step, vector_bytes = native.function("model_step", 3, 2, 2, 2), 4 * self.lanes
        inputs = (batch, self.H, len(states), self._blocks, addresses)
        step(*inputs, threads, vector_bytes, x.data_ptr(), self._scratch.data_ptr())

    def _block(self, block: ResidualBlock) -> _Block:
        weight, bias = block.linear
        glu = len(weight) == 2 * self.H
        if glu:  # each vector of values beside that of their gates
            order = torch.arange(2 * self.H, device=weight.device).view(2, -1, self.lanes).transpose(0, 1).flatten()
            weight, bias = weight[order], bias[order]
        packed = _Block(
            N=block.constants.shape[2],
            r=block.constants.shape[1] // 2 - 2,
            constants=self._keep(block.constants),
            D=self._keep(block.D),
            prenorm=block.prenorm,
            glu=glu,
            norm=self._norm(block.norm),
            linear=self._linear(weight, bias),
        )
        if block.feed_forward is not None:
            norm, widen, narrow = block.feed_forward
            packed.hidden = len(widen[0])
            packed.wide_norm, packed.widen, packed.narrow = (
                self._norm(norm),
                self._linear(*widen),
                self._linear(*narrow),
            )
        return packed

    def _norm(self, norm: Affine) -> _Norm:
        by_row = norm.eps is not None
        return _Norm(by_row, norm.eps or 0.0, self._keep(norm.scale), self._keep(norm.shift))

    def _linear(self, weight: Tensor, bias: Tensor) -> _Linear:
        """In panels of two vectors of columns; the last one may be half empty."""
        panels = -(-len(weight) // (2 * self.lanes))
        missing = panels * 2 * self.lanes - len(weight)
        weight = torch.nn.functional.pad(weight, (0, 0, 0, missing)).view(panels, 2 * self.lanes, -1)
        return _Linear(
            weight.shape[2],
            panels,
            self._keep(weight.transpose(1, 2)),
            self._keep(torch.nn.functional.pad(bias, (0, missing))),
        )

    def _keep(self, values: Tensor) -> int:
        copy = values.detach().to("cpu", torch.float32, copy=True).contiguous()
        self._kept.append(copy)
        return copy.data_ptr()
