"""One step of a whole model by the compiled library: of residual blocks, of a U-Net, of a linear layer at its end."""

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from longwave.ops.checks import check_writable, readable
from longwave.ops.cpu import library
from longwave.ops.cpu.step_weights import (
    MODEL_ROWS,
    MOST_LEVELS,
    BlockWeights,
    LevelWeights,
    PackedBlock,
    PackedLevel,
    Packing,
    WeightType,
    fits,
    scratch_size,
)


class LevelStates(NamedTuple):
    """The tensors of a level's state, which a step changes in place.

    layers   (batch, H, M) complex, down and then up; None for a feed-forward
    begun    (batch, size - 1, H) steps of the group that is not complete
    waiting  (batch, size, H) what the last complete group left for the steps of this one; both None for the centre
    """

    layers: Sequence[Tensor | None]
    begun: Tensor | None = None
    waiting: Tensor | None = None


def block_steps(blocks: Sequence[BlockWeights], weights: WeightType = "float32") -> "BlockSteps | None":
    """A function of x (batch, H) and the states of all blocks, in place; None for widths that fill no vectors."""
    return BlockSteps(blocks, weights) if fits(library.vector_bits() // 32, *blocks) else None


def unet_steps(levels: Sequence[LevelWeights], weights: WeightType = "float32") -> "UNetSteps | None":
    """A function of x (batch, H), the position and the states of all levels, in place; None as for `block_steps`."""
    lanes = library.vector_bits() // 32
    layers = [layer for level in levels for layer in (*level.down, *level.up)]
    if any(level.width % lanes for level in levels) or len(levels) > MOST_LEVELS or not fits(lanes, *layers):
        return None
    return UNetSteps(levels, weights)


def linear_steps(weight: Tensor, bias: Tensor | None, weights: WeightType) -> Callable[[Tensor], Tensor]:
    """A linear layer, a function of x (batch, in), with a copy of its weights."""
    return LinearSteps(weight, bias, weights)


class _Addresses:
    """The addresses of tensors that a step changes in place, each of which is looked at when it is new.

    Asking each all that there is to ask takes a while, and those of one call are those of the next.
    """

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._pointers: list[int] = []
        self._batch = 0

    def are_known(self, tensors: Sequence[Tensor], batch: int) -> bool:
        """Whether they are those of the last call. What was exchanged under one of them is somewhere else."""
        known = self._tensors
        same = len(tensors) == len(known) > 0 and all(map(operator.is_, tensors, known)) and self._batch == batch
        return same and [tensor.data_ptr() for tensor in tensors] == self._pointers

    def keep(self, tensors: Sequence[Tensor], batch: int) -> list[int]:
        """Remember tensors that were checked; they live as long as they are known."""
        self._tensors, self._batch = list(tensors), batch
        self._pointers = [tensor.data_ptr() for tensor in tensors]
        return self._pointers


class _Steps:
    """The base of compiled steps: packed weights and scratch memory."""

    def __init__(self, weights: WeightType) -> None:
        self.packing = Packing(weights)
        self._scratch: Tensor | None = None
        self._known = _Addresses()

    def _memory(self, threads: int, size: int) -> int:
        """The address of scratch memory of `size` floats for each thread."""
        if self._scratch is None or self._scratch.numel() < threads * size:
            self._scratch = torch.empty(threads * size, dtype=torch.float32, device="cpu")
        return self._scratch.data_ptr()


class BlockSteps(_Steps):
    """Steps of a stack of residual blocks of S4 layers, in float32 and in place: `steps(x, states)`.

    The weights are copied, into the order in which the loops read them; those of linear layers as `weights` says.
    """

    def __init__(self, blocks: Sequence[BlockWeights], weights: WeightType = "float32") -> None:
        super().__init__(weights)
        self.H = len(blocks[0].D)
        self._blocks = (PackedBlock * len(blocks))(*[self.packing.block(block, self.H) for block in blocks])
        self._wide = max(block.hidden for block in self._blocks)
        self._addresses: ctypes.Array[ctypes.c_void_p] | None = None

    def __call__(self, x: Tensor, states: Sequence[Tensor]) -> None:
        """x (batch, H) through all blocks, and states (batch, H, M), complex, one step on; all contiguous."""
        batch, threads = x.shape[0], torch.get_num_threads()
        check_writable("x", x, torch.float32, (batch, self.H))
        if not self._known.are_known(states, batch):
            for state, block in zip(states, self._blocks, strict=True):
                check_writable("state", state, torch.complex64, (batch, self.H, block.N // 2))
            self._addresses = (ctypes.c_void_p * len(states))(*self._known.keep(states, batch))
        step = library.function("model_step", 4, 2, 2, 2)
        sizes, scratch = (batch, self.H, len(states), self._wide), scratch_size(self.H, self._wide)
        memory = self._memory(threads, scratch)
        step(*sizes, self._blocks, self._addresses, threads, 4 * self.packing.lanes, x.data_ptr(), memory)


class UNetSteps(_Steps):
    """Steps of a U-Net, in float32 and in place: `steps(x, position, states)`."""

    def __init__(self, levels: Sequence[LevelWeights], weights: WeightType = "float32") -> None:
        super().__init__(weights)
        self.H, self.group = levels[0].width, 1
        self._blocks: list[Any] = []
        self._levels = (PackedLevel * len(levels))()
        for packed, level in zip(self._levels, levels, strict=True):
            layers = [self.packing.block(layer, level.width) for layer in (*level.down, *level.up)]
            blocks = (PackedBlock * len(layers))(*layers)
            self._blocks.append(blocks)
            packed.H, packed.size, packed.around = level.width, level.size, level.around
            packed.down, packed.up, packed.blocks = len(level.down), len(level.up), ctypes.addressof(blocks)
            if level.pool is not None and level.unpool is not None:
                self.group *= level.size
                packed.pool, packed.unpool = self.packing.linear(*level.pool), self.packing.linear(*level.unpool)
        self._widest = max(level.width for level in levels)
        hidden = max(block.hidden for blocks in self._blocks for block in blocks)
        self._wide = max(hidden, *[level.width * level.size for level in levels])
        rooms = sum(level.width * (1 + max(len(level.down), level.around)) for level in levels)
        self._size = scratch_size(self._widest, self._wide) + MODEL_ROWS * rooms
        self._states: list[Any] = []

    def __call__(self, x: Tensor, position: Tensor, states: Sequence[LevelStates]) -> None:
        """x (batch, H) through all levels, the position and all states one step on; all contiguous."""
        batch, threads = x.shape[0], torch.get_num_threads()
        check_writable("x", x, torch.float32, (batch, self.H))
        tensors = [position]
        for level in states:
            tensors += [t for t in (*level.layers, level.begun, level.waiting) if t is not None]
        if not self._known.are_known(tensors, batch):
            self._check(position, states, batch)
            self._known.keep(tensors, batch)
        step = library.function("unet_step", 5, 1, 2, 3)
        sizes = (batch, len(self._levels), self._widest, self._wide, self.group)
        options = threads, 4 * self.packing.lanes
        memory = self._memory(threads, self._size)
        step(*sizes, self._levels, *options, position.data_ptr(), x.data_ptr(), memory)

    def _check(self, position: Tensor, states: Sequence[LevelStates], batch: int) -> None:
        """Refuse states that do not fit, and take the addresses of those that do."""
        check_writable("position", position, torch.int64, ())
        self._states = []
        for packed, blocks, level in zip(self._levels, self._blocks, states, strict=True):
            pointers = (ctypes.c_void_p * len(blocks))()
            for k, (block, state) in enumerate(zip(blocks, level.layers, strict=True)):
                if (state is None) != (block.N == 0):
                    raise ValueError(f"state: expected {'none' if block.N == 0 else 'a tensor'} for layer {k}")
                if state is not None:
                    check_writable("state", state, torch.complex64, (batch, packed.H, block.N // 2))
                    pointers[k] = state.data_ptr()
            self._states.append(pointers)
            packed.states = ctypes.addressof(pointers)
            if packed.size:
                for name, count in (("begun", packed.size - 1), ("waiting", packed.size)):
                    tensor = getattr(level, name)
                    check_writable(name, tensor, torch.float32, (batch, count, packed.H))
                    setattr(packed, name, tensor.data_ptr())


class LinearSteps(_Steps):
    """A linear layer with a copy of its weights: y = steps(x), in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None, weights: WeightType) -> None:
        super().__init__(weights)
        self.out, self.inputs = weight.shape
        self._linear = self.packing.linear(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """y (batch, out) of x (batch, in)."""
        batch, threads = x.shape[0], torch.get_num_threads()
        x = pad(readable("x", x, torch.float32, (batch, self.inputs)), (0, self._linear.inputs - self.inputs))
        y = torch.empty(batch, self.out, dtype=torch.float32, device="cpu")
        step = library.function("linear", 2, 1, 2, 3)
        memory = self._memory(threads, scratch_size(0, self._linear.inputs))
        options = threads, 4 * self.packing.lanes
        step(batch, self.out, ctypes.addressof(self._linear), *options, x.data_ptr(), y.data_ptr(), memory)
        return y
