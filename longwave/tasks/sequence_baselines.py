"""Baselines of classification: the nearest neighbour, and ridge regression on random convolutions.

Both take seconds on small sets, and are hard to beat there. The convolutions are those of MiniRocket (Dempster, Schmidt
and Webb, 2021): kernels of nine weights, three of them 2 and six of them -1, at many dilations; a feature is the share
of the steps at which the output is above a bias.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longwave.data.random import shuffled
from longwave.tasks.base import Batch, Split, batches

MOST_EXAMPLES = 2000  # to fit to; of more, some are drawn
MOST_CELLS = 1_000_000_000  # of all alignments, a few seconds; beyond that the neighbours are those in plain distance
MOST_COMPARISONS = 40_000_000_000  # of random convolutions, about a minute; beyond that there are none
FEATURES = 5040
PAIRS = 2000  # that are aligned together
BAND = 0.1  # of the length, by which two sequences may be shifted against each other
KERNELS = [torch.tensor(taps) for taps in itertools.combinations(range(9), 3)]  # where the weight is 2
PENALTIES = torch.logspace(-3, 3, 13, dtype=torch.float64)


@dataclass(frozen=True)
class Sequences:
    """Standardised sequences with zeros behind their ends: x (n, L, channels), lengths (n,), labels (n,)."""

    x: Tensor
    lengths: Tensor
    labels: Tensor

    @classmethod
    def of(cls, split: Split, most: int | None = None) -> "Sequences":
        """All of a split, or at most so many that are drawn from it."""
        count = len(split)
        chosen = range(count) if most is None or count <= most else np.sort(shuffled(count, 0)[:most]).tolist()
        return cls.of_batch(split.batch(chosen))

    @classmethod
    def of_batch(cls, batch: Batch) -> "Sequences":
        """Those of a batch."""
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

    Sequences of other lengths are stretched to the mean length.
    """

    def __init__(self, train: Sequences, rows: int) -> None:
        self.length = max(1, round(float(train.lengths.double().mean())))
        self.band = max(1, round(BAND * self.length))
        self.known, self.labels = train.stretched(self.length), train.labels
        self.is_aligned = len(train) * rows * self.length * (2 * self.band + 1) <= MOST_CELLS
        self.name = "1-NN (DTW)" if self.is_aligned else "1-NN (Euclidean)"

    def __call__(self, sequences: Sequences) -> Tensor:
        """The labels of sequences."""
        new = sequences.stretched(self.length)
        if self.is_aligned:
            together = max(1, PAIRS // len(self.known))
            distances = torch.cat([dtw(rows, self.known, self.band) for rows in new.split(together)])
        else:
            distances = torch.cdist(new.flatten(1), self.known.flatten(1))
        return self.labels[distances.argmin(1)]


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


class RandomConvolutions:
    """Features of sequences, (n, FEATURES): the biases are quantiles of what the training sequences give."""

    def __init__(self, train: Sequences, seed: int = 0) -> None:
        longest = int(train.lengths.max())
        most = max(1, (longest - 1) // 8)  # the largest dilation, with which a kernel spans the sequence
        count = min(most, 12)
        self.dilations = sorted({round(most ** (k / max(1, count - 1))) for k in range(count)})
        generator = torch.Generator().manual_seed(seed)
        channels = train.x.shape[2]
        # Each kernel sees some of the channels, each dilation and kernel others.
        self.channels = torch.rand(len(self.dilations), len(KERNELS), channels, generator=generator)
        keep = torch.rand(len(self.dilations), len(KERNELS), 1, generator=generator)
        self.channels = (self.channels <= keep) | (self.channels == self.channels.amin(-1, keepdim=True))
        per_pair = max(1, FEATURES // (len(KERNELS) * len(self.dilations)))
        golden = (1 + 5**0.5) / 2
        shares = torch.arange(1, len(self.dilations) * len(KERNELS) * per_pair + 1) * golden % 1
        shares = shares.view(len(self.dilations), len(KERNELS), per_pair)
        examples = torch.randint(len(train), (len(self.dilations), len(KERNELS)), generator=generator)
        self.biases = torch.zeros_like(shares)
        for (d, k), output in self._outputs(train.x):
            example = int(examples[d, k])
            self.biases[d, k] = output[example, : train.lengths[example]].quantile(shares[d, k])

    def __call__(self, sequences: Sequences) -> Tensor:
        """The features of some sequences."""
        features = torch.empty(len(sequences), *self.biases.shape)
        inside = (torch.arange(sequences.x.shape[1]) < sequences.lengths.unsqueeze(1)).float()
        inside /= inside.sum(1, keepdim=True)
        for (d, k), output in self._outputs(sequences.x):
            for b, bias in enumerate(self.biases[d, k]):
                features[:, d, k, b] = ((output > bias) * inside).sum(1)
        return features.flatten(1)

    def _outputs(self, x: Tensor) -> Iterator[tuple[tuple[int, int], Tensor]]:
        """The output (n, L) of each dilation and kernel: a sum over its channels, with zeros around the sequence."""
        L = x.shape[1]
        for d, dilation in enumerate(self.dilations):
            padded = torch.nn.functional.pad(x, (0, 0, 4 * dilation, 4 * dilation))
            taps = torch.stack([padded[:, t * dilation : t * dilation + L] for t in range(9)])  # (9, n, L, channels)
            total = taps.sum(0)
            for k, kernel in enumerate(KERNELS):
                output = 3 * taps[kernel].sum(0) - total
                chosen = self.channels[d, k]
                yield (d, k), output[..., 0] if len(chosen) == 1 else output[..., chosen].sum(-1)


class Ridge:
    """Ridge regression to one target a class, (n, features) to scores (n, classes).

    The penalty is the one with the smallest squared error when each example is left out in turn, which has a closed
    form in the eigenvalues of the Gram matrix.
    """

    def __init__(self, features: Tensor, targets: Tensor) -> None:
        x = features.double()
        self.mean, self.deviation = x.mean(0), x.std(0, correction=0)
        self.deviation[self.deviation < 1e-8] = 1.0
        self.known, self.offset = (x - self.mean) / self.deviation, targets.mean(0)
        values, vectors = torch.linalg.eigh(self.known @ self.known.T)
        turned = vectors.T @ (targets - self.offset)
        best = math.inf
        for penalty in PENALTIES * self.known.shape[1]:
            inverse = 1 / (values.clamp(min=0) + penalty)
            weights = vectors @ (inverse.unsqueeze(1) * turned)
            left_out = weights / (vectors.square() @ inverse).unsqueeze(1)
            error = float(left_out.square().mean())
            if error < best:
                best, self.weights = error, weights

    def __call__(self, features: Tensor) -> Tensor:
        """Scores of the classes."""
        x = (features.double() - self.mean) / self.deviation
        return x @ (self.known.T @ self.weights) + self.offset


class ConvolutionClassifier:
    """Ridge regression on random convolutions."""

    name = "random convolutions"

    def __init__(self, train: Sequences, classes: int) -> None:
        self.convolutions = RandomConvolutions(train)
        targets = 2 * torch.nn.functional.one_hot(train.labels, classes).double() - 1
        self.ridge = Ridge(self.convolutions(train), targets)

    def __call__(self, sequences: Sequences) -> Tensor:
        """The labels of sequences."""
        return self.ridge(self.convolutions(sequences)).argmax(1)


def fitted(train: Split, rows: int, classes: int) -> Iterator[NearestNeighbour | ConvolutionClassifier]:
    """The baselines that can classify `rows` sequences in about a minute, fitted to a training set."""
    known = Sequences.of(train, MOST_EXAMPLES)
    yield NearestNeighbour(known, rows)
    if (rows + len(known)) * known.x[0].numel() * FEATURES <= MOST_COMPARISONS:
        yield ConvolutionClassifier(known, classes)


def predicted(classifier: NearestNeighbour | ConvolutionClassifier, split: Split) -> tuple[Tensor, Tensor]:
    """The true labels of a split, and the predicted ones."""
    parts = [Sequences.of_batch(batch) for batch in batches(split, 256)]
    return torch.cat([part.labels for part in parts]), torch.cat([classifier(part) for part in parts])
