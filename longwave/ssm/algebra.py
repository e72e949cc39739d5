"""A_bar of a DPLR system as a real matrix, its powers, and what they do to an output map.

Complex numbers are real pairs here (a last axis of two): Lambda (H, M, 2), P (r, H, M, 2), C (D, H, M, 2); dt (H,). D
is the number of output maps, r the rank of P. Conjugates are physical: a lazy one is not resolved inside an op that a
compiled graph calls.
"""

from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from longwave.ssm.precision import doubles


def as_complex(pairs: Float[Tensor, "*shape 2"]) -> Complex[Tensor, "*shape"]:
    """Complex numbers from pairs of any layout: view_as_complex refuses odd offsets, as flattened parameters have."""
    return torch.complex(pairs[..., 0], pairs[..., 1])


def as_pairs(values: Complex[Tensor, "*shape"]) -> Float[Tensor, "*shape 2"]:
    """Complex numbers as real pairs, a last axis of two."""
    return torch.view_as_real(values.resolve_conj())


def block_diagonal(pairs: Float[Tensor, "H M 2"]) -> Float[Tensor, "H N N"]:
    """Products with complex numbers as real matrices (H, N, N) on (re, im) of each pair."""
    re, im = pairs.unbind(-1)
    blocks = torch.stack((torch.stack((re, -im), -1), torch.stack((im, re), -1)), -2)
    H, M = re.shape
    dense = torch.zeros(H, M, 2, M, 2, dtype=re.dtype, device=re.device)
    return torch.diagonal_scatter(dense, blocks.permute(0, 2, 3, 1), dim1=1, dim2=3).reshape(H, 2 * M, 2 * M)


def minus_identity(
    Lambda: Float[Tensor, "H M 2"],
    P: Float[Tensor, "r H M 2"],
    dt: Float[Tensor, "H"],
    Q: Float[Tensor, "r H M 2"] | None = None,
) -> Float[Tensor, "H N N"]:
    """E = A_bar - I as a real (H, N, N) matrix on (re, im) of each stored pair, in closed form by Woodbury.

    With lambda = Lambda dt/2, p = sqrt(dt) (Re P, Im P), likewise q from Q (or P), and D = 1/(1 - lambda):
    E = 2 lambda D - 2 (D p) (I + q^T D p)^-1 (D^T q)^T.
    """
    lambda_ = as_complex(Lambda) * (dt / 2).unsqueeze(-1)
    d = 1 / (1 - lambda_)
    p, q = (as_complex(x) * dt.sqrt().unsqueeze(-1) for x in (P, P if Q is None else Q))
    columns, rows, q = (torch.view_as_real(x).flatten(-2).movedim(0, 1) for x in (d * p, d.conj_physical() * q, q))
    gram = columns @ q.mT  # (H, r, r): gram[j, i] = q_i^T D p_j
    return 2 * block_diagonal(torch.view_as_real(lambda_ * d)) - 2 * columns.mT @ inverse_plus_identity(gram).mT @ rows


def power_minus_identity(E: Float[Tensor, "H N N"], L: int) -> Float[Tensor, "H N N"]:
    """E_L = A_bar^L - I from E = A_bar - I: (I + E_a)(I + E_b) - I = E_a + E_b + E_a E_b."""
    total = None
    while L:
        if L & 1:
            total = E if total is None else total + E + total @ E
        L >>= 1
        if L:
            E = 2 * E + E @ E
    assert total is not None
    return total


def truncate(
    Lambda: Float[Tensor, "H M 2"],
    P: Float[Tensor, "r H M 2"],
    C: Float[Tensor, "D H M 2"],
    dt: Float[Tensor, "H"],
    L: int,
    Q: Float[Tensor, "r H M 2"] | None = None,
) -> Float[Tensor, "D H M 2"]:
    """C~ = C (I - A_bar^L), (D, H, M, 2), by repeated squaring of E = A_bar^m - I; E_2m = 2 E_m + E_m^2.

    E is small where A_bar^m is close to I, so slow modes keep their digits, and tends to -I, not to 0: no denormals.
    Always in float64: in float32 the squarings would cost the kernel a digit or two.
    """
    dtype = C.dtype
    Lambda, P, C, dt = doubles(Lambda, P, C, dt)
    E = minus_identity(Lambda, P, dt, None if Q is None else Q.double())
    return from_row(-_ChangeOfRows.apply(E, to_row(C), L)).to(dtype)


class _ChangeOfRows(torch.autograd.Function):
    """rows A^L - rows, (H, D, N), from E = A - I; its gradient computes the squares again, two products for each."""

    @staticmethod
    def forward(ctx: Any, E: Tensor, rows: Tensor, L: int) -> Tensor:
        """Bit by bit of L, from the lowest."""
        ctx.save_for_backward(E, rows)
        ctx.length = L
        return _changes(_squares(E, L), rows, L)[-1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients of E and rows."""
        (E, rows), L = ctx.saved_tensors, ctx.length
        squares = _squares(E, L)
        changes = _changes(squares, rows, L)[:-1]  # before each bit that is set
        d_rows, dE = torch.zeros_like(rows), None
        for j in reversed(range(len(squares))):
            if dE is not None:  # through 2 E + E E
                dE = torch.baddbmm(torch.baddbmm(dE, dE, squares[j].mT, beta=2), squares[j].mT, dE)
            if L >> j & 1:  # through change + (rows + change) E
                before = rows + changes.pop()
                dE = before.mT @ grad if dE is None else torch.baddbmm(dE, before.mT, grad)
                through = grad @ squares[j].mT
                grad, d_rows = grad + through, d_rows + through
        assert dE is not None
        return dE, d_rows, None


def _squares(E: Tensor, L: int) -> list[Tensor]:
    """A^m - I for the powers of two m <= L."""
    found = [E]
    while 2 << len(found) - 1 <= L:
        found.append(torch.baddbmm(found[-1], found[-1], found[-1], beta=2))
    return found


def _changes(squares: list[Tensor], rows: Tensor, L: int) -> list[Tensor]:
    """rows A^m - rows for the bits of L seen so far, from none to all."""
    found = [torch.zeros_like(rows)]
    for j, E in enumerate(squares):
        if L >> j & 1:
            found.append(torch.baddbmm(found[-1], rows + found[-1], E))
    return found


def to_row(C: Float[Tensor, "D H M 2"]) -> Float[Tensor, "H D N"]:
    """The output map y = 2 Re(C x) as real rows (H, D, N) on (re, im) of each pair."""
    return torch.stack((2 * C[..., 0], -2 * C[..., 1]), dim=-1).flatten(-2).movedim(0, 1)


def from_row(rows: Float[Tensor, "H D N"]) -> Float[Tensor, "D H M 2"]:
    """The inverse of `to_row`: (H, D, N) -> (D, H, M, 2)."""
    return torch.stack((rows[..., 0::2] / 2, rows[..., 1::2] / -2), dim=-1).movedim(0, 1)


def inverse_plus_identity(Q: Float[Tensor, "H r r"]) -> Float[Tensor, "H r r"]:
    """(I + Q)^-1 for a batch of 0x0, 1x1 or 2x2 matrices, without a batched solver."""
    if Q.shape[-1] == 0:
        return Q
    if Q.shape[-1] == 1:
        return 1 / (1 + Q)
    a, b, c, d = 1 + Q[..., 0, 0], Q[..., 0, 1], Q[..., 1, 0], 1 + Q[..., 1, 1]
    adjugate = torch.stack((torch.stack((d, -b), -1), torch.stack((-c, a), -1)), -2)
    return adjugate / (a * d - b * c)[..., None, None]
