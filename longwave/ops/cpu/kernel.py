"""The kernel by the compiled library: its spectrum, the truncated output map, and the sum of powers of a diagonal A."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longwave.ops.cpu.library import call, plain, suffix
from longwave.ssm.diagonal import Rule
from longwave.ssm.nodes import Nodes
from longwave.ssm.spectrum import needs_float64

# A share of |Lambda|. Nodes near a pole are in float64 in any case, so that LegS with N = 256 (2.4e-5) need not be.
DAMPING = 1e-5
FEW_FROM = 8192  # the length from which few nodes are faster, and never slower where damping is light


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto") -> Tensor:
    """K_hat (D, H, L//2+1, 2); see longwave.ssm.spectrum, and longwave.ssm.nodes for few nodes."""
    K_hat = C.new_empty(*C.shape[:2], L // 2 + 1, 2)
    inputs = (*_wide(Lambda, P, B, C, dt), needs_float64(Lambda, dt, DAMPING))
    call("spectrum" + suffix(C), (*_sizes(C, L), len(P)), inputs, (K_hat,), _takes_few(nodes, L))
    return K_hat


def spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto"
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt."""
    inputs = (*_wide(Lambda, P, B, C, dt), needs_float64(Lambda, dt, DAMPING))
    out, sizes = _wide_like(Lambda, P, B, C, dt), (*_sizes(C, L), len(P))
    call("spectrum_backward" + suffix(C), sizes, inputs, (plain(grad), *out), _takes_few(nodes, L))
    return [t.to(C.dtype) for t in out]


def _takes_few(nodes: Nodes, L: int) -> bool:
    return nodes == "few" or (nodes == "auto" and L >= FEW_FROM)


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> Tensor:
    """C~ (D, H, M, 2); see longwave.ssm.algebra."""
    (C_tilde,) = _wide_like(C)
    call("truncate", (*_sizes(C, L), len(P)), _wide(Lambda, P, C, dt), (C_tilde,))
    return C_tilde.to(C.dtype)


def truncate_backward(grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> list[Tensor]:
    """Gradients with respect to Lambda, P, C and dt."""
    out = _wide_like(Lambda, P, C, dt)
    rest = (plain(grad.double()), *out)
    call("truncate_backward", (*_sizes(C, L), len(P)), _wide(Lambda, P, C, dt), rest)
    return [t.to(C.dtype) for t in out]


def power_sum(Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: Rule = "zoh") -> Tensor:
    """K (D, H, L); see longwave.ssm.diagonal."""
    K = C.new_empty(*C.shape[:2], L)
    call("power_sum" + suffix(C), _sizes(C, L), _wide(Lambda, B, C, dt), (K,), rule == "zoh")
    return K


def power_sum_backward(
    grad: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: Rule = "zoh"
) -> list[Tensor]:
    """Gradients with respect to Lambda, B, C and dt; the powers are computed again."""
    out = _wide_like(Lambda, B, C, dt)
    rest = (plain(grad), *out)
    call("power_sum_backward" + suffix(C), _sizes(C, L), _wide(Lambda, B, C, dt), rest, rule == "zoh")
    return [t.to(C.dtype) for t in out]


def _sizes(C: Tensor, L: int) -> tuple[int, ...]:
    D, H, M, _ = C.shape
    return H, M, L, D


def _wide(*tensors: Tensor) -> Sequence[Tensor]:
    return [t.double() for t in tensors]


def _wide_like(*tensors: Tensor) -> list[Tensor]:
    return [t.new_empty(t.shape, dtype=torch.float64) for t in tensors]
