"""Sequences of tokens to classify: ListOps and the film reviews of the Long Range Arena.

Tokens are numbered by the published training set: <pad>, <unk> and <eos>, then the others, the most frequent first. A
sequence is cut to the length less one, and ends with <eos>. Batches are padded to their longest row and have lengths,
so that padding has no effect; every example is scored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.core.progress import Patient, Progress
from longwave.core.random import shuffled
from longwave.core.settings import check_least
from longwave.io.download import catalogue, making
from longwave.models import Spec
from longwave.tasks.base import TASKS, Batch, TaskConfig
from longwave.tasks.classify.task import LabelInput, LabelTask
from longwave.tasks.sequences.task import check_classes
from longwave.tasks.statistics import digest
from longwave.tasks.tokens import listops, reviews
from longwave.tasks.tokens.data import END, SPECIAL, Labelled, Vocabulary

VALID_SHARE = 10  # one in so many training examples is for validation, where none was published


@dataclass(frozen=True, eq=False)
class TokenSplit:
    """Some sequences of tokens, in memory, without their ends."""

    tokens: NDArray[Any]  # (total,) of all sequences, one after the other
    starts: NDArray[np.int64]  # (n,)
    lengths: NDArray[np.int64]  # (n,), the ends included
    labels: NDArray[np.int64]  # (n,)

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, tokens: NDArray[Any], lengths: NDArray[np.int64], labels: NDArray[np.int64]) -> "TokenSplit":
        """The sequences of these lengths, which have no ends yet."""
        return cls(tokens, np.cumsum(lengths) - lengths, lengths + 1, labels)

    def chosen(self, index: NDArray[np.int64]) -> "TokenSplit":
        """Some of the sequences."""
        return TokenSplit(self.tokens, self.starts[index], self.lengths[index], self.labels[index])

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, longest of the batch), 0 behind the end of a row; lengths (B,), y (B,)."""
        index = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[index]
        x = np.zeros((len(index), int(lengths.max(initial=0))), np.int64)
        for row, start, length in zip(x, self.starts[index], lengths, strict=True):
            row[: length - 1] = self.tokens[start : start + length - 1]
            row[length - 1] = SPECIAL.index(END)
        return {
            "x": torch.from_numpy(x),
            "lengths": torch.from_numpy(lengths),
            "y": torch.from_numpy(self.labels[index]),
        }


# The sets


@dataclass(frozen=True)
class Published:
    """A data set as it was published; there may be no validation set."""

    splits: dict[str, Labelled]
    origin: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenSet:
    """A data set of tokens."""

    classes: tuple[str, ...]
    unit: str  # what one token is called
    separator: str  # what stands between the tokens of a text
    paper: float  # accuracy of S4 in tab:lra, with the updated settings
    tokens: int  # how many there are in the published training set, the special ones apart; rare ones are not counted
    read: Callable[[Path | None, int, Progress], Published]  # from a data folder, cut to so many tokens
    name_of: Callable[[int], str]  # the token with one of the reader's codes
    pieces: Callable[[str], Sequence[str]]  # the tokens of a text


def _read_listops(data_dir: Path | None, most: int, progress: Progress) -> Published:
    folder = making.require("listops", data_dir)
    splits = {split: listops.read(folder / name, most, progress) for split, name in listops.FILES.items()}
    return Published(splits, str(folder), making.notes("listops", data_dir))


def _read_reviews(data_dir: Path | None, most: int, progress: Progress) -> Published:
    folder = catalogue.require("imdb", data_dir)
    splits = {split: reviews.read(folder / split, most, progress) for split in ("train", "test")}
    return Published(splits, str(folder))


SETS = {
    "listops": TokenSet(tuple("0123456789"), "token", " ", 0.596, 15, _read_listops, listops.name_of, listops.pieces),
    "imdb": TokenSet(("negative", "positive"), "character", "", 0.8682, 131, _read_reviews, chr, tuple),
}


# Tasks


@dataclass(frozen=True, kw_only=True)
class TokenInput(LabelInput):
    """What a trained model must know of its tokens; their names are in a file of their own."""

    vocabulary: int  # how many there are
    length: int  # tokens of the longest sequence that the model is given, its end included


@dataclass(frozen=True, kw_only=True)
class VocabularyTask(LabelTask):
    """Classify what consists of the tokens of a vocabulary."""

    decoders: ClassVar[tuple[str, ...]] = ("mean", "last")  # of the models that can

    train: Any
    inputs: TokenInput
    vocabulary: Vocabulary

    @property
    def spec(self) -> Spec:
        """Tokens in, a logit for each class out."""
        return Spec(
            input_size=1,
            output_size=len(self.inputs.classes),
            vocabulary=self.vocabulary.size,
            longest=int(self.train.lengths.max()),
            decoders=self.decoders,
        )

    def artifacts(self) -> dict[str, bytes]:
        """The vocabulary."""
        return self.vocabulary.artifacts()


@dataclass(frozen=True, kw_only=True)
class TokenTask(VocabularyTask):
    """Classify sequences of tokens."""

    report_module: ClassVar[str | None] = "longwave.tasks.tokens.report"

    train: TokenSplit
    valid: TokenSplit
    test: TokenSplit
    kind: TokenSet


@TASKS.register("tokens")
@dataclass(frozen=True)
class TokensConfig(TaskConfig):
    """A task of sequences of tokens to classify."""

    pipeline: ClassVar[str | None] = "text-classification"
    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.tokens.predict"}

    data: Literal["listops", "imdb"] = "listops"
    """Nested lists of operators on digits, or film reviews by characters."""
    length: int = 2048
    """Tokens of the longest sequence, <eos> included; longer ones are cut."""
    least_count: int = 1
    """Tokens that are rarer in the training set are read as <unk>."""
    validation: Literal["train", "test"] = "train"
    """If no validation set was published: hold out a tenth of the training set, or use the test set, as LRA does."""
    split_seed: int = 42
    """Seed of the choice of that tenth."""

    def __post_init__(self) -> None:
        check_least(self, length=2, least_count=1, split_seed=0)

    def build(self, data_dir: Path | None = None) -> TokenTask:
        """The task with its sequences."""
        kind, progress = SETS[self.data], Patient()
        published = kind.read(data_dir, self.length - 1, progress)
        progress.end()
        vocabulary = Vocabulary.of(published.splits["train"].codes, kind.name_of, self.least_count)
        splits = {
            name: TokenSplit.of(vocabulary.renumbered(part.codes, kind.name_of), part.lengths, part.labels)
            for name, part in published.splits.items()
        }
        known = digest(*(values for part in splits.values() for values in (part.tokens, part.lengths, part.labels)))
        notes = list(published.notes)
        if "valid" not in splits:
            splits |= self._validated(splits, notes)
        elif self.validation == "test":
            raise ValueError(f"validation: {self.data} has a validation set of its own; expected train, got test")
        counts = self._counts(splits)
        check_classes(counts, kind.classes, published.origin, ", or take more examples", notes)
        task = self._task(splits, vocabulary)
        return replace(task, origin=published.origin, notes=tuple(notes), digest=known)

    def on_random_data(self, rows: int, seed: int = 0) -> TokenTask:
        """The task on random tokens, of the vocabulary's size and of full length."""
        kind, draw = SETS[self.data], np.random.default_rng(seed)
        vocabulary = Vocabulary((*SPECIAL, *(f"token {k}" for k in range(kind.tokens))))
        lengths = np.full(rows, self.length - 1)
        tokens = draw.integers(len(SPECIAL), vocabulary.size, lengths.sum())
        split = TokenSplit.of(tokens, lengths, draw.integers(len(kind.classes), size=rows))
        return self._task(dict.fromkeys(("train", "valid", "test"), split), vocabulary)

    def _task(self, splits: dict[str, TokenSplit], vocabulary: Vocabulary) -> TokenTask:
        kind, counts = SETS[self.data], self._counts(splits)
        return TokenTask(
            name=self.data,
            train=splits["train"],
            valid=splits["valid"],
            test=splits["test"],
            paper={"accuracy": kind.paper},
            inputs=TokenInput(classes=kind.classes, vocabulary=vocabulary.size, length=self.length),
            counts={name: tuple(counts[name].tolist()) for name in ("train", "valid", "test")},
            vocabulary=vocabulary,
            kind=kind,
        )

    def _counts(self, splits: dict[str, TokenSplit]) -> dict[str, NDArray[np.int64]]:
        """Examples of each class, by split."""
        classes = len(SETS[self.data].classes)
        return {name: np.bincount(part.labels, minlength=classes) for name, part in splits.items()}

    def _validated(self, splits: dict[str, TokenSplit], notes: list[str]) -> dict[str, TokenSplit]:
        """A training and a validation set, where no validation set was published."""
        if self.validation == "test":
            notes.append(
                "validated on the test set, as the benchmark does: the weights were chosen by the scores reported"
            )
            return {"valid": splits["test"]}
        train = splits["train"]
        order = shuffled(len(train), self.split_seed)
        held = max(1, len(train) // VALID_SHARE)
        notes.append(
            f"validated on {held:,} examples held out of the training set (seed {self.split_seed}); the benchmark "
            "trains on them too, and validates on the test set"
        )
        return {"train": train.chosen(np.sort(order[held:])), "valid": train.chosen(np.sort(order[:held]))}

    def arrange(self, texts: Sequence[str], vocabulary: Vocabulary) -> tuple[TokenSplit, list[str]]:
        """New texts in the form that a trained model sees, and notes."""
        kind = SETS[self.data]
        rows = [kind.pieces(text) for text in texts]
        for k, row in enumerate(rows):
            if not row:
                raise ValueError(f"text {k}: expected at least one {kind.unit}, got none")
        return encoded(rows, vocabulary, self.length, kind.unit)


def encoded(
    rows: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int, unit: str
) -> tuple[TokenSplit, list[str]]:
    """New sequences of tokens as numbers, without labels; and notes on what was cut, and what is not known."""
    notes = []
    if cut := sum(len(row) >= length for row in rows):
        notes.append(f"texts that were cut to {length - 1:,} {unit}s, as in training: {cut}")
    rows = [row[: length - 1] for row in rows]
    if unknown := sorted({piece for row in rows for piece in row} - set(vocabulary.tokens)):
        some = ", ".join(map(repr, unknown[:10])) + ", ..." * (len(unknown) > 10)
        notes.append(f"not in the vocabulary, and read as <unk>: {some}")
    tokens = np.array([number for row in rows for number in vocabulary.encode(row)], np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    return TokenSplit.of(tokens, lengths, np.zeros(len(rows), np.int64)), notes
