"""A long text cut into rows that are read side by side, window after window."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.tasks.autoregressive import PADDING, TokenWindows
from longwave.tasks.base import Batch


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
