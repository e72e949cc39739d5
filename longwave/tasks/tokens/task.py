"""Sequences of tokens to classify: ListOps and the film reviews of the Long Range Arena.

Tokens are numbered by frequency in the published training set, after <pad>, <unk> and <eos>. Sequences are cut to one
less than the length, and end with <eos>. Batches are padded to their longest row, and have lengths.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import Patient, Progress
from longwave.core.random import shuffled
from longwave.core.settings import at_least
from longwave.io.download import catalogue, making
from longwave.models import Spec
from longwave.tasks.base import SPLITS, TASKS, Batch, TaskConfig
from longwave.tasks.classify.task import LabelInput, LabelTask
from longwave.tasks.sequences.task import SequenceSplit, check_classes, count_labels
from longwave.tasks.statistics import digest
from longwave.tasks.tokens import listops, reviews
from longwave.tasks.tokens.data import END, SPECIAL, Labelled, Vocabulary

VALID_SHARE = 10  # one training example in this many is for validation, if no validation set was published


@dataclass(frozen=True, eq=False)
class TokenSplit(SequenceSplit):
    """Sequences of tokens in memory, each with its end."""

    @classmethod
    def of(cls, tokens: NDArray[Any], lengths: NDArray[np.int64], labels: NDArray[np.int64] | None = None) -> Self:
        """The concatenated sequences of these lengths, to which ends are added; without labels, all are 0."""
        ends = np.cumsum(lengths)
        starts = ends - lengths + np.arange(len(lengths))
        rows = {"y": np.zeros(len(lengths), np.int64) if labels is None else labels}
        return cls(np.insert(tokens, ends, SPECIAL.index(END)), starts, lengths + 1, False, rows)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, longest of the batch), padded with 0; lengths (B,), y (B,)."""
        batch = super().batch(indices)
        return batch | {"x": batch["x"].long()}


# The sets


@dataclass(frozen=True)
class TokenSet:
    """A data set of tokens."""

    classes: tuple[str, ...]
    paper: float  # accuracy of S4 in tab:lra, with the updated settings
    tokens: int  # in the vocabulary of the published training set, without special and rare ones
    require: Callable[[Path | None], Path]  # its folder, in a data folder
    files: Mapping[str, str]  # by split; there may be none for validation
    read: Callable[[Path, int, Progress], Labelled]  # one of them, cut to this many tokens per sequence
    name_of: Callable[[int], str] = chr  # the token of one of the reader's codes
    pieces: Callable[[str], Sequence[str]] = tuple  # the tokens of a text
    unit: str = "character"  # what one token is called
    separator: str = ""  # between the tokens of a text


SETS = {
    "listops": TokenSet(
        tuple("0123456789"),
        0.596,
        15,
        partial(making.require, "listops"),
        listops.FILES,
        listops.read,
        listops.TOKENS.__getitem__,
        listops.pieces,
        "token",
        " ",
    ),
    "imdb": TokenSet(
        ("negative", "positive"), 0.8682, 131, partial(catalogue.require, "imdb"), reviews.FOLDERS, reviews.read
    ),
}


# Tasks


@dataclass(frozen=True, kw_only=True)
class TokenInput(LabelInput):
    """Facts about its tokens that a trained model needs; their names are in a separate file."""

    vocabulary: int  # number of tokens
    length: int  # of the longest sequence, its end included


@dataclass(frozen=True, kw_only=True)
class VocabularyTask(LabelTask):
    """Classify sequences of the tokens of a vocabulary."""

    decoders: ClassVar[tuple[str, ...]] = ("mean", "last")  # that a model may have

    train: Any
    inputs: TokenInput
    vocabulary: Vocabulary

    @property
    def spec(self) -> Spec:
        return Spec(
            input_size=1,
            output_size=len(self.inputs.classes),
            vocabulary=self.vocabulary.size,
            longest=int(self.train.lengths.max()),
            decoders=self.decoders,
        )

    def artifacts(self) -> dict[str, bytes]:
        return self.vocabulary.artifacts()


def vocabulary_fields(
    classes: tuple[str, ...], splits: Mapping[str, Any], vocabulary: Vocabulary, length: int
) -> dict[str, Any]:
    """The fields that all tasks with a vocabulary have."""
    counts = count_labels({name: splits[name] for name in SPLITS}, len(classes))
    inputs = TokenInput(classes=classes, vocabulary=vocabulary.size, length=length)
    return {**splits, "inputs": inputs, "counts": counts, "vocabulary": vocabulary}


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
    """Sequences of tokens to classify."""

    pipeline: ClassVar[str | None] = "text-classification"
    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.tokens.predict"}

    data: Literal["listops", "imdb"] = "listops"
    """Nested lists of operators on digits, or film reviews by characters."""
    length: int = at_least(2, 2048)
    """Tokens per sequence, <eos> included; longer ones are cut."""
    min_count: int = at_least(1, 1)
    """Tokens that occur less often in the training set become <unk>."""
    validation: Literal["train", "test"] = "train"
    """If no validation set was published: hold out a tenth of the training set, or use the test set, as LRA does."""
    split_seed: int = at_least(0, 42)
    """Seed of the random choice of that tenth."""

    def build(self, data_dir: Path | None = None) -> TokenTask:
        kind, progress = SETS[self.data], Patient()
        folder = kind.require(data_dir)
        parts = {split: kind.read(folder / name, self.length - 1, progress) for split, name in kind.files.items()}
        progress.end()
        vocabulary = Vocabulary.of(np.bincount(parts["train"].codes), kind.name_of, self.min_count)
        splits, known = {}, []
        for name, part in parts.items():
            tokens = vocabulary.renumbered(part.codes, kind.name_of)
            splits[name] = TokenSplit.of(tokens, part.lengths, part.labels)
            known += [tokens, part.lengths + 1, part.labels]
        notes = list(making.notes(self.data, data_dir)) if self.data in making.MAKERS else []
        if "valid" not in splits:
            splits |= self._validated(splits, notes)
        elif self.validation == "test":
            raise ValueError(f"validation: {self.data} has a validation set of its own; expected train, got test")
        task = self._task(splits, vocabulary)
        check_classes(task.counts, kind.classes, str(folder), ", or take more examples", notes)
        return replace(task, origin=str(folder), notes=tuple(notes), digest=digest(*known))

    def on_random_data(self, rows: int, seed: int = 0) -> TokenTask:
        kind, draw = SETS[self.data], np.random.default_rng(seed)
        vocabulary = Vocabulary((*SPECIAL, *(f"token {k}" for k in range(kind.tokens))))
        lengths = np.full(rows, self.length - 1)
        tokens = draw.integers(len(SPECIAL), vocabulary.size, lengths.sum())
        split = TokenSplit.of(tokens, lengths, draw.integers(len(kind.classes), size=rows))
        return self._task(dict.fromkeys(SPLITS, split), vocabulary)

    def _task(self, splits: dict[str, TokenSplit], vocabulary: Vocabulary) -> TokenTask:
        kind = SETS[self.data]
        fields = vocabulary_fields(kind.classes, splits, vocabulary, self.length)
        return TokenTask(name=self.data, paper={"accuracy": kind.paper}, kind=kind, **fields)

    def _validated(self, splits: dict[str, TokenSplit], notes: list[str]) -> dict[str, TokenSplit]:
        """The training and validation sets, if no validation set was published."""
        if self.validation == "test":
            notes.append(
                "validated on the test set, as in the benchmark: the best weights were chosen by the reported scores"
            )
            return {"valid": splits["test"]}
        train = splits["train"]
        order = shuffled(len(train), self.split_seed)
        held = max(1, len(train) // VALID_SHARE)
        notes.append(
            f"validated on {held:,} examples held out from the training set (seed {self.split_seed}); the benchmark "
            "trains on them too, and validates on the test set"
        )
        return {"train": train.chosen(np.sort(order[held:])), "valid": train.chosen(np.sort(order[:held]))}

    def arrange(self, texts: Sequence[str], vocabulary: Vocabulary) -> tuple[TokenSplit, list[str]]:
        """New texts as a trained model sees them, and notes."""
        kind = SETS[self.data]
        rows = [kind.pieces(text) for text in texts]
        for k, row in enumerate(rows):
            if not row:
                raise ValueError(f"text {k}: expected at least one {kind.unit}, got none")
        return encoded(rows, vocabulary, self.length, kind.unit)


def encoded(
    rows: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int, unit: str
) -> tuple[TokenSplit, list[str]]:
    """New sequences of tokens as numbers, without labels; and notes on what was cut or is unknown."""
    notes = []
    if cut := sum(len(row) >= length for row in rows):
        notes.append(f"texts cut to {length - 1:,} {unit}s, as in training: {cut}")
    rows = [row[: length - 1] for row in rows]
    if unknown := sorted({piece for row in rows for piece in row} - set(vocabulary.tokens)):
        some = ", ".join(map(repr, unknown[:10])) + ", ..." * (len(unknown) > 10)
        notes.append(f"not in the vocabulary, read as <unk>: {some}")
    tokens = np.array([number for row in rows for number in vocabulary.encode(row)], np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    return TokenSplit.of(tokens, lengths), notes
