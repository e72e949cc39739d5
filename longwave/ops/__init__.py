"""Ops with exchangeable backends, registered with torch, each with its own backward.

    spectrum(Lambda, P, B, C, dt, L, nodes)  -> K_hat (D, H, L//2+1, 2)    the kernel's spectrum by Algorithm 1, C is C~
    irfft(K_hat, L)                          -> K (D, H, L)                the kernel from its spectrum
    truncate(Lambda, P, C, dt, L)            -> C_tilde (D, H, M, 2)       C~ = C (I - A_bar^L)
    power_sum(Lambda, B, C, dt, L, rule)     -> K (D, H, L)                the kernel of a diagonal system (S4D)
    convolve(u, K, D)                        -> y (batch, L, H)            long convolution with K (D, H, L), plus D u

for states of whole sequences, from the parts of a `DiscreteDPLR` (in pairs and float64; a state is N = 2M numbers):

    krylov(change, left, right, start, T)    -> A^j x (H, T, N)            for j < T; transposed=True: x A^j for a row x
    power(change, left, right, T)            -> A^T - I (H, N, N)          (H, 1, N) if A is diagonal; T a power of 2
    collect(columns, E, u, start, lengths)   -> the state (batch, H, N)    after blocks of T steps
    spread(rows, E, start, L)                -> y (batch, L, H)            what a state adds to the outputs
    scan(change, left, right, B_bar, u, start, lengths, every)             one step at a time; a row keeps its state
                                             -> states (batch, ., H, N)    after every so many steps, up to its length

and, for the parts of a block that follow (in float32 and where a backend has them; else torch's own operators):

    activate(z, keep)                        -> gelu(z) * keep             z (batch, L, H), keep (batch, H) or none
    mix(z, keep, weight, bias)               -> a linear layer behind it   weight (out, H), bias (out,) or none
    gated_mix(x, z, keep, weight, bias)      -> x + a * sigmoid(b)         (a, b) = mix(...), weight (2 H, H), x like z

Complex numbers are real pairs (a last axis of two): Lambda, B (H, M, 2), P (r, H, M, 2), C (D, H, M, 2); dt (H,).
D is 1, or 2 for a two-sided layer; r is 0, 1 or 2. All tensors of a call have one dtype and one device and any strides;
a negative bit is resolved; empty signals give empty results. table.py states each op once, for torch and the backends.
`dplr_kernel`, `truncated_output_map`, `diagonal_kernel` and `fft_conv` are the functions of longwave.ssm, by these ops.

Without gradients, and None where the chosen backend has no such thing:

    layer_steps(discrete, C, D)              -> a function (u, state) -> (y, state), a step of state spaces
    block_steps(blocks, weights)             -> a function (x, states), a step through residual blocks, in place
    unet_steps(levels, weights)              -> a function (x, position, states), a step through a U-Net, in place
    linear_steps(weight, bias, weights)      -> a function x -> y, a linear layer; `weights` is float32, bfloat16,
                                                float16 or int8: how the weights of linear layers are kept

backend.py says which backend runs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, glu, linear

from longwave import ssm
from longwave.ops import cpu, reference, registration  # noqa: F401  (backends, torch.ops.longwave)
from longwave.ops.backend import BACKENDS, Backend, Unavailable, backend_name, candidates, find, is_accelerated
from longwave.ops.checks import check_devices, check_shape
from longwave.ops.cpu.library import keep_memory
from longwave.ops.cpu.model_step import LevelStates
from longwave.ops.cpu.step_weights import (
    WEIGHT_TYPES,
    Affine,
    BlockWeights,
    FeedForwardWeights,
    LevelWeights,
    WeightType,
)
from longwave.ssm import DiscreteDPLR
from longwave.ssm.algebra import as_pairs
from longwave.ssm.nodes import Nodes

__all__ = [
    "BACKENDS",
    "WEIGHT_TYPES",
    "Affine",
    "Backend",
    "BlockWeights",
    "FeedForwardWeights",
    "LevelStates",
    "LevelWeights",
    "Unavailable",
    "WeightType",
    "activate",
    "backend_name",
    "block_steps",
    "collect",
    "convolve",
    "diagonal_kernel",
    "dplr_kernel",
    "fft_conv",
    "gated_mix",
    "irfft",
    "keep_memory",
    "krylov",
    "layer_steps",
    "linear_steps",
    "mix",
    "power",
    "power_sum",
    "same",
    "scan",
    "spectrum",
    "spread",
    "truncate",
    "truncated_output_map",
    "unet_steps",
    "unfused",
]

NARROW = 64  # features up to which a block waits for memory, not for its products: one pass through it is faster


def dplr_kernel(
    Lambda: Tensor,
    P: Tensor,
    B: Tensor,
    C: Tensor,
    dt: Tensor,
    L: int,
    *,
    C_is_truncated: bool = False,
    Q: Tensor | None = None,
    nodes: Nodes = "auto",
) -> Tensor:
    """K (H, L) of a DPLR system by Algorithm 1, in O(H (M + L)) memory; see longwave.ssm.dplr_kernel.

    All but dt are complex: Lambda, B (H, M), P (r, H, M), C (H, M), or (2, H, M) for two kernels (2, H, L). With `Q`,
    for A = Lambda - P Q^*, it is longwave.ssm's function itself, in plain torch. `nodes` is that of `spectrum`.
    """
    if Q is not None:
        return ssm.dplr_kernel(Lambda, P, B, C, dt, L, C_is_truncated=C_is_truncated, Q=Q)
    C = C if C_is_truncated else truncated_output_map(Lambda, P, C, dt, L)
    K_hat = spectrum(as_pairs(Lambda), as_pairs(P), as_pairs(B), _maps(C), dt, L, nodes)
    K = irfft(K_hat, L)
    return K if C.ndim == 3 else K.squeeze(0)


def truncated_output_map(
    Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, *, Q: Tensor | None = None
) -> Tensor:
    """C~ = C (I - A_bar^L) of a DPLR system; see longwave.ssm.truncated_output_map. All but dt are complex."""
    if Q is not None:
        return ssm.truncated_output_map(Lambda, P, C, dt, L, Q=Q)
    C_tilde = torch.view_as_complex(truncate(as_pairs(Lambda), as_pairs(P), _maps(C), dt, L))
    return C_tilde if C.ndim == 3 else C_tilde.squeeze(0)


def diagonal_kernel(Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str = "zoh") -> Tensor:
    """K (H, L) of a diagonal system; see longwave.ssm.diagonal_kernel. All but dt are complex."""
    K = power_sum(as_pairs(Lambda), as_pairs(B), _maps(C), dt, L, rule)
    return K if C.ndim == 3 else K.squeeze(0)


def fft_conv(u: Tensor, K: Tensor, K_back: Tensor | None = None, D: Tensor | None = None) -> Tensor:
    """y (batch, L, H) from u (batch, L, H), K and K_back (H, L) and D (H,); see longwave.ssm.fft_conv."""
    return convolve(u, K.unsqueeze(0) if K_back is None else torch.stack((K, K_back)), D)


# Differentiable, with the arguments and results above. `nodes` of the spectrum: "all" evaluates every node, "few"
# interpolates the smooth parts (docs/kernel.md), "auto" is the faster of the two at this length.
spectrum: Callable[..., Tensor] = torch.ops.longwave.spectrum
irfft: Callable[..., Tensor] = torch.ops.longwave.irfft  # torch's own, in an exported graph, asks for even lengths
truncate: Callable[..., Tensor] = torch.ops.longwave.truncate
power_sum: Callable[..., Tensor] = torch.ops.longwave.power_sum
krylov: Callable[..., Tensor] = torch.ops.longwave.krylov
power: Callable[..., Tensor] = torch.ops.longwave.power
scan: Callable[..., Tensor] = torch.ops.longwave.scan


def convolve(u: Tensor, K: Tensor, D: Tensor | None = None) -> Tensor:
    """y_k = D u_k + sum_(j<=k) K[0, k-j] u_j (+ sum_(j>k) K[1, j-k-1] u_j).

    u (batch, L, H), K (1 or 2, H, L), D (H,) or none.
    """
    y: Tensor = torch.ops.longwave.convolve(u, K, u.new_zeros(u.shape[-1:]) if D is None else D)
    return y


def collect(columns: Tensor, E: Tensor | None, u: Tensor, start: Tensor | None, lengths: Tensor) -> Tensor:
    """The state after each row's whole blocks of T steps, lengths // T, from `start` before them; differentiable.

    For its gradients the states before each block are kept, N/T of the memory of u.
    """
    keep = _wants_gradient(columns, E, u, start)
    state: Tensor = torch.ops.longwave.collect(columns, E, u, start, lengths, keep)[0]
    return state


def spread(rows: Tensor, E: Tensor | None, start: Tensor, L: int) -> Tensor:
    """C A^k x for k = 0 ... L-1, (batch, L, H), from rows C A^j for j < T and states x; differentiable."""
    y: Tensor = torch.ops.longwave.spread(rows, E, start, L, _wants_gradient(rows, E, start))[0]
    return y


def activate(z: Tensor, keep: Tensor | None = None) -> Tensor:
    """GELU of z (batch, L, H), times keep (batch, H): a dropout mask that is tied over length; differentiable in z."""
    if not _is_fused("activate", z):
        check_devices(z, keep=keep)
        y = gelu(z)
        return y if keep is None else y * keep.unsqueeze(1)
    y = torch.ops.longwave.activate(z, _mask(z, keep))
    return y


def mix(z: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The linear layer after `activate`. For the backward pass it keeps only z, and computes GELU(z) again."""
    if not _is_fused("mix", z) or weight.dtype != z.dtype or torch.is_autocast_enabled(z.device.type):
        check_devices(z, weight=weight, bias=bias)  # or a linear layer gives what it finds in fresh memory
        return linear(activate(z, keep), weight, bias)
    y: Tensor = torch.ops.longwave.mix(z, _mask(z, keep), weight, bias)
    return y


def gated_mix(x: Tensor, z: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """x + a * sigmoid(b) for (a, b) = mix(z, keep, weight, bias): a gated linear unit beside a residual.

    For the backward pass of a narrow model only z is kept.
    """
    op = "gated_mix" if z.shape[-1] <= NARROW else "gate"
    same_dtype = x.dtype == weight.dtype == bias.dtype == z.dtype
    if not (_is_fused(op, z) and same_dtype) or torch.is_autocast_enabled(z.device.type):
        check_devices(z, x=x)
        return x + glu(mix(z, keep, weight, bias), dim=-1)
    y: Tensor
    if op == "gate":
        check_shape("x", x, z.shape)  # the two ops below do not see all of it
        check_shape("weight", weight, (2 * z.shape[-1], z.shape[-1]))
        # Without its bias, which is added on the way through the gate.
        y = torch.ops.longwave.gate(x, mix(z, keep, weight), bias)
    else:
        y = torch.ops.longwave.gated_mix(x, z, _mask(z, keep), weight, bias)
    return y


def layer_steps(
    discrete: DiscreteDPLR, C: Tensor, D: Tensor
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """A step y (batch, H), state (batch, H, M) = f(u, state) of a DPLR system, with fixed constants.

    None if the chosen backend has no such step: ssm.dplr_step is the plain one. Without gradients.
    """
    found = find("layer_steps", D.device.type, D.dtype)
    return None if found is None else found.functions["layer_steps"](discrete, C, D)


def block_steps(
    blocks: Sequence[BlockWeights], weights: WeightType = "float32"
) -> Callable[[Tensor, Sequence[Tensor]], None] | None:
    """A step through residual blocks, f(x, states) in place, for contiguous float32 x (batch, H) and complex64 states.

    None if the chosen backend has no such step for these blocks. The weights are copied, those of linear layers as
    `weights` says.
    """
    function = _steps("block_steps", [block.D for block in blocks])
    return None if function is None else function(blocks, weights)


def unet_steps(
    levels: Sequence[LevelWeights], weights: WeightType = "float32"
) -> Callable[[Tensor, Tensor, Sequence[LevelStates]], None] | None:
    """A step through the levels of a U-Net, f(x, position, states) in place, for states as LevelStates has them.

    `position` is the number of steps so far, modulo those that the centre sees as one. None as for `block_steps`.
    """
    layers = [layer for level in levels for layer in (*level.down, *level.up)]
    scales = [layer.D if isinstance(layer, BlockWeights) else layer[0].scale for layer in layers]
    function = _steps("unet_steps", scales)
    return None if function is None else function(levels, weights)


def linear_steps(weight: Tensor, bias: Tensor | None, weights: WeightType) -> Callable[[Tensor], Tensor] | None:
    """A linear layer y = f(x) of float32 x (batch, in), with a copy of its weights as `weights` says; None as above."""
    function = _steps("linear_steps", [weight])
    return None if function is None else function(weight, bias, weights)


def _steps(op: str, tensors: Sequence[Tensor]) -> Callable[..., Any] | None:
    """The function that makes steps, if one backend serves all the tensors."""
    found = [find(op, tensor.device.type, tensor.dtype) for tensor in tensors]
    if not found or found[0] is None or any(other is not found[0] for other in found):
        return None
    return found[0].functions[op]


def same(now: Sequence[Tensor], before: Sequence[Tensor]) -> bool:
    """Whether tensors still equal their earlier contiguous clones `before`; for the CPU, as it synchronises a GPU."""
    for backend in candidates(now[0].device.type if len(now) else "cpu"):
        found = backend.functions["same"](now, before) if "same" in backend.ops else None
        if found is not None:
            return bool(found)
    raise AssertionError("the reference compares all tensors")


def _mask(z: Tensor, keep: Tensor | None) -> Tensor:
    """The mask of z for the compiled loops: `keep`, or one that drops nothing."""
    return z.new_ones(z.shape[0], z.shape[-1]) if keep is None else keep


@contextmanager
def unfused() -> Iterator[None]:
    """A context in which `activate`, `mix` and `gated_mix` are torch's own operators, as other runtimes know them."""
    global _fuses  # of all threads: what a thread computes meanwhile is as right, and slower
    before, _fuses = _fuses, False
    try:
        yield
    finally:
        _fuses = before


_fuses = True


def _is_fused(op: str, x: Tensor) -> bool:
    """Whether to use a compiled pass; for a handful of numbers, as in a step, the call costs more than it saves."""
    if not _fuses:
        return False
    large = torch.compiler.is_compiling() or x.numel() >= 1 << 14  # a compiled graph should not depend on a size
    return large and x.dtype == torch.float32 and is_accelerated(op, x.device.type)


def _wants_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _maps(C: Tensor) -> Tensor:
    """View complex tensors as pairs, with an axis of output maps in front."""
    return as_pairs(C if C.ndim == 3 else C.unsqueeze(0))
