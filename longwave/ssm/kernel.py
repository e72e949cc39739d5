"""The convolution kernel K = (C B_bar, C A_bar B_bar, ... C A_bar^(L-1) B_bar), three ways that must agree.

Paper: eq. (5) (definition), appendix C.3 (truncated generating function), Algorithm 1. docs/kernel.md derives the form
that Algorithm 1 evaluates. `longwave.ops` has the fast path of the last of them.
"""

import torch
from jaxtyping import Complex, Float, Inexact
from torch import Tensor

from longwave.ssm.algebra import as_complex, as_pairs, from_row, minus_identity, power_minus_identity, to_row, truncate
from longwave.ssm.discretize import bilinear
from longwave.ssm.precision import doubles
from longwave.ssm.spectrum import spectrum


def power_kernel(
    A_bar: Inexact[Tensor, "N N"], B_bar: Inexact[Tensor, "N"], C: Inexact[Tensor, "N"], L: int
) -> Inexact[Tensor, "L"]:
    """K_k = C A_bar^k B_bar by the definition: L matrix-vector products."""
    x, K = B_bar, []
    for _ in range(L):
        K.append(C @ x)
        x = A_bar @ x
    return torch.stack(K)


def generating_function_kernel(
    A: Float[Tensor, "N N"], B: Float[Tensor, "N"], C: Float[Tensor, "N"], dt: float, L: int
) -> Float[Tensor, "L"]:
    """K from K^(z) = C (I - A_bar^L) (I - A_bar z)^-1 B_bar, its truncated generating function, at roots of unity."""
    A_bar, B_bar = bilinear(A, B, dt)
    identity = torch.eye(A.shape[0], dtype=A.dtype)
    C_tilde = C @ (identity - torch.linalg.matrix_power(A_bar, L))
    angle = -2 * torch.pi * torch.arange(L, dtype=A.dtype) / L
    z = torch.polar(torch.ones_like(angle), angle)
    A_bar, B_bar, C_tilde = (t.to(z.dtype) for t in (A_bar, B_bar, C_tilde))
    K_hat = [C_tilde @ torch.linalg.solve(identity - A_bar * z_k, B_bar) for z_k in z]
    return torch.fft.ifft(torch.stack(K_hat)).real


def dplr_kernel(
    Lambda: Complex[Tensor, "H M"],
    P: Complex[Tensor, "r H M"],
    B: Complex[Tensor, "H M"],
    C: Complex[Tensor, "*D H M"],
    dt: Float[Tensor, "H"],
    L: int,
    *,
    C_is_truncated: bool = False,
    Q: Complex[Tensor, "r H M"] | None = None,
) -> Float[Tensor, "*D H L"]:
    """K (H, L) of the DPLR system A = diag(Lambda) - P P^*, y = 2 Re(C x), by Algorithm 1.

    `C` may have a leading axis of 2 (two output maps of one system). With `C_is_truncated` it already is C~.
    `Q` gives the original paper's A = diag(Lambda) - P Q^*, whose eigenvalues may be unstable.
    """
    if L < 1:
        raise ValueError(f"L: expected a length of at least 1, got {L}")
    _check_rank(P)
    C = C if C_is_truncated else truncated_output_map(Lambda, P, C, dt, L, Q=Q)
    Lambda_, P_, B_, C_ = (as_pairs(t) for t in (Lambda, P, B, C))
    C_ = C_ if C.ndim == 3 else C_.unsqueeze(0)
    K_hat = spectrum(Lambda_, P_, B_, C_, dt, L, None if Q is None else as_pairs(Q))
    K = torch.fft.irfft(torch.view_as_complex(K_hat), n=L)
    return K if C.ndim == 3 else K.squeeze(0)


def truncated_output_map(
    Lambda: Complex[Tensor, "H M"],
    P: Complex[Tensor, "r H M"],
    C: Complex[Tensor, "*D H M"],
    dt: Float[Tensor, "H"],
    L: int,
    *,
    Q: Complex[Tensor, "r H M"] | None = None,
) -> Complex[Tensor, "*D H M"]:
    """C~ = C (I - A_bar^L)."""
    _check_rank(P)
    C_ = as_pairs(C) if C.ndim == 3 else as_pairs(C).unsqueeze(0)
    C_tilde = torch.view_as_complex(
        truncate(as_pairs(Lambda), as_pairs(P), C_, dt, L, None if Q is None else as_pairs(Q))
    )
    return C_tilde if C.ndim == 3 else C_tilde.squeeze(0)


def output_map(
    Lambda: Complex[Tensor, "H M"],
    P: Complex[Tensor, "r H M"],
    C_tilde: Complex[Tensor, "*D H M"],
    dt: Float[Tensor, "H"],
    L: int,
    *,
    Q: Complex[Tensor, "r H M"] | None = None,
) -> Complex[Tensor, "*D H M"]:
    """C = C~ (I - A_bar^L)^-1, the inverse of `truncated_output_map`, by a dense solve for each feature."""
    _check_rank(P)
    Lambda_, P_, C_, dt = doubles(*map(as_pairs, (Lambda, P, C_tilde)), dt)
    E_L = power_minus_identity(minus_identity(Lambda_, P_, dt, None if Q is None else as_pairs(Q).double()), L)
    rows = to_row(C_.reshape(-1, *Lambda.shape, 2))  # (H, D, N)
    solved = _solved_one_by_one(-E_L.mT, rows.mT) if rows.is_cpu else _solved_at_once(-E_L.mT, rows.mT)
    return as_complex(from_row(solved.mT)).reshape(C_tilde.shape).to(C_tilde.dtype)


def _solved_one_by_one(A: Float[Tensor, "H N N"], b: Float[Tensor, "H N D"]) -> Float[Tensor, "H N D"]:
    """A^-1 b feature by feature: batched solves of large systems deadlock in some linear-algebra libraries of CPUs."""
    return torch.stack([torch.linalg.solve(A_h, b_h) for A_h, b_h in zip(A, b, strict=True)])


def _solved_at_once(A: Float[Tensor, "H N N"], b: Float[Tensor, "H N D"]) -> Float[Tensor, "H N D"]:
    """A^-1 b in one call, which does not look whether A is singular: it would wait for the device."""
    return torch.linalg.solve_ex(A, b).result


def _check_rank(P: Tensor) -> None:
    if len(P) > 2:
        raise ValueError(f"P: expected rank 0, 1 or 2, got rank {len(P)}: {tuple(P.shape)}")
