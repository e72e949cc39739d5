"""The spectrum of a long kernel from few nodes: Algorithm 1 at Chebyshev points, interpolated where it is smooth.

Behind Woodbury's identity the spectrum has its poles at the eigenvalues of A, not at those of Lambda, and is a smooth
function of the frequency almost everywhere. The nodes are divided into blocks. A block is interpolated if the Chebyshev
coefficients of the functions that values and gradients are made of fall below a tolerance, and is else evaluated node by
node. docs/kernel.md derives it ("Few nodes for long kernels"); the compiled backend does the same search.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from longwave.ssm.spectrum import spectrum_block

Nodes = Literal["auto", "all", "few"]  # all are evaluated, or few; auto: few where it is faster

TAIL = 3  # coefficients at the end that have to be small: a function may be even or odd
SMALLEST = 64  # nodes of a block
STRETCH = 32  # nodes that are evaluated one by one where no block is smooth; 4 times as many after each failure
COUPLING = 1e-6  # |P_n|^2 / |Lambda_n| below which a mode may hide from the functions that are checked
POINTS = {torch.float32: 24, torch.float64: 32}
TOLERANCE = {torch.float32: 1e-8, torch.float64: 1e-13}  # of the tail, relative to a function's largest value in a block


@dataclass(frozen=True)
class Block:
    """Nodes begin ... begin + size - 1 of a feature; the last block may go beyond the last node."""

    begin: int
    size: int
    is_smooth: bool


def spectrum_from_few(
    Lambda: Float[Tensor, "H M 2"],
    P: Float[Tensor, "r H M 2"],
    B: Float[Tensor, "H M 2"],
    C: Float[Tensor, "D H M 2"],
    dt: Float[Tensor, "H"],
    L: int,
) -> Float[Tensor, "D H nodes 2"]:
    """K_hat (D, H, L//2+1, 2) as by `spectrum`, but evaluated at few points of each feature, in float64; differentiable."""
    dtype = Lambda.dtype
    features = []
    for h in range(len(Lambda)):
        system = _feature(Lambda, P, B, C, dt, h)
        with torch.no_grad():
            found = divide(*system, L, dtype)
        features.append(torch.cat([_values(system, block, L, dtype) for block in found], dim=-2)[..., : L // 2 + 1, :])
    return torch.cat(features, dim=1).to(dtype)


def divide(
    Lambda: Float64[Tensor, "1 M 2"],
    P: Float64[Tensor, "r 1 M 2"],
    B: Float64[Tensor, "1 M 2"],
    C: Float64[Tensor, "D 1 M 2"],
    dt: Float64[Tensor, "1"],
    L: int,
    dtype: torch.dtype,
) -> list[Block]:
    """The nodes of one feature in blocks, for a spectrum in `dtype`.

    From low to high frequencies; the coefficients of each block propose the size of the next.
    """
    count, system = L // 2 + 1, (Lambda, P, B, C, dt)
    if not _is_coupled(Lambda, P):
        return [Block(0, count, is_smooth=False)]
    found: list[Block] = []
    begin, size, stretch = 0, SMALLEST, STRETCH
    while begin < count:
        while size > SMALLEST and begin + block_size(0.75 * size) >= count:  # not far beyond the last node
            size = block_size(0.75 * size)
        smooth, suitable = _try(system, Block(begin, size, is_smooth=True), L, dtype)
        if smooth:
            found.append(Block(begin, size, is_smooth=True))
            size, stretch = block_size(suitable), STRETCH
        elif suitable >= SMALLEST:
            size = block_size(suitable)
            continue
        else:
            found.append(Block(begin, min(stretch, count - begin), is_smooth=False))
            size, stretch = SMALLEST, 4 * stretch
        begin += found[-1].size
    return found


def block_size(wanted: float) -> int:
    """The largest of 64, 96, 128, 192, 256 ... up to `wanted`, or else 64."""
    size = SMALLEST << max(0, int(math.log2(max(wanted, SMALLEST) / SMALLEST)))
    return size + size // 2 if 1.5 * size <= wanted else size


def chebyshev(x: Float64[Tensor, "n"], count: int) -> Float64[Tensor, "n k"]:
    """T_k(x) for k < count."""
    return torch.cos(torch.arange(count, dtype=torch.float64) * torch.acos(x).unsqueeze(-1))


def _feature(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, h: int) -> tuple[Tensor, ...]:
    """The system of feature h alone, in float64."""
    only = slice(h, h + 1)
    return tuple(t.double() for t in (Lambda[only], P[:, only], B[only], C[:, only], dt[only]))


def _is_coupled(Lambda: Tensor, P: Tensor) -> bool:
    """Whether P reaches every mode: one that it does not reach can have a pole that only its own gradients see."""
    return bool((P.square().sum((0, 1, 3)) > COUPLING * torch.linalg.vector_norm(Lambda[0], dim=-1)).all())


def _at(positions: Tensor, L: int) -> tuple[Tensor, Tensor]:
    """sin and cos of theta/2 at real node numbers."""
    return torch.sin(math.pi * positions / L), torch.sin(math.pi * (L - 2 * positions) / (2 * L))


def _points(block: Block, count: int) -> Tensor:
    """The Chebyshev points of a block, as node numbers; its interval reaches half a node to either side."""
    x = torch.cos(math.pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count)
    return block.begin + (block.size - 1) / 2 + block.size / 2 * x


def _to_coefficients(count: int) -> Tensor:
    """(k, j): from values at the Chebyshev points to coefficients."""
    x = torch.cos(math.pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count)
    matrix = 2 / count * chebyshev(x, count).mT
    matrix[0] /= 2
    return matrix


def _values(system: tuple[Tensor, ...], block: Block, L: int, dtype: torch.dtype) -> Tensor:
    """K_hat at the nodes of a block, (D, 1, size, 2)."""
    Lambda, P, B, C, dt = system
    if not block.is_smooth:
        sigma, kappa = _at(block.begin + torch.arange(block.size, dtype=torch.float64), L)
        return spectrum_block(Lambda, P, B, C, dt, P, sigma, kappa)
    count = POINTS[dtype]
    sigma, kappa = _at(_points(block, count), L)
    coefficients = _to_coefficients(count) @ spectrum_block(Lambda, P, B, C, dt, P, sigma, kappa)
    x = (2 * torch.arange(block.size, dtype=torch.float64) + 1 - block.size) / block.size
    return chebyshev(x, count) @ coefficients


def _try(system: tuple[Tensor, ...], block: Block, L: int, dtype: torch.dtype) -> tuple[bool, float]:
    """Whether a block can be interpolated, and the size that suits this place.

    Besides K^ the check sees C~ (s - A)^-1 P and P^* (s - A)^-1 B, of which the gradients are made: the spectra of the
    systems that have P in the place of B, or P^* in that of C~.
    """
    Lambda, P, B, C, dt = system
    count, tolerance = POINTS[dtype], TOLERANCE[dtype]
    sigma, kappa = _at(_points(block, count), L)
    conj_P = P * P.new_tensor([1.0, -1.0])
    parts = [spectrum_block(Lambda, P, B, torch.cat((C, conj_P)), dt, P, sigma, kappa)]
    parts += [spectrum_block(Lambda, P, P_j, C, dt, P, sigma, kappa) for P_j in P]
    values = torch.cat(parts)  # (functions, 1, points, 2)
    size = torch.linalg.vector_norm(_to_coefficients(count) @ values, dim=-1)
    largest = torch.linalg.vector_norm(values, dim=-1).amax(-1, keepdim=True)
    above = (~(size <= tolerance * largest)).any(0).any(0)
    needed = int(above.nonzero().max()) + 1 if above.any() else 1
    wanted = _width(tolerance ** (-1 / (count - TAIL - 1)))
    if needed <= count - TAIL:
        return True, block.size * min(4.0, _width(tolerance ** (-1 / max(needed, 4))) / wanted)
    tail = float((size / largest)[..., -TAIL:].nan_to_num(0).max())
    return False, block.size * min(0.5, max(0.0, _width(tail ** (-1 / (count - 2))) / wanted)) if tail > 0 else 0.0


def _width(rho: float) -> float:
    """The distance of a pole beside the middle of an interval, for coefficients that fall like rho^-k."""
    return (rho - 1 / rho) / 2
