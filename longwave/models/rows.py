"""Rows of a generation: repetition penalty and stop tokens."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

Stop = int | Sequence[int] | None


class Rows:
    """The tokens that each row (B,) has had, from its prompt (B, L) on, and whether it has ended.

    penalty  divides positive logits, and multiplies negative ones, of tokens that a row has had; None: no penalty
    stop     tokens that end a row
    """

    def __init__(self, prompt: Tensor, vocabulary: int, penalty: float | None, stop: Sequence[int]) -> None:
        self.penalty, self.stop = penalty, None
        if stop:
            self.stop = torch.tensor(stop, dtype=torch.long, device=prompt.device)
        self.had = None  # (B, vocabulary)
        if penalty is not None:
            self.had = prompt.new_zeros(len(prompt), vocabulary, dtype=torch.bool).scatter_(1, prompt, True)
        self.ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
        self.last = torch.zeros_like(prompt[:, 0])

    def penalised(self, logits: Tensor) -> Tensor:
        """Logits (B, vocabulary) with the penalty, in float32 at least."""
        if self.had is None or self.penalty is None:
            return logits
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return torch.where(self.had, torch.where(logits < 0, logits * self.penalty, logits / self.penalty), logits)

    def limited(self, chances: Tensor) -> Tensor:
        """Probabilities (B, vocabulary), where a row that has ended has its last token again."""
        if self.stop is None:
            return chances
        return torch.where(self.ended.unsqueeze(-1), one_hot(self.last, chances.shape[-1]).to(chances), chances)

    def add(self, tokens: Tensor) -> bool:
        """Remember the tokens (B,) that were drawn; whether all rows have ended."""
        if self.had is not None:
            self.had.scatter_(1, tokens.unsqueeze(-1), True)
        if self.stop is None:
            return False
        self.last = tokens
        self.ended |= torch.isin(tokens, self.stop)
        return bool(self.ended.all())


def check_limits(vocabulary: int, min_p: float | None, repetition_penalty: float | None, stop: Stop) -> list[int]:
    """Check stop tokens, min_p and repetition penalty; returns the stop tokens."""
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"min_p: expected a share from 0 to 1, or None for all tokens, got {min_p}")
    if repetition_penalty is not None and not 0 < repetition_penalty < math.inf:
        raise ValueError(f"repetition_penalty: expected a finite number above 0, or None, got {repetition_penalty}")
    tokens = [] if stop is None else [stop] if isinstance(stop, int) else list(stop)
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
            raise ValueError(f"stop: expected tokens from 0 to {vocabulary - 1}, got {token!r}")
    return tokens
