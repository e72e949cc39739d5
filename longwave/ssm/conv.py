"""Convolution of long signals by FFT, causal or two-sided, with its own backward (eq. 4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from longwave import kernels


def fft_conv(
    u: Float[Tensor, "batch L H"],
    K: Float[Tensor, "H L"],
    K_back: Float[Tensor, "H L"] | None = None,
    D: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "batch L H"]:
    """y_k = sum_(j<=k) K[k-j] u_j (+ sum_(j>k) K_back[j-k-1] u_j) (+ D u_k), in O(L log L), with no wrap-around."""
    return kernels.convolve(u, K.unsqueeze(0) if K_back is None else torch.stack((K, K_back)), D)
