"""ExpRNN: a recurrence by an orthogonal matrix, the exponential of a skew-symmetric one; a baseline of the paper.

Lezcano-Casado and Martinez-Rubio (2019): h_t = modrelu(Q h_(t-1) + W u_t), Q = exp(S) with S = -S^T. Q is orthogonal
whatever is trained: it keeps the norm of h, and that of the gradient, over any number of steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from longwave.layers.mixer import MIXERS, Mixer, MixerConfig
from longwave.layers.stepwise import Cell, Stepwise


class OrthogonalCell(Cell):
    """S begins as rotations of pairs of units by angles drawn from -pi to pi."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, bias=False)
        rows, columns = torch.triu_indices(d_model, d_model, offset=1, device="cpu")
        is_pair = (rows % 2 == 0) & (columns == rows + 1)
        angles = math.pi * (2 * torch.rand(len(rows)) - 1)
        self.upper = nn.Parameter(torch.where(is_pair.to(angles.device), angles, 0))  # S above its diagonal
        self.threshold = nn.Parameter(0.02 * torch.rand(d_model) - 0.01)

    def orthogonal(self) -> Tensor:
        """Q = exp(S)."""
        n = len(self.threshold)
        rows, columns = torch.triu_indices(n, n, offset=1, device=self.upper.device)
        half = self.upper.new_zeros(n, n).index_put((rows, columns), self.upper)
        S = half - half.mT
        return torch.linalg.matrix_exp(S.to(torch.promote_types(S.dtype, torch.float32))).to(S.dtype)

    def update(self) -> Callable[[Tensor, Tensor], Tensor]:
        Q = self.orthogonal()

        def step(z: Tensor, h: Tensor) -> Tensor:
            z = z + h @ Q.mT
            return z.sign() * nn.functional.relu(z.abs() + self.threshold)

        return step


class ExpRNN(Stepwise):
    """h_t = modrelu(Q h_(t-1) + W u_t), Q orthogonal; modrelu(z) = sign(z) max(|z| + b, 0)."""

    cell = OrthogonalCell


@MIXERS.register("exp-rnn")
@dataclass(frozen=True)
class ExpRNNConfig(MixerConfig):
    """A recurrence by an orthogonal matrix (ExpRNN)."""

    layer: ClassVar[type[Mixer]] = ExpRNN
    bidirectional: bool = False
    """Bidirectional; can stream only with a sliding window."""
