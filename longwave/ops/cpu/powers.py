"""The kernel of a diagonal system, a sum of powers, by the compiled library."""

import torch
from torch import Tensor

from longwave.ops.checks import readable
from longwave.ops.cpu.library import Input, call, options, suffix


def power_sum(
    Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str = "zoh", vector_bytes: int = 0
) -> Tensor:
    """K (D, H, L); see longwave.ssm.diagonal."""
    K = C.new_empty(*C.shape[:2], L)
    _call_diagonal("power_sum" + suffix(C), (Lambda, B, C, dt), L, rule, vector_bytes, (K,))
    return K


def power_sum_backward(
    grad: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str = "zoh", vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to Lambda, B, C and dt; the powers are computed again."""
    inputs = (Lambda, B, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    grad = readable("grad", grad, C.dtype, (*C.shape[:2], L))
    _call_diagonal("power_sum_backward" + suffix(C), inputs, L, rule, vector_bytes, (grad, *out))
    return [t.to(C.dtype) for t in out]


def _call_diagonal(
    name: str, inputs: tuple[Tensor, ...], L: int, rule: str, vector_bytes: int, rest: tuple[Tensor, ...]
) -> None:
    """Call a function of a diagonal system: sizes, parameters in float64, the rule, threads, vector width, the rest."""
    Lambda, B, C, dt = inputs
    (H, M), D = Lambda.shape[:2], C.shape[0]
    shapes = {"Lambda": (Lambda, (H, M, 2)), "B": (B, (H, M, 2)), "C": (C, (D, H, M, 2)), "dt": (dt, (H,))}
    wide: list[Input] = [(key, t.double(), torch.float64, shape) for key, (t, shape) in shapes.items()]
    call(name, (H, M, L, D), wide, (int(rule == "zoh"), *options(vector_bytes)), rest)
