"""Calls of the compiled library (native.cpp) with tensors; it has no torch headers, so any C++ compiler builds it."""

import ctypes
import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from longwave.core.native import Unavailable, load
from longwave.ops.checks import describe, readable

Input = tuple[str, Tensor, torch.dtype, Sequence[int]]  # a tensor that the library reads, with what it has to be


def vector_bits() -> int:
    """The vector width in use: the widest that this CPU has, or less if LONGWAVE_VECTOR_BITS says so."""
    return int(load().longwave_vector_width())


def unavailable() -> str | None:
    """Why the library cannot be used here, or None."""
    try:
        load()
    except Unavailable as reason:
        return str(reason)
    return None


def call(
    name: str, sizes: Sequence[int], inputs: Sequence[Input], options: Sequence[int], rest: Sequence[Tensor] = ()
) -> None:
    """Call longwave_`name` with inputs that are checked, and copied if need be."""
    run(name, sizes, [readable(*given) for given in inputs], options, rest)


def run(
    name: str, sizes: Sequence[int], memory: Sequence[Tensor], options: Sequence[int], rest: Sequence[Tensor]
) -> None:
    """Call longwave_`name`: all sizes as int64, memory by its address, options as int, then more tensors.

    All tensors are `readable`, or made in this file for the library to write to, and live until the call returns.
    """
    call = function(name, len(sizes), len(memory), len(options), len(rest))
    if call(*sizes, *[t.data_ptr() for t in memory], *options, *[t.data_ptr() for t in rest]):
        raise MemoryError(f"longwave's compiled {name} ran out of memory at sizes {tuple(sizes)}")


@functools.cache
def function(name: str, sizes: int, tensors: int, options: int, rest: int) -> Callable[..., int]:
    """A function of the library that takes plain numbers."""
    found = getattr(load(), f"longwave_{name}")
    found.argtypes = (
        [ctypes.c_int64] * sizes + [ctypes.c_void_p] * tensors + [ctypes.c_int] * options + [ctypes.c_void_p] * rest
    )
    return found


def options(vector_bytes: int) -> tuple[int, int]:
    """What every function takes: the number of threads, and the width of vectors (0: the widest)."""
    return torch.get_num_threads(), vector_bytes


def suffix(values: Tensor) -> str:
    """The ending of a function's name for the type of its long arrays."""
    if values.dtype not in _SUFFIXES:
        raise ValueError(f"expected float32 or float64, which the compiled ops have, got {describe(values)}")
    return _SUFFIXES[values.dtype]


_SUFFIXES = {torch.float32: "_f32", torch.float64: "_f64"}
