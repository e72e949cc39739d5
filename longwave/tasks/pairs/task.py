"""Pairs of documents to compare: Retrieval of the Long Range Arena, and a synthetic stand-in for it.

Both documents of a pair are characters and an <eos>, numbered and cut as in `tasks/tokens`. A batch has them padded to
the longest of all: x (B, 2, L), lengths (B, 2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.random import shuffled
from longwave.core.settings import at_least
from longwave.io.download import making
from longwave.tasks.base import SPLITS, TASKS, Baselines, Batch, Scores, TaskConfig
from longwave.tasks.pairs import retrieval, topics
from longwave.tasks.sequences.task import check_classes
from longwave.tasks.statistics import digest
from longwave.tasks.tokens.data import SPECIAL, Vocabulary
from longwave.tasks.tokens.task import TokenSplit, VocabularyTask, encoded, vocabulary_fields

MOST = 2000  # training pairs that choose the threshold of a baseline
WIDEST = 1 << 16  # counts per document


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Pairs of documents; a document that is in many pairs is stored once."""

    documents: TokenSplit  # without labels
    pairs: NDArray[np.int64]  # (n, 2): which documents
    labels: NDArray[np.int64]  # (n,)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) of the longer document of each pair, to which the other is padded."""
        longer: NDArray[np.int64] = self.documents.lengths[self.pairs].max(axis=1)
        return longer

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, 2, longest of the batch), lengths (B, 2), y (B,)."""
        index = np.asarray(indices, dtype=np.int64)
        both = self.documents.batch(self.pairs[index].ravel().tolist())
        x, lengths = (both[name].unflatten(0, (len(index), 2)) for name in ("x", "lengths"))
        return {"x": x, "lengths": lengths, "y": torch.from_numpy(self.labels[index])}


# Baselines


def similarity_scores(train: PairSplit, splits: Mapping[str, PairSplit], order: int) -> dict[str, Scores]:
    """The accuracy of calling two documents similar if the cosine of their n-gram counts is above a threshold.

    `order` is n. The threshold has the highest accuracy on the training set.
    """
    size = 1 + max(int(split.documents.values.max(initial=0)) for split in (train, *splits.values()))
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


def cosines(split: PairSplit, index: NDArray[np.int64], order: int, size: int) -> NDArray[np.float64]:
    """(n,): the cosine of the counts of both documents of each pair."""
    documents, found = split.documents, np.zeros(len(index))
    for row, pair in enumerate(split.pairs[index].tolist()):
        first, second = (
            _counts(documents.values[start : start + length - 1], order, size)
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


# The sets


@dataclass(frozen=True)
class PairSet:
    """A data set of pairs of documents."""

    classes: tuple[str, str]
    files: dict[str, str]
    require: Callable[[Path | None], Path]  # its folder, in a data folder
    paper: float | None  # accuracy of S4 in tab:lra, with the updated settings
    characters: int  # without special tokens


SETS = {
    "aan": PairSet(("unrelated", "related"), retrieval.FILES, retrieval.require, 0.909, 95),
    "retrieval-synthetic": PairSet(
        ("different", "same"), topics.FILES, partial(making.require, "retrieval-synthetic"), None, 28
    ),
}
SYNTHETIC = (
    "synthetic pairs of random texts, a stand-in for Retrieval (AAN): no score on them compares with the paper's"
)


# Tasks


@dataclass(frozen=True, kw_only=True)
class PairTask(VocabularyTask):
    """Classify whether two documents belong together."""

    report_module: ClassVar[str | None] = "longwave.tasks.pairs.report"
    decoders: ClassVar[tuple[str, ...]] = ("pair",)

    train: PairSplit
    valid: PairSplit
    test: PairSplit

    def baselines(self) -> Baselines:
        """The class prior; and how similar the characters, or the bigrams, of both documents are distributed."""
        found = super().baselines()
        for name, order in (("characters alike", 1), ("neighbours alike", 2)):
            found[name] = similarity_scores(self.train, {"valid": self.valid, "test": self.test}, order)
        return found


@TASKS.register("pairs")
@dataclass(frozen=True)
class PairsConfig(TaskConfig):
    """Pairs of documents to compare."""

    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.pairs.predict"}

    data: Literal["aan", "retrieval-synthetic"] = "aan"
    """Papers, and whether one cites the other; or synthetic texts, and whether they share a topic."""
    length: int = at_least(2, 4000)
    """Characters per document, <eos> included; longer ones are cut."""
    min_count: int = at_least(1, 1)
    """Characters that occur less often in the training set become <unk>."""
    decode: bool = False
    """Decode the texts, which the files have as Python bytes literals; the published models read the literals."""

    def build(self, data_dir: Path | None = None) -> PairTask:
        kind, progress = SETS[self.data], Patient()
        folder = kind.require(data_dir)
        vocabulary: Vocabulary | None = None
        splits, known = dict[str, PairSplit](), list[NDArray[Any]]()
        notes = [] if self.data == "aan" else [SYNTHETIC, *making.notes(self.data, data_dir)]
        for split, name in kind.files.items():  # one after the other, so that the codes of one alone are in memory
            read = retrieval.read(folder / name, self.length - 1, self.decode, progress)
            vocabulary = vocabulary or Vocabulary.of(read.counts(), chr, self.min_count)
            tokens = vocabulary.renumbered(read.codes, chr)
            splits[split] = PairSplit(TokenSplit.of(tokens, read.lengths), read.pairs, read.labels)
            known += [tokens, read.lengths + 1, read.pairs, read.labels]
            if read.repaired:
                notes.append(f"{name}: documents that are not UTF-8, with invalid bytes as U+FFFD: {read.repaired}")
        progress.end()
        assert vocabulary is not None
        task = self._task(splits, vocabulary)
        check_classes(task.counts, kind.classes, str(folder), ", or take more examples", notes)
        return replace(task, origin=str(folder), notes=tuple(notes), digest=digest(*known))

    def on_random_data(self, rows: int, seed: int = 0) -> PairTask:
        kind, draw = SETS[self.data], np.random.default_rng(seed)
        vocabulary = Vocabulary((*SPECIAL, *(f"character {k}" for k in range(kind.characters))))
        lengths = np.full(2 * rows, self.length - 1)
        tokens = draw.integers(len(SPECIAL), vocabulary.size, lengths.sum())
        split = PairSplit(TokenSplit.of(tokens, lengths), np.arange(2 * rows).reshape(-1, 2), np.arange(rows) % 2)
        return self._task(dict.fromkeys(SPLITS, split), vocabulary)

    def _task(self, splits: dict[str, PairSplit], vocabulary: Vocabulary) -> PairTask:
        kind = SETS[self.data]
        fields = vocabulary_fields(kind.classes, splits, vocabulary, self.length)
        return PairTask(name=self.data, paper={} if kind.paper is None else {"accuracy": kind.paper}, **fields)

    def arrange(self, texts: Sequence[tuple[str, str]], vocabulary: Vocabulary) -> tuple[PairSplit, list[str]]:
        """New pairs of texts as a trained model sees them, and notes."""
        for k, pair in enumerate(texts):
            if not all(pair):
                raise ValueError(f"pair {k}: expected two texts, got an empty one")
        rows = [retrieval.in_form(text, self.decode) for pair in texts for text in pair]
        documents, notes = encoded(rows, vocabulary, self.length, "character")
        numbers = np.arange(len(rows)).reshape(-1, 2)
        return PairSplit(documents, numbers, np.zeros(len(texts), np.int64)), notes
