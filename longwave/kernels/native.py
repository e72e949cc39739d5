"""The compiled kernels (native.cpp) through ctypes: no Python or torch headers, so any C++ compiler builds them.

`load()` gives the library or raises `Unavailable` with the reason. Importing torch first makes both share one OpenMP.
"""

import ctypes
import functools
import importlib.machinery
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from longwave.kernels import reference
from longwave.kernels.reference import needs_float64

ABI = 5  # of native.cpp


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


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0) -> Tensor:
    """K_hat (D, H, L//2+1, 2); see reference.spectrum."""
    K_hat = C.new_empty(C.shape[0], C.shape[1], L // 2 + 1, 2)
    _call_system("spectrum" + _suffix(C), (Lambda, P, B, C, dt), L, vector_bytes, (K_hat,), needs_float64(Lambda, dt))
    return K_hat


def spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt."""
    inputs = (Lambda, P, B, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    wide = needs_float64(Lambda, dt)
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


def convolve(u: Tensor, K: Tensor, D: Tensor, vector_bytes: int = 0) -> Tensor:
    """y (batch, L, H); see reference.convolve."""
    if _has_few_features(u):
        return reference.convolve(u, K, D)
    u, K, D = u.contiguous(), K.contiguous(), D.contiguous()
    y = torch.empty_like(u)
    _call_convolution("convolve", u, len(K), _shares(u, 1), (u, K, D), vector_bytes, (y,))
    return y


def convolve_backward(dy: Tensor, u: Tensor, K: Tensor, D: Tensor, vector_bytes: int = 0) -> list[Tensor]:
    """Gradients with respect to u, K and D. The spectrum of u is computed again: keeping it would cost memory."""
    if _has_few_features(u):
        return reference.convolve_backward(dy, u, K, D)
    dy, u, K, D = dy.contiguous(), u.contiguous(), K.contiguous(), D.contiguous()
    shares = _shares(u, 2)
    du, dK = torch.empty_like(u), K.new_empty(shares[1], *K.shape)
    _call_convolution("convolve_backward", u, len(K), shares, (dy, u, K, D), vector_bytes, (du, dK))
    total = dK[0] if len(dK) == 1 else dK.sum(0)
    return [du, total, total[0, :, 0].clone()]


def pack_step(change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, C: Tensor) -> Tensor:
    """What `step` reads of each feature, (H, 4 + 2r, 2M); see native_step.inc. All arguments are complex, (r,) H, M."""

    def rows(re: Tensor, im: Tensor) -> Tensor:
        return torch.stack((re, im), dim=-1).flatten(-2)

    parts = [rows(change.real, change.real), rows(-change.imag, change.imag), rows(B_bar.real, B_bar.imag)]
    parts.append(rows(2 * C.real, -2 * C.imag))
    parts += [*rows(right.real, -right.imag), *rows(left.real, left.imag)]
    return torch.stack(parts, dim=1).contiguous()


def step(constants: Tensor, D: Tensor, u: Tensor, state: Tensor, vector_bytes: int = 0) -> tuple[Tensor, Tensor]:
    """y (batch, H) and the next state (batch, H, M) complex, from u (batch, H) and `pack_step`'s constants."""
    D, u, state = D.contiguous(), u.contiguous(), state.resolve_conj().contiguous()
    y, after = torch.empty_like(u), torch.empty_like(state)
    sizes = (*u.shape, constants.shape[2], constants.shape[1] // 2 - 2)
    threads = torch.get_num_threads() if state.numel() > STEP_ALONE else 1
    _call("step" + _suffix(u), sizes, (constants, D, u, state), [threads, vector_bytes], (y, after))
    return y, after


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    """Whether tensors on the CPU, all contiguous and of pairwise equal dtype and shape, hold the same bytes."""
    pointers = ctypes.c_void_p * len(a)
    sizes = (ctypes.c_int64 * len(a))(*[t.nbytes for t in a])
    here, there = pointers(*[t.data_ptr() for t in a]), pointers(*[t.data_ptr() for t in b])
    return not load().longwave_differ(ctypes.c_int64(len(a)), here, there, sizes)


STEP_ALONE = 1 << 15  # complex numbers of a state that one thread moves sooner than two have found each other


def activate(z: Tensor, keep: Tensor, vector_bytes: int = 0) -> Tensor:
    """GELU(z) * keep for float32 z (batch, L, H) and keep (batch, H)."""
    z, keep = z.contiguous(), keep.contiguous()
    y = torch.empty_like(z)
    _call("activate", z.shape, (z, keep), [torch.get_num_threads(), vector_bytes], (y,))
    return y


def activate_backward(dy: Tensor, z: Tensor, keep: Tensor, vector_bytes: int = 0) -> Tensor:
    """The gradient with respect to z."""
    dy, z, keep = dy.contiguous(), z.contiguous(), keep.contiguous()
    dz = torch.empty_like(z)
    options = [torch.get_num_threads(), vector_bytes]
    _call("activate_backward", z.shape, (dy, z, keep), options, (dz, z.new_empty(0)))
    return dz


def mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer behind `activate`."""
    return torch.nn.functional.linear(activate(z, keep), weight, bias)


def mix_backward(
    dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool, vector_bytes: int = 0
) -> list[Tensor]:
    """The gradients with respect to z and, if it is needed, weight, for which GELU(z) is computed once more."""
    z, keep = z.contiguous(), keep.contiguous()
    dz = (dy @ weight).contiguous()  # so far that of GELU(z); the rest of the way is gone in place
    again = torch.empty_like(z) if need_weight else z.new_empty(0)
    _call("activate_backward", z.shape, (dz, z, keep), [torch.get_num_threads(), vector_bytes], (dz, again))
    return [dz, dy.flatten(0, -2).mT @ again.flatten(0, -2)] if need_weight else [dz]


def gate(x: Tensor, z: Tensor, bias: Tensor, vector_bytes: int = 0) -> Tensor:
    """x + a * sigmoid(b) for float32 x (..., H) and (a, b) = z + bias, z (..., 2H)."""
    x, z, bias = x.contiguous(), z.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    H = x.shape[-1]
    _call("gate", (x.numel() // H, H), (x, z, bias), [torch.get_num_threads(), vector_bytes], (y,))
    return y


GATE_ROWS = 4096  # summed at a time into the gradient of the bias, in float32


def gate_backward(dy: Tensor, z: Tensor, bias: Tensor, vector_bytes: int = 0) -> list[Tensor]:
    """The gradients with respect to z and bias; that of x is dy."""
    dy, z, bias = dy.contiguous(), z.contiguous(), bias.contiguous()
    H = dy.shape[-1]
    rows, threads = dy.numel() // H, torch.get_num_threads()
    parts = -(-rows // (GATE_ROWS * threads)) * threads
    dz, dbias = torch.empty_like(z), z.new_empty(parts, 2 * H)
    _call("gate_backward", (rows, H, parts), (dy, z, bias), [threads, vector_bytes], (dz, dbias))
    return [dz, dbias.sum(0)]


NARROW = 64  # features up to which a block waits for memory, not for its products
MIX_ROWS = 1 << 15  # summed at a time into the gradients of weight and bias, in float32


def gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, vector_bytes: int = 0) -> Tensor:
    """`gate` behind `mix`, in one pass."""
    inputs = tuple(t.contiguous() for t in (x, z, keep, weight, bias))
    y = torch.empty_like(inputs[0])
    _call("gated_mix", z.shape, inputs, [torch.get_num_threads(), vector_bytes], (y,))
    return y


def gated_mix_backward(
    dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, vector_bytes: int = 0
) -> list[Tensor]:
    """The gradients with respect to z, weight and bias; that of x is dy. What lies between is computed anew."""
    inputs = tuple(t.contiguous() for t in (dy, z, keep, weight, bias))
    threads = torch.get_num_threads()
    parts = -(-z.shape[0] * z.shape[1] // (MIX_ROWS * threads)) * threads
    dz, dweight, dbias = torch.empty_like(inputs[1]), z.new_empty(parts, *weight.shape), z.new_empty(parts, len(bias))
    _call("gated_mix_backward", (*z.shape, parts), inputs, [threads, vector_bytes], (dz, dweight, dbias))
    return [dz, dweight.sum(0), dbias.sum(0)]


def keep_memory() -> None:
    """Have the C library keep the memory that tensors free, for the next step of a training run to use again.

    By default glibc gives large blocks back to the system, which hands out, page by page, zeroed ones a moment later: a
    tenth to a fifth of a step. Nothing happens where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_threshold, 2**30)


def _has_few_features(u: Tensor) -> bool:
    """Whether most lanes of a vector would be empty, or most threads idle: torch's own FFT is faster then."""
    lanes = vector_bits() // 8 // u.element_size()
    return u.shape[2] <= lanes // 4 or (u.shape[0] * u.shape[2] <= lanes and torch.get_num_threads() > 1)


CACHE_BYTES = 640 << 10  # about half of a second-level cache: what the kernels and signals at work may fill


def _shares(u: Tensor, spectra: int) -> tuple[int, int]:
    """How the work is cut up: vectors of features that are worked on together, and parts of the batch.

    `spectra` are kept for each vector of features, and as many more for the signal at work.
    """
    batch, L, H = u.shape
    vector, threads = vector_bits() // 8, torch.get_num_threads()
    vectors = -(-H * u.element_size() // vector)
    together = max(1, min(vectors, CACHE_BYTES // (2 * vector * L * spectra) - 1))
    blocks = -(-vectors // together)
    # Equal shares for the threads, or so many that no thread waits long for the others.
    parts = 1 if blocks % threads == 0 or blocks >= 4 * threads else -(-threads // math.gcd(blocks, threads))
    return together, min(batch, parts)


@functools.lru_cache(maxsize=16)
def _plan(L: int, dtype: torch.dtype) -> tuple[int, Tensor, Tensor, Tensor]:
    """The length n >= L of the transforms, its radices, the roots of unity of each level, and the twist (n, 2).

    A level of radix R has R parts of length q; its roots are exp(-2 pi i j r / (R q)) for j < q and 0 < r < R.
    """
    n, radices = min(_smooth_lengths(L))
    roots, size = [], n
    with torch.device("cpu"):  # whatever the default device is: the library reads this memory
        for R in radices:
            q = size // R
            j, r = torch.arange(q, dtype=torch.float64), torch.arange(1, R, dtype=torch.float64)
            roots.append(_unit(-2 * torch.outer(j, r) / size).flatten())
            size = q
        twist = _unit(torch.arange(n, dtype=torch.float64) / (2 * n))
        levels = torch.tensor(radices, dtype=torch.int64)
    return n, levels, torch.cat([*roots, twist.new_zeros(0)]).to(dtype), twist.to(dtype)


def _smooth_lengths(L: int) -> Iterator[tuple[int, list[int]]]:
    """For each product of threes and fives, the least n >= L that is it times a power of 2, with the radices of n."""
    for threes in range(4):
        for fives in range(4):
            odd = 3**threes * 5**fives
            twos = max(0, (-(-L // odd) - 1).bit_length())
            yield odd << twos, [5] * fives + [3] * threes + _powers_of_two(twos)


def _powers_of_two(twos: int) -> list[int]:
    """Radices of 2^twos, large ones last: those levels run in the first-level cache, where fewer passes pay most."""
    if twos in (0, 1):
        return [2] * twos
    fours = -twos % 3  # 8s make up the rest
    return [4] * fours + [8] * ((twos - 2 * fours) // 3)


def _unit(half_turns: Tensor) -> Tensor:
    """exp(i pi x) as pairs (..., 2)."""
    return torch.stack((torch.cos(torch.pi * half_turns), torch.sin(torch.pi * half_turns)), dim=-1)


def _call_convolution(
    name: str,
    u: Tensor,
    sides: int,
    shares: tuple[int, int],
    inputs: tuple[Tensor, ...],
    vector_bytes: int,
    outputs: tuple[Tensor, ...],
) -> None:
    n, radices, roots, twist = _plan(u.shape[1], u.dtype)
    sizes = (*u.shape, sides, *shares, n, len(radices))
    options = [torch.get_num_threads(), vector_bytes]
    _call(name + _suffix(u), sizes, (radices, roots, twist, *inputs), options, outputs)


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
    call = function(name, len(sizes), len(tensors), len(options), len(rest))
    if call(*sizes, *[t.data_ptr() for t in tensors], *options, *[t.data_ptr() for t in rest]):
        raise MemoryError(f"longwave's compiled {name} ran out of memory at sizes {tuple(sizes)}")


@functools.cache
def function(name: str, sizes: int, tensors: int, options: int, rest: int) -> Callable[..., int]:
    """A function of the library that takes plain numbers."""
    found = getattr(load(), f"longwave_{name}")
    found.argtypes = (
        [ctypes.c_int64] * sizes + [ctypes.c_void_p] * tensors + [ctypes.c_int] * options + [ctypes.c_void_p] * rest
    )
    return found


def _suffix(values: Tensor) -> str:
    """The ending of a function's name for the type of its long arrays."""
    return {torch.float32: "_f32", torch.float64: "_f64"}[values.dtype]
