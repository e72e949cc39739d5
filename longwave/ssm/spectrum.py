"""Algorithm 1: the spectrum of the kernel, from the truncated output map, without a pole in the way.

Complex numbers are real pairs throughout (a last axis of two): Lambda, B (H, M, 2), P (r, H, M, 2), C (D, H, M, 2);
dt (H,). The spectrum is computed block by block of nodes, so that no array of size H M L exists. docs/kernel.md derives
the formulas.
"""

import functools
import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from longwave.ssm.precision import doubles

# A block of nodes holds at most about this many (feature, pair, node) numbers. On the CPU it stays in a cache;
# elsewhere every call costs microseconds, and memory is the bound.
CPU_BLOCK_NUMBERS, BLOCK_NUMBERS = 1 << 20, 1 << 24

Pair = tuple[Tensor, Tensor]  # a complex tensor as its real and imaginary part


def spectrum(
    Lambda: Float[Tensor, "H M 2"],
    P: Float[Tensor, "r H M 2"],
    B: Float[Tensor, "H M 2"],
    C: Float[Tensor, "D H M 2"],
    dt: Float[Tensor, "H"],
    L: int,
    Q: Float[Tensor, "r H M 2"] | None = None,
) -> Float[Tensor, "D H nodes 2"]:
    """K_hat (D, H, L//2+1, 2): the spectrum of the kernel whose truncated output map is C (Algorithm 1, pole-free).

    Q stands for the original paper's A = diag(Lambda) - P Q^*; without it Q = P. Where autograd differentiates it, each
    of several blocks is computed again in the backward pass, so that none is kept until then.
    """
    dtype = Lambda.dtype
    Lambda, P, B, C, dt, Q = widen(Lambda, P, B, C, dt, P if Q is None else Q)
    sigma, kappa = nodes(L, Lambda)
    block, parts_of_nodes = spectrum_block, blocks(Lambda, L)
    if len(parts_of_nodes) > 1 and torch.is_grad_enabled():
        block = functools.partial(checkpoint, spectrum_block, use_reentrant=False, preserve_rng_state=False)
    parts = [block(Lambda, P, B, C, dt, Q, sigma[k], kappa[k]) for k in parts_of_nodes]
    return torch.cat(parts, dim=-2).to(dtype)


def spectrum_block(
    Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, Q: Tensor, sigma: Tensor, kappa: Tensor
) -> Tensor:
    """K_hat at the nodes of one block, (D, H, nodes, 2)."""
    half = dt[:, None] / 2
    lambda_ = (Lambda[..., 0] * half, Lambda[..., 1] * half)
    p, q = ((x[..., 0] * half.sqrt(), x[..., 1] * half.sqrt()) for x in (P, Q))
    norm = lambda_[0] ** 2 + lambda_[1] ** 2
    sigma_n = sigma.expand(*norm.shape, -1)  # (H, M, nodes)
    a = norm.unsqueeze(-1) * kappa**2 - sigma**2
    if a.dtype == torch.float64:
        # A node that hits an undamped pole: move it away from that pair by a little. What the move costs grows with
        # it, what the cancellation in Woodbury's identity costs falls: at 1e-9 both are small (docs/kernel.md).
        scale = norm.sqrt() + (p[0] ** 2 + p[1] ** 2).sum(0)
        shift = (1e-9 * (sigma + kappa * scale.unsqueeze(-1)) + 1e-30).detach()
        near = shift * (sigma + 0.5 * shift)
        hit = (a.abs() < near) & ((2 * lambda_[0].unsqueeze(-1) * (sigma * kappa)).abs() < near)
        sigma_n = torch.where(hit, sigma + shift, sigma)
        a = torch.where(hit, norm.unsqueeze(-1) * kappa**2 - sigma_n**2, a)
    b = 2 * lambda_[0].unsqueeze(-1) * (sigma_n * kappa)
    over = 1 / (a * a + b * b)
    X, Y = a * over, b * over
    kappa_X, kappa_Y, sigma_X, sigma_Y = kappa * X, kappa * Y, sigma_n * X, sigma_n * Y

    def k(left: Pair, right: Pair) -> Pair:
        """The sum over conjugate pairs of left right / (i sigma - kappa lambda)."""
        w = _times(left, right)
        c0 = -2 * (w[0] * lambda_[0] + w[1] * lambda_[1]).unsqueeze(-2)
        c1 = 2 * w[0].unsqueeze(-2)
        return (c0 @ kappa_X - c1 @ sigma_Y).squeeze(-2), (c0 @ kappa_Y + c1 @ sigma_X).squeeze(-2)

    b_, c_ = (B[..., 0], B[..., 1]), (C[..., 0], C[..., 1])
    ps = [(p[0][i], p[1][i]) for i in range(P.shape[0])]
    conj_qs = [(q[0][i], -q[1][i]) for i in range(P.shape[0])]
    k11 = [[k(conj_q, p_j) for p_j in ps] for conj_q in conj_qs]
    out = _woodbury(k(c_, b_), [k(c_, p_j) for p_j in ps], [k(conj_q, b_) for conj_q in conj_qs], k11, kappa)
    return torch.stack(_times(out, (half * kappa, half * sigma)), dim=-1)  # dt/2 exp(i theta/2)


def _woodbury(k00: Pair, k01: list[Pair], k10: list[Pair], k11: list[list[Pair]], kappa: Tensor) -> Pair:
    """k00 - kappa k01 (I + kappa k11)^-1 k10 for rank 0, 1 and 2."""
    rank = len(k01)
    if rank == 0:
        return k00
    m = [[(kappa * k11[i][j][0] + (i == j), kappa * k11[i][j][1]) for j in range(rank)] for i in range(rank)]
    first = _over(k01[0], m[0][0])
    out = _minus(k00, _scaled(kappa, _times(first, k10[0])))
    if rank == 1:
        return out
    # Elimination, one column of P after the other: near an undamped pole a determinant would cancel twice over.
    factor = _over(m[1][0], m[0][0])
    left = _minus(k01[1], _times(first, m[0][1]))
    right = _minus(k10[1], _times(factor, k10[0]))
    pivot = _minus(m[1][1], _times(factor, m[0][1]))
    return _minus(out, _scaled(kappa, _over(_times(left, right), pivot)))


def nodes(L: int, like: Tensor) -> Pair:
    """sin and cos of theta_k / 2 = pi k / L for k = 0 ... L//2, in float64, rounded once to the dtype of `like`."""
    k = torch.arange(L // 2 + 1, dtype=torch.float64, device=like.device)
    sigma = torch.sin(math.pi * k / L)
    kappa = torch.sin(math.pi * (L - 2 * k) / (2 * L))  # = cos(pi k / L), exactly 0 at k = L/2
    return sigma.to(like.dtype), kappa.to(like.dtype)


def blocks(Lambda: Tensor, L: int) -> list[slice]:
    """The nodes 0 ... L//2 in blocks that are worked on one after the other."""
    count = L // 2 + 1
    numbers = CPU_BLOCK_NUMBERS if Lambda.is_cpu else BLOCK_NUMBERS
    size = max(16, numbers // max(1, Lambda.shape[0] * Lambda.shape[1]))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def widen(Lambda: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """All in float64, when float32 would not do for one of the features.

    On other devices than the CPU always: to ask would wait for them, and memory bounds these sums, not arithmetic. And
    in a compiled graph, which is the same for all values.
    """
    is_unknown = not Lambda.is_cpu or torch.compiler.is_compiling()
    is_wide = is_unknown or bool(needs_float64(Lambda, others[3]).any())
    return doubles(Lambda, *others) if is_wide else tuple([p.contiguous() for p in (Lambda, *others)])


def needs_float64(Lambda: Float[Tensor, "H M 2"], dt: Float[Tensor, "H"], damping: float = 3e-5) -> UInt8[Tensor, "H"]:
    """Which features (H,) are evaluated in float64 whatever their dtype, as 0 or 1.

    Those with a pole that only P P^* damps, whose own damping is less than `damping` |Lambda|, because terms of
    Woodbury's identity cancel where a node comes close to it, and those with steps so small that their squares leave
    float32's range. LegS has a damping of 4e-4 |Lambda| with N = 64 and of 2.4e-5 with N = 256, LegT and LagT have
    none; docs/results/accuracy.md has the errors in between.
    """
    own, size = Lambda[..., 0].abs(), torch.linalg.vector_norm(Lambda, dim=-1)
    return ((own < damping * size) | (size * dt.unsqueeze(-1) < 1e-6)).any(-1).to(torch.uint8)


def _times(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _over(x: Pair, y: Pair) -> Pair:
    q = 1 / (y[0] ** 2 + y[1] ** 2)
    return (x[0] * y[0] + x[1] * y[1]) * q, (x[1] * y[0] - x[0] * y[1]) * q


def _scaled(factor: Tensor, x: Pair) -> Pair:
    return factor * x[0], factor * x[1]


def _minus(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]
