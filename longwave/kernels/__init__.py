"""Ops with exchangeable backends, registered with torch, each with its own backward.

    spectrum(Lambda, P, B, C_tilde, dt, L)   -> K_hat (D, H, L//2+1, 2)    the kernel's spectrum by Algorithm 1
    truncate(Lambda, P, C, dt, L)            -> C_tilde (D, H, M, 2)       C~ = C (I - A_bar^L)
    convolve(u, K, D)                        -> y (batch, L, H)            long convolution with K (D, H, L), plus D u

and, for the parts of a block that follow (in float32 and where it was compiled; else torch's own operators):

    activate(z, keep)                        -> gelu(z) * keep             z (batch, L, H), keep (batch, H) or none
    mix(z, keep, weight, bias)               -> a linear layer behind it   weight (out, H), bias (out,) or none
    gated_mix(x, z, keep, weight, bias)      -> x + a * sigmoid(b)         (a, b) = mix(...), weight (2 H, H), x like z

Complex numbers are real pairs (a last axis of two): Lambda, B (H, M, 2), P (r, H, M, 2), C (D, H, M, 2); dt (H,).
D is 1, or 2 for a two-sided layer; r is 0, 1 or 2. On the CPU the backend `native` (compiled) runs where it was built,
else `reference` (plain torch), with one warning; LONGWAVE_KERNEL=reference|native forces one. Other devices always run
`reference`.
"""

import functools
import os
import warnings
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from longwave.kernels import native, reference

BACKENDS: dict[str, ModuleType] = {"native": native, "reference": reference}


def backend() -> str:
    """The name of the backend that serves CPU tensors."""
    forced = os.environ.get("LONGWAVE_KERNEL", "")
    if forced and forced not in BACKENDS:
        raise ValueError(f"LONGWAVE_KERNEL: expected one of {', '.join(sorted(BACKENDS))}, got {forced!r}")
    if forced == "native":
        native.load()  # asked for: its absence is an error, not a reason to fall back
    return forced or _default_backend()


@functools.cache
def _default_backend() -> str:
    try:
        native.load()
    except native.Unavailable as reason:
        warnings.warn(f"longwave runs its slow reference kernels: {reason}", RuntimeWarning, stacklevel=2)
        return "reference"
    return "native"


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C_tilde: Tensor, dt: Tensor, L: int) -> Tensor:
    """The spectrum K_hat of the length-L kernel whose truncated output map is C_tilde; differentiable."""
    _check(Lambda, P, C_tilde, dt, L, B)
    K_hat: Tensor = torch.ops.longwave.spectrum(Lambda, P, B, C_tilde, dt, L)
    return K_hat


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    """C~ = C (I - A_bar^L); differentiable."""
    _check(Lambda, P, C, dt, L)
    C_tilde: Tensor = torch.ops.longwave.truncate(Lambda, P, C, dt, L)
    return C_tilde


def convolve(u: Tensor, K: Tensor, D: Tensor | None = None) -> Tensor:
    """y_k = D u_k + sum_(j<=k) K[0, k-j] u_j (+ sum_(j>k) K[1, j-k-1] u_j).

    u (batch, L, H), K (1 or 2, H, L), D (H,) or none.
    """
    _, L, H = u.shape
    if K.ndim != 3 or K.shape[0] not in (1, 2) or K.shape[1:] != (H, L) or K.dtype != u.dtype:
        raise ValueError(f"K: expected {u.dtype} (1 or 2, {H}, {L}), got {K.dtype} {tuple(K.shape)}")
    if D is not None and (D.shape != (H,) or D.dtype != u.dtype):
        raise ValueError(f"D: expected {u.dtype} ({H},), got {D.dtype} {tuple(D.shape)}")
    y: Tensor = torch.ops.longwave.convolve(u, K, u.new_zeros(H) if D is None else D)
    return y


def activate(z: Tensor, keep: Tensor | None = None) -> Tensor:
    """GELU of z (batch, L, H), times keep (batch, H): a dropout mask that is tied over length; differentiable in z."""
    if not _is_fused(z):
        y = torch.nn.functional.gelu(z)
        return y if keep is None else y * keep.unsqueeze(1)
    y = torch.ops.longwave.activate(z, _mask(z, keep))
    return y


def mix(z: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The linear layer behind `activate`. For the backward pass it keeps z alone, and computes GELU(z) once more."""
    if not _is_fused(z) or weight.dtype != z.dtype or torch.is_autocast_enabled(z.device.type):
        return torch.nn.functional.linear(activate(z, keep), weight, bias)
    y: Tensor = torch.ops.longwave.mix(z, _mask(z, keep), weight, bias)
    return y


def gated_mix(x: Tensor, z: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """x + a * sigmoid(b) for (a, b) = mix(z, keep, weight, bias): a gated linear unit beside a residual.

    For the backward pass of a narrow model z alone is kept.
    """
    same_dtype = x.dtype == weight.dtype == bias.dtype == z.dtype
    if not (_is_fused(z) and same_dtype) or torch.is_autocast_enabled(z.device.type):
        return x + torch.nn.functional.glu(mix(z, keep, weight, bias), dim=-1)
    H = z.shape[2]
    for name, given, shape in (("x", x, z.shape), ("weight", weight, (2 * H, H)), ("bias", bias, (2 * H,))):
        if given.shape != shape:
            raise ValueError(f"{name}: expected {tuple(shape)} beside z {tuple(z.shape)}, got {tuple(given.shape)}")
    y: Tensor
    if H > native.NARROW:
        # Without its bias, which is added on the way through the gate.
        y = torch.ops.longwave.gate(x, mix(z, keep, weight), bias)
    else:
        y = torch.ops.longwave.gated_mix(x, z, _mask(z, keep), weight, bias)
    return y


def _mask(z: Tensor, keep: Tensor | None) -> Tensor:
    """What the compiled loops read as the mask of z: `keep`, or one that drops nothing."""
    shape = (z.shape[0], z.shape[2])
    if keep is None:
        return z.new_ones(shape)
    if keep.shape != shape or keep.dtype != z.dtype:
        raise ValueError(f"keep: expected {z.dtype} {shape}, got {keep.dtype} {tuple(keep.shape)}")
    return keep


def _is_fused(x: Tensor) -> bool:
    """Whether the compiled pass serves; for a handful of numbers, as in a step, the call costs more than it saves."""
    large = torch.compiler.is_compiling() or x.numel() >= 1 << 14  # a compiled graph should not depend on a size
    return large and x.dtype == torch.float32 and x.device.type == "cpu" and backend() == "native"


def _check(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, B: Tensor | None = None) -> None:
    """The compiled loops read raw memory, so that a wrong shape must not reach them."""
    H, M = Lambda.shape[:2]
    r, D = P.shape[0], C.shape[0]
    B = Lambda if B is None else B
    expected = {"Lambda": (H, M, 2), "P": (r, H, M, 2), "B": (H, M, 2), "C": (D, H, M, 2), "dt": (H,)}
    for (name, shape), tensor in zip(expected.items(), (Lambda, P, B, C, dt), strict=True):
        if tuple(tensor.shape) != shape or tensor.dtype != Lambda.dtype:
            got = f"{tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"{name}: expected {Lambda.dtype} {shape} beside Lambda {tuple(Lambda.shape)}, got {got}")
    if r > 2 or D not in (1, 2):
        raise ValueError(f"expected P of rank 0, 1 or 2 and 1 or 2 output maps, got rank {r} and {D} maps")
    if L < 1:
        raise ValueError(f"L: expected a length of at least 1, got {L}")


def _module(tensor: Tensor) -> ModuleType:
    supported = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    return BACKENDS[backend()] if supported else reference


def _plain(result: Tensor) -> Tensor:
    """Contiguous, as the fake implementations below promise: compiled graphs rely on it."""
    return result.contiguous()


@torch.library.custom_op("longwave::spectrum", mutates_args=())
def _spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    return _plain(_module(Lambda).spectrum(Lambda, P, B, C, dt, L))


@torch.library.custom_op("longwave::spectrum_backward", mutates_args=())
def _spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int
) -> list[Tensor]:
    return [_plain(t) for t in _module(Lambda).spectrum_backward(grad, Lambda, P, B, C, dt, L)]


@torch.library.custom_op("longwave::truncate", mutates_args=())
def _truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    return _plain(_module(Lambda).truncate(Lambda, P, C, dt, L))


@torch.library.custom_op("longwave::truncate_backward", mutates_args=())
def _truncate_backward(grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> list[Tensor]:
    return [_plain(t) for t in _module(Lambda).truncate_backward(grad, Lambda, P, C, dt, L)]


@torch.library.custom_op("longwave::convolve", mutates_args=())
def _convolve(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    return _plain(_module(u).convolve(u, K, D))


@torch.library.custom_op("longwave::convolve_backward", mutates_args=())
def _convolve_backward(grad: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    return [_plain(t) for t in _module(u).convolve_backward(grad, u, K, D)]


@torch.library.custom_op("longwave::activate", mutates_args=())
def _activate(z: Tensor, keep: Tensor) -> Tensor:
    return native.activate(z, keep)


@torch.library.custom_op("longwave::activate_backward", mutates_args=())
def _activate_backward(grad: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    return native.activate_backward(grad, z, keep)


@torch.library.custom_op("longwave::mix", mutates_args=())
def _mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return native.mix(z, keep, weight, bias)


@torch.library.custom_op("longwave::mix_backward", mutates_args=())
def _mix_backward(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    return native.mix_backward(grad, z, keep, weight, need_weight)


@torch.library.custom_op("longwave::gate", mutates_args=())
def _gate(x: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    return native.gate(x, z, bias)


@torch.library.custom_op("longwave::gate_backward", mutates_args=())
def _gate_backward(grad: Tensor, z: Tensor, bias: Tensor) -> list[Tensor]:
    return native.gate_backward(grad, z, bias)


@torch.library.custom_op("longwave::gated_mix", mutates_args=())
def _gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return native.gated_mix(x, z, keep, weight, bias)


@torch.library.custom_op("longwave::gated_mix_backward", mutates_args=())
def _gated_mix_backward(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    return native.gated_mix_backward(grad, z, keep, weight, bias)


@_activate.register_fake
@_gate.register_fake
@_gated_mix.register_fake
def _(x: Tensor, *others: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@_mix.register_fake
def _(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return z.new_empty(*z.shape[:-1], weight.shape[0])


@_mix_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    return [z.new_empty(z.shape), *([weight.new_empty(weight.shape)] if need_weight else [])]


@_gated_mix_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in (z, weight, bias)]


@_activate_backward.register_fake
def _(grad: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    return z.new_empty(z.shape)


@_spectrum.register_fake
def _(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    return C.new_empty(C.shape[0], C.shape[1], L // 2 + 1, 2)


@_truncate.register_fake
def _(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    return C.new_empty(C.shape)


@_convolve.register_fake
def _(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    return u.new_empty(u.shape)


@_spectrum_backward.register_fake
@_truncate_backward.register_fake
@_convolve_backward.register_fake
@_gate_backward.register_fake
def _(grad: Tensor, *inputs: Any) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in inputs if isinstance(t, Tensor)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.L = inputs
    ctx.save_for_backward(*tensors)


def _spectrum_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.spectrum_backward(grad, *ctx.saved_tensors, ctx.L), None)


def _truncate_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*torch.ops.longwave.truncate_backward(grad, *ctx.saved_tensors, ctx.L), None)


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
_spectrum.register_autograd(_spectrum_gradients, setup_context=_save)
_truncate.register_autograd(_truncate_gradients, setup_context=_save)
