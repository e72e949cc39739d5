"""The spectrum of a long kernel from few nodes: Algorithm 1 at Chebyshev points, interpolated where it is smooth.

Behind Woodbury's identity the spectrum has its poles at the eigenvalues of A, not at those of Lambda, and is a smooth
function of the frequency almost everywhere. So the nodes are divided into blocks. A block is interpolated if the
Chebyshev coefficients of the functions that values and gradients consist of fall off within it, else it is evaluated
node by node. docs/kernel.md derives it ("Few nodes for long kernels"). The compiled backend has the same search; this
is the plain one, feature by feature.
"""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from longwave.ssm.precision import doubles
from longwave.ssm.spectrum import needs_float64, spectrum_block

Nodes = Literal["auto", "all", "few"]  # which nodes are evaluated; auto: few where that is faster

STRETCH = 64  # nodes that are evaluated one by one where no block is smooth; 4 times as many after each failure
COUPLING = 1e-6  # |P_n|^2 / |Lambda_n| below which a mode may hide from the functions that are checked


class Precision(NamedTuple):
    """The required accuracy of an interpolation."""

    points: int  # of a block; as many Chebyshev coefficients
    tail: int  # coefficients at the end that have to be small
    tolerance: float  # how small, relative to a function's largest value in the block

    @property
    def wanted(self) -> int:
        """Coefficients before the tail."""
        return self.points - self.tail


SINGLE, DOUBLE = Precision(24, 5, 1e-8), Precision(32, 8, 1e-13)


class Feature(NamedTuple):
    """The system of one feature in float64: Lambda, B (1, M, 2), P (r, 1, M, 2), C (D, 1, M, 2), dt (1,)."""

    Lambda: Tensor
    P: Tensor
    B: Tensor
    C: Tensor
    dt: Tensor

    def spectrum(self, k: Tensor, L: int) -> Tensor:
        """K_hat (D, 1, len(k), 2) at real node numbers k."""
        sigma, kappa = torch.sin(math.pi * k / L), torch.sin(math.pi * (L - 2 * k) / (2 * L))
        return spectrum_block(self.Lambda, self.P, self.B, self.C, self.dt, self.P, sigma, kappa)


class Block(NamedTuple):
    """The nodes begin ... begin + size - 1 of a feature; the last smooth block may go beyond the last node."""

    begin: int
    size: int
    is_smooth: bool = True


def spectrum_from_few(
    Lambda: Float[Tensor, "H M 2"],
    P: Float[Tensor, "r H M 2"],
    B: Float[Tensor, "H M 2"],
    C: Float[Tensor, "D H M 2"],
    dt: Float[Tensor, "H"],
    L: int,
) -> Float[Tensor, "D H nodes 2"]:
    """K_hat (D, H, L//2+1, 2) as by `spectrum`, from few points of each feature, in float64; differentiable."""
    features = []
    for h in range(len(Lambda)):
        system = feature(Lambda, P, B, C, dt, h)
        values = [_values(system, block, L, Lambda.dtype) for block in divide(system, L, Lambda.dtype)]
        features.append(torch.cat(values, dim=-2)[..., : L // 2 + 1, :])
    return torch.cat(features, dim=1).to(Lambda.dtype)


def feature(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, h: int) -> Feature:
    """Feature h alone."""
    one = slice(h, h + 1)
    return Feature(*doubles(Lambda[one], P[:, one], B[one], C[:, one], dt[one]))


@torch.no_grad()
def divide(system: Feature, L: int, dtype: torch.dtype) -> list[Block]:
    """The nodes of one feature in blocks, for a spectrum in `dtype`.

    From low to high frequencies: the coefficients in each block propose the size of the next.
    """
    count = L // 2 + 1
    if not _is_coupled(system):
        return [Block(0, count, is_smooth=False)]
    # A point in float64 costs as much as two nodes in float32: smaller blocks would not pay.
    smallest = 64 if dtype == torch.float64 or bool(needs_float64(system.Lambda, system.dt)) else 96
    found: list[Block] = []
    begin, size, stretch = 0, smallest, STRETCH
    while begin < count:
        while size > smallest and begin + block_size(0.75 * size) >= count:  # not far beyond the last node
            size = block_size(0.75 * size)
        is_smooth, suitable = _try(system, Block(begin, size), L, _precision(dtype))
        if is_smooth:
            found.append(Block(begin, size))
            size, stretch = max(smallest, block_size(suitable)), STRETCH
        elif suitable >= smallest:
            size = block_size(suitable)
            continue
        else:
            found.append(Block(begin, min(stretch, count - begin), is_smooth=False))
            size, stretch = smallest, 4 * stretch
        begin += found[-1].size
    return found


def block_size(wanted: float) -> int:
    """The largest of 64, 96, 128, 192, 256 ... up to `wanted`; 64 if that is smaller."""
    size = 64
    while 2 * size <= wanted:
        size *= 2
    return size + size // 2 if 1.5 * size <= wanted else size


def _precision(dtype: torch.dtype) -> Precision:
    return DOUBLE if dtype == torch.float64 else SINGLE


def _is_coupled(system: Feature) -> bool:
    """Whether P reaches every mode: one that it does not reach can have a pole that only its own gradients see."""
    strength = system.P.square().sum((0, 1, 3))
    return bool((strength > COUPLING * torch.linalg.vector_norm(system.Lambda[0], dim=-1)).all())


def _values(system: Feature, block: Block, L: int, dtype: torch.dtype) -> Tensor:
    """K_hat at the nodes of a block, (D, 1, size, 2)."""
    nodes = torch.arange(block.size, dtype=torch.float64, device=system.dt.device)
    if not block.is_smooth:
        return system.spectrum(block.begin + nodes, L)
    count = _precision(dtype).points
    x, to_coefficients = _chebyshev_points(count, nodes)
    coefficients = to_coefficients @ system.spectrum(_positions(block, x), L)
    return _polynomials((2 * nodes + 1 - block.size) / block.size, count) @ coefficients


def _try(system: Feature, block: Block, L: int, precision: Precision) -> tuple[bool, float]:
    """Whether a block can be interpolated, and the size that suits this place.

    Besides K^ the check sees C~ (s - A)^-1 P and P^* (s - A)^-1 B, of which the gradients consist: the spectra of the
    systems that have P in the place of B, or P^* in that of C~.
    """
    x, to_coefficients = _chebyshev_points(precision.points, system.dt)
    k = _positions(block, x)
    conj_P = system.P * system.P.new_tensor([1.0, -1.0])
    parts = [system._replace(C=torch.cat((system.C, conj_P))).spectrum(k, L)]
    parts += [system._replace(B=P_j).spectrum(k, L) for P_j in system.P]
    values = torch.cat(parts)  # (functions, 1, points, 2)
    largest = torch.linalg.vector_norm(values, dim=-1).amax(-1, keepdim=True)
    coefficients = torch.linalg.vector_norm(to_coefficients @ values, dim=-1)
    # "Not below": NaN is not smooth.
    above = (~(coefficients <= precision.tolerance * largest)).flatten(0, 1).any(0).nonzero()
    needed = int(above.max()) + 1 if len(above) else 1
    # If a pole beside the block makes them fall like rho^-k, it is so far from the middle; and should be so far:
    ideal = _distance(precision.tolerance ** (-1 / (precision.wanted - 1)))
    if needed <= precision.wanted:
        return True, block.size * min(4.0, _distance(precision.tolerance ** (-1 / max(needed, 4))) / ideal)
    relative = coefficients / largest.clamp(min=torch.finfo(largest.dtype).tiny)
    tail = float(relative[..., precision.wanted :].nan_to_num(1).max())
    return False, block.size * min(0.5, max(0.0, _distance(tail ** (-1 / precision.wanted)) / ideal))


def _chebyshev_points(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The Chebyshev points in (-1, 1), and the matrix (k, j) from values there to coefficients."""
    j = torch.arange(count, dtype=torch.float64, device=like.device)
    x = torch.cos(math.pi * (j + 0.5) / count)
    matrix = 2 / count * _polynomials(x, count).mT
    matrix[0] /= 2
    return x, matrix


def _polynomials(x: Tensor, count: int) -> Tensor:
    """T_k(x), (len(x), count)."""
    return torch.cos(torch.arange(count, dtype=x.dtype, device=x.device) * torch.acos(x).unsqueeze(-1))


def _positions(block: Block, x: Tensor) -> Tensor:
    """Points of (-1, 1) as node numbers of a block, whose interval reaches half a node beyond its nodes."""
    return block.begin + (block.size - 1) / 2 + block.size / 2 * x


def _distance(rho: float) -> float:
    """The distance of a pole from the middle of (-1, 1), for coefficients that fall like rho^-k."""
    return (rho - 1 / rho) / 2
