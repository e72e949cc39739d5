"""LipschitzRNN: a differential equation with a Lipschitz nonlinearity, by Euler's rule; a baseline of the paper.

Erichson et al. (2021): h' = A h + tanh(W h + U u + b). A and W are each (1 - beta)(M + M^T) + beta (M - M^T) - gamma I
of a free matrix M. The larger beta, here `skew`, the nearer their eigenvalues are to the imaginary axis; gamma is
`damping`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from longwave.layers.mixer import MIXERS, Mixer, MixerConfig
from longwave.layers.stepwise import Cell, Stepwise


class LipschitzCell(Cell):
    """h + step_size (A h + tanh(W h + U u + b)); both free matrices start with a deviation of 1 / d_model."""

    def __init__(self, d_model: int, *, skew: float, damping: float, step_size: float) -> None:
        super().__init__(d_model, bias=True)
        if not 0 <= skew <= 1:
            raise ValueError(f"skew: expected a share from 0 to 1, got {skew}")
        if not 0 <= damping < math.inf:
            raise ValueError(f"damping: expected a finite number, at least 0, got {damping}")
        if not 0 < step_size < math.inf:
            raise ValueError(f"step_size: expected a finite number above 0, got {step_size}")
        self.skew, self.damping, self.step_size = skew, damping, step_size
        self.linear = nn.Parameter(torch.randn(d_model, d_model) / d_model)
        self.inner = nn.Parameter(torch.randn(d_model, d_model) / d_model)

    def matrix(self, M: Tensor) -> Tensor:
        """(1 - skew)(M + M^T) + skew (M - M^T) - damping I."""
        identity = torch.eye(len(M), dtype=M.dtype, device=M.device)
        return (1 - self.skew) * (M + M.mT) + self.skew * (M - M.mT) - self.damping * identity

    def update(self) -> Callable[[Tensor, Tensor], Tensor]:
        A, W = self.matrix(self.linear), self.matrix(self.inner)
        return lambda z, h: h + self.step_size * (h @ A.mT + torch.tanh(h @ W.mT + z))


class LipschitzRNN(Stepwise):
    """h_t = h_(t-1) + step_size (A h_(t-1) + tanh(W h_(t-1) + U u_t + b)).

    skew       share of the skew-symmetric part in A and W
    damping    what is subtracted from their diagonals
    step_size  of Euler's rule
    """

    cell = LipschitzCell

    def __init__(
        self,
        d_model: int,
        *,
        bidirectional: bool = False,
        skew: float = 0.75,
        damping: float = 0.001,
        step_size: float = 0.03,
        return_state: bool = True,
    ) -> None:
        settings = {"skew": skew, "damping": damping, "step_size": step_size}
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state, **settings)


@MIXERS.register("lipschitz-rnn")
@dataclass(frozen=True)
class LipschitzRNNConfig(MixerConfig):
    """A differential equation with a Lipschitz nonlinearity (LipschitzRNN)."""

    layer: ClassVar[type[Mixer]] = LipschitzRNN
    bidirectional: bool = False
    """Bidirectional; can stream only with a sliding window."""
    skew: float = 0.75
    """Share of the skew-symmetric part in both matrices."""
    damping: float = 0.001
    """What is subtracted from the diagonals of both matrices."""
    step_size: float = 0.03
    """Step size of Euler's rule."""
