"""A mixture of discretised logistics: a distribution over ordered values 0 ... K - 1.

After PixelCNN++ (Salimans et al. 2017). On the scale where the values are -1 ... 1 and neighbours are 2 h = 2/(K - 1)
apart, the value at x has the probability

    p(x) = sum_i w_i (sigmoid((x + h - m_i)/s_i) - sigmoid((x - h - m_i)/s_i)),

and the first and the last value have all that is beyond them, so that all p add up to 1. A model puts out the logits of
the weights w, the means m and log s: 3 numbers for each component, where a softmax has K logits.
"""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longwave.layers.checks import check_count
from longwave.models.adaptive import NO_TOKEN, wide

if TYPE_CHECKING:
    from longwave.models.base import Spec

LEAST, MOST = -7.0, 7.0  # of log s: a tenth of a value of 256, and flat
MOST_COMPONENTS = 1 << 10


def check_logistics(config: Any, spec: "Spec") -> None:
    """Refuse a mixture of logistics for tasks without ordered output values."""
    if config.logistics and not spec.ordered:
        raise ValueError(
            f"logistics: a mixture of logistics is for values in order (pixels, samples), which this task does not "
            f"predict; expected 0, got {config.logistics}"
        )


class LogisticMixture(nn.Module):
    """A decoder of features (..., d_model) to log-probabilities of values (..., values), with the state None."""

    def __init__(self, d_model: int, values: int, components: int) -> None:
        super().__init__()
        check_count("logistics", components, MOST_COMPONENTS)
        if values < 2:
            raise ValueError(f"logistics: a mixture of logistics needs at least 2 values, got {values}")
        self.values = values
        self.linear = nn.Linear(d_model, 3 * components)
        with torch.no_grad():  # near to uniform, whatever the features are
            self.linear.weight.mul_(0.1)
            logits, means, log_scales = self.linear.bias.chunk(3)
            logits.zero_()
            means.copy_(torch.linspace(-1, 1, components + 2)[1:-1])
            log_scales.fill_(-math.log(components + 1))

    def forward(
        self, x: Tensor, state: None = None, *, lengths: Tensor | None = None, valid: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Log-probabilities of all values, one component after the other to save memory."""
        log_weights, means, log_scales = self._mixture(x)
        values = torch.arange(self.values, device=x.device)
        found = means.new_full((*x.shape[:-1], self.values), -math.inf)
        for w, m, s in zip(log_weights.unbind(-1), means.unbind(-1), log_scales.unbind(-1), strict=True):
            own = self._log_bin(values, m.unsqueeze(-1), s.unsqueeze(-1))
            found = torch.logaddexp(found, w.unsqueeze(-1) + own)
        return found, None

    def step(self, x: Tensor, state: None) -> tuple[Tensor, None]:
        """One step, x (B, d_model)."""
        return self(x)

    def nll(self, x: Tensor, y: Tensor) -> Tensor:
        """-log p(y) in nats for features (..., d_model) and values y (...); 0 where y is -100, no value."""
        log_weights, means, log_scales = self._mixture(x)
        known = y != NO_TOKEN
        own = self._log_bin(torch.where(known, y, 0).unsqueeze(-1), means, log_scales)
        return torch.where(known, -(log_weights + own).logsumexp(-1), 0)

    def _mixture(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log w, m and log s of each component, (..., components)."""
        logits, means, log_scales = wide(self.linear(x)).chunk(3, dim=-1)
        return logits.log_softmax(-1), means, log_scales.clamp(LEAST, MOST)

    def _log_bin(self, value: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
        """The log-probability of a value's bin under a logistic.

        With the ends of the bin at a > b, sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - e^(b - a)), of which no
        factor is a difference of numbers that are nearly the same.
        """
        half, inverse = 1 / (self.values - 1), torch.exp(-log_scale)
        x = 2 * half * value.to(mean.dtype) - 1
        is_first, is_last = value == 0, value == self.values - 1
        up_to = torch.where(is_last, 0, F.logsigmoid((x + half - mean) * inverse))
        from_there = torch.where(is_first, 0, F.logsigmoid((mean - x + half) * inverse))
        both = torch.where(is_first | is_last, 0, torch.log(-torch.expm1(-2 * half * inverse)))
        return up_to + from_there + both
