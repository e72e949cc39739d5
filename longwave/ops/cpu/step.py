"""One step of a layer's recurrence by the compiled library, and whether its parameters are still the same."""

import ctypes
import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from longwave.ops.checks import is_plain, readable
from longwave.ops.cpu import library
from longwave.ops.cpu.library import run, suffix
from longwave.ops.cpu.step_weights import pack_step
from longwave.ssm import DiscreteDPLR

STEP_ALONE = 1 << 15  # complex numbers of a state that one thread moves faster than two do


def layer_steps(discrete: DiscreteDPLR, C: Tensor, D: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A function of u (batch, H) and a state (batch, H, M) that gives y and the next state."""
    return functools.partial(step, pack_step(*discrete, C), D)


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
