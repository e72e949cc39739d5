"""State spaces with a diagonal A (S4D): their discretisation, and their kernel as a sum of powers.

x' = diag(Lambda) x + B u, y = 2 Re(C x): the DPLR system without its low-rank part. Every state goes its own way, so
that the zero-order hold is as cheap as the bilinear rule, and the kernel K_l = 2 Re(sum_n C_n B_bar_n A_bar_n^l) is a
product with a Vandermonde matrix. docs/s4d.md derives the form that is computed here.
"""

from typing import Literal

import torch
from jaxtyping import Complex, Complex128, Float
from torch import Tensor

from longwave.ssm.algebra import as_complex, as_pairs
from longwave.ssm.discretize import DiscreteDPLR
from longwave.ssm.precision import doubles

Rule = Literal["zoh", "bilinear"]


def diagonal_discrete(
    Lambda: Complex[Tensor, "H M"], B: Complex[Tensor, "H M"], dt: Float[Tensor, "H"], rule: Rule = "zoh"
) -> DiscreteDPLR:
    """A_bar and B_bar of a diagonal system: what `dplr_step` takes, with a low-rank part of rank 0.

    zoh        A_bar = exp(Lambda dt),                        B_bar = (A_bar - 1) / Lambda B
    bilinear   A_bar = (1 + Lambda dt/2) / (1 - Lambda dt/2), B_bar = dt B / (1 - Lambda dt/2)
    """
    x = Lambda * dt.unsqueeze(-1)
    gain = hold_gain(x) if rule == "zoh" else 1 / (1 - x / 2)  # both: A_bar = 1 + x gain, B_bar = dt gain B
    none = x.new_empty(0, *x.shape)
    return DiscreteDPLR(x * gain, none, none, dt.unsqueeze(-1) * gain * B)


def hold_gain(x: Complex[Tensor, "*shape"]) -> Complex[Tensor, "*shape"]:
    """(e^x - 1) / x, with all its digits also where x is small, or 0."""
    is_small = x.abs() < 0.5  # there the difference would cancel, and few terms of the series are enough
    small, large = torch.where(is_small, x, 0), torch.where(is_small, 1, x)
    series = torch.ones_like(x)
    for k in range(15, 1, -1):  # 1 + x/2 (1 + x/3 (1 + ...))
        series = 1 + small * series / k
    return torch.where(is_small, series, (torch.exp(large) - 1) / large)


def diagonal_kernel(
    Lambda: Complex[Tensor, "H M"],
    B: Complex[Tensor, "H M"],
    C: Complex[Tensor, "*D H M"],
    dt: Float[Tensor, "H"],
    L: int,
    rule: Rule = "zoh",
) -> Float[Tensor, "*D H L"]:
    """K (H, L) of a diagonal system; `C` may have a leading axis of 2 (two output maps of one system)."""
    if L < 1:
        raise ValueError(f"L: expected a length of at least 1, got {L}")
    Lambda_, B_, C_ = (as_pairs(t) for t in (Lambda, B, C.reshape(-1, *Lambda.shape)))
    return power_sum(Lambda_, B_, C_, dt, L, rule).reshape(*C.shape[:-1], L)


def power_sum(
    Lambda: Float[Tensor, "H M 2"],
    B: Float[Tensor, "H M 2"],
    C: Float[Tensor, "D H M 2"],
    dt: Float[Tensor, "H"],
    L: int,
    rule: Rule = "zoh",
) -> Float[Tensor, "D H L"]:
    """K (D, H, L) of a diagonal system, with complex numbers as real pairs (a last axis of two).

    Steps come in blocks of T: l = T k + j, and A_bar^l = (A_bar^T)^k A_bar^j makes K a product of a matrix for k with
    one for j, of O(sqrt(L)) numbers per state each. Always in float64: an error of A_bar grows with the power l.
    """
    dtype = C.dtype
    Lambda, B, C, dt = doubles(Lambda, B, C, dt)
    change, _, _, B_bar = diagonal_discrete(as_complex(Lambda), as_complex(B), dt, rule)
    T = 1 << ((L - 1).bit_length() + 1) // 2
    within, after = powers(change, T)  # A_bar^j for j < T, and A_bar^T - 1
    between, _ = powers(after, -(-L // T))
    weights = (as_complex(C) * B_bar).unsqueeze(-1) * between  # (D, H, M, blocks)
    K = weights.real.mT @ within.real - weights.imag.mT @ within.imag
    return (2 * K).flatten(-2)[..., :L].to(dtype)


def powers(
    change: Complex128[Tensor, "H M"], count: int
) -> tuple[Complex128[Tensor, "H M count"], Complex128[Tensor, "H M"]]:
    """A_bar^j for j = 0 ... count - 1, by doubling, and A_bar^m - 1 for the least power of two m >= count.

    A_bar = 1 + change; its powers are squared as their difference from 1, so that slow modes keep their digits.
    """
    found, E = torch.ones_like(change).unsqueeze(-1), change
    while found.shape[-1] < count:
        found = torch.cat((found, found + found * E.unsqueeze(-1)), dim=-1)
        E = 2 * E + E * E
    return found[..., :count], E
