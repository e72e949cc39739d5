"""Next-token prediction: windows of tokens, cross-entropy, bits.

The inputs of a window w are START, w[0], w[1] ... and its targets w[0], w[1], w[2] ... , so the model has to be causal,
and can generate from START alone. No state is carried between windows: a split is scored on consecutive windows without
overlap, and every token counts once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.models import Spec
from longwave.tasks.base import Baselines, Batch, Outcome, Scores, Task, call
from longwave.tasks.statistics import digest

START = 0  # the token before the first
PADDING = -100  # the target beyond the end of the last window


@dataclass(frozen=True)
class Interleaved:
    """Values of interleaved channels as input tokens, value + 1 + values * channel, none of which is START."""

    channels: int
    values: int = 256

    @property
    def vocabulary(self) -> int:
        """Number of input tokens."""
        return 1 + self.values * self.channels

    def __call__(self, values: Any, first: int) -> Any:
        """The inputs for values (..., n), an array or a tensor; the first one has `first` values before it."""
        channel: Any = (first + np.arange(values.shape[-1])) % self.channels
        if isinstance(values, Tensor):
            channel = torch.from_numpy(channel).to(values.device)
        return values + 1 + self.values * channel


@dataclass(frozen=True, eq=False)
class TokenWindows:
    """Tokens cut into windows of one length."""

    tokens: NDArray[Any]  # (n,) of any integer type: bytes stay bytes until they are in a batch
    length: int
    start: int = 0  # where the first window begins
    count: int | None = None  # of windows; None: enough for all tokens, the last one perhaps short
    reads: Interleaved | None = None  # how tokens are read; None: as they are

    def __len__(self) -> int:
        return math.ceil((len(self.tokens) - self.start) / self.length) if self.count is None else self.count

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length). A causal model needs no mask: no target comes after padding."""
        places = self.start + np.asarray(indices, np.int64)[:, None] * self.length + np.arange(self.length)
        there = places < len(self.tokens)
        tokens = self.tokens[np.where(there, places, 0)].astype(np.int64)
        return shifted(tokens, there, self.reads)

    @property
    def targets(self) -> NDArray[Any]:
        """The tokens to predict."""
        return self.tokens

    def cut_elsewhere(self, number: int) -> Self:
        """Cut the same number of windows at other places."""
        return replace(self, start=number % self.length)

    def uncut(self) -> Self:
        """Treat all tokens as one window."""
        return replace(self, length=len(self.tokens) - self.start, count=1)


@dataclass(frozen=True, eq=False)
class TokenRows(TokenWindows):
    """Tokens cut into `rows` equal rows (the rest is dropped), and each row into windows of `length`.

    The targets of a window are its tokens shifted by one. So the first token of a row is not a target, and the last
    window may be short. Examples are numbered window by window: `rows` consecutive ones are the same window of all
    rows. `start` is how far each row is rotated to the left.
    """

    rows: int = 1

    @property
    def row_length(self) -> int:
        return len(self.tokens) // self.rows

    def __len__(self) -> int:
        return self.rows * math.ceil((self.row_length - 1) / self.length)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x and y, both (B, length), or shorter if all windows are."""
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
        return self.tokens[: self.rows * self.row_length].reshape(self.rows, -1)[:, 1:].reshape(-1)

    def cut_elsewhere(self, number: int) -> Self:
        """Cut the same rows, rotated by a number of tokens."""
        return replace(self, start=number % self.row_length)

    def uncut(self) -> Self:
        """Treat each row as one window."""
        return replace(self, length=self.row_length - 1)


def shifted(
    tokens: NDArray[np.int64], there: NDArray[np.bool_], reads: Interleaved | None = None, start: int = START
) -> Batch:
    """x, which begins with the token `start`, and y, which is PADDING where tokens (B, length) are not `there`."""
    before = tokens[:, :-1] if reads is None else reads(tokens[:, :-1], 0)
    x = np.concatenate((np.full((len(tokens), 1), start, np.int64), before), axis=1)
    return {"x": torch.from_numpy(x), "y": torch.from_numpy(np.where(there, tokens, PADDING))}


@dataclass(frozen=True, kw_only=True)
class AutoregressiveTask(Task):
    """Predict each token from those before it; an output has a logit per token of the vocabulary at each step."""

    train: TokenWindows
    valid: TokenWindows
    test: TokenWindows
    vocabulary: int  # number of tokens
    unit: str  # what a token is called, in bits per unit
    reads: Interleaved | None = None  # how tokens are read; None: as they are
    is_ordered: bool = False  # whether the vectors of values in order start in order
    has_values: ClassVar[bool] = False  # whether tokens are values in order, as of a pixel

    @property
    def spec(self) -> Spec:
        return Spec(
            input_size=1,
            output_size=self.vocabulary,
            vocabulary=self.vocabulary if self.reads is None else self.reads.vocabulary,
            scale=self.vocabulary if self.is_ordered else 0,
            length=self.length,
            decoders=("sequence",),
            is_causal=True,
            ordered=self.has_values,
        )

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The cross-entropy in nats, summed over the tokens; all other scores follow from it."""
        losses = self.losses(model, batch)
        # The score in float64: a split may have more tokens than float32 can add up.
        return Outcome(losses.sum(), {"loss": (losses.detach().double().sum(), self.count(batch))})

    def count(self, batch: Batch) -> int:
        """Number of targets, without padding."""
        return int((batch["y"] != PADDING).sum())

    def reported(self, means: Scores) -> Scores:
        """The loss in nats and in bits."""
        return {**means, self.bits: means["loss"] / math.log(2)}

    @property
    def bits(self) -> str:
        """The name of the score in bits."""
        return f"bits_per_{self.unit}"

    @property
    def length(self) -> int:
        return self.test.length

    @property
    def fingerprint(self) -> dict[str, Any]:
        tokens = {name: split.tokens for name, split in self.splits.items()}
        return {"tokens": {name: len(own) for name, own in tokens.items()}, "digest": digest(*tokens.values())}

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"unit": self.unit}

    def baselines(self) -> Baselines:
        """The unigram model: the frequency of each token in the training set, plus one."""
        counts = np.bincount(self.train.tokens, minlength=self.vocabulary) + 1.0
        losses = np.log(counts.sum()) - np.log(counts)
        scores = {}
        for name, split in (("valid", self.valid), ("test", self.test)):
            share = np.bincount(split.targets, minlength=self.vocabulary) / len(split.targets)
            scores[name] = self.reported({"loss": float(share @ losses)})
        return {"unigram": scores}

    def losses(self, model: Any, batch: Batch) -> Tensor:
        """The cross-entropy of each token in nats, (B, length), 0 for padding."""
        if getattr(getattr(model, "config", None), "logistics", 0):  # works out the one value that is asked for
            losses: Tensor = model.nll(batch["x"], batch["y"])[0]
            return losses
        output, y = call(model, batch), batch["y"]
        expected = (*y.shape, self.vocabulary)
        if output.shape != expected:
            raise ValueError(
                f"output: expected {expected}, a logit per token at each step, got {tuple(output.shape)}; "
                "does the model have the decoder sequence?"
            )
        logits, targets = output.flatten(0, 1), y.flatten()
        return nn.functional.cross_entropy(logits, targets, ignore_index=PADDING, reduction="none").view_as(y)
