"""Sequences of tokens, each to be told from those before it: windows, cross-entropy, bits.

A window w comes in as START, w[0], w[1] ... and is to come out as w[0], w[1], w[2] ... , so the model has to be causal,
and can generate from START alone. Nothing is carried from window to window: the scores of a part are those of its
windows side by side, without overlap, and every token counts once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.tasks.base import Batch, Task, digest

START = 0  # the token before the first
PADDING = -100  # what a target is where there is none, behind the end of the last window


@dataclass(frozen=True, eq=False)
class Windows:
    """Tokens cut into windows of one length."""

    tokens: NDArray[Any]  # (n,) of any whole type: bytes stay bytes until they are in a batch
    length: int
    start: int = 0  # where the first window begins
    count: int | None = None  # of windows; None: as many as hold all tokens, the last perhaps cut short

    def __len__(self) -> int:
        return math.ceil((len(self.tokens) - self.start) / self.length) if self.count is None else self.count

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length). A causal model needs no mask: nothing that counts comes after padding."""
        places = self.start + np.asarray(indices, np.int64)[:, None] * self.length + np.arange(self.length)
        there = places < len(self.tokens)
        tokens = self.tokens[np.where(there, places, 0)].astype(np.int64)
        x = np.concatenate((np.full((len(tokens), 1), START, np.int64), tokens[:, :-1]), axis=1)
        return {"x": torch.from_numpy(x), "y": torch.from_numpy(np.where(there, tokens, PADDING))}


@dataclass(frozen=True, kw_only=True)
class AutoregressiveTask(Task):
    """Tell each token from those before it; an output has a logit for each token of the vocabulary at each step."""

    train: Windows
    valid: Windows
    test: Windows
    unit: str  # what a token is: the bits are those of one
    origin: str = ""  # where the data was read from, for the report

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean cross-entropy of a token, in nats."""
        return nn.functional.cross_entropy(*self._flat(output, batch), ignore_index=PADDING)

    def scores(self, output: Tensor, batch: Batch) -> dict[str, tuple[Tensor, int]]:
        """The cross-entropy in nats; all other scores follow from it."""
        losses = nn.functional.cross_entropy(*self._flat(output, batch), ignore_index=PADDING, reduction="none")
        return {"loss": (losses.double().sum(), int((batch["y"] != PADDING).sum()))}

    def reported(self, means: dict[str, float]) -> dict[str, float]:
        """The loss, and the same in bits."""
        return {**means, self.bits: means["loss"] / math.log(2)}

    @property
    def bits(self) -> str:
        """What the score in bits is called."""
        return f"bits_per_{self.unit}"

    @property
    def length(self) -> int:
        """Tokens of a window."""
        return self.test.length

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        tokens = {name: len(part.tokens) for name, part in parts.items()}
        return super().describe() | {
            "data": self.origin,
            "unit": self.unit,
            "tokens": tokens,
            "digest": digest(*(part.tokens for part in parts.values())),
        }

    def frequencies(self) -> dict[str, dict[str, float]]:
        """Scores of one who knows how often each token is in the train part (plus one), and nothing of those before."""
        counts = np.bincount(self.train.tokens, minlength=self.output_size) + 1.0
        losses = np.log(counts.sum()) - np.log(counts)
        scores = {}
        for name, part in (("valid", self.valid), ("test", self.test)):
            share = np.bincount(part.tokens, minlength=self.output_size) / len(part.tokens)
            scores[name] = self.reported({"loss": float(share @ losses)})
        return scores

    def _flat(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        expected = (*batch["y"].shape, self.output_size)
        if output.shape != expected:
            raise ValueError(
                f"output: expected {expected}, a logit for each token at each step, got {tuple(output.shape)}; "
                "does the model have the decoder sequence?"
            )
        return output.flatten(0, 1), batch["y"].flatten()
