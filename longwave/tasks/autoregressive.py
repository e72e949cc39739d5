"""Next-token prediction: windows of tokens, cross-entropy, bits.

A window w comes in as START, w[0], w[1] ... and is to come out as w[0], w[1], w[2] ... , so the model has to be causal,
and can generate from START alone. Nothing is carried from window to window: the scores of a split are those of its
windows side by side, without overlap, and every token counts once.

What comes in may say more than what is to come out, as `Interleaved` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.models import Spec
from longwave.tasks.base import Baselines, Batch, Outcome, Scores, Task, call
from longwave.tasks.statistics import digest

START = 0  # the token before the first
PADDING = -100  # what a target is where there is none, behind the end of the last window


@dataclass(frozen=True)
class Interleaved:
    """Values of several channels in turn, which a model reads with their channel: value + 1 + values * channel.

    So no value of any channel is START.
    """

    channels: int
    values: int = 256

    @property
    def vocabulary(self) -> int:
        """Number of tokens that come in."""
        return 1 + self.values * self.channels

    def __call__(self, values: Any, first: int) -> Any:
        """What comes in for values (..., n), an array or a tensor, of which the first has `first` values before it."""
        return values + 1 + self.values * _like(values, (first + np.arange(values.shape[-1])) % self.channels)


@dataclass(frozen=True, eq=False)
class TokenWindows:
    """Tokens cut into windows of one length."""

    tokens: NDArray[Any]  # (n,) of any whole type: bytes stay bytes until they are in a batch
    length: int
    start: int = 0  # where the first window begins
    count: int | None = None  # of windows; None: as many as hold all tokens, the last perhaps cut short
    reads: Interleaved | None = None  # what comes in for the tokens; None: they themselves

    def __len__(self) -> int:
        return math.ceil((len(self.tokens) - self.start) / self.length) if self.count is None else self.count

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length). A causal model needs no mask: nothing that counts comes after padding."""
        places = self.start + np.asarray(indices, np.int64)[:, None] * self.length + np.arange(self.length)
        there = places < len(self.tokens)
        tokens = self.tokens[np.where(there, places, 0)].astype(np.int64)
        return shifted(tokens, there, self.reads)

    @property
    def targets(self) -> NDArray[Any]:
        """The tokens that are to be predicted."""
        return self.tokens

    def cut_elsewhere(self, number: int) -> Self:
        """The same number of windows, of which the first begins elsewhere."""
        return replace(self, start=number % self.length)

    def uncut(self) -> Self:
        """All tokens as one window."""
        return replace(self, length=len(self.tokens) - self.start, count=1)


@dataclass(frozen=True, eq=False)
class TokenRows(TokenWindows):
    """Tokens cut into `rows` equal rows (what is left is dropped), and each row into windows of `length`.

    A window comes in as it is, and its targets are one to the right. So nothing stands before the first token of a row,
    which is no target, and the last window may be short. Examples are numbered window by window: as many as there are
    rows, one after the other, are the same window of all rows. `start` is how far each row is rotated to the left.
    """

    rows: int = 1

    @property
    def row_length(self) -> int:
        """Tokens of a row."""
        return len(self.tokens) // self.rows

    def __len__(self) -> int:
        return self.rows * math.ceil((self.row_length - 1) / self.length)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length), or less if all windows are short."""
        windows, rows = np.divmod(np.asarray(indices, np.int64)[:, None], self.rows)
        left = self.row_length - 1 - windows.min() * self.length
        places = windows * self.length + np.arange(min(self.length, left))
        there = places < self.row_length - 1
        x, y = (
            self.tokens[rows * self.row_length + (places + self.start + shift) % self.row_length].astype(np.int64)
            for shift in (0, 1)
        )
        return {"x": torch.from_numpy(x), "y": torch.from_numpy(np.where(there, y, PADDING))}

    @property
    def targets(self) -> NDArray[Any]:
        """The tokens that are to be predicted."""
        return self.tokens[: self.rows * self.row_length].reshape(self.rows, -1)[:, 1:].reshape(-1)

    def cut_elsewhere(self, number: int) -> Self:
        """The same rows rotated by a number of tokens."""
        return replace(self, start=number % self.row_length)

    def uncut(self) -> Self:
        """The same rows, each as one window."""
        return replace(self, length=self.row_length - 1)


def shifted(
    tokens: NDArray[np.int64], there: NDArray[np.bool_], reads: Interleaved | None = None, start: int = START
) -> Batch:
    """x, which begins with the token `start`, and y, which is PADDING where no tokens (B, length) are there."""
    before = tokens[:, :-1] if reads is None else reads(tokens[:, :-1], 0)
    x = np.concatenate((np.full((len(tokens), 1), start, np.int64), before), axis=1)
    return {"x": torch.from_numpy(x), "y": torch.from_numpy(np.where(there, tokens, PADDING))}


@dataclass(frozen=True, kw_only=True)
class AutoregressiveTask(Task):
    """Predict each token from those before it; an output has a logit for each token of the vocabulary at each step."""

    train: TokenWindows
    valid: TokenWindows
    test: TokenWindows
    vocabulary: int  # number of tokens
    unit: str  # what a token is: the bits are those of one
    reads: Interleaved | None = None  # what comes in for the tokens; None: they themselves
    is_ordered: bool = False  # whether tokens are values in order, as of a pixel

    @property
    def spec(self) -> Spec:
        """A causal model of tokens, with a logit for each of them at every step."""
        return Spec(
            input_size=1,
            output_size=self.vocabulary,
            vocabulary=self.vocabulary if self.reads is None else self.reads.vocabulary,
            scale=self.vocabulary if self.is_ordered else 0,
            length=self.length,
            decoders=("sequence",),
            is_causal=True,
        )

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The cross-entropy in nats, summed over the tokens; all other scores follow from it."""
        losses = self.losses(model, batch)
        # The score in float64: a split may have more tokens than float32 can add up.
        return Outcome(losses.sum(), {"loss": (losses.detach().double().sum(), self.count(batch))})

    def count(self, batch: Batch) -> int:
        """Tokens, without what stands behind the end of the last window."""
        return int((batch["y"] != PADDING).sum())

    def reported(self, means: Scores) -> Scores:
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

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The tokens of each split."""
        splits = {"train": self.train, "valid": self.valid, "test": self.test}
        tokens = {name: len(split.tokens) for name, split in splits.items()}
        return {"tokens": tokens, "digest": digest(*(split.tokens for split in splits.values()))}

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        return super().describe() | {"unit": self.unit}

    def baselines(self) -> Baselines:
        """The unigram model: how often each token is in the training set (plus one), whatever stands before it."""
        return {"unigram": self._unigram()}

    def _unigram(self) -> dict[str, Scores]:
        counts = np.bincount(self.train.tokens, minlength=self.vocabulary) + 1.0
        losses = np.log(counts.sum()) - np.log(counts)
        scores = {}
        for name, split in (("valid", self.valid), ("test", self.test)):
            share = np.bincount(split.targets, minlength=self.vocabulary) / len(split.targets)
            scores[name] = self.reported({"loss": float(share @ losses)})
        return scores

    def losses(self, model: Any, batch: Batch) -> Tensor:
        """The cross-entropy of each token in nats, (B, length), 0 for padding."""
        logits, targets = self._flat(call(model, batch), batch)
        losses = nn.functional.cross_entropy(logits, targets, ignore_index=PADDING, reduction="none")
        return losses.view_as(batch["y"])

    def _flat(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        expected = (*batch["y"].shape, self.vocabulary)
        if output.shape != expected:
            raise ValueError(
                f"output: expected {expected}, a logit for each token at each step, got {tuple(output.shape)}; "
                "does the model have the decoder sequence?"
            )
        return output.flatten(0, 1), batch["y"].flatten()


def _like(values: Any, numbers: NDArray[Any]) -> Any:
    """Whole numbers as an array or a tensor, as `values` is."""
    return torch.from_numpy(numbers).to(values.device) if isinstance(values, Tensor) else numbers
