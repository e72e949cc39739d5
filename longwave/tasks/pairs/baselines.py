"""A baseline for pairs of documents: whether their character or bigram counts are similar."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longwave.core.random import shuffled
from longwave.tasks.base import Scores

if TYPE_CHECKING:
    from longwave.tasks.pairs.task import PairSplit

MOST = 2000  # training pairs to choose the threshold by
WIDEST = 1 << 16  # most counts per document


def scores(train: "PairSplit", splits: Mapping[str, "PairSplit"], order: int) -> dict[str, Scores]:
    """The accuracy of calling two documents similar if the cosine of their n-gram counts is above a threshold.

    `order` is n. The threshold has the highest accuracy on the training set.
    """
    size = 1 + max(int(split.documents.tokens.max(initial=0)) for split in (train, *splits.values()))
    some = np.sort(shuffled(len(train), 0)[:MOST])
    cosine, label = cosines(train, some, order, size), train.labels[some] == 1
    ranking = np.argsort(cosine, kind="stable")
    edges = np.concatenate(([-np.inf], cosine[ranking], [np.inf]))
    # Correct with a threshold after the k-th pair: unlike pairs up to it, and similar ones beyond it.
    unlike, alike = (np.concatenate(([0], np.cumsum(rows[ranking]))) for rows in (~label, label))
    right = np.where(edges[:-1] < edges[1:], unlike + alike[-1] - alike, -1)  # no threshold between equal cosines
    k = int(right.argmax())
    threshold = (edges[k] + edges[k + 1]) / 2
    found = {}
    for name, split in splits.items():
        called = cosines(split, np.arange(len(split)), order, size) > threshold
        found[name] = {"accuracy": float(np.mean(called == (split.labels == 1)))}
    return found


def cosines(split: "PairSplit", index: NDArray[np.int64], order: int, size: int) -> NDArray[np.float64]:
    """(n,): the cosine of the counts of both documents of each pair."""
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
    """The counts of all n-grams, n being `order`."""
    codes = np.zeros(max(0, len(tokens) - order + 1), np.int64)
    for k in range(order):
        codes = codes * size + tokens[k : k + len(codes)]
    width = min(size**order, WIDEST)  # beyond it some n-grams share a count, which is harmless for large vocabularies
    return np.bincount(codes % width, minlength=width).astype(np.float64)
