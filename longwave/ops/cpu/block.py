"""The position-wise parts of a residual block by the compiled library, in float32."""

import torch
from torch import Tensor

from longwave.ops.checks import readable
from longwave.ops.cpu.library import Input, call, options


def activate(z: Tensor, keep: Tensor, vector_bytes: int = 0) -> Tensor:
    """GELU(z) * keep for float32 z (batch, L, H) and keep (batch, H)."""
    y = z.new_empty(z.shape)
    if z.numel() == 0:
        return y
    call("activate", z.shape, _signal(z, keep), options(vector_bytes), (y,))
    return y


def activate_backward(dy: Tensor, z: Tensor, keep: Tensor, vector_bytes: int = 0) -> Tensor:
    """The gradient with respect to z."""
    dz = z.new_empty(z.shape)
    given = ("grad", dy, torch.float32, z.shape)
    call("activate_backward", z.shape, (given, *_signal(z, keep)), options(vector_bytes), (dz, z.new_empty(0)))
    return dz


def mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer behind `activate`."""
    return torch.nn.functional.linear(activate(z, keep), weight, bias)


def mix_backward(
    dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool, vector_bytes: int = 0
) -> list[Tensor]:
    """The gradients with respect to z and, if it is needed, weight, for which GELU(z) is computed once more."""
    # So far that of GELU(z); the rest of the way is gone in place.
    dz = readable("grad", dy @ weight, torch.float32, z.shape)
    again = z.new_empty(z.shape if need_weight else 0)
    if z.numel() > 0:
        given = ("grad", dz, torch.float32, z.shape)
        call("activate_backward", z.shape, (given, *_signal(z, keep)), options(vector_bytes), (dz, again))
    return [dz, dy.flatten(0, -2).mT @ again.flatten(0, -2)] if need_weight else [dz]


def gate(x: Tensor, z: Tensor, bias: Tensor, vector_bytes: int = 0) -> Tensor:
    """x + a * sigmoid(b) for float32 x (..., H) and (a, b) = z + bias, z (..., 2H)."""
    y = x.new_empty(x.shape)
    H = x.shape[-1]
    given = ("x", x, torch.float32, x.shape)
    call("gate", (x.numel() // H, H), (given, *_gates(x, z, bias)), options(vector_bytes), (y,))
    return y


GATE_ROWS = 4096  # summed at a time into the gradient of the bias, in float32


def gate_backward(dy: Tensor, z: Tensor, bias: Tensor, vector_bytes: int = 0) -> list[Tensor]:
    """The gradients with respect to z and bias; that of x is dy."""
    dz = z.new_empty(z.shape)
    H = dy.shape[-1]
    rows, threads = dy.numel() // H, torch.get_num_threads()
    parts = -(-rows // (GATE_ROWS * threads)) * threads
    dbias = z.new_empty(parts, 2 * H)
    inputs = (("grad", dy, torch.float32, dy.shape), *_gates(dy, z, bias))
    call("gate_backward", (rows, H, parts), inputs, (threads, vector_bytes), (dz, dbias))
    return [dz, dbias.sum(0)]


MIX_ROWS = 1 << 15  # summed at a time into the gradients of weight and bias, in float32


def gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, vector_bytes: int = 0) -> Tensor:
    """`gate` behind `mix`, in one pass."""
    y = x.new_empty(x.shape)
    inputs = (("x", x, torch.float32, z.shape), *_signal(z, keep), *_linear(z, weight, bias))
    call("gated_mix", z.shape, inputs, options(vector_bytes), (y,))
    return y


def gated_mix_backward(
    dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, vector_bytes: int = 0
) -> list[Tensor]:
    """The gradients with respect to z, weight and bias; that of x is dy. What lies between is computed anew."""
    threads = torch.get_num_threads()
    parts = -(-z.shape[0] * z.shape[1] // (MIX_ROWS * threads)) * threads
    dz, dweight, dbias = z.new_empty(z.shape), z.new_empty(parts, *weight.shape), z.new_empty(parts, len(bias))
    inputs = (("grad", dy, torch.float32, z.shape), *_signal(z, keep), *_linear(z, weight, bias))
    call("gated_mix_backward", (*z.shape, parts), inputs, (threads, vector_bytes), (dz, dweight, dbias))
    return [dz, dweight.sum(0), dbias.sum(0)]


def _signal(z: Tensor, keep: Tensor) -> tuple[Input, Input]:
    return ("z", z, torch.float32, z.shape), ("keep", keep, torch.float32, (z.shape[0], z.shape[2]))


def _gates(x: Tensor, z: Tensor, bias: Tensor) -> tuple[Input, Input]:
    *rows, H = x.shape
    return ("z", z, torch.float32, (*rows, 2 * H)), ("bias", bias, torch.float32, (2 * H,))


def _linear(z: Tensor, weight: Tensor, bias: Tensor) -> tuple[Input, Input]:
    H = z.shape[2]
    return ("weight", weight, torch.float32, (2 * H, H)), ("bias", bias, torch.float32, (2 * H,))
