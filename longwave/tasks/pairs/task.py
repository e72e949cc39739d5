"""Pairs of documents to compare: Retrieval of the Long Range Arena, and a synthetic stand-in for it.

Both documents of a pair are characters with an <eos>, numbered and cut as those of `tasks/tokens.py`. A batch has them
padded to the longest of all: x (B, 2, L), lengths (B, 2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.core.settings import check_least
from longwave.io.download import making
from longwave.tasks.base import TASKS, Baselines, Batch, TaskConfig
from longwave.tasks.pairs import baselines as pair_baselines
from longwave.tasks.pairs import retrieval, topics
from longwave.tasks.pairs.retrieval import Pairs
from longwave.tasks.sequences.task import check_classes
from longwave.tasks.statistics import digest
from longwave.tasks.tokens.data import SPECIAL, Vocabulary
from longwave.tasks.tokens.task import TokenInput, TokenSplit, VocabularyTask, encoded


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Some pairs of documents; a document that is in many of them is in memory once."""

    documents: TokenSplit  # whose labels mean nothing
    pairs: NDArray[np.int64]  # (n, 2): which documents
    labels: NDArray[np.int64]  # (n,)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,): of the longer document of each pair, to which the other is padded."""
        longer: NDArray[np.int64] = self.documents.lengths[self.pairs].max(axis=1)
        return longer

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, 2, longest of the batch), lengths (B, 2), y (B,)."""
        index = np.asarray(indices, dtype=np.int64)
        both = self.documents.batch(self.pairs[index].ravel().tolist())
        x, lengths = (both[name].unflatten(0, (len(index), 2)) for name in ("x", "lengths"))
        return {"x": x, "lengths": lengths, "y": torch.from_numpy(self.labels[index])}


# The sets


@dataclass(frozen=True)
class PairSet:
    """A data set of pairs of documents."""

    classes: tuple[str, str]
    files: dict[str, str]
    require: Callable[[Path | None], Path]  # the folder of the files, below a data folder
    paper: float | None  # accuracy of S4 in tab:lra, with the updated settings
    characters: int  # that are not special


def _require_synthetic(data_dir: Path | None) -> Path:
    return making.require("retrieval-synthetic", data_dir)


SETS = {
    "aan": PairSet(("unrelated", "related"), retrieval.FILES, retrieval.require, 0.909, 95),
    "retrieval-synthetic": PairSet(("different", "same"), topics.FILES, _require_synthetic, None, 28),
}
SYNTHETIC = (
    "synthetic pairs of random texts, a stand-in for Retrieval (AAN): no score on them compares with the paper's"
)


# Tasks


@dataclass(frozen=True, kw_only=True)
class PairTask(VocabularyTask):
    """Say of two documents whether they belong together."""

    report_module: ClassVar[str | None] = "longwave.tasks.pairs.report"
    decoders: ClassVar[tuple[str, ...]] = ("pair",)

    train: PairSplit
    valid: PairSplit
    test: PairSplit

    def baselines(self) -> Baselines:
        """The class prior; and how alike the characters, or their neighbours, of both documents are distributed."""
        found = super().baselines()
        for name, order in (("characters alike", 1), ("neighbours alike", 2)):
            found[name] = pair_baselines.scores(self.train, {"valid": self.valid, "test": self.test}, order)
        return found


@TASKS.register("pairs")
@dataclass(frozen=True)
class PairsConfig(TaskConfig):
    """A task of pairs of documents to compare."""

    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.pairs.predict"}

    data: Literal["aan", "retrieval-synthetic"] = "aan"
    """Papers, and whether one cites the other; or synthetic texts, and whether they are of one topic."""
    length: int = 4000
    """Characters of the longest document, <eos> included; longer ones are cut."""
    least_count: int = 1
    """Characters that are rarer in the training set are read as <unk>."""
    decode: bool = False
    """Decode the texts, which the files have as Python bytes literals; the published models read the literals."""

    def __post_init__(self) -> None:
        check_least(self, length=2, least_count=1)

    def build(self, data_dir: Path | None = None) -> PairTask:
        """The task with its pairs."""
        kind, progress = SETS[self.data], Patient()
        folder = kind.require(data_dir)
        vocabulary: Vocabulary | None = None
        splits: dict[str, PairSplit] = {}
        notes = [] if self.data == "aan" else [SYNTHETIC, *making.notes(self.data, data_dir)]
        for split, name in kind.files.items():  # one after the other, so that the codes of one alone are in memory
            read = retrieval.read(folder / name, self.length - 1, self.decode, progress)
            vocabulary = vocabulary or Vocabulary.of_counts(read.counts(), chr, self.least_count)
            splits[split] = _numbered(read, vocabulary)
            if read.repaired:
                notes.append(
                    f"{name}: documents that are no UTF-8, read with U+FFFD where they are not: {read.repaired}"
                )
        progress.end()
        assert vocabulary is not None
        counts = {name: np.bincount(part.labels, minlength=2) for name, part in splits.items()}
        check_classes(counts, kind.classes, str(folder), ", or take more examples", notes)
        return replace(
            self._task(splits, vocabulary),
            origin=str(folder),
            notes=tuple(notes),
            digest=digest(*(values for part in splits.values() for values in _arrays(part))),
        )

    def on_random_data(self, rows: int, seed: int = 0) -> PairTask:
        """The task on pairs of random documents of full length."""
        kind, draw = SETS[self.data], np.random.default_rng(seed)
        vocabulary = Vocabulary((*SPECIAL, *(f"character {k}" for k in range(kind.characters))))
        lengths = np.full(2 * rows, self.length - 1)
        tokens = draw.integers(len(SPECIAL), vocabulary.size, lengths.sum())
        documents = TokenSplit.of(tokens, lengths, np.zeros(2 * rows, np.int64))
        split = PairSplit(documents, np.arange(2 * rows).reshape(-1, 2), np.arange(rows) % 2)
        return self._task(dict.fromkeys(("train", "valid", "test"), split), vocabulary)

    def _task(self, splits: dict[str, PairSplit], vocabulary: Vocabulary) -> PairTask:
        kind = SETS[self.data]
        return PairTask(
            name=self.data,
            train=splits["train"],
            valid=splits["valid"],
            test=splits["test"],
            paper={} if kind.paper is None else {"accuracy": kind.paper},
            inputs=TokenInput(classes=kind.classes, vocabulary=vocabulary.size, length=self.length),
            counts={name: tuple(np.bincount(part.labels, minlength=2).tolist()) for name, part in splits.items()},
            vocabulary=vocabulary,
        )

    def arrange(self, texts: Sequence[tuple[str, str]], vocabulary: Vocabulary) -> tuple[PairSplit, list[str]]:
        """New pairs of texts in the form that a trained model sees, and notes."""
        for k, pair in enumerate(texts):
            if not all(pair):
                raise ValueError(f"pair {k}: expected two texts, got an empty one")
        rows = [retrieval.in_form(text, self.decode) for pair in texts for text in pair]
        documents, notes = encoded(rows, vocabulary, self.length, "character")
        numbers = np.arange(len(rows)).reshape(-1, 2)
        return PairSplit(documents, numbers, np.zeros(len(texts), np.int64)), notes


def _numbered(read: Pairs, vocabulary: Vocabulary) -> PairSplit:
    """The pairs with their characters as numbers of the vocabulary."""
    tokens = vocabulary.renumbered(read.codes, chr)
    documents = TokenSplit.of(tokens, read.lengths, np.zeros(len(read.lengths), np.int64))
    return PairSplit(documents, read.pairs, read.labels)


def _arrays(split: PairSplit) -> tuple[NDArray[Any], ...]:
    return split.documents.tokens, split.documents.lengths, split.pairs, split.labels
