"""Convolution of long signals by FFT, causal or two-sided (eq. 4)."""

import torch
from jaxtyping import Float
from torch import Tensor


def fft_conv(
    u: Float[Tensor, "batch L H"],
    K: Float[Tensor, "H L"],
    K_back: Float[Tensor, "H L"] | None = None,
    D: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "batch L H"]:
    """y_k = sum_(j<=k) K[k-j] u_j (+ sum_(j>k) K_back[j-k-1] u_j) (+ D u_k), in O(L log L), with no wrap-around."""
    _, L, H = u.shape
    for name, kernel in (("K", K), ("K_back", K_back)):
        if kernel is not None and kernel.shape != (H, L):
            raise ValueError(f"{name}: expected {(H, L)} beside u {tuple(u.shape)}, got {tuple(kernel.shape)}")
    sides = K.unsqueeze(0) if K_back is None else torch.stack((K, K_back))
    return convolve(u, sides, u.new_zeros(H) if D is None else D)


def convolve(
    u: Float[Tensor, "batch L H"], K: Float[Tensor, "sides H L"], D: Float[Tensor, "H"]
) -> Float[Tensor, "batch L H"]:
    """y (batch, L, H) from u (batch, L, H), K (sides, H, L) and D (H,): causal, or two-sided.

    y_k = D u_k + sum_(j<=k) K[0, k-j] u_j + sum_(j>k) K[1, j-k-1] u_j
    """
    L = u.shape[1]
    n = fft_length(2 * L - 1)
    y = torch.fft.irfft(torch.fft.rfft(u.mT, n=n) * kernel_spectrum(K, D, n), n=n)[..., :L]
    return y.mT.contiguous()


def kernel_spectrum(K: Tensor, D: Tensor, n: int) -> Tensor:
    """rfft of K (sides, H, L) laid on a circle of n >= 2L - 1 points; a backward kernel stands reversed at its end."""
    L = K.shape[-1]
    circle = K.new_zeros(K.shape[1], n)
    circle[:, :L] = K[0]
    circle[:, 0] += D
    if len(K) == 2:
        circle[:, n - L + 1 :] = K[1, :, : L - 1].flip(-1)  # K[1, :, i] acts at lag -(i+1)
    return torch.fft.rfft(circle)


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
