"""States of whole sequences by the compiled library; longwave.ssm.states says what each function computes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longwave.ops.cpu.library import call, suffix


def krylov(change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool) -> Tensor:
    """A^j x for j < T, (H, T, N)."""
    out = start.new_empty(start.shape[0], T, start.shape[1])
    call("krylov", (*_sizes(left), T), (change, left, right, start), (out,), transposed)
    return out


def krylov_backward(
    grad: Tensor, change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool
) -> list[Tensor]:
    """Gradients with respect to change, left, right and start; the vectors are computed again."""
    out = _like(change, left, right, start)
    call("krylov_backward", (*_sizes(left), T), (change, left, right, start, grad), out, transposed)
    return out


def power(change: Tensor, left: Tensor, right: Tensor, T: int) -> Tensor:
    """A^T - I, (H, N, N), or (H, 1, N) if it is diagonal."""
    H, N = change.shape[0], 2 * change.shape[1]
    E = change.new_empty(H, N if len(left) else 1, N)
    call("power", (*_sizes(left), T), (change, left, right), (E,))
    return E


def power_backward(grad: Tensor, change: Tensor, left: Tensor, right: Tensor, T: int) -> list[Tensor]:
    """Gradients with respect to change, left and right; the squares are computed again."""
    out = _like(change, left, right)
    call("power_backward", (*_sizes(left), T), (change, left, right, grad), out)
    return out


def collect(
    columns: Tensor, E: Tensor | None, u: Tensor, start: Tensor | None, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """The state after the blocks and, if kept, those before each."""
    (batch, L, H), (_, T, N) = u.shape, columns.shape
    last, kept = u.new_empty(batch, H, N), u.new_empty(batch, H, L // T if keep else 0, N)
    _call_blocks("collect", lengths, L, columns, E, (u, _or_nothing(start, u)), (last, kept))
    return last, kept


def collect_backward(
    grad: Tensor, columns: Tensor, E: Tensor | None, u: Tensor, lengths: Tensor, kept: Tensor, started: bool
) -> list[Tensor]:
    """Gradients with respect to those of columns, E, u and start that were given."""
    dcolumns, dE, du = _like(columns, _or_nothing(E, columns), u)
    dstart = grad.new_empty(grad.shape if started else 0)
    if not kept.numel():  # the library sets them at the last block
        dcolumns.zero_(), dE.zero_()
    _call_blocks("collect_backward", lengths, u.shape[1], columns, E, (u, kept, grad), (dcolumns, dE, du, dstart))
    return [dcolumns, *([] if E is None else [dE]), du, *([dstart] if started else [])]


def spread(rows: Tensor, E: Tensor | None, start: Tensor, L: int, keep: bool) -> tuple[Tensor, Tensor]:
    """The response of L outputs to states and, if kept, the states before each block."""
    (batch, H, N), T = start.shape, rows.shape[1]
    y, kept = start.new_empty(batch, L, H), start.new_empty(batch, H, -(-L // T) if keep else 0, N)
    _call_blocks("spread", torch.full((batch,), L, device="cpu"), L, rows, E, (start,), (y, kept))
    return y, kept


def spread_backward(grad: Tensor, rows: Tensor, E: Tensor | None, kept: Tensor) -> list[Tensor]:
    """Gradients with respect to rows, E if it was given, and start."""
    (batch, L, H), N = grad.shape, rows.shape[2]
    drows, dE = _like(rows, _or_nothing(E, rows))
    dstart, lengths = grad.new_empty(batch, H, N), torch.full((batch,), L, device="cpu")
    _call_blocks("spread_backward", lengths, L, rows, E, (kept, grad), (drows, dE, dstart))
    return [drows, *([] if E is None else [dE]), dstart]


def scan(
    change: Tensor,
    left: Tensor,
    right: Tensor,
    B_bar: Tensor,
    u: Tensor,
    start: Tensor,
    lengths: Tensor,
    every: int,
) -> Tensor:
    """States after every `every` steps, (batch, L // every, H, N)."""
    batch, L, H = u.shape
    out = u.new_empty(batch, L // every, H, B_bar.shape[1])
    inputs = (_checked(lengths, L), change, left, right, B_bar, u, start)
    call("scan" + suffix(u), (batch, L, every, *_sizes(left)), inputs, (out,))
    return out


def scan_backward(
    grad: Tensor,
    change: Tensor,
    left: Tensor,
    right: Tensor,
    B_bar: Tensor,
    u: Tensor,
    start: Tensor,
    lengths: Tensor,
    out: Tensor,
    every: int,
) -> list[Tensor]:
    """Gradients with respect to change, left, right, B_bar, u and start; states between those of `out` come again."""
    batch, L, _ = u.shape
    found = _like(change, left, right, B_bar, u, start)
    inputs = (_checked(lengths, L), change, left, right, B_bar, u, start, out, grad)
    call("scan_backward" + suffix(u), (batch, L, every, *_sizes(left)), inputs, found)
    return found


def _like(*tensors: Tensor) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in tensors]


def _sizes(left: Tensor) -> tuple[int, ...]:
    r, H, M, _ = left.shape
    return H, M, r


def _checked(lengths: Tensor, L: int) -> Tensor:
    """The steps of each row; the library reads that far without looking."""
    if lengths.numel() and not (int(lengths.min()) >= 0 and int(lengths.max()) <= L):
        raise ValueError(f"lengths: expected numbers from 0 to {L}, got {lengths.tolist()}")
    return lengths


def _or_nothing(tensor: Tensor | None, like: Tensor) -> Tensor:
    """An empty tensor has no address, which the library takes for none."""
    return like.new_empty(0) if tensor is None else tensor


def _call_blocks(
    name: str,
    lengths: Tensor,
    L: int,
    table: Tensor,
    E: Tensor | None,
    signals: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> None:
    """Call a function of blocks: lengths, the tables A^j B or C A^j and A^T - I, signals, whether A is diagonal."""
    H, T, N = table.shape
    inputs = (_checked(lengths, L), table, _or_nothing(E, table), *signals)
    is_diagonal = E is not None and E.shape[1] == 1
    call(name + suffix(signals[0]), (len(lengths), L, H, N, T), inputs, outputs, is_diagonal)
