"""The compiled kernels (native.cpp) through ctypes: no Python or torch headers, so it builds anywhere a C++ compiler is.

`load()` gives the library or raises `Unavailable` with the reason. Importing torch first makes both share one OpenMP.
"""

import ctypes
import functools
import importlib.machinery
from pathlib import Path

import torch
from torch import Tensor


ABI = 1  # of native.cpp


class Unavailable(RuntimeError):
    """The compiled library is not there, or cannot be loaded."""


@functools.cache
def load() -> ctypes.CDLL:
    """The shared library that setup.py built beside this file."""
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_native{suffix}"
        if path.exists():
            try:
                library = ctypes.CDLL(str(path))
                abi = library.longwave_abi()
            except (OSError, AttributeError) as error:
                raise Unavailable(f"{path} does not load: {error}") from error
            if abi != ABI:
                raise Unavailable(f"{path} was built from another version of longwave: install longwave again")
            return library
    raise Unavailable(
        f"no compiled library in {folder}: longwave was installed without a C++ compiler. "
        "Install one (for example g++) and install longwave again"
    )


def vector_bits() -> int:
    """The vector width that the library chose for this CPU."""
    return int(load().longwave_vector_width())


def spectrum(
    Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, wide: Tensor, L: int, vector_bytes: int = 0
) -> Tensor:
    """K_hat (D, H, L//2+1, 2); see reference.spectrum."""
    K_hat = C.new_empty(C.shape[0], C.shape[1], L // 2 + 1, 2)
    _call("spectrum", (Lambda, P, B, C, dt, wide), L, vector_bytes, (K_hat,))
    return K_hat


def spectrum_backward(
    grad: Tensor,
    Lambda: Tensor,
    P: Tensor,
    B: Tensor,
    C: Tensor,
    dt: Tensor,
    wide: Tensor,
    L: int,
    vector_bytes: int = 0,
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt."""
    out = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (Lambda, P, B, C, dt)]
    _call("spectrum_backward", (Lambda, P, B, C, dt, wide), L, vector_bytes, (grad, *out))
    return out


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0) -> Tensor:
    """C~ (D, H, M, 2); see reference.truncate."""
    C_tilde = torch.empty_like(C, memory_format=torch.contiguous_format)
    _call("truncate", (Lambda, P, C, dt), L, vector_bytes, (C_tilde,))
    return C_tilde


def truncate_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, C and dt."""
    out = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (Lambda, P, C, dt)]
    _call("truncate_backward", (Lambda, P, C, dt), L, vector_bytes, (grad, *out))
    return out


def _call(name: str, inputs: tuple[Tensor, ...], L: int, vector_bytes: int, rest: tuple[Tensor, ...]) -> None:
    """Call the function of the inputs' dtype: sizes, inputs, threads and vector width, then what else it takes."""
    Lambda, P = inputs[0], inputs[1]
    D = inputs[3 if len(inputs) == 6 else 2].shape[0]
    suffix = {torch.float32: "f32", torch.float64: "f64"}[Lambda.dtype]
    # The library reads raw memory: contiguous copies must stay alive until it returns.
    inputs, rest = tuple(t.contiguous() for t in inputs), tuple(t.contiguous() for t in rest)
    status = getattr(load(), f"longwave_{name}_{suffix}")(
        *(ctypes.c_int64(size) for size in (Lambda.shape[0], Lambda.shape[1], L, D, P.shape[0])),
        *(ctypes.c_void_p(t.data_ptr()) for t in inputs),
        ctypes.c_int(torch.get_num_threads()),
        ctypes.c_int(vector_bytes),
        *(ctypes.c_void_p(t.data_ptr()) for t in rest),
    )
    if status:
        raise MemoryError(f"longwave's compiled {name} ran out of memory at {tuple(Lambda.shape)}, length {L}")
