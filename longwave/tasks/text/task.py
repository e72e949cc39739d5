"""Language modelling by bytes or words: WikiText-2, WikiText-103, and any text file.

WikiText is read as it is published: words with spaces between them, one line per paragraph, rare words as <unk>. At
word level each line ends with <eos>, and the vocabulary is that of the training set; at byte level the files are read
as they are. A custom file is cut by position: the first 90 % to train, then 5 % to validate and 5 % to test.

A text is cut into windows that begin with START (see `autoregressive`), or, with `rows`, into as many rows of windows
whose inputs are the true tokens before, as the paper has it (see `TokenRows`).
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.settings import check_least
from longwave.io.download import catalogue
from longwave.models import Spec
from longwave.models.recurrence import map_tensors
from longwave.tasks.autoregressive import AutoregressiveTask, TokenRows, TokenWindows
from longwave.tasks.base import TASKS, Batch, Outcome, Scores, Split, TaskConfig
from longwave.tasks.text.codecs import CODECS, END, Bytes, Codec, Ties, Words, read_bytes, read_lines

Level = Literal["bytes", "words"]


class Published(NamedTuple):
    """A published text, by words."""

    tokens: tuple[int, int, int]  # of the training, validation and test sets, line ends included
    vocabulary: int
    ties: Ties  # how equally frequent words are ordered
    paper: Scores  # what the paper's S4 has on the test set


PUBLISHED = {
    "wikitext2": Published((2_088_628, 217_646, 245_569), 33_278, "alphabet", {}),
    "wikitext103": Published((103_227_021, 217_646, 245_569), 267_735, "appearance", {"perplexity": 20.95}),
}
HELD_SHARE = 20  # one byte in so many of a custom text is for validation, and one for the test


# Tasks


@dataclass(frozen=True, kw_only=True)
class TextTask(AutoregressiveTask):
    """Predict the next byte or word of a text."""

    report_module: ClassVar[str | None] = "longwave.tasks.text.report"

    codec: Codec
    carries: bool = False  # whether the state is carried from window to window, in training too

    def reported(self, means: Scores) -> Scores:
        """The loss in nats, perplexity, and the loss in bits."""
        scores = super().reported(means)
        return {"loss": scores["loss"], "perplexity": float(np.exp(scores["loss"])), self.bits: scores[self.bits]}

    @property
    def length(self) -> int:
        """Tokens of a window."""
        return self.train.length

    @property
    def spec(self) -> Spec:
        """That of any next-token prediction; where a state is carried on, no length is the one of training.

        A layer with C~ of one length as its parameter would have to solve for C in every window; C itself serves both
        the kernel and the state.
        """
        return replace(super().spec, length=None) if self.carried_rows else super().spec

    @property
    def carried_rows(self) -> int:
        """The rows of the text, if the state is carried from window to window."""
        return self.train.rows if self.carries and isinstance(self.train, TokenRows) else 0

    def outcome(self, model: Any, batch: Batch, state: Any = None) -> Outcome:
        """As of any next-token prediction; from a state, if it is carried on, and then with the state after it."""
        if not self.carried_rows:
            return super().outcome(model, batch)
        if not model.gives_features:
            raise ValueError(f"carry_state: expected a SequenceModel, got a {type(model).__name__}, which has no state")
        losses, after = self._read(model, batch, state)
        sums = {"loss": (losses.detach().double().sum(), self.count(batch))}
        return Outcome(losses.sum(), sums, map_tensors(Tensor.detach, after))  # back-propagation ends with the window

    def losses(self, model: Any, batch: Batch) -> Tensor:
        """The cross-entropy of each token in nats, by the model's own head if it has one."""
        return self._read(model, batch)[0] if model.gives_features else super().losses(model, batch)

    def _read(self, model: Any, batch: Batch, state: Any = None) -> tuple[Tensor, Any]:
        """The cross-entropies of a batch, and the state after it if it is carried on.

        What is longer than a window is read window by window, and the state is carried from one to the next.
        """
        x, y, found = batch["x"], batch["y"], []
        carries = bool(self.carried_rows) or x.shape[1] > self.length
        for window, targets in zip(x.split(self.length, dim=1), y.split(self.length, dim=1), strict=True):
            losses, state = model.nll(window, targets, state, need_state=carries)
            found.append(losses)
        return torch.cat(found, dim=1), state

    def train_at(self, epoch: int, seed: int) -> TokenWindows:
        """The training set, cut at other places in each epoch; they follow from seed and epoch alone."""
        return self.train.cut_elsewhere(int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1)[0]))

    def carried(self, split: Split) -> TokenWindows:
        """A split with all its windows as one, or one a row: a model reads it window by window, with its state."""
        assert isinstance(split, TokenWindows)
        return split.uncut()

    def restarted(self) -> "TextTask":
        """The task with every window read from a state of 0, also if the state was carried on in training."""
        valid, test = (replace(split, length=self.length) for split in (self.valid, self.test))
        return replace(self, carries=False, valid=valid, test=test)

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        return super().describe() | {"vocabulary": self.codec.size}

    def artifacts(self) -> dict[str, bytes]:
        """The vocabulary, if the text is read by words."""
        return self.codec.artifacts()


@TASKS.register("text")
@dataclass(frozen=True)
class TextConfig(TaskConfig):
    """A text, predicted byte by byte or word by word."""

    pipeline: ClassVar[str | None] = "text-generation"
    actions: ClassVar[Mapping[str, str]] = {"generate": "longwave.tasks.text.generate"}

    data: Literal["own", "wikitext2", "wikitext103"] = "own"
    """A custom text, in `file`, or a published one."""
    file: Path | None = None
    """A custom text: the first 90 % of its bytes to train, then 5 % to validate and 5 % to test."""
    level: Literal["bytes", "words"] = "bytes"
    """What a token is; a custom text is read by bytes only."""
    length: int = 512
    """Bytes or words of a window, in training and in the scores."""
    rows: int = 0
    """Rows that each set is cut into, whose windows begin with the true token before; 0: windows begin with token 0."""

    carry_state: bool = False
    """Carry the state from window to window of the rows, in training (truncated back-propagation) and in the scores."""

    def __post_init__(self) -> None:
        check_least(self, rows=0)
        if self.carry_state and not self.rows:
            raise ValueError("carry_state: expected rows whose windows follow one another (--task.rows), got none")

    def codec(self, folder: Path) -> Codec:
        """How a run in `folder` turns text into tokens and back."""
        return CODECS[self.level].from_folder(folder)

    def build(self, data_dir: Path | None = None) -> TextTask:
        """The task with its text."""
        task = self._build(data_dir)
        if not self.carry_state:
            return task
        return replace(task, carries=True, valid=task.carried(task.valid), test=task.carried(task.test))

    def _build(self, data_dir: Path | None) -> TextTask:
        if self.data != "own":
            if self.file is not None:
                raise ValueError(f"file: expected none with data {self.data}, got {self.file}; `text` takes a file")
            return load(self.data, self.level, self.length, data_dir, self.rows)
        if self.file is None:
            raise ValueError("text: expected --file FILE, your text, got none")
        if self.level != "bytes":
            raise ValueError("level: a custom text is read by bytes; expected bytes, got words")
        return from_file(self.file, self.length, self.rows)

    def on_random_data(self, rows: int, seed: int = 0) -> TextTask:
        """The task on so many windows of random tokens: bytes, or as many words as the published text has."""
        codec: Codec = Bytes()
        if self.level == "words":
            if self.data not in PUBLISHED:
                raise ValueError("level: a custom text is read by bytes; expected bytes, got words")
            codec = Words((END, *map(str, range(1, PUBLISHED[self.data].vocabulary))))
        tokens = np.random.default_rng(seed).integers(0, codec.size, rows * (self.length + 1), np.int32)
        splits: dict[str, TokenWindows] = dict.fromkeys(
            ("train", "valid", "test"), TokenRows(tokens, self.length, rows=rows)
        )
        return _task(f"{self.data}-random", codec, splits, "random tokens")


def load(
    name: str,
    level: Level = "bytes",
    length: int = 512,
    data_dir: str | os.PathLike[str] | None = None,
    rows: int = 0,
) -> TextTask:
    """A published text; its files are looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache."""
    if name not in PUBLISHED:
        raise ValueError(f"data: expected {' or '.join(PUBLISHED)}, got {name!r}")
    folder = catalogue.require(name, None if data_dir is None else Path(data_dir))
    files = {split: folder / f"wiki.{split}.tokens" for split in ("train", "valid", "test")}
    if level == "bytes":
        tokens: dict[str, NDArray[Any]] = {split: read_bytes(file) for split, file in files.items()}
        return _task(f"{name}-bytes", Bytes(), _cut(tokens, length, rows), str(folder))
    published = PUBLISHED[name]
    codec = Words.of_lines(read_lines(files["train"]), published.ties)
    tokens = {split: np.fromiter(codec.encode_lines(read_lines(file)), np.int32) for split, file in files.items()}
    found, expected = (*map(len, tokens.values()), codec.size), (*published.tokens, published.vocabulary)
    notes = []
    if found != expected:
        numbers = [", ".join(f"{count:,}" for count in counts) for counts in (found, expected)]
        notes.append(
            f"{name} has other words than published: {numbers[0]} in train, valid, test and the vocabulary, not "
            f"{numbers[1]}; longwave data check {name} looks at its files"
        )
    return _task(f"{name}-words", codec, _cut(tokens, length, rows), str(folder), tuple(notes), published.paper)


def from_file(path: str | os.PathLike[str], length: int = 512, rows: int = 0) -> TextTask:
    """A custom text as a task, byte by byte."""
    path = Path(path).expanduser()
    tokens = read_bytes(path)
    # A byte in each split, and a whole window to train on wherever the first begins.
    least = max(HELD_SHARE, math.ceil(2 * length * HELD_SHARE / (HELD_SHARE - 2)))
    if len(tokens) < least:
        raise ValueError(
            f"{path}: expected at least {least:,} bytes for windows of {length} (--length), got {len(tokens):,}; "
            "give more text, or shorter windows"
        )
    held = len(tokens) // HELD_SHARE
    train = len(tokens) - 2 * held
    splits = {"train": tokens[:train], "valid": tokens[train : train + held], "test": tokens[train + held :]}
    return _task("text", Bytes(), _cut(splits, length, rows), str(path))


def _cut(splits: dict[str, NDArray[Any]], length: int, rows: int) -> dict[str, TokenWindows]:
    """Each split in windows, or in rows of windows."""
    if length < 2:
        raise ValueError(f"length: expected windows of at least 2 tokens, got {length}")
    if 2 * length > len(splits["train"]):
        raise ValueError(
            f"length: expected at most half of the {len(splits['train']):,} tokens to train on, got {length:,}"
        )
    if rows:
        for split, tokens in splits.items():
            least = 2 if split != "train" else length + 1
            if len(tokens) // rows < least:
                raise ValueError(
                    f"rows: expected rows of at least {least:,} tokens, got {rows:,} of {len(tokens) // rows:,} in the "
                    f"{split} set; give fewer rows, or shorter windows"
                )
        return {split: TokenRows(tokens, length, rows=rows) for split, tokens in splits.items()}
    # As many windows in every epoch, and each of them whole, wherever the first begins.
    count = (len(splits["train"]) - length + 1) // length
    return {
        split: TokenWindows(tokens, length, count=count if split == "train" else None)
        for split, tokens in splits.items()
    }


def _task(
    name: str,
    codec: Codec,
    splits: dict[str, TokenWindows],
    origin: str,
    notes: tuple[str, ...] = (),
    paper: Scores | None = None,
) -> TextTask:
    return TextTask(
        name=name,
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        vocabulary=codec.size,
        goal=f"bits_per_{codec.unit}",
        unit=codec.unit,
        origin=origin,
        codec=codec,
        notes=notes,
        paper=paper or {},
    )
