"""States of whole sequences by the compiled library; longwave.ssm.states says what each function computes."""

import torch
from torch import Tensor

from longwave.ops.cpu.library import Input, call, options, suffix

WIDE = torch.float64


def krylov(
    change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool, vector_bytes: int = 0
) -> Tensor:
    """A^j x for j < T, (H, T, N)."""
    out = start.new_empty(start.shape[0], T, start.shape[1])
    inputs = (*_step(change, left, right), ("start", start, WIDE, start.shape))
    call("krylov", _sizes(left, T), inputs, (int(transposed), *options(vector_bytes)), (out,))
    return out


def krylov_backward(
    grad: Tensor,
    change: Tensor,
    left: Tensor,
    right: Tensor,
    start: Tensor,
    T: int,
    transposed: bool,
    vector_bytes: int = 0,
) -> list[Tensor]:
    """Gradients with respect to change, left, right and start; the vectors are computed again."""
    out = _like(change, left, right, start)
    inputs = (*_step(change, left, right), ("start", start, WIDE, start.shape))
    inputs += (("grad", grad, WIDE, (start.shape[0], T, start.shape[1])),)
    call("krylov_backward", _sizes(left, T), inputs, (int(transposed), *options(vector_bytes)), out)
    return out


def power(change: Tensor, left: Tensor, right: Tensor, T: int, vector_bytes: int = 0) -> Tensor:
    """A^T - I, (H, N, N), or (H, 1, N) if it is diagonal."""
    H, N = change.shape[0], 2 * change.shape[1]
    E = change.new_empty(H, N if len(left) else 1, N)
    call("power", _sizes(left, T), _step(change, left, right), options(vector_bytes), (E,))
    return E


def power_backward(
    grad: Tensor, change: Tensor, left: Tensor, right: Tensor, T: int, vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to change, left and right; the squares are computed again."""
    out = _like(change, left, right)
    inputs = (*_step(change, left, right), ("grad", grad, WIDE, grad.shape))
    call("power_backward", _sizes(left, T), inputs, options(vector_bytes), out)
    return out


def collect(
    columns: Tensor,
    E: Tensor | None,
    u: Tensor,
    start: Tensor | None,
    lengths: Tensor,
    keep: bool,
    vector_bytes: int = 0,
) -> tuple[Tensor, Tensor]:
    """The state after the blocks, and if they are to be kept, those before each."""
    (batch, L, H), (_, T, N) = u.shape, columns.shape
    last, kept = u.new_empty(batch, H, N), u.new_empty(batch, H, L // T if keep else 0, N)
    inputs = [*_tables(lengths, u.shape[1], columns, E), ("u", u, u.dtype, u.shape)]
    inputs.append(("start", _or_nothing(start, u), u.dtype, (0,) if start is None else last.shape))
    _call_blocks("collect", u, L, columns, E, inputs, vector_bytes, (last, kept))
    return last, kept


def collect_backward(
    grad: Tensor,
    columns: Tensor,
    E: Tensor | None,
    u: Tensor,
    lengths: Tensor,
    kept: Tensor,
    started: bool,
    vector_bytes: int = 0,
) -> list[Tensor]:
    """Gradients with respect to those of columns, E, u and start that were given."""
    dcolumns, dE, du = _like(columns, _or_nothing(E, columns), u)
    dstart = grad.new_empty(grad.shape if started else 0)
    if not kept.numel():  # the library sets them at the last block
        dcolumns.zero_(), dE.zero_()
    inputs = [
        *_tables(lengths, u.shape[1], columns, E),
        ("u", u, u.dtype, u.shape),
        ("kept", kept, u.dtype, kept.shape),
    ]
    inputs.append(("grad", grad, u.dtype, grad.shape))
    _call_blocks("collect_backward", u, u.shape[1], columns, E, inputs, vector_bytes, (dcolumns, dE, du, dstart))
    return [dcolumns, *([] if E is None else [dE]), du, *([dstart] if started else [])]


def spread(
    rows: Tensor, E: Tensor | None, start: Tensor, L: int, keep: bool, vector_bytes: int = 0
) -> tuple[Tensor, Tensor]:
    """What states add to L outputs, and if they are to be kept, the states before each block."""
    (batch, H, N), T = start.shape, rows.shape[1]
    y, kept = start.new_empty(batch, L, H), start.new_empty(batch, H, -(-L // T) if keep else 0, N)
    inputs = [*_tables(_all(start, L), L, rows, E), ("start", start, start.dtype, start.shape)]
    _call_blocks("spread", start, L, rows, E, inputs, vector_bytes, (y, kept))
    return y, kept


def spread_backward(grad: Tensor, rows: Tensor, E: Tensor | None, kept: Tensor, vector_bytes: int = 0) -> list[Tensor]:
    """Gradients with respect to rows, E if it was given, and start."""
    (batch, L, H), N = grad.shape, rows.shape[2]
    drows, dE = _like(rows, _or_nothing(E, rows))
    dstart = grad.new_empty(batch, H, N)
    inputs = [*_tables(_all(grad, L), L, rows, E), ("kept", kept, grad.dtype, kept.shape)]
    inputs.append(("grad", grad, grad.dtype, grad.shape))
    _call_blocks("spread_backward", grad, L, rows, E, inputs, vector_bytes, (drows, dE, dstart))
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
    vector_bytes: int = 0,
) -> Tensor:
    """States after every `every` steps, (batch, L // every, H, N)."""
    batch, L, H = u.shape
    out = u.new_empty(batch, L // every, H, B_bar.shape[1])
    inputs = _scanned(change, left, right, B_bar, u, start, lengths)
    call("scan" + suffix(u), (batch, L, every, *_sizes(left)), inputs, options(vector_bytes), (out,))
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
    vector_bytes: int = 0,
) -> list[Tensor]:
    """Gradients with respect to change, left, right, B_bar, u and start; states between those of `out` come again."""
    batch, L, _ = u.shape
    found = _like(change, left, right, B_bar, u, start)
    inputs = _scanned(change, left, right, B_bar, u, start, lengths)
    inputs += [("out", out, u.dtype, out.shape), ("grad", grad, u.dtype, out.shape)]
    call("scan_backward" + suffix(u), (batch, L, every, *_sizes(left)), inputs, options(vector_bytes), found)
    return found


def _like(*tensors: Tensor) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in tensors]


def _sizes(left: Tensor, *more: int) -> tuple[int, ...]:
    r, H, M, _ = left.shape
    return H, M, r, *more


def _step(change: Tensor, left: Tensor, right: Tensor) -> list[Input]:
    given = {"change": change, "left": left, "right": right}
    return [(name, t, WIDE, change.shape if name == "change" else left.shape) for name, t in given.items()]


def _scanned(
    change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, u: Tensor, start: Tensor, lengths: Tensor
) -> list[Input]:
    batch, _, H = u.shape
    inputs: list[Input] = [_steps(lengths, u.shape[1]), *_step(change, left, right)]
    inputs += [("B_bar", B_bar, WIDE, B_bar.shape), ("u", u, u.dtype, u.shape)]
    return [*inputs, ("start", start, u.dtype, (batch, H, B_bar.shape[1]))]


def _steps(lengths: Tensor, L: int) -> Input:
    """Of each row; the library reads that far without looking."""
    if lengths.numel() and not (int(lengths.min()) >= 0 and int(lengths.max()) <= L):
        raise ValueError(f"lengths: expected numbers from 0 to {L}, got {lengths.tolist()}")
    return "lengths", lengths, torch.int64, lengths.shape


def _all(signal: Tensor, L: int) -> Tensor:
    return torch.full((signal.shape[0],), L, device=signal.device)


def _or_nothing(tensor: Tensor | None, like: Tensor) -> Tensor:
    """A tensor without numbers has no address, which the library takes for none."""
    return like.new_empty(0) if tensor is None else tensor


def _tables(lengths: Tensor, L: int, table: Tensor, E: Tensor | None) -> list[Input]:
    power = _or_nothing(E, table)
    return [_steps(lengths, L), ("table", table, WIDE, table.shape), ("E", power, WIDE, power.shape)]


def _call_blocks(
    name: str,
    signal: Tensor,
    L: int,
    table: Tensor,
    E: Tensor | None,
    inputs: list[Input],
    vector_bytes: int,
    outputs: tuple[Tensor, ...],
) -> None:
    """Call a function of blocks: sizes, lengths, tables, signals, whether A is diagonal, threads, vectors, the rest."""
    H, T, N = table.shape
    sizes = (signal.shape[0], L, H, N, T)
    diagonal = int(E is not None and E.shape[1] == 1)
    call(name + suffix(signal), sizes, inputs, (diagonal, *options(vector_bytes)), outputs)
