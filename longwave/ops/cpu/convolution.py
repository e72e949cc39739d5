"""The long convolution by the compiled library: how the work is cut up, and the plan of its transforms.

docs/convolution.md says what the transforms do.
"""

import functools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from longwave.ops import reference
from longwave.ops.cpu import library
from longwave.ops.cpu.library import call, suffix


def convolve(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    """y (batch, L, H); see longwave.ssm.conv."""
    if _has_few_features(u):
        return reference.convolve(u, K, D)
    y = u.new_empty(u.shape)
    _call("convolve", u, K, _shares(u, 1), (u, K, D), (y,))
    return y


def convolve_backward(dy: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    """Gradients with respect to u, K and D. The spectrum of u is computed again: keeping it would cost memory."""
    if _has_few_features(u):
        return reference.convolve_backward(dy, u, K, D)
    shares = _shares(u, 2)
    du, dK = u.new_empty(u.shape), K.new_empty(shares[1], *K.shape)
    _call("convolve_backward", u, K, shares, (dy, u, K, D), (du, dK))
    total = dK[0] if len(dK) == 1 else dK.sum(0)
    return [du, total, total[0, :, 0].clone()]


def _call(
    name: str,
    u: Tensor,
    K: Tensor,
    shares: tuple[int, int],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> None:
    """Call a function of the plan, then the inputs."""
    batch, L, H = u.shape
    n, *plan = _plan(L, u.dtype)
    call(name + suffix(u), (batch, L, H, len(K), *shares, n, len(plan[0])), (*plan, *inputs), outputs)


def _has_few_features(u: Tensor) -> bool:
    """Whether most lanes of a vector would be empty, or most threads idle: torch's own FFT is faster then."""
    lanes = library.vector_bits() // 8 // u.element_size()
    return u.shape[2] <= lanes // 4 or (u.shape[0] * u.shape[2] <= lanes and torch.get_num_threads() > 1)


CACHE_BYTES = 640 << 10  # about half of a second-level cache: what the kernels and signals at work may fill


def _shares(u: Tensor, spectra: int) -> tuple[int, int]:
    """The division of work: vectors of features per task, and parts of the batch.

    `spectra` are kept for each vector of features, and as many more for the signal at work.
    """
    batch, L, H = u.shape
    vector, threads = library.vector_bits() // 8, torch.get_num_threads()
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
