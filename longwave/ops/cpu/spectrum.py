"""The spectrum of the kernel and the truncation of its output map, by the compiled library."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longwave.ops.checks import readable
from longwave.ops.cpu.library import Input, call, options, suffix
from longwave.ssm.nodes import Nodes
from longwave.ssm.spectrum import needs_float64

FEW_FROM = 8192  # the length from which few nodes are faster, and never slower where damping is light


def spectrum(
    Lambda: Tensor,
    P: Tensor,
    B: Tensor,
    C: Tensor,
    dt: Tensor,
    L: int,
    nodes: Nodes = "auto",
    vector_bytes: int = 0,
) -> Tensor:
    """K_hat (D, H, L//2+1, 2); see longwave.ssm.spectrum, and longwave.ssm.nodes for few nodes."""
    K_hat = C.new_empty(C.shape[0], C.shape[1], L // 2 + 1, 2)
    choice, wide = (_takes_few(nodes, L), *options(vector_bytes)), needs_float64(Lambda, dt)
    _call_system("spectrum" + suffix(C), (Lambda, P, B, C, dt), L, choice, (K_hat,), wide)
    return K_hat


def spectrum_backward(
    grad: Tensor,
    Lambda: Tensor,
    P: Tensor,
    B: Tensor,
    C: Tensor,
    dt: Tensor,
    L: int,
    nodes: Nodes = "auto",
    vector_bytes: int = 0,
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt."""
    inputs = (Lambda, P, B, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    choice, wide = (_takes_few(nodes, L), *options(vector_bytes)), needs_float64(Lambda, dt)
    grad = readable("grad", grad, C.dtype, (*C.shape[:2], L // 2 + 1, 2))
    _call_system("spectrum_backward" + suffix(C), inputs, L, choice, (grad, *out), wide)
    return [t.to(C.dtype) for t in out]


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0) -> Tensor:
    """C~ (D, H, M, 2); see longwave.ssm.algebra."""
    C_tilde = C.new_empty(C.shape, dtype=torch.float64)
    _call_system("truncate", (Lambda, P, C, dt), L, options(vector_bytes), (C_tilde,))
    return C_tilde.to(C.dtype)


def truncate_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, vector_bytes: int = 0
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, C and dt."""
    inputs = (Lambda, P, C, dt)
    out = [t.new_empty(t.shape, dtype=torch.float64) for t in inputs]
    grad = readable("grad", grad.double(), torch.float64, C.shape)
    _call_system("truncate_backward", inputs, L, options(vector_bytes), (grad, *out))
    return [t.to(C.dtype) for t in out]


def _takes_few(nodes: Nodes, L: int) -> bool:
    return nodes == "few" or (nodes == "auto" and L >= FEW_FROM)


def _call_system(
    name: str, inputs: tuple[Tensor, ...], L: int, options: Sequence[int], rest: tuple[Tensor, ...], *flags: Tensor
) -> None:
    """Call a function of the system's parameters: sizes, parameters in float64, options, the rest."""
    Lambda, P, *B, C, dt = inputs
    (H, M), D, r = Lambda.shape[:2], C.shape[0], P.shape[0]
    shapes = [("Lambda", Lambda, (H, M, 2)), ("P", P, (r, H, M, 2)), *(("B", b, (H, M, 2)) for b in B)]
    shapes += [("C", C, (D, H, M, 2)), ("dt", dt, (H,))]
    wide: list[Input] = [(key, t.double(), torch.float64, shape) for key, t, shape in shapes]
    wide += [("flags", t, torch.uint8, (H,)) for t in flags]
    call(name, (H, M, L, D, r), wide, options, rest)
