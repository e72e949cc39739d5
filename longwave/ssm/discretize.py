"""The bilinear rule, dense, and as the O(N) step of a DPLR system.

Paper: eq. (3) (recurrence) and appendix C.2. The stored half of a conjugate-symmetric state is used throughout: on it
P^* x means 2 Re(sum conj(P) x), a real number, so A and A_bar are real-linear maps of the stored half.
"""

from typing import NamedTuple

import torch
from jaxtyping import Complex, Float, Inexact
from torch import Tensor

from longwave.ssm.algebra import inverse_plus_identity


def bilinear(
    A: Inexact[Tensor, "N N"], B: Inexact[Tensor, "N"], dt: float | Float[Tensor, ""]
) -> tuple[Inexact[Tensor, "N N"], Inexact[Tensor, "N"]]:
    """A_bar = (I - dt/2 A)^-1 (I + dt/2 A),  B_bar = (I - dt/2 A)^-1 dt B."""
    identity = torch.eye(A.shape[0], dtype=A.dtype, device=A.device)
    right = torch.cat((identity + dt / 2 * A, (dt * B).unsqueeze(-1)), dim=-1)
    solved = torch.linalg.solve(identity - dt / 2 * A, right)
    return solved[:, :-1], solved[:, -1]


class DiscreteDPLR(NamedTuple):
    """A_bar and B_bar of a DPLR system in closed form: A_bar is again diagonal plus low-rank.

    A_bar x = x + change x - sum_i left_i Re(right_i . x),  with change, B_bar (H, M) and left, right (r, H, M).
    It is kept as the difference from the identity: 1 + change would round the slow modes' decay away.
    """

    change: Tensor
    left: Tensor
    right: Tensor
    B_bar: Tensor


def dplr_bilinear(
    Lambda: Complex[Tensor, "H M"],
    P: Complex[Tensor, "r H M"],
    B: Complex[Tensor, "H M"],
    dt: Float[Tensor, "H"],
    Q: Complex[Tensor, "r H M"] | None = None,
) -> DiscreteDPLR:
    """The paper's A_bar = A_1 A_0 and B_bar = 2 A_1 B, multiplied out with Woodbury's identity.

    With lambda = Lambda dt/2, p = P sqrt(dt/2), d = 1/(1 - lambda) and W = (I + p^* d p)^-1 (r x r, real):
    (I - dt/2 A)^-1 = d - d p W p^* d, and A_bar = 2 (I - dt/2 A)^-1 - I. With `Q` each p^* is q^*: A = Lambda - P Q^*.
    """
    half = (dt / 2).unsqueeze(-1)
    lambda_ = Lambda * half
    d = 1 / (1 - lambda_)
    p, q = (x * half.sqrt() for x in (P, P if Q is None else Q))
    dp, dq = d * p, d * q.conj()
    gram = 2 * torch.einsum("ihm,jhm->hij", q.conj(), dp).real
    weighted = torch.einsum("hij,ihm->jhm", inverse_plus_identity(gram).to(dp.dtype), dp)  # sum_i d p_i W_ij
    through = 2 * torch.einsum("jhm,hm->jh", dq, B).real  # q_j^* d B
    B_bar = dt.unsqueeze(-1) * (d * B - (weighted * through.unsqueeze(-1)).sum(0))
    return DiscreteDPLR(2 * lambda_ * d, 4 * weighted, dq, B_bar)


def dplr_step(
    discrete: DiscreteDPLR, state: Complex[Tensor, "batch H M"], u: Float[Tensor, "batch H"]
) -> Complex[Tensor, "batch H M"]:
    """x_k = A_bar x_(k-1) + B_bar u_k in O(N) per feature (Theorem 2)."""
    change, left, right, B_bar = discrete
    moved = change * state + B_bar * u.unsqueeze(-1)
    for left_i, right_i in zip(left, right, strict=True):
        inner = (right_i.real * state.real - right_i.imag * state.imag).sum(-1, keepdim=True)
        moved = moved - left_i * inner
    return state + moved


def moved_row(discrete: DiscreteDPLR, C: Complex[Tensor, "H M"]) -> Complex[Tensor, "H M"]:
    """C A_bar, the output map whose y = 2 Re(C A_bar x) is that of C a step later without input."""
    change, left, right, _ = discrete
    moved = change * C
    for left_i, right_i in zip(left, right, strict=True):
        moved = moved - right_i * (C * left_i).real.sum(-1, keepdim=True)
    return C + moved
