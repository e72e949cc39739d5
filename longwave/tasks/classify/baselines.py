"""Baselines of classification: the nearest neighbour, and ridge regression on random convolutions.

Both take seconds on small sets, and are hard to beat there.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longwave.core.random import shuffled
from longwave.models.convolutions import RandomConvolutions, fit_ridge
from longwave.tasks.base import Batch, Split, batches

MOST_EXAMPLES = 2000  # to fit to; of more, some are drawn
MOST_CELLS = 1_000_000_000  # of all alignments, a few seconds; beyond that the neighbours are those in plain distance
MOST_COMPARISONS = 40_000_000_000  # of random convolutions, about a minute; beyond that there are none
FEATURES = 5040
PAIRS = 2000  # that are aligned together
BAND = 0.1  # of the length, by which two sequences may be shifted against each other


@dataclass(frozen=True)
class Examples:
    """Standardised sequences with zeros behind their ends: x (n, L, channels), lengths (n,), labels (n,)."""

    x: Tensor
    lengths: Tensor
    labels: Tensor

    @classmethod
    def of_batch(cls, batch: Batch) -> "Examples":
        full = torch.full((len(batch["x"]),), batch["x"].shape[1])
        return cls(batch["x"].float(), batch.get("lengths", full), batch["y"])

    def __len__(self) -> int:
        return len(self.x)

    def stretched(self, length: int) -> Tensor:
        """All in one length, (n, length, channels), by linear interpolation."""
        if (self.lengths == length).all():
            return self.x[:, :length]
        place = torch.linspace(0, 1, length) * (self.lengths - 1).unsqueeze(1)  # (n, length)
        left = place.floor().long().clamp(max=self.x.shape[1] - 1)
        right = (left + 1).minimum((self.lengths - 1).unsqueeze(1))
        weight = (place - left).unsqueeze(-1)
        rows = torch.arange(len(self)).unsqueeze(1)
        return self.x[rows, left] * (1 - weight) + self.x[rows, right] * weight


# The nearest neighbour


class NearestNeighbour:
    """The label of the nearest training sequence, by DTW; in plain distance where `rows` of them would take too long.

    Examples of other lengths are stretched to the mean length.
    """

    def __init__(self, train: Examples, rows: int) -> None:
        self.length = max(1, round(float(train.lengths.double().mean())))
        self.band = max(1, round(BAND * self.length))
        self.known, self.labels = train.stretched(self.length), train.labels
        self.is_aligned = len(train) * rows * self.length * (2 * self.band + 1) <= MOST_CELLS
        self.name = "1-NN (DTW)" if self.is_aligned else "1-NN (Euclidean)"

    def __call__(self, sequences: Examples) -> Tensor:
        return self.labels[self._distances(sequences.stretched(self.length)).argmin(1)]

    def left_out(self) -> Tensor:
        """The label of each training sequence by the nearest of the others; its own if there is no other."""
        return self.labels[self._distances(self.known).fill_diagonal_(math.inf).argmin(1)]

    def _distances(self, new: Tensor) -> Tensor:
        """(n, known)."""
        if self.is_aligned:
            together = max(1, PAIRS // len(self.known))
            return torch.cat([dtw(rows, self.known, self.band) for rows in new.split(together)])
        return torch.cdist(new.flatten(1), self.known.flatten(1))


def dtw(some: Tensor, others: Tensor, band: int) -> Tensor:
    """Squared distances (m, n) of (m, L, channels) to (n, L, channels) under the best alignment within the band.

    cost[i, j] = |some_i - others_j|^2 + min(cost[i-1, j], cost[i, j-1], cost[i-1, j-1]), for |i - j| <= band. Along a
    diagonal i + j all cells are independent: it is computed for every j in the band and all pairs at once.
    """
    (m, L, _), n = some.shape, len(others)
    rows, columns = some.transpose(0, 1).unsqueeze(2), others.transpose(0, 1).unsqueeze(1)  # (L, m, 1, c), (L, 1, n, c)
    before, last = (torch.full((L + 1, m, n), math.inf) for _ in range(2))  # two diagonals by j + 1
    for diagonal in range(2 * L - 1):
        low = max(0, diagonal - L + 1, math.ceil((diagonal - band) / 2))
        high = min(L - 1, diagonal, (diagonal + band) // 2)
        now = torch.full((L + 1, m, n), math.inf)
        if low <= high:
            first = diagonal - high  # i of the last j
            apart = rows[first : diagonal - low + 1].flip(0) - columns[low : high + 1]
            cost = apart.square().sum(-1)
            if diagonal:
                best = torch.minimum(last[low + 1 : high + 2], last[low : high + 1])
                cost += torch.minimum(best, before[low : high + 1])
            now[low + 1 : high + 2] = cost
        before, last = last, now
    return last[L]


# Ridge regression on random convolutions


class ConvolutionClassifier:
    """Ridge regression on random convolutions."""

    name = "random convolutions"

    def __init__(self, train: Examples, classes: int) -> None:
        self.convolutions = RandomConvolutions(train.x.shape[2], int(train.lengths.max()), FEATURES)
        self.convolutions.start(train.x, train.lengths)
        self.labels = train.labels
        targets = 2 * torch.nn.functional.one_hot(train.labels, classes).double() - 1
        self.ridge = fit_ridge(self.convolutions(train.x, train.lengths), targets)

    def __call__(self, sequences: Examples) -> Tensor:
        return self.ridge(self.convolutions(sequences.x, sequences.lengths)).argmax(1)

    def left_out(self) -> Tensor:
        """The label of each training sequence by a fit without it."""
        return self.ridge.left_out.argmax(1)


def some(split: Split) -> list[int]:
    """The examples of a split to fit to: all of them, or as many as are drawn."""
    count = len(split)
    return list(range(count)) if count <= MOST_EXAMPLES else np.sort(shuffled(count, 0)[:MOST_EXAMPLES]).tolist()


def are_few(rows: int, numbers: int) -> bool:
    """Whether convolutions of this many sequences, of this many numbers each, take at most about a minute."""
    return rows * numbers * FEATURES <= MOST_COMPARISONS


def fitted(train: Split, rows: int, classes: int) -> Iterator[NearestNeighbour | ConvolutionClassifier]:
    """The baselines that can classify `rows` sequences in about a minute, fitted to a training set."""
    known = Examples.of_batch(train.batch(some(train)))
    yield NearestNeighbour(known, rows)
    if are_few(rows + len(known), known.x[0].numel()):
        yield ConvolutionClassifier(known, classes)


def predicted(classifier: NearestNeighbour | ConvolutionClassifier, split: Split) -> tuple[Tensor, Tensor]:
    """The true labels of a split, and the predicted ones."""
    parts = [Examples.of_batch(batch) for batch in batches(split, 256)]
    return torch.cat([part.labels for part in parts]), torch.cat([classifier(part) for part in parts])
