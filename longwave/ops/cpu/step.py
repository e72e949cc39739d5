"""Steps of the recurrence by the compiled library: of one layer, and of a stack of residual blocks."""

import ctypes
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longwave.ops.checks import check_writable, is_plain, readable, resolved
from longwave.ops.cpu import library
from longwave.ops.cpu.library import run, suffix
from longwave.ssm import DiscreteDPLR

STEP_ALONE = 1 << 15  # complex numbers of a state that one thread moves faster than two do


class Affine(NamedTuple):
    """A norm: scale and shift (H,), of a row standardised with `eps`, or of the row as it is if that is None.

    `offset` is added to a row that is standardised before it is divided by its deviation.
    """

    scale: Tensor
    shift: Tensor
    eps: float | None
    offset: float = 0.0


class BlockWeights(NamedTuple):
    """The weights of a residual block of an S4 layer, as torch has them; see layers.block.Block."""

    discrete: DiscreteDPLR
    C: Tensor
    D: Tensor
    prenorm: bool
    norm: Affine
    linear: tuple[Tensor, Tensor]  # weight (H or 2H, H) and bias
    feed_forward: tuple[Affine, tuple[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None  # norm, widen, narrow


def layer_steps(discrete: DiscreteDPLR, C: Tensor, D: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A function of u (batch, H) and a state (batch, H, M) that gives y and the next state."""
    return functools.partial(step, pack_step(*discrete, C), D)


def block_steps(blocks: Sequence[BlockWeights]) -> "BlockSteps | None":
    """A function of x (batch, H) and the states of all blocks, in place; None for widths that fill no vectors."""
    lanes = library.vector_bits() // 32
    for block in blocks:
        widths = [len(block.D)] if block.feed_forward is None else [len(block.D), len(block.feed_forward[1][0])]
        if block.D.dtype != torch.float32 or any(width % lanes for width in widths):
            return None
    return BlockSteps(blocks)


def pack_step(change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, C: Tensor) -> Tensor:
    """What `step` reads of each feature, (H, 4 + 2r, 2M); see native_step.inc. All arguments are complex, (r,) H, M."""

    def rows(re: Tensor, im: Tensor) -> Tensor:
        return torch.stack((re, im), dim=-1).flatten(-2)

    parts = [rows(change.real, change.real), rows(-change.imag, change.imag), rows(B_bar.real, B_bar.imag)]
    parts.append(rows(2 * C.real, -2 * C.imag))
    parts += [*rows(right.real, -right.imag), *rows(left.real, left.imag)]
    return torch.stack(parts, dim=1).contiguous()


def step(constants: Tensor, D: Tensor, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """y (batch, H) and the next state (batch, H, M) complex, from u (batch, H) and `pack_step`'s constants."""
    name, dtype = "step" + suffix(u), u.dtype
    batch, H = u.shape
    _, rows, N = constants.shape
    memory = (
        readable("constants", constants, dtype, (H, rows, N)),
        readable("D", D, dtype, (H,)),
        readable("u", u, dtype, (batch, H)),
        readable("state", state, dtype.to_complex(), (batch, H, N // 2)),
    )
    y, after = torch.empty_like(memory[2]), torch.empty_like(memory[3])
    threads = torch.get_num_threads() if state.numel() > STEP_ALONE else 1
    run(name, (batch, H, N, rows // 2 - 2), memory, (threads, 0), (y, after))
    return y, after


def same(now: Sequence[Tensor], before: Sequence[Tensor]) -> bool | None:
    """Whether tensors are those of which `before` are contiguous clones, byte by byte; None if unknown.

    That is, if one of them is not plain memory. (Of a clone only its device is open: it is never negated.)
    """
    for t, clone in zip(now, before, strict=True):
        if t.dtype is not clone.dtype or t.shape != clone.shape:
            return False
        if not (is_plain(t) and clone.is_cpu):
            return None
    pointers = ctypes.c_void_p * len(now)
    sizes = (ctypes.c_int64 * len(now))(*[t.nbytes for t in now])
    here, there = pointers(*[t.data_ptr() for t in now]), pointers(*[t.data_ptr() for t in before])
    return not library.load().longwave_differ(ctypes.c_int64(len(now)), here, there, sizes)


def _structure(name: str, **fields: Any) -> Any:
    """A structure of native.cpp, field by field."""
    return type(name, (ctypes.Structure,), {"_fields_": tuple(fields.items())})


_int, _double, _pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_Norm = _structure("Norm", by_row=_int, eps=_double, offset=_double, scale=_pointer, shift=_pointer)
_Linear = _structure("Linear", inputs=_int, panels=_int, weight=_pointer, bias=_pointer)
_Block = _structure(
    "Block",
    N=_int,
    r=_int,
    constants=_pointer,
    D=_pointer,
    prenorm=_int,
    glu=_int,
    hidden=_int,
    norm=_Norm,
    wide_norm=_Norm,
    linear=_Linear,
    widen=_Linear,
    narrow=_Linear,
)

MODEL_ROWS = 32  # kModelRows of native_model.inc


class BlockSteps:
    """Steps of a stack of residual blocks of S4 layers, in float32 and in place: `steps(x, states)`.

    The weights are copied, into the order in which the loops read them.
    """

    def __init__(self, blocks: Sequence[BlockWeights]) -> None:
        self.H, self.lanes = len(blocks[0].D), library.vector_bits() // 32
        self._kept: list[Tensor] = []  # the library has their addresses only
        self._blocks = (_Block * len(blocks))(*[self._block(block) for block in blocks])
        self._scratch: Tensor | None = None
        self._hidden = max(block.hidden for block in self._blocks)
        self._state_sizes = [block.N // 2 for block in self._blocks]  # M of each
        # The states of the last call, which are those of the next: asking each all that there is to ask takes a while.
        self._states: list[Tensor] = []
        self._pointers: list[int] = []
        self._addresses: ctypes.Array[ctypes.c_void_p] | None = None

    def __call__(self, x: Tensor, states: Sequence[Tensor]) -> None:
        """x (batch, H) through all blocks, and states (batch, H, M), complex, one step on; all contiguous."""
        batch, threads = x.shape[0], torch.get_num_threads()
        check_writable("x", x, torch.float32, (batch, self.H))
        addresses = self._addresses_of(states, batch)
        if self._scratch is None or self._scratch.shape[0] < threads:
            size = MODEL_ROWS * (2 * self.H + self._hidden)
            self._scratch = torch.empty(threads, size, dtype=torch.float32, device="cpu")
        step, vector_bytes = library.function("model_step", 3, 2, 2, 2), 4 * self.lanes
        inputs = (batch, self.H, len(states), self._blocks, addresses)
        step(*inputs, threads, vector_bytes, x.data_ptr(), self._scratch.data_ptr())

    def _addresses_of(self, states: Sequence[Tensor], batch: int) -> "ctypes.Array[ctypes.c_void_p]":
        """The addresses of the states, which are changed in place: a state in another layout cannot be copied."""
        known = self._states
        same = len(states) == len(known) > 0 and all(map(operator.is_, states, known)) and known[0].shape[0] == batch
        # The same tensors live as long as they are known; what was exchanged under one of them is somewhere else.
        if same and self._addresses is not None and [state.data_ptr() for state in states] == self._pointers:
            return self._addresses
        for state, M in zip(states, self._state_sizes, strict=True):
            check_writable("state", state, torch.complex64, (batch, self.H, M))
        self._states, self._pointers = list(states), [state.data_ptr() for state in states]
        self._addresses = (ctypes.c_void_p * len(states))(*self._pointers)
        return self._addresses

    def _block(self, block: BlockWeights) -> Any:
        weight, bias = block.linear
        glu = len(weight) == 2 * self.H
        constants = pack_step(*block.discrete, block.C)
        self._check(block, constants)
        if glu:  # each vector of values beside that of their gates
            order = torch.arange(2 * self.H, device=weight.device).view(2, -1, self.lanes).transpose(0, 1).flatten()
            weight, bias = weight[order], bias[order]
        packed = _Block(
            N=constants.shape[2],
            r=constants.shape[1] // 2 - 2,
            constants=self._keep(constants),
            D=self._keep(block.D),
            prenorm=block.prenorm,
            glu=glu,
            norm=self._norm(block.norm),
            linear=self._linear(weight, bias),
        )
        if block.feed_forward is not None:
            norm, widen, narrow = block.feed_forward
            packed.hidden = len(widen[0])
            packed.wide_norm = self._norm(norm)
            packed.widen, packed.narrow = self._linear(*widen), self._linear(*narrow)
        return packed

    def _check(self, block: BlockWeights, constants: Tensor) -> None:
        """Sizes that fit: the library reads that far without looking."""
        H, (_, rows, N) = self.H, constants.shape
        expected = {"constants": (constants, (H, rows, N)), "D": (block.D, (H,))}
        expected |= {"scale": (block.norm.scale, (H,)), "shift": (block.norm.shift, (H,))}
        linear = [("linear", block.linear, 2 * H if len(block.linear[0]) == 2 * H else H, H)]
        if block.feed_forward is not None:
            norm, widen, narrow = block.feed_forward
            expected |= {"feed-forward scale": (norm.scale, (H,)), "feed-forward shift": (norm.shift, (H,))}
            linear += [("widen", widen, len(widen[0]), H), ("narrow", narrow, H, len(widen[0]))]
        for name, (weight, bias), outputs, inputs in linear:
            expected |= {f"{name}.weight": (weight, (outputs, inputs)), f"{name}.bias": (bias, (outputs,))}
        for name, (tensor, shape) in expected.items():
            if tensor.shape != shape:
                raise ValueError(f"{name}: expected {shape} in a block of {H} features, got {tuple(tensor.shape)}")

    def _norm(self, norm: Affine) -> Any:
        by_row = norm.eps is not None
        return _Norm(by_row, norm.eps or 0.0, norm.offset, self._keep(norm.scale), self._keep(norm.shift))

    def _linear(self, weight: Tensor, bias: Tensor) -> Any:
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
        copy = resolved(values.detach().to("cpu", torch.float32, copy=True)).contiguous()
        self._kept.append(copy)
        return copy.data_ptr()
