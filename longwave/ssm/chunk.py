"""Resuming a sequence: the response to an initial state, and the state after a chunk.

Both work in blocks of T steps with matrix products: rows C A_bar^(j+1) against the state at each block's start, and the
block's input against columns A_bar^j B_bar; A_bar^T, squared again and again, carries states from block to block.
States are real here, (re, im) of each stored pair: x (batch, H, N).
"""

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from longwave.ssm.algebra import as_complex, as_pairs, minus_identity
from longwave.ssm.precision import doubles

BLOCK = 64  # T: steps of one block


class Powers:
    """E_m = A_bar^m - I, (H, N, N), for m = 1, 2, 4, ...: `powers[j]` has m = 2^j and is computed when first asked for.

    Squared in float64 whatever the dtype that is handed out: squaring in float32 loses digits that a state keeps.
    """

    def __init__(self, E: Tensor, dtype: torch.dtype) -> None:
        self._wide, self._narrow, self.dtype = [E], [E.to(dtype)], dtype

    @classmethod
    def of(
        cls,
        Lambda: Complex[Tensor, "H M"],
        P: Complex[Tensor, "r H M"],
        dt: Float[Tensor, "H"],
        Q: Complex[Tensor, "r H M"] | None = None,
    ) -> "Powers":
        """The powers of a DPLR system's A_bar, in the dtype of dt."""
        Lambda_, P_, Q_, wide_dt = doubles(*(as_pairs(t) for t in (Lambda, P, P if Q is None else Q)), dt)
        return cls(minus_identity(Lambda_, P_, wide_dt, Q_), dt.dtype)

    def __getitem__(self, j: int) -> Tensor:
        while len(self._wide) <= j:
            self._wide.append(self._doubled(self._wide[-1]))
            self._narrow.append(self._wide[-1].to(self.dtype))
        return self._narrow[j]

    def advance(
        self, x: Float[Tensor, "batch H N"], steps: Int[Tensor, "batch"], most: int
    ) -> Float[Tensor, "batch H N"]:
        """A_bar^steps x, each row by a number of steps of its own, none of them above `most`."""
        x = x.movedim(0, 1)  # (H, batch, N)
        for j in range(most.bit_length()):
            moves = (steps.to(x.device) >> j & 1).bool().unsqueeze(-1)
            x = torch.where(moves, self.move(x, j), x)
        return x.movedim(0, 1)

    def move(self, x: Float[Tensor, "H rows N"], j: int) -> Float[Tensor, "H rows N"]:
        """A_bar^m x for m = 2^j and each of the states x."""
        return x + x @ self[j].mT

    def move_rows(self, rows: Float[Tensor, "H rows N"], j: int) -> Float[Tensor, "H rows N"]:
        """C A_bar^m for m = 2^j and each of the output maps C in `rows`."""
        return rows + rows @ self[j]

    def _doubled(self, E: Tensor) -> Tensor:
        return 2 * E + E @ E


class DiagonalPowers(Powers):
    """Powers of a diagonal A_bar: E_m (H, M) complex, with element-wise products."""

    def move(self, x: Float[Tensor, "H rows N"], j: int) -> Float[Tensor, "H rows N"]:
        """A_bar^m x for m = 2^j and each of the states x."""
        return self._moved(x, self[j])

    def move_rows(self, rows: Float[Tensor, "H rows N"], j: int) -> Float[Tensor, "H rows N"]:
        """C A_bar^m for m = 2^j and each of the output maps C in `rows`."""
        return self._moved(rows, self[j].conj_physical())  # a row holds 2 conj(C), re and im

    def _moved(self, x: Tensor, E: Tensor) -> Tensor:
        z = as_complex(x.unflatten(-1, (-1, 2)))
        return x + torch.view_as_real(E.unsqueeze(1) * z).flatten(-2)

    def _doubled(self, E: Tensor) -> Tensor:
        return 2 * E + E * E


def response(
    powers: Powers,
    C_row: Float[Tensor, "H N"],
    state: Float[Tensor, "batch H N"],
    L: int,
) -> Float[Tensor, "batch H L"]:
    """The response to a state: C A_bar^(k+1) x for k = 0 ... L-1."""
    rows = powers.move_rows(C_row.unsqueeze(1), 0)  # (H, T, N): C A_bar^(j+1)
    while rows.shape[1] < min(BLOCK, L):
        rows = torch.cat((rows, powers.move_rows(rows, rows.shape[1].bit_length() - 1)), dim=1)
    T = rows.shape[1]
    starts = state.movedim(0, 1).unsqueeze(1)  # (H, blocks, batch, N): the state at the start of each block
    j = T.bit_length() - 1
    while starts.shape[1] * T < L:
        later = starts.flatten(1, 2)
        starts = torch.cat((starts, powers.move(later, j).unflatten(1, starts.shape[1:3])), dim=1)
        j += 1
    out = torch.einsum("hcbn,htn->bhct", starts[:, : -(-L // T)], rows)
    return out.flatten(2)[..., :L]


def state_after(
    powers: Powers,
    B_bar: Float[Tensor, "H N"],
    u: Float[Tensor, "batch H L"],
    state: Float[Tensor, "batch H N"] | None = None,
    lengths: Int[Tensor, "batch"] | None = None,
) -> Float[Tensor, "batch H N"]:
    """x = A_bar^L x_0 + sum_j A_bar^(L-1-j) B_bar u_j, for each row after `lengths` steps (default: all L)."""
    batch, H, L = u.shape
    if lengths is not None:
        # Move each row to the right so that its last step is the last: steps of zeros before the first change nothing.
        source = torch.arange(L, device=u.device) - (L - lengths.to(u.device)).unsqueeze(-1)
        u = torch.gather(u, -1, source.clamp(min=0).unsqueeze(1).expand(batch, H, L))
        u = torch.where((source >= 0).unsqueeze(1), u, 0)
    columns = B_bar.unsqueeze(1)  # (H, T, N): A_bar^j B_bar
    while columns.shape[1] < min(BLOCK, L):
        columns = torch.cat((columns, powers.move(columns, columns.shape[1].bit_length() - 1)), dim=1)
    T = columns.shape[1]
    blocks = 1 << (-(-L // T) - 1).bit_length()
    u = torch.nn.functional.pad(u, (blocks * T - L, 0)).unflatten(-1, (blocks, T))
    x = torch.einsum("bhct,htn->hcbn", u, columns.flip(1))
    j = T.bit_length() - 1
    while x.shape[1] > 1:
        early, late = x[:, 0::2].flatten(1, 2), x[:, 1::2]
        x = late + powers.move(early, j).view_as(late)
        j += 1
    x = x.squeeze(1).movedim(0, 1)
    if state is None:
        return x
    steps = torch.full((batch,), L, device=u.device) if lengths is None else lengths
    return x + powers.advance(state, steps, L)
