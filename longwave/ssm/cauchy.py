"""Algorithm 1 as the paper writes it: the kernel by four Cauchy products at the roots of unity.

For reading. `spectrum.py` computes the same without a node that runs to infinity, in real arithmetic, and without an
array of size N L; docs/kernel.md leads from this form to that one.
"""

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from longwave.ssm.discretize import bilinear


def cauchy_product(
    weights: Complex[Tensor, "*D N"], nodes: Complex[Tensor, "L"], poles: Complex[Tensor, "N"]
) -> Complex[Tensor, "*D L"]:
    """sum_n w_n / (s - lambda_n) at each node s: a Cauchy matrix (prop:cauchy) times vectors."""
    return weights @ (1 / (nodes - poles.unsqueeze(-1)))


def cauchy_kernel(
    Lambda: Complex[Tensor, "N"],
    P: Complex[Tensor, "N"],
    Q: Complex[Tensor, "N"],
    B: Complex[Tensor, "N"],
    C: Complex[Tensor, "N"],
    dt: float,
    L: int,
) -> Float[Tensor, "L"]:
    """K of A = diag(Lambda) - P Q^* by Algorithm 1, line by line; C is a row, and stands for the paper's C^*.

    All N states are given, and those of a real system come in conjugate pairs.
    """
    A_bar, _ = bilinear(torch.diag(Lambda) - torch.outer(P, Q.conj()), B, dt)
    C_tilde = C - C @ torch.linalg.matrix_power(A_bar, L)  # 1: truncate to length L
    angle = -2 * torch.pi * torch.arange(L, dtype=Lambda.real.dtype) / L
    z = torch.polar(torch.ones_like(angle), angle)
    s = 2 / dt * (1 - z) / (1 + z)
    weights = torch.stack((C_tilde * B, C_tilde * P, Q.conj() * B, Q.conj() * P))
    k00, k01, k10, k11 = cauchy_product(weights, s, Lambda)  # 2: the black box
    K_hat = 2 / (1 + z) * (k00 - k01 / (1 + k11) * k10)  # 3 and 4: Woodbury, at all roots of unity
    return torch.fft.ifft(K_hat).real  # 5
