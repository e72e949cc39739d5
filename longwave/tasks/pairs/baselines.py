"""A baseline for pairs of documents: whether the counts of their characters, or of neighbouring ones, are alike."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longwave.core.random import shuffled
from longwave.tasks.base import Scores

if TYPE_CHECKING:
    from longwave.tasks.pairs.task import PairSplit

MOST = 2000  # training pairs that the threshold is chosen by
WIDEST = 1 << 16  # numbers that a document is counted into


def scores(train: "PairSplit", splits: Mapping[str, "PairSplit"], order: int) -> dict[str, Scores]:
    """The accuracy of calling two documents alike if the cosine of their counts is above a threshold.

    `order` characters in a row are counted. The threshold is the one that is right most often in the training set.
    """
    size = 1 + max(int(split.documents.tokens.max(initial=0)) for split in (train, *splits.values()))
    some = np.sort(shuffled(len(train), 0)[:MOST])
    cosine, label = cosines(train, some, order, size), train.labels[some] == 1
    ranking = np.argsort(cosine, kind="stable")
    edges = np.concatenate(([-np.inf], cosine[ranking], [np.inf]))
    # With a threshold behind the k-th pair: right are the unlike ones up to it, and the others beyond it.
    unlike, alike = (np.concatenate(([0], np.cumsum(rows[ranking]))) for rows in (~label, label))
    right = np.where(edges[:-1] < edges[1:], unlike + alike[-1] - alike, -1)  # between two that are equal is no place
    k = int(right.argmax())
    threshold = (edges[k] + edges[k + 1]) / 2
    found = {}
    for name, split in splits.items():
        called = cosines(split, np.arange(len(split)), order, size) > threshold
        found[name] = {"accuracy": float(np.mean(called == (split.labels == 1)))}
    return found


def cosines(split: "PairSplit", index: NDArray[np.int64], order: int, size: int) -> NDArray[np.float64]:
    """(n,): the cosine of the counts of both documents of some pairs."""
    documents, found = split.documents, np.zeros(len(index))
    for row, pair in enumerate(split.pairs[index].tolist()):
        first, second = (
            _counts(documents.tokens[start : start + length - 1], order, size)
            for start, length in ((int(documents.starts[k]), int(documents.lengths[k])) for k in pair)
        )
        norm = np.sqrt(float(first @ first) * float(second @ second))
        found[row] = float(first @ second) / norm if norm else 0.0
    return found


def _counts(tokens: NDArray[np.int64], order: int, size: int) -> NDArray[np.float64]:
    """How often each run of `order` tokens occurs."""
    codes = np.zeros(max(0, len(tokens) - order + 1), np.int64)
    for k in range(order):
        codes = codes * size + tokens[k : k + len(codes)]
    width = min(size**order, WIDEST)  # beyond it some runs share a count, which large vocabularies can bear
    return np.bincount(codes % width, minlength=width).astype(np.float64)
