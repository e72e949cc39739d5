"""The backend `reference`: the functions of longwave.ssm and torch's own operators, for every device and dtype.

It defines what the other backends are tested against. The backward passes differentiate the forward ones, except
that of the convolution; the spectrum's computes each block of nodes again, so that no array of size H M L exists.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, glu, linear

from longwave.ops.backend import BACKENDS, Backend, functions_of
from longwave.ops.checks import has_values
from longwave.ssm.algebra import as_pairs, truncate
from longwave.ssm.conv import convolve as convolve_at_once
from longwave.ssm.conv import fft_length, kernel_spectrum
from longwave.ssm.diagonal import power_sum
from longwave.ssm.nodes import Nodes, spectrum_from_few
from longwave.ssm.spectrum import blocks, spectrum_block, widen
from longwave.ssm.spectrum import nodes as all_nodes
from longwave.ssm.spectrum import spectrum as spectrum_from_all
from longwave.ssm.states import collect as collect_states
from longwave.ssm.states import krylov, power, scan
from longwave.ssm.states import spread as spread_states


def _pull_back(function: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor) -> list[Tensor]:
    """The gradients of function(*inputs) with respect to the inputs that are not None, also inside an op.

    An op's implementation runs below autograd, where no graph is built and a lazy conjugate is not resolved: both keys
    of torch's dispatcher are let in again. (torch.func would build a graph too, but under no dispatch mode.)
    """
    key = torch._C.DispatchKey
    with (
        torch._C._SetExcludeDispatchKeyGuard(key.AutogradFunctionality, False),
        torch._C._SetExcludeDispatchKeyGuard(key.Conjugate, False),
        torch.enable_grad(),
    ):
        leaves = [None if t is None else t.detach().requires_grad_() for t in inputs]
        output, given = function(*leaves), [t for t in leaves if t is not None]
        if not output.requires_grad:
            return [torch.zeros_like(t) for t in given]
        return list(torch.autograd.grad(output, given, grad, materialize_grads=True))


def _gradients_of(function: Callable[..., Tensor], count: int) -> Callable[..., list[Tensor]]:
    """The backward pass of an op: gradients with respect to its first `count` arguments."""

    def backward(grad: Tensor, *given: Any) -> list[Tensor]:
        return _pull_back(lambda *tensors: function(*tensors, *given[count:]), given[:count], grad)

    return backward


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto") -> Tensor:
    """K_hat (D, H, L//2+1, 2), from all nodes unless few are asked for: the search is slow in plain torch."""
    return (spectrum_from_few if nodes == "few" else spectrum_from_all)(Lambda, P, B, C, dt, L)


def spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto"
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt, each block of nodes computed again."""
    if nodes == "few":
        return _pull_back(partial(spectrum_from_few, L=L), [Lambda, P, B, C, dt], grad)
    dtype = Lambda.dtype
    parameters = [p.detach() for p in widen(Lambda, P, B, C, dt)]
    sigma, kappa = all_nodes(L, parameters[0])
    total = [torch.zeros_like(p) for p in parameters]
    for k in blocks(Lambda, L):

        def block(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, k: slice = k) -> Tensor:
            return spectrum_block(Lambda, P, B, C, dt, P, sigma[k], kappa[k])

        for sum_, part in zip(total, _pull_back(block, parameters, grad[..., k, :].to(sigma.dtype)), strict=True):
            sum_ += part
    return [t.to(dtype) for t in total]


def irfft(K_hat: Tensor, L: int) -> Tensor:
    """K (D, H, L) from its spectrum."""
    pairs = K_hat.contiguous()
    pairs = pairs.clone() if pairs.storage_offset() % 2 else pairs  # which no complex numbers can begin at
    return torch.fft.irfft(torch.view_as_complex(pairs), n=L)


def irfft_backward(grad: Tensor, L: int) -> list[Tensor]:
    """The gradient with respect to K_hat: all bins but the first, and the last of an even length, count twice."""
    grad_hat = torch.fft.rfft(grad.contiguous()) * (2 / L)  # torch 2.6 refuses one number for all steps, as of a sum
    grad_hat[..., 0] /= 2
    if L % 2 == 0:
        grad_hat[..., -1] /= 2
    return [as_pairs(grad_hat)]


truncate_backward = _gradients_of(truncate, 4)  # Lambda, P, C, dt
power_sum_backward = _gradients_of(power_sum, 4)  # Lambda, B, C, dt
krylov_backward = _gradients_of(krylov, 4)  # change, left, right, start
power_backward = _gradients_of(power, 3)  # change, left, right
scan_backward = _gradients_of(
    lambda change, left, right, B_bar, u, start, lengths, out, every: scan(
        change, left, right, B_bar, u, start, lengths, every
    ),
    6,
)


def collect(
    columns: Tensor, E: Tensor | None, u: Tensor, start: Tensor | None, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """The state after the blocks and, if kept, those before each."""
    last, kept = collect_states(columns, E, u, start, lengths)
    return last.clone(), kept if keep else kept[:, :, :0].clone()  # an op returns no memory of its arguments


def collect_backward(
    grad: Tensor, columns: Tensor, E: Tensor | None, u: Tensor, lengths: Tensor, kept: Tensor, started: bool
) -> list[Tensor]:
    """Gradients with respect to those of columns, E, u and start that were given."""
    start = kept[:, :, 0] if kept.shape[2] else torch.zeros_like(grad)
    given = [columns, E, u, start if started else None]
    return _pull_back(lambda columns, E, u, start: collect_states(columns, E, u, start, lengths)[0], given, grad)


def spread(rows: Tensor, E: Tensor | None, start: Tensor, L: int, keep: bool) -> tuple[Tensor, Tensor]:
    """The response of L outputs to states and, if kept, the states before each block."""
    y, kept = spread_states(rows, E, start, L)
    return y, kept if keep else kept[:, :, :0].clone()


def spread_backward(grad: Tensor, rows: Tensor, E: Tensor | None, kept: Tensor) -> list[Tensor]:
    """Gradients with respect to rows, E if it was given, and start."""
    L, given = grad.shape[1], [rows, E, kept[:, :, 0]]
    return _pull_back(lambda rows, E, start: spread_states(rows, E, start, L)[0], given, grad)


CONVOLUTION_BYTES = 1 << 30  # of transforms that a convolution holds at one time


def convolve(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    """y (batch, L, H); as many features at a time as fit into a bounded amount of memory."""
    groups = _groups(u, 3)
    if len(groups) == 1:
        return convolve_at_once(u, K, D)
    y = torch.empty_like(u, memory_format=torch.contiguous_format)
    for h in groups:
        y[..., h] = convolve_at_once(u[..., h], K[:, h], D[h])
    return y


def convolve_backward(dy: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    """Gradients with respect to u, K and D, some features at a time."""
    groups = _groups(u, 5)
    if len(groups) == 1:
        return _convolve_backward(dy, u, K, D)
    du, dK = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (u, K))
    for h in groups:
        du[..., h], dK[:, h], _ = _convolve_backward(dy[..., h], u[..., h], K[:, h], D[h])
    return [du, dK, dK[0, :, 0].clone()]


def _groups(u: Tensor, arrays: int) -> list[slice]:
    """Features that are convolved together, where so many arrays of the size of a transform of u are held."""
    batch, L, H = u.shape
    size = max(1, CONVOLUTION_BYTES // (arrays * batch * fft_length(2 * L - 1) * u.element_size()))
    count = -(-H // size)
    size = -(-H // count)  # of equal groups
    return [slice(start, min(start + size, H)) for start in range(0, H, size)]


def _convolve_backward(dy: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    """All features at once.

    Autograd differentiates rfft by a complex transform of the full length; written out, real transforms are enough.
    """
    L = u.shape[1]
    n = fft_length(2 * L - 1)
    dy_f, u_f, K_f = torch.fft.rfft(dy.mT, n=n), torch.fft.rfft(u.mT, n=n), kernel_spectrum(K, D, n)
    circle = torch.fft.irfft((u_f.conj_physical() * dy_f).sum(0), n=n)
    dK = torch.zeros_like(K)
    dK[0] = circle[:, :L]
    if len(K) == 2:
        dK[1, :, : L - 1] = circle[:, n - L + 1 :].flip(-1)  # the last one, at lag -L, reaches no step
    du = torch.fft.irfft(dy_f * K_f.conj_physical(), n=n)[..., :L]
    return [du.mT.contiguous(), dK, dK[0, :, 0].clone()]


def activate(z: Tensor, keep: Tensor) -> Tensor:
    """GELU(z) * keep for z (batch, L, H) and keep (batch, H)."""
    return gelu(z) * keep.unsqueeze(1)


activate_backward = _gradients_of(activate, 1)


def mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer after `activate`."""
    return linear(activate(z, keep), weight, bias)


def mix_backward(dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, need_weight: bool) -> list[Tensor]:
    """Gradients with respect to z and, if it is needed, weight."""
    count = 2 if need_weight else 1
    return _gradients_of(lambda z, weight: mix(z, keep, weight, None), count)(dy, z, weight)


def gate(x: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    """x + a * sigmoid(b) for x (batch, L, H) and (a, b) = z + bias, z (batch, L, 2H)."""
    return x + glu(z + bias, dim=-1)


gate_backward = _gradients_of(lambda z, bias: glu(z + bias, dim=-1), 2)  # that of x is the gradient itself


def gated_mix(x: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`gate` after `mix`."""
    return gate(x, mix(z, keep, weight, None), bias)


def gated_mix_backward(dy: Tensor, z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Gradients with respect to z, weight and bias; that of x is dy."""
    zero = torch.zeros_like(z)
    return _pull_back(lambda z, weight, bias: gated_mix(zero, z, keep, weight, bias), [z, weight, bias], dy)


def same(now: Sequence[Tensor], before: Sequence[Tensor]) -> bool:
    """Whether tensors on the CPU are those of which `before` are clones; those without numbers never are."""
    if any((p.dtype, p.shape, p.device) != (k.dtype, k.shape, k.device) for p, k in zip(now, before, strict=True)):
        return False
    if not all(map(has_values, now)):
        return False
    return all(torch.equal(p, k) for p, k in zip(now, before, strict=True))


BACKENDS.register("reference")(
    Backend("reference", functions_of(globals()), description=lambda: "plain torch, every device")
)
