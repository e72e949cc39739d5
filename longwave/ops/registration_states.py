"""The ops of states of whole sequences as torch knows them, as registration.py has the others.

What is derived from the parameters is float64; signals and states have a dtype of their own.
"""

from typing import Any

import torch
from torch import Tensor

from longwave.ops.backend import function
from longwave.ops.checks import (
    check_block,
    check_collect,
    check_fits,
    check_scan,
    check_spread,
    check_step,
    resolved,
)
from longwave.ops.registration import _like, _plain, _resolved, _save


def _checked_krylov(change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int) -> tuple[int, ...]:
    check_step(change, left, right, start=start)
    if T < 1:
        raise ValueError(f"T: expected a number of vectors of at least 1, got {T}")
    return change.shape[0], T, start.shape[1]


@torch.library.custom_op("longwave::krylov", mutates_args=())
def _krylov(change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool) -> Tensor:
    _checked_krylov(change, left, right, start, T)
    return _plain(function("krylov", change)(*_resolved(change, left, right, start), T, transposed))


@torch.library.custom_op("longwave::krylov_backward", mutates_args=())
def _krylov_backward(
    grad: Tensor, change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool
) -> list[Tensor]:
    check_fits("grad", grad, _checked_krylov(change, left, right, start, T), "change", change)
    tensors = _resolved(grad, change, left, right, start)
    return [_plain(t) for t in function("krylov_backward", change)(*tensors, T, transposed)]


def _checked_power(change: Tensor, left: Tensor, right: Tensor, T: int) -> tuple[int, ...]:
    check_step(change, left, right)
    check_block(T)
    H, M, _ = change.shape
    return H, 2 * M if len(left) else 1, 2 * M


@torch.library.custom_op("longwave::power", mutates_args=())
def _power(change: Tensor, left: Tensor, right: Tensor, T: int) -> Tensor:
    _checked_power(change, left, right, T)
    return _plain(function("power", change)(*_resolved(change, left, right), T))


@torch.library.custom_op("longwave::power_backward", mutates_args=())
def _power_backward(grad: Tensor, change: Tensor, left: Tensor, right: Tensor, T: int) -> list[Tensor]:
    check_fits("grad", grad, _checked_power(change, left, right, T), "change", change)
    return [_plain(t) for t in function("power_backward", change)(*_resolved(grad, change, left, right), T)]


@torch.library.custom_op("longwave::collect", mutates_args=())
def _collect(
    columns: Tensor, E: Tensor | None, u: Tensor, start: Tensor | None, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    check_collect(columns, E, u, lengths, start=start)
    (batch, L, H), (_, T, N) = u.shape, columns.shape
    if batch * H == 0 or L < T:
        last = u.new_zeros(batch, H, N) if start is None else resolved(start).clone()
        return _plain(last), u.new_empty((batch, H, L // T, N) if keep else 0)
    power, before = (None if t is None else resolved(t) for t in (E, start))
    last, kept = function("collect", u)(resolved(columns), power, resolved(u), before, lengths, keep)
    return _plain(last), _plain(kept)


@torch.library.custom_op("longwave::collect_backward", mutates_args=())
def _collect_backward(
    grad: Tensor, columns: Tensor, E: Tensor | None, u: Tensor, lengths: Tensor, kept: Tensor, started: bool
) -> list[Tensor]:
    check_collect(columns, E, u, lengths, kept=kept, grad=grad)
    power = None if E is None else resolved(E)
    if kept.numel() == 0:
        zeros = [columns.new_zeros(columns.shape), columns.new_zeros(0) if E is None else E.new_zeros(E.shape)]
        return [
            *zeros,
            u.new_zeros(u.shape),
            resolved(grad).clone(memory_format=torch.contiguous_format) if started else grad.new_zeros(0),
        ]
    tensors = resolved(grad), resolved(columns), power, resolved(u), lengths, resolved(kept)
    return [_plain(t) for t in function("collect_backward", u)(*tensors, started)]


@torch.library.custom_op("longwave::spread", mutates_args=())
def _spread(rows: Tensor, E: Tensor | None, start: Tensor, L: int, keep: bool) -> tuple[Tensor, Tensor]:
    check_spread(rows, E, L, start)
    if start.numel() == 0:
        return _spread_like(rows, start, L, keep)
    power = None if E is None else resolved(E)
    y, kept = function("spread", start)(resolved(rows), power, resolved(start), L, keep)
    return _plain(y), _plain(kept)


def _spread_like(rows: Tensor, start: Tensor, L: int, keep: bool) -> tuple[Tensor, Tensor]:
    (batch, H, N), T = start.shape, rows.shape[1]
    return start.new_empty(batch, L, H), start.new_empty((batch, H, -(-L // T), N) if keep else 0)


@torch.library.custom_op("longwave::spread_backward", mutates_args=())
def _spread_backward(grad: Tensor, rows: Tensor, E: Tensor | None, kept: Tensor) -> list[Tensor]:
    check_spread(rows, E, grad.shape[1] if grad.ndim == 3 else 1, grad=grad, kept=kept)
    if grad.numel() == 0:
        zeros = [rows.new_zeros(rows.shape), rows.new_zeros(0) if E is None else E.new_zeros(E.shape)]
        return [*zeros, grad.new_zeros(*kept.shape[:2], kept.shape[3])]
    power = None if E is None else resolved(E)
    return [_plain(t) for t in function("spread_backward", grad)(resolved(grad), resolved(rows), power, resolved(kept))]


@torch.library.custom_op("longwave::scan", mutates_args=())
def _scan(
    change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, u: Tensor, start: Tensor, lengths: Tensor, every: int
) -> Tensor:
    check_step(change, left, right, B_bar=B_bar)
    check_scan(B_bar, u, start, lengths, every)
    if u.shape[0] * u.shape[2] == 0 or u.shape[1] < every:
        return u.new_empty(u.shape[0], u.shape[1] // every, *start.shape[1:])
    return _plain(function("scan", u)(*_resolved(change, left, right, B_bar, u, start), lengths, every))


@torch.library.custom_op("longwave::scan_backward", mutates_args=())
def _scan_backward(
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
    check_step(change, left, right, B_bar=B_bar)
    check_scan(B_bar, u, start, lengths, every, out=out, grad=grad)
    if out.numel() == 0:
        return [t.new_zeros(t.shape) for t in (change, left, right, B_bar, u, start)]
    tensors = _resolved(grad, change, left, right, B_bar, u, start)
    return [_plain(t) for t in function("scan_backward", u)(*tensors, lengths, resolved(out), every)]


@_krylov.register_fake
def _(change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool) -> Tensor:
    return start.new_empty(_checked_krylov(change, left, right, start, T))


@_krylov_backward.register_fake
def _(
    grad: Tensor, change: Tensor, left: Tensor, right: Tensor, start: Tensor, T: int, transposed: bool
) -> list[Tensor]:
    check_fits("grad", grad, _checked_krylov(change, left, right, start, T), "change", change)
    return _like(change, left, right, start)


@_power.register_fake
def _(change: Tensor, left: Tensor, right: Tensor, T: int) -> Tensor:
    return change.new_empty(_checked_power(change, left, right, T))


@_power_backward.register_fake
def _(grad: Tensor, change: Tensor, left: Tensor, right: Tensor, T: int) -> list[Tensor]:
    check_fits("grad", grad, _checked_power(change, left, right, T), "change", change)
    return _like(change, left, right)


@_collect.register_fake
def _(
    columns: Tensor, E: Tensor | None, u: Tensor, start: Tensor | None, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    check_collect(columns, E, u, lengths, start=start)
    (batch, L, H), (_, T, N) = u.shape, columns.shape
    return u.new_empty(batch, H, N), u.new_empty((batch, H, L // T, N) if keep else 0)


@_collect_backward.register_fake
def _(
    grad: Tensor, columns: Tensor, E: Tensor | None, u: Tensor, lengths: Tensor, kept: Tensor, started: bool
) -> list[Tensor]:
    check_collect(columns, E, u, lengths, kept=kept, grad=grad)
    return [*_like(columns, columns.new_empty(0) if E is None else E, u), grad.new_empty(grad.shape if started else 0)]


@_spread.register_fake
def _(rows: Tensor, E: Tensor | None, start: Tensor, L: int, keep: bool) -> tuple[Tensor, Tensor]:
    check_spread(rows, E, L, start)
    return _spread_like(rows, start, L, keep)


@_spread_backward.register_fake
def _(grad: Tensor, rows: Tensor, E: Tensor | None, kept: Tensor) -> list[Tensor]:
    check_spread(rows, E, grad.shape[1] if grad.ndim == 3 else 1, grad=grad, kept=kept)
    dstart = grad.new_empty(kept.shape[0], kept.shape[1], kept.shape[3])
    return [*_like(rows, rows.new_empty(0) if E is None else E), dstart]


@_scan.register_fake
def _(
    change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, u: Tensor, start: Tensor, lengths: Tensor, every: int
) -> Tensor:
    check_step(change, left, right, B_bar=B_bar)
    check_scan(B_bar, u, start, lengths, every)
    return u.new_empty(u.shape[0], u.shape[1] // every, *start.shape[1:])


@_scan_backward.register_fake
def _(
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
    check_step(change, left, right, B_bar=B_bar)
    check_scan(B_bar, u, start, lengths, every, out=out, grad=grad)
    return _like(change, left, right, B_bar, u, start)


def _save_krylov(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.T, ctx.transposed = inputs
    ctx.save_for_backward(*tensors)


def _krylov_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.krylov_backward(grad, *ctx.saved_tensors, ctx.T, ctx.transposed), None, None)


def _power_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.power_backward(grad, *ctx.saved_tensors, ctx.L), None)


def _save_collect(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    columns, E, u, start, lengths, ctx.kept = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(columns, E, u, start, lengths, output[1])


def _collect_gradients(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    columns, E, u, start, lengths, kept = ctx.saved_tensors
    if not ctx.kept:  # the op was called where no gradient was expected
        kept = torch.ops.longwave.collect(columns, E, u, start, lengths, True)[1]
    started = start is not None
    found = torch.ops.longwave.collect_backward(grad, columns, E, u, lengths, kept, started)
    return found[0], None if E is None else found[1], found[2], found[3] if started else None, None, None


def _save_spread(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    rows, E, start, _, ctx.kept = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(rows, E, start, output[1])


def _spread_gradients(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    rows, E, start, kept = ctx.saved_tensors
    if not ctx.kept:
        kept = torch.ops.longwave.spread(rows, E, start, grad.shape[1], True)[1]
    found = torch.ops.longwave.spread_backward(grad, rows, E, kept)
    return found[0], None if E is None else found[1], found[2], None, None


def _save_scan(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.every = inputs
    ctx.save_for_backward(*tensors, output)


def _scan_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.scan_backward(grad, *ctx.saved_tensors, ctx.every), None, None)


_krylov.register_autograd(_krylov_gradients, setup_context=_save_krylov)
_power.register_autograd(_power_gradients, setup_context=_save)
_collect.register_autograd(_collect_gradients, setup_context=_save_collect)
_spread.register_autograd(_spread_gradients, setup_context=_save_spread)
_scan.register_autograd(_scan_gradients, setup_context=_save_scan)
