"""Initialisations: HiPPO matrices in normal-plus-low-rank (NPLR) form, and systems given by their modes.

Paper: eq. (2) (HiPPO), Theorem 1 (NPLR) and its proof in appendix C.1. `dplr` gives each in its diagonal form, by a
unitary V. Everything here is float64: initialisation happens once, and the layer rounds at the end. docs/hippo.md says
what each one remembers.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor


class NPLR(NamedTuple):
    """A = normal - sum_i P_i P_i^T, all real: A (N, N), B (N,), P (r, N)."""

    A: Tensor
    B: Tensor
    P: Tensor


class Modes(NamedTuple):
    """A = diag(Lambda) - P P^* given by one of each conjugate pair: Lambda (M,), P (r, M), B (M,), all complex."""

    Lambda: Tensor
    P: Tensor
    B: Tensor

    def basis(self) -> Complex128[Tensor, "N M"]:
        """V that makes two neighbouring real states, x and x', of a pair: (x + i x') / sqrt(2)."""
        M = len(self.Lambda)
        pair = torch.tensor([1, -1j], dtype=torch.complex128) / math.sqrt(2)
        return (torch.eye(M, dtype=torch.complex128).unsqueeze(1) * pair.unsqueeze(-1)).flatten(0, 1)

    def real(self) -> NPLR:
        """The system on N real states."""
        V = self.basis()
        P = 2 * (self.P @ V.mT).real
        normal = 2 * (V @ torch.diag(self.Lambda) @ V.mH).real
        return NPLR(normal - P.mT @ P, 2 * (V @ self.B).real, P)


def legs(N: int) -> NPLR:
    """LegS, scaled Legendre: memory of the whole past. A + P P^T = -1/2 I + skew; rank 1 (eq:hippo)."""
    n = torch.arange(N, dtype=torch.float64)
    root = torch.sqrt(2 * n + 1)
    A = -torch.tril(torch.outer(root, root), -1) - torch.diag(n + 1)
    return NPLR(A, root, torch.sqrt(n + 0.5).unsqueeze(0))


def legs_clipped(N: int) -> Modes:
    """LegS with imaginary parts of V^* B of at most 2: what the authors' later code (version 4) starts from."""
    Lambda, P, B, _ = dplr("legs", N)
    return Modes(Lambda, P, torch.complex(B.real, B.imag.clamp(-2, 2)))


def legt(N: int) -> NPLR:
    """LegT, translated Legendre: memory of a sliding window of length 1. A + P P^T is skew; rank 2.

    The signs are those of the paper's final form; sqrt(2n+1) is the diagonal scaling that it leaves out. The correction
    is 1 where n + k is even: one vector on the even indices and one on the odd.
    """
    n = torch.arange(N, dtype=torch.float64)
    root = torch.sqrt(2 * n + 1)
    difference = n.unsqueeze(1) - n
    signs = torch.where(difference >= 0, 1.0, 1 - 2 * (difference.abs() % 2))
    P = torch.stack((root * (n % 2 == 0), root * (n % 2 == 1)))
    return NPLR(-signs * torch.outer(root, root), root, P)


def lagt(N: int, alpha: float = 0.0, beta: float = 0.0) -> NPLR:
    """LagT, (generalised) Laguerre: exponentially fading memory. A + P P^T = -beta/2 I + skew; rank 1.

    alpha = beta = 0 is the paper's matrix: -1/2 on the diagonal, -1 below. The generalised Laguerre polynomials of
    order alpha tilted by beta put -(1 + beta)/2 on the diagonal and B_n = binom(n + alpha, n), after the conjugation
    by a diagonal matrix that the paper mentions and up to a constant factor of B, which C absorbs.
    """
    if not -1 < alpha < math.inf:
        raise ValueError(f"alpha: expected a finite number above -1 (the Laguerre weight is t^alpha), got {alpha}")
    if not (beta >= 0 and math.isfinite(beta)):
        raise ValueError(f"beta: expected a finite number >= 0 (below, A is not stable), got {beta}")
    n = torch.arange(N, dtype=torch.float64)
    A = -torch.tril(torch.ones(N, N, dtype=torch.float64), -1) - (1 + beta) / 2 * torch.eye(N, dtype=torch.float64)
    log_binomial = torch.lgamma(n + alpha + 1) - torch.lgamma(n + 1) - math.lgamma(alpha + 1)
    return NPLR(A, torch.exp(log_binomial), torch.full((1, N), math.sqrt(0.5), dtype=torch.float64))


def fout(N: int) -> Modes:
    """FouT, truncated Fourier: memory of a sliding window of length 1 in cosines and sines. No damping; rank 1.

    Pair n holds those of n + 1/2 cycles per window. Whole cycles would begin with Lambda = 0, a pole on the node z = 1,
    where gradients have no digits, and with a sine that is 0 (docs/hippo.md).
    """
    n = torch.arange(N // 2, dtype=torch.float64)
    ones = torch.ones(N // 2, dtype=torch.complex128)
    return Modes(torch.complex(0 * n, math.pi * (2 * n + 1)), math.sqrt(2) * ones.unsqueeze(0), 2 * ones)


def random_nplr(N: int) -> Modes:
    """Lambda = -1/2 + i e^g and P, both random (torch's generator): the form of S4 without HiPPO."""
    g = torch.randn(N // 2, dtype=torch.float64)
    P = torch.randn(1, N // 2, dtype=torch.complex128)
    return Modes(torch.complex(torch.full_like(g, -0.5), g.exp()), P, torch.ones_like(P[0]))


def s4d_legs(N: int) -> NPLR:
    """The normal part of LegS with B/2: with many states it follows slow inputs as LegS does."""
    A, B, P = legs(N)
    return NPLR(A + P.T @ P, B / 2, P[:0])


def s4d_lin(N: int) -> Modes:
    """Lambda_n = -1/2 + i pi n, B = 1: cosines and sines of equal spacing, fading at one rate."""
    return _diagonal(math.pi * torch.arange(N // 2, dtype=torch.float64))


def s4d_inv(N: int) -> Modes:
    """Lambda_n = -1/2 + i N/pi (N/(2n+1) - 1), B = 1: the spectrum of `s4d_legs`, by a formula."""
    n = torch.arange(N // 2, dtype=torch.float64)
    return _diagonal(N / math.pi * (N / (2 * n + 1) - 1))


def _diagonal(frequency: Tensor) -> Modes:
    Lambda = torch.complex(torch.full_like(frequency, -0.5), frequency)
    return Modes(Lambda, Lambda.new_empty(0, len(Lambda)), torch.ones_like(Lambda))


INITS: dict[str, Callable[..., NPLR | Modes]] = {
    "legs": legs,
    "legs-clipped": legs_clipped,
    "legt": legt,
    "lagt": lagt,
    "fout": fout,
    "random-nplr": random_nplr,
    "s4d-legs": s4d_legs,
    "s4d-lin": s4d_lin,
    "s4d-inv": s4d_inv,
}


def nplr(name: str, N: int, **parameters: float) -> NPLR:
    """The initialisation `name` with N real states, for example nplr("lagt", 64, beta=0.5)."""
    system = _initial(name, N, **parameters)
    return system.real() if isinstance(system, Modes) else system


def _initial(name: str, N: int, **parameters: float) -> NPLR | Modes:
    if name not in INITS:
        raise ValueError(f"init: expected one of {', '.join(sorted(INITS))}, got {name!r}")
    if isinstance(N, bool) or not isinstance(N, int) or N < 2 or N % 2:
        raise ValueError(f"N: expected an even number of states, at least 2 (they are stored as N/2 pairs), got {N!r}")
    if unknown := parameters.keys() - inspect.signature(INITS[name]).parameters.keys():
        raise ValueError(f"{min(unknown)}: expected none, as the initialisation {name!r} has no such parameter")
    return INITS[name](N, **parameters)


def hippo(name: str, N: int, **parameters: float) -> tuple[Float64[Tensor, "N N"], Float64[Tensor, "N"]]:
    """A and B of x' = A x + B u for the initialisation `name`."""
    A, B, _ = nplr(name, N, **parameters)
    return A, B


def dplr(
    name: str, N: int, **parameters: float
) -> tuple[Complex128[Tensor, "M"], Complex128[Tensor, "r M"], Complex128[Tensor, "M"], Complex128[Tensor, "N M"]]:
    """Lambda, P, B, V with A = V (diag(Lambda) - P P^*) V^*: of each pair the half that has Im(Lambda) >= 0.

    The other half is the complex conjugate, so V_full = [V, conj(V)] is N x N and unitary, and B_full = V_full^* B.
    They are on torch's default device, as new tensors are.
    """
    with torch.device("cpu"):  # what is kept for later calls must have numbers, also where the default device is meta
        system = _initial(name, N, **parameters)
        if isinstance(system, Modes):
            found = (*system, system.basis())
        else:
            found = _diagonalise(name, N, tuple(sorted(parameters.items())))
    device = torch.empty(0).device
    Lambda, P, B, V = (t.to(device, copy=True) for t in found)
    return Lambda, P, B, V


@functools.lru_cache(maxsize=64, typed=True)  # 4.0 must not find what was kept for 4
def _diagonalise(name: str, N: int, parameters: tuple[tuple[str, float], ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    A, B, P = nplr(name, N, **dict(parameters))
    normal = A + P.T @ P
    # A normal matrix and its skew-symmetric part share their eigenvectors; i times a skew matrix is Hermitian, and a
    # Hermitian eigenproblem gives an orthonormal V to the last digit. Eigenvalues come in pairs +-w: keep -i w, w < 0.
    w, V = torch.linalg.eigh(0.5j * (normal - normal.T))
    V = V[:, : N // 2].flip(-1)
    diagonal = V.mH @ normal.to(V.dtype) @ V
    symmetric = 0.5 * (normal + normal.T).to(V.dtype)  # exactly 0 for LegT, so that Re(Lambda) is
    re = torch.diagonal(V.mH @ symmetric @ V).real.clamp(max=0)
    Lambda = torch.complex(re, -w[: N // 2].flip(-1))
    off = (diagonal - torch.diag(Lambda)).abs().max().item()
    if off > 1e-9 * max(1.0, normal.abs().max().item()):
        raise ValueError(f"init {name!r}: A + P P^T is not normal and stable at N = {N} (V^* A V is off by {off:.1e})")
    return Lambda, (P.to(V.dtype) @ V.conj()), V.mH @ B.to(V.dtype), V
