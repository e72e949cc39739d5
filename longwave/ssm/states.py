"""States of whole sequences, block by block, from A_bar and B_bar in their closed form (`DiscreteDPLR`).

With A = A_bar, B = B_bar and blocks of T steps, x_(c+1) = A^T x_c + sum_j A^(T-1-j) B u_(cT+j) is the state after block
c, and x_c adds C A^j x_c to the outputs. So the vectors A^j B, or the rows C A^j (`krylov`), and A^T - I (`power`) are
all that a block needs of a system; with them `collect` sums up signals, and its transpose, `spread`, hands states out.
docs/states.md has the cost and the gradients. These are the plain functions; `longwave.ops` has them compiled.

Complex numbers are real pairs (a last axis of two), and a state is N = 2M numbers, (re, im) of each stored pair. What
is derived from the parameters is float64 whatever the signals are: errors of a power grow with it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from longwave.ssm.algebra import as_complex, block_diagonal, power_minus_identity
from longwave.ssm.chunk import DiagonalPowers, Powers, state_after

SHORTEST, LONGEST = 64, 512  # blocks


def block_size(batch: int, L: int, N: int, rank: int) -> int:
    """T, the steps of a block: a power of two that balances the powers against the moves from block to block.

    For short signals it is longer than they are: their steps are fewer than what a power of A_bar costs. Of long ones
    it is an eighth at most, because up to T - 1 steps remain after the last whole block, and go one by one. In an
    exported graph, where sizes are symbols, it is the shortest.
    """
    if not (isinstance(batch, int) and isinstance(L, int)):
        return SHORTEST
    if batch * L <= 16 * N and L <= LONGEST // 2:
        return max(SHORTEST, 1 << L.bit_length())
    T, most = SHORTEST, min(LONGEST, L // 8)
    # T to 2 T saves batch L / (2 T) moves of N^2, twice with gradients. It costs rank T of them three times (A^T is a
    # product of two tables), or a squaring, N^3, four times, if that is less.
    while rank and most >= 2 * T and batch * L > T * min(4 * N, 3 * rank * T):
        T *= 2
    return T


def powers_of_step(
    change: Float[Tensor, "H M 2"], left: Float[Tensor, "r H M 2"], right: Float[Tensor, "r H M 2"]
) -> Powers:
    """The powers of A_bar x = x + change x - sum_i left_i Re(right_i . x)."""
    if not len(left):
        return DiagonalPowers(as_complex(change), torch.complex128)
    rows = torch.stack((right[..., 0], -right[..., 1]), -1)  # Re(right x)
    return Powers(
        block_diagonal(change) - torch.einsum("ihm,ihn->hmn", left.flatten(-2), rows.flatten(-2)), change.dtype
    )


def krylov(
    change: Float[Tensor, "H M 2"],
    left: Float[Tensor, "r H M 2"],
    right: Float[Tensor, "r H M 2"],
    start: Float[Tensor, "H N"],
    T: int,
    transposed: bool = False,
) -> Float[Tensor, "H T N"]:
    """A^j x for j = 0 ... T-1 and a column x; transposed: x A^j for a row x."""
    powers, found, j = powers_of_step(change, left, right), start.unsqueeze(1), 0
    while found.shape[1] < T:
        move = powers.move_rows if transposed else powers.move
        found = torch.cat((found, move(found, j)), dim=1)
        j += 1
    return found[:, :T]


def power(
    change: Float[Tensor, "H M 2"], left: Float[Tensor, "r H M 2"], right: Float[Tensor, "r H M 2"], T: int
) -> Float[Tensor, "H n N"]:
    """A^T - I as (H, N, N); of a diagonal system its diagonal, (H, 1, N), as pairs."""
    E = powers_of_step(change, left, right)[0]
    if E.is_complex():
        for _ in range(T.bit_length() - 1):
            E = 2 * E + E * E
        return torch.view_as_real(E).flatten(-2).unsqueeze(1)
    return power_minus_identity(E, T)


def collect(
    columns: Float[Tensor, "H T N"],
    E: Float[Tensor, "H n N"] | None,
    u: Float[Tensor, "batch L H"],
    start: Float[Tensor, "batch H N"] | None,
    lengths: Int[Tensor, "batch"],
) -> tuple[Float[Tensor, "batch H N"], Float[Tensor, "batch H blocks N"]]:
    """The state after each row's whole blocks, from `start` before them, and the state before each block.

    `columns` are A^j B, `E` is A^T - I (None: no state has to be moved). The last lengths % T steps of a row are not
    looked at, and its state stays what it is after its last block.
    """
    (batch, L, H), (_, T, N) = u.shape, columns.shape
    blocks = L // T
    there = torch.arange(blocks * T, device=u.device) < (lengths // T * T).unsqueeze(-1)
    taken = torch.where(there.unsqueeze(-1), u[:, : blocks * T], 0).unflatten(1, (blocks, T))
    added = torch.einsum("bcth,htn->cbhn", taken, columns.flip(1).to(u.dtype)).double()
    x = u.new_zeros(batch, H, N).double() if start is None else start.double()
    kept = []
    for c in range(blocks):
        kept.append(x)
        after = added[c] if c == 0 and start is None else _moved(x, E) + added[c]
        x = torch.where((lengths // T > c).unsqueeze(-1).unsqueeze(-1), after, x)
    before = torch.stack(kept, dim=2) if kept else x.new_zeros(batch, H, 0, N)
    return x.to(u.dtype), before.to(u.dtype)


def spread(
    rows: Float[Tensor, "H T N"], E: Float[Tensor, "H n N"] | None, start: Float[Tensor, "batch H N"], L: int
) -> tuple[Float[Tensor, "batch L H"], Float[Tensor, "batch H blocks N"]]:
    """C A^k x for k = 0 ... L-1 and each state x, and the state before each block. `rows` are C A^j for j < T."""
    T, x = rows.shape[1], start.double()
    kept = [x]
    while len(kept) * T < L:
        kept.append(_moved(kept[-1], E))
    before = torch.stack(kept, dim=2).to(start.dtype)
    y = torch.einsum("bhcn,htn->bcth", before, rows.to(start.dtype)).flatten(1, 2)
    return y[:, :L], before


def scan(
    change: Float[Tensor, "H M 2"],
    left: Float[Tensor, "r H M 2"],
    right: Float[Tensor, "r H M 2"],
    B_bar: Float[Tensor, "H N"],
    u: Float[Tensor, "batch L H"],
    start: Float[Tensor, "batch H N"],
    lengths: Int[Tensor, "batch"],
    every: int,
) -> Float[Tensor, "batch count H N"]:
    """The states after `every`, 2 `every` ... steps from `start`; a row stays as it is after its `lengths` steps."""
    powers, x, states = powers_of_step(change, left, right), start.double(), []
    for t in range(0, u.shape[1] // every * every, every):
        steps = (lengths - t).clamp(0, every)
        x = state_after(powers, B_bar, u[:, t : t + every].mT.double(), x, steps)
        states.append(x)
    found = torch.stack(states, dim=1) if states else x.new_zeros(len(x), 0, *x.shape[1:])
    return found.to(u.dtype)


def _moved(x: Float[Tensor, "batch H N"], E: Float[Tensor, "H n N"] | None) -> Float[Tensor, "batch H N"]:
    """A^T x."""
    assert E is not None
    if E.shape[1] == 1:
        factor, pairs = as_complex(E.squeeze(1).unflatten(-1, (-1, 2))), as_complex(x.unflatten(-1, (-1, 2)))
        return x + torch.view_as_real(factor * pairs).flatten(-2)
    return x + torch.einsum("hmn,bhn->bhm", E, x)
