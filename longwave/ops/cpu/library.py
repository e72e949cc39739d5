"""Calls of the compiled library (native.cpp) with tensors; it has no torch headers, so any C++ compiler builds it."""

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from longwave.core.native import Unavailable, load
from longwave.ops.checks import describe


def vector_bits() -> int:
    """The vector width in use: the widest that this CPU has, or less by LONGWAVE_VECTOR_BITS."""
    return int(load().longwave_vector_width())


def unavailable() -> str | None:
    """Why the library cannot be used here, or None."""
    try:
        load()
    except Unavailable as reason:
        return str(reason)
    return None


def call(name: str, sizes: Sequence[int], inputs: Sequence[Tensor], rest: Sequence[Tensor], *flags: int) -> None:
    """Call longwave_`name` with inputs that the op's signature has checked; `rest` is plain memory."""
    run(name, sizes, [plain(t) for t in inputs], (*flags, torch.get_num_threads(), 0), rest)


def plain(tensor: Tensor) -> Tensor:
    """A contiguous copy or view of a tensor."""
    return tensor.resolve_neg().contiguous()


def run(
    name: str, sizes: Sequence[int], memory: Sequence[Tensor], options: Sequence[int], rest: Sequence[Tensor]
) -> None:
    """Call longwave_`name`: all sizes as int64, memory by its address, options as int, then more tensors.

    The last two options are the number of threads and the width of vectors (0: the widest). All tensors are
    plain memory of the CPU, and live until the call returns.
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


def suffix(values: Tensor) -> str:
    """The ending of a function's name for the type of its long arrays."""
    if values.dtype not in _SUFFIXES:
        raise ValueError(f"expected float32 or float64, which the compiled ops have, got {describe(values)}")
    return _SUFFIXES[values.dtype]


_SUFFIXES = {torch.float32: "_f32", torch.float64: "_f64"}


def keep_memory() -> None:
    """Have the C library keep freed tensor memory, for the next training step to reuse.

    By default glibc returns large blocks to the system, and gets them back zeroed, page by page, which takes a tenth to
    a fifth of a step. With another C library this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_threshold, 2**30)
