"""The compiled kernels (native.cpp) through ctypes: no Python or torch headers, so any C++ compiler builds them.

`load()` gives the library or raises `Unavailable` with the reason. Importing torch first makes both share one OpenMP.
"""

import ctypes
import functools
import importlib.machinery
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from longwave.kernels.reference import fft_length, kernel_spectrum, write_kernel_gradient

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
    _call_system("spectrum" + _suffix(C), (Lambda, P, B, C, dt), L, vector_bytes, (K_hat,), wide)
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
    inputs = (Lambda, P, B, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    _call_system("spectrum_backward" + _suffix(C), inputs, L, vector_bytes, (grad.contiguous(), *out), wide)
    return [t.to(C.dtype) for t in out]


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0) -> Tensor:
    """C~ (D, H, M, 2); see reference.truncate."""
    C_tilde = C.new_empty(C.shape, dtype=torch.float64)
    _call_system("truncate", (Lambda, P, C, dt), L, vector_bytes, (C_tilde,))
    return C_tilde.to(C.dtype)


def truncate_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, C and dt."""
    inputs = (Lambda, P, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    _call_system("truncate_backward", inputs, L, vector_bytes, (grad.double().contiguous(), *out))
    return [t.to(C.dtype) for t in out]


CHUNK_BYTES = 4 << 20  # the FFT buffers of one group of features: they stay in cache and are allocated once


def convolve(u: Tensor, K: Tensor) -> Tensor:
    """y (batch, L, H); see reference.convolve. A group of features at a time, so that no padded copy of u exists."""
    u, K = u.contiguous(), K.contiguous()
    y = torch.empty_like(u)
    n = fft_length(2 * u.shape[1] - 1)
    for features, buffer in _groups(u, n):
        u_f = _transform(u, features, buffer)
        u_f *= kernel_spectrum(K[:, features], n)
        _move("scatter", u.shape, features, n, torch.fft.irfft(u_f, n=n), y)
    return y


def convolve_backward(dy: Tensor, u: Tensor, K: Tensor) -> list[Tensor]:
    """Gradients with respect to u and K; the spectra are computed again, which costs less than keeping them."""
    dy, u, K = dy.contiguous(), u.contiguous(), K.contiguous()
    du, dK = torch.empty_like(u), torch.empty_like(K)
    n = fft_length(2 * u.shape[1] - 1)
    for features, buffer in _groups(u, n):
        u_f = _transform(u, features, buffer)
        dy_f = _transform(dy, features, buffer)
        K_f = kernel_spectrum(K[:, features], n)
        dK_f = torch.empty_like(K_f)
        _call("convolve_adjoint" + _suffix(u), u_f.shape, (u_f, K_f, dy_f, dK_f), [torch.get_num_threads()])
        write_kernel_gradient(dK_f, n, dK[:, features])
        _move("scatter", u.shape, features, n, torch.fft.irfft(dy_f, n=n), du)
    return [du, dK]


def _groups(u: Tensor, n: int) -> Iterator[tuple[slice, Tensor]]:
    """Groups of neighbouring features, each with a zero-padded buffer (batch, features, n)."""
    batch, _, H = u.shape
    # Multiples of 16 features keep the copies to and from (batch, L, H) in whole cache lines.
    size = min(H, max(1, CHUNK_BYTES // (batch * n * u.element_size()) // 16) * 16)
    buffer = u.new_zeros(batch, size, n)
    for first in range(0, H, size):
        count = min(size, H - first)
        # The last group may be smaller: the copy overwrites all that is not padding.
        yield slice(first, first + count), buffer if count == size else u.new_zeros(batch, count, n)


def _transform(u: Tensor, features: slice, buffer: Tensor) -> Tensor:
    _move("gather", u.shape, features, buffer.shape[-1], u, buffer)
    return torch.fft.rfft(buffer)


def _move(name: str, shape: torch.Size, features: slice, n: int, source: Tensor, target: Tensor) -> None:
    """Copy features between (batch, L, H) and (batch, features, n)."""
    sizes = (*shape, features.start, features.stop - features.start, n)
    _call(name + _suffix(source), sizes, (source, target), [torch.get_num_threads()])


def _call_system(
    name: str, inputs: tuple[Tensor, ...], L: int, vector_bytes: int, rest: tuple[Tensor, ...], *flags: Tensor
) -> None:
    """Call a function of the system's parameters: sizes, parameters in float64, threads, vector width, the rest."""
    Lambda, P, *_, C, _ = inputs
    sizes = (*Lambda.shape[:2], L, C.shape[0], P.shape[0])
    # The library reads raw memory: the copies must stay alive until it returns.
    wide = tuple(t.double().contiguous() for t in inputs)
    _call(name, sizes, (*wide, *flags), [torch.get_num_threads(), vector_bytes], rest)


def _call(
    name: str, sizes: Sequence[int], tensors: Sequence[Tensor], options: Sequence[int], rest: Sequence[Tensor] = ()
) -> None:
    """Call longwave_`name`: all sizes as int64, tensors by their address, options as int, then more tensors."""
    status = getattr(load(), f"longwave_{name}")(
        *(ctypes.c_int64(size) for size in sizes),
        *(ctypes.c_void_p(t.data_ptr()) for t in tensors),
        *(ctypes.c_int(option) for option in options),
        *(ctypes.c_void_p(t.data_ptr()) for t in rest),
    )
    if status:
        raise MemoryError(f"longwave's compiled {name} ran out of memory at sizes {tuple(sizes)}")


def _suffix(values: Tensor) -> str:
    """The ending of a function's name for the type of its long arrays."""
    return {torch.float32: "_f32", torch.float64: "_f64"}[values.dtype]
