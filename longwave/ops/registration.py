"""The ops as torch knows them: torch.ops.longwave.*, each with its backward pass and its fake for graphs.

Each op and its fake check what they are given: where one tensor is on the meta device, torch takes the fake, which
would give memory that nobody has written to.
"""

from typing import Any

import torch
from torch import Tensor

from longwave.ops.backend import function
from longwave.ops.checks import (
    check_activation,
    check_convolution,
    check_diagonal,
    check_gate,
    check_gated_mix,
    check_mix,
    check_nodes,
    check_system,
    resolved,
)


def _plain(result: Tensor) -> Tensor:
    """Contiguous, as the fake implementations below promise: compiled graphs rely on it."""
    return result.contiguous()


def _resolved(*tensors: Tensor) -> list[Tensor]:
    """Without the bit that says that a tensor is negated: an op that a compiled graph calls meets it as it is."""
    return [resolved(t) for t in tensors]


@torch.library.custom_op("longwave::spectrum", mutates_args=())
def _spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: str = "auto") -> Tensor:
    check_system(Lambda, P, C, dt, L, B)
    check_nodes(nodes)
    return _plain(function("spectrum", Lambda)(*_resolved(Lambda, P, B, C, dt), L, nodes))


@torch.library.custom_op("longwave::spectrum_backward", mutates_args=())
def _spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: str = "auto"
) -> list[Tensor]:
    check_system(Lambda, P, C, dt, L, B, grad)
    check_nodes(nodes)
    gradients = function("spectrum_backward", Lambda)(*_resolved(grad, Lambda, P, B, C, dt), L, nodes)
    return [_plain(t) for t in gradients]


@torch.library.custom_op("longwave::truncate", mutates_args=())
def _truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    check_system(Lambda, P, C, dt, L)
    return _plain(function("truncate", Lambda)(*_resolved(Lambda, P, C, dt), L))


@torch.library.custom_op("longwave::truncate_backward", mutates_args=())
def _truncate_backward(grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> list[Tensor]:
    check_system(Lambda, P, C, dt, L, grad=grad)
    return [_plain(t) for t in function("truncate_backward", Lambda)(*_resolved(grad, Lambda, P, C, dt), L)]


@torch.library.custom_op("longwave::power_sum", mutates_args=())
def _power_sum(Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str) -> Tensor:
    check_diagonal(Lambda, B, C, dt, L, rule)
    return _plain(function("power_sum", Lambda)(*_resolved(Lambda, B, C, dt), L, rule))


@torch.library.custom_op("longwave::power_sum_backward", mutates_args=())
def _power_sum_backward(
    grad: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str
) -> list[Tensor]:
    check_diagonal(Lambda, B, C, dt, L, rule, grad)
    return [_plain(t) for t in function("power_sum_backward", Lambda)(*_resolved(grad, Lambda, B, C, dt), L, rule)]


@torch.library.custom_op("longwave::convolve", mutates_args=())
def _convolve(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    check_convolution(u, K, D)
    if u.numel() == 0:
        return u.new_empty(u.shape)
    return _plain(function("convolve", u)(*_resolved(u, K, D)))


@torch.library.custom_op("longwave::convolve_backward", mutates_args=())
def _convolve_backward(grad: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    check_convolution(u, K, D, grad)
    if u.numel() == 0:
        return [t.new_zeros(t.shape) for t in (u, K, D)]
    return [_plain(t) for t in function("convolve_backward", u)(*_resolved(grad, u, K, D))]


@torch.library.custom_op("longwave::activate", mutates_args=())
def _activate(z: Tensor, keep: Tensor) -> Tensor:
    check_activation(z, keep)
    return _plain(function("activate", z)(*_resolved(z, keep)))


@torch.library.custom_op("longwave::activate_backward", mutates_args=())
def _activate_backward(grad: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    check_activation(z, keep, grad)
    return _plain(function("activate_backward", z)(*_resolved(grad, z, keep)))


@torch.library.custom_op("longwave::mix", mutates_args=())
def _mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    check_mix(z, keep, weight, bias)
    return _plain(function("mix", z)(*_resolved(z, keep, weight), None if bias is None else resolved(bias)))


@torch.library.custom_op("longwave::mix_backward", mutates_args=())
def _mix_backward(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    check_mix(z, keep, weight, None, grad)
    return [_plain(t) for t in function("mix_backward", z)(*_resolved(grad, z, keep, weight), need_weight)]


@torch.library.custom_op("longwave::gate", mutates_args=())
def _gate(x: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    check_gate(x, z, bias)
    return _plain(function("gate", x)(*_resolved(x, z, bias)))


@torch.library.custom_op("longwave::gate_backward", mutates_args=())
def _gate_backward(grad: Tensor, z: Tensor, bias: Tensor) -> list[Tensor]:
    check_gate(grad, z, bias, "grad")
    return [_plain(t) for t in function("gate_backward", grad)(*_resolved(grad, z, bias))]


@torch.library.custom_op("longwave::gated_mix", mutates_args=())
def _gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    check_gated_mix(x, z, weight, bias)
    check_activation(z, keep)
    return _plain(function("gated_mix", z)(*_resolved(x, z, keep, weight, bias)))


@torch.library.custom_op("longwave::gated_mix_backward", mutates_args=())
def _gated_mix_backward(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    check_gated_mix(grad, z, weight, bias, "grad")
    check_activation(z, keep)
    return [_plain(t) for t in function("gated_mix_backward", z)(*_resolved(grad, z, keep, weight, bias))]


def _like(*tensors: Tensor) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in tensors]


@_spectrum.register_fake
def _(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: str = "auto") -> Tensor:
    check_system(Lambda, P, C, dt, L, B)
    check_nodes(nodes)
    return C.new_empty(C.shape[0], C.shape[1], L // 2 + 1, 2)


@_spectrum_backward.register_fake
def _(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: str = "auto"
) -> list[Tensor]:
    check_system(Lambda, P, C, dt, L, B, grad)
    check_nodes(nodes)
    return _like(Lambda, P, B, C, dt)


@_truncate.register_fake
def _(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    check_system(Lambda, P, C, dt, L)
    return C.new_empty(C.shape)


@_truncate_backward.register_fake
def _(grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> list[Tensor]:
    check_system(Lambda, P, C, dt, L, grad=grad)
    return _like(Lambda, P, C, dt)


@_power_sum.register_fake
def _(Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str) -> Tensor:
    check_diagonal(Lambda, B, C, dt, L, rule)
    return C.new_empty(*C.shape[:2], L)


@_power_sum_backward.register_fake
def _(grad: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str) -> list[Tensor]:
    check_diagonal(Lambda, B, C, dt, L, rule, grad)
    return _like(Lambda, B, C, dt)


@_convolve.register_fake
def _(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    check_convolution(u, K, D)
    return u.new_empty(u.shape)


@_convolve_backward.register_fake
def _(grad: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    check_convolution(u, K, D, grad)
    return _like(u, K, D)


@_activate.register_fake
def _(z: Tensor, keep: Tensor) -> Tensor:
    check_activation(z, keep)
    return z.new_empty(z.shape)


@_activate_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    check_activation(z, keep, grad)
    return z.new_empty(z.shape)


@_mix.register_fake
def _(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    check_mix(z, keep, weight, bias)
    return z.new_empty(*z.shape[:-1], weight.shape[0])


@_mix_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    check_mix(z, keep, weight, None, grad)
    return _like(z, weight) if need_weight else _like(z)


@_gate.register_fake
def _(x: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    check_gate(x, z, bias)
    return x.new_empty(x.shape)


@_gate_backward.register_fake
def _(grad: Tensor, z: Tensor, bias: Tensor) -> list[Tensor]:
    check_gate(grad, z, bias, "grad")
    return _like(z, bias)


@_gated_mix.register_fake
def _(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    check_gated_mix(x, z, weight, bias)
    check_activation(z, keep)
    return x.new_empty(x.shape)


@_gated_mix_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    check_gated_mix(grad, z, weight, bias, "grad")
    check_activation(z, keep)
    return _like(z, weight, bias)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.L = inputs
    ctx.save_for_backward(*tensors)


def _save_spectrum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.L, ctx.nodes = inputs
    ctx.save_for_backward(*tensors)


def _spectrum_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.spectrum_backward(grad, *ctx.saved_tensors, ctx.L, ctx.nodes), None, None)


def _truncate_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.truncate_backward(grad, *ctx.saved_tensors, ctx.L), None)


def _save_diagonal(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.L, ctx.rule = inputs
    ctx.save_for_backward(*tensors)


def _power_sum_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.power_sum_backward(grad, *ctx.saved_tensors, ctx.L, ctx.rule), None, None)


def _save_signal(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _convolve_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.ops.longwave.convolve_backward(grad, *ctx.saved_tensors))


def _activate_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return torch.ops.longwave.activate_backward(grad, *ctx.saved_tensors), None


def _save_mix(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])


def _mix_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    _, _, need_weight, need_bias = ctx.needs_input_grad
    dz, *dweight = torch.ops.longwave.mix_backward(grad, *ctx.saved_tensors, need_weight)
    return dz, None, dweight[0] if need_weight else None, grad.sum((0, 1)) if need_bias else None


def _gated_mix_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dz, dweight, dbias = torch.ops.longwave.gated_mix_backward(grad, *ctx.saved_tensors)
    return grad, dz, None, dweight, dbias


def _save_gate(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _gate_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return (grad, *torch.ops.longwave.gate_backward(grad, *ctx.saved_tensors))


_activate.register_autograd(_activate_gradients, setup_context=_save_signal)
_mix.register_autograd(_mix_gradients, setup_context=_save_mix)
_gated_mix.register_autograd(_gated_mix_gradients, setup_context=_save_gate)
_gate.register_autograd(_gate_gradients, setup_context=_save_gate)
_convolve.register_autograd(_convolve_gradients, setup_context=_save_signal)
_spectrum.register_autograd(_spectrum_gradients, setup_context=_save_spectrum)
_truncate.register_autograd(_truncate_gradients, setup_context=_save)
_power_sum.register_autograd(_power_sum_gradients, setup_context=_save_diagonal)
