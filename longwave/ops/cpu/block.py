"""The position-wise parts of a residual block by the compiled library, in float32."""

import torch
from torch import Tensor

from longwave.ops.cpu.library import call

GATE_ROWS = 4096  # summed at a time into the gradient of the bias, in float32
MIX_ROWS = 1 << 15  # summed at a time into the gradients of weight and bias, in float32


def activate(z: Tensor, keep: Tensor) -> Tensor:
    """GELU(z) * keep for float32 z (batch, L, H) and keep (batch, H)."""
    y = z.new_empty(z.shape)
    if z.numel() > 0:
        call("activate", z.shape, (z, keep), (y,))
    return y


def activate_backward(dy: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    """The gradient with respect to z."""
    dz = z.new_empty(z.shape)
    call("activate_backward", z.shape, (dy, z, keep), (dz, z.new_empty(0)))
    return dz


def mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer after `activate`."""
    return torch.nn.functional.linear(activate(z, keep), weight, bias)


def mix_backward(dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    """The gradients with respect to z and, if it is needed, weight, for which GELU(z) is computed once more."""
    dz = (dy @ weight).contiguous()  # the gradient of GELU(z), from here on changed in place
    again = z.new_empty(z.shape if need_weight else 0)
    if z.numel() > 0:
        call("activate_backward", z.shape, (dz, z, keep), (dz, again))
    return [dz, dy.flatten(0, -2).mT @ again.flatten(0, -2)] if need_weight else [dz]


def gate(x: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    """x + a * sigmoid(b) for float32 x (..., H) and (a, b) = z + bias, z (..., 2H)."""
    y, H = x.new_empty(x.shape), x.shape[-1]
    call("gate", (x.numel() // H, H), (x, z, bias), (y,))
    return y


def gate_backward(dy: Tensor, z: Tensor, bias: Tensor) -> list[Tensor]:
    """The gradients with respect to z and bias; that of x is dy."""
    H = dy.shape[-1]
    rows = dy.numel() // H
    parts = _parts(rows, GATE_ROWS)
    dz, dbias = z.new_empty(z.shape), z.new_empty(parts, 2 * H)
    call("gate_backward", (rows, H, parts), (dy, z, bias), (dz, dbias))
    return [dz, dbias.sum(0)]


def gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`gate` after `mix`, in one pass."""
    y = x.new_empty(x.shape)
    call("gated_mix", z.shape, (x, z, keep, weight, bias), (y,))
    return y


def gated_mix_backward(dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    """The gradients with respect to z, weight and bias; that of x is dy. What lies between is computed again."""
    parts = _parts(z.shape[0] * z.shape[1], MIX_ROWS)
    dz, dweight, dbias = z.new_empty(z.shape), z.new_empty(parts, *weight.shape), z.new_empty(parts, len(bias))
    call("gated_mix_backward", (*z.shape, parts), (dy, z, keep, weight, bias), (dz, dweight, dbias))
    return [dz, dweight.sum(0), dbias.sum(0)]


def _parts(rows: int, together: int) -> int:
    """The number of partial sums over at most so many rows, equal for all threads."""
    threads = torch.get_num_threads()
    return -(-rows // (together * threads)) * threads
