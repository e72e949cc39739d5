"""Convolution of long signals by FFT, causal or two-sided, with its own backward.

Autograd differentiates rfft by a complex transform of the full length; written out, the backward needs only real
transforms: one of dy, one back to du, and one back to dK after the sum over the batch.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def fft_conv(
    u: Float[Tensor, "batch H L"], K: Float[Tensor, "H L"], K_back: Float[Tensor, "H L"] | None = None
) -> Float[Tensor, "batch H L"]:
    """y_k = sum_(j<=k) K[k-j] u_j  (+ sum_(j>k) K_back[j-k-1] u_j): exact, no wrap-around."""
    y: Tensor = _FFTConv.apply(u, K, K_back)  # type: ignore[no-untyped-call]
    return y


def fft_length(minimum: int) -> int:
    """The smallest even n >= minimum with no prime factor above 5: lengths that FFT libraries are fast at."""
    n = minimum + minimum % 2
    while True:
        rest = n
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 2


class _FFTConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, K: Tensor, K_back: Tensor | None) -> Tensor:
        L = u.shape[-1]
        n = fft_length(2 * L - 1)
        u_f = torch.fft.rfft(_padded(u, n))
        circle = _padded(K, n)
        if K_back is not None:
            # K_back[i] acts at lag -(i+1): it stands reversed at the end of the circle of n.
            circle[..., n - L + 1 :] = K_back[..., : L - 1].flip(-1)
        K_f = torch.fft.rfft(circle)
        ctx.save_for_backward(u_f, K_f)
        ctx.two_sided = K_back is not None
        return torch.fft.irfft(u_f * K_f, n=n)[..., :L]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        u_f, K_f = ctx.saved_tensors
        L = dy.shape[-1]
        n = fft_length(2 * L - 1)
        dy_f = torch.fft.rfft(_padded(dy, n))
        du = dK = dK_back = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            circle = torch.fft.irfft((u_f.conj() * dy_f).sum(0), n=n)
            dK = circle[..., :L]
            if ctx.two_sided:
                # The last number of K_back acts at lag -L, which no position of the input reaches.
                dK_back = torch.nn.functional.pad(circle[..., n - L + 1 :].flip(-1), (0, 1))
        if ctx.needs_input_grad[0]:
            du = torch.fft.irfft(dy_f.mul_(K_f.conj()), n=n)[..., :L]
        return du, dK, dK_back


def _padded(x: Tensor, n: int) -> Tensor:
    """x with zeros behind it, contiguous, whatever the strides of x."""
    out = x.new_empty(*x.shape[:-1], n)
    out[..., : x.shape[-1]] = x
    out[..., x.shape[-1] :] = 0
    return out
