"""Language modelling by bytes or words: WikiText-2, WikiText-103, and any text file.

WikiText is read as published: words separated by spaces, one line per paragraph, rare words as <unk>. At word level
each line ends with <eos>, and the vocabulary is that of the training set. A custom file is cut by position: the first
90 % to train, then 5 % to validate and 5 % to test.

A text is cut into windows that begin with START (see `autoregressive`), or, with `rows`, into as many rows of windows
whose inputs are the true tokens before, as the paper has it (see `TokenRows`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.settings import at_least
from longwave.io.download import catalogue
from longwave.models import Spec
from longwave.models.recurrence import map_tensors
from longwave.tasks.autoregressive import AutoregressiveTask, TokenRows, TokenWindows
from longwave.tasks.base import SPLITS, TASKS, Batch, Outcome, Scores, Split, TaskConfig
from longwave.tasks.text.codecs import CODECS, END, Bytes, Codec, Ties, Words, read_bytes, read_lines


class Published(NamedTuple):
    """A published text, by words."""

    tokens: tuple[int, int, int]  # in train, valid and test, line ends included
    vocabulary: int
    ties: Ties  # how equally frequent words are ordered
    paper: Scores  # of the paper's S4 on the test set


PUBLISHED = {
    "wikitext2": Published((2_088_628, 217_646, 245_569), 33_278, "alphabet", {}),
    "wikitext103": Published((103_227_021, 217_646, 245_569), 267_735, "appearance", {"perplexity": 20.95}),
}
HELD_SHARE = 20  # one byte in this many of a custom text is for validation, and one for the test


@dataclass(frozen=True, kw_only=True)
class TextTask(AutoregressiveTask):
    """Predict the next byte or word of a text."""

    report_module: ClassVar[str | None] = "longwave.tasks.text.report"

    codec: Codec
    carries: bool = False  # whether the state is carried from window to window, in training too

    def reported(self, means: Scores) -> Scores:
        """The loss in nats, the perplexity, and the loss in bits."""
        scores = super().reported(means)
        return {"loss": scores["loss"], "perplexity": float(np.exp(scores["loss"])), self.bits: scores[self.bits]}

    @property
    def length(self) -> int:
        return self.train.length

    @property
    def spec(self) -> Spec:
        """Requirements of next-token prediction, without a training length if the state is carried.

        A layer with C~ of one length as its parameter would have to solve for C in every window; C itself serves both
        the kernel and the state.
        """
        return replace(super().spec, length=None) if self.carried_rows else super().spec

    @property
    def carried_rows(self) -> int:
        return self.train.rows if self.carries and isinstance(self.train, TokenRows) else 0

    def outcome(self, model: Any, batch: Batch, state: Any = None) -> Outcome:
        """The outcome of next-token prediction; if the state is carried, from a state and with the next one."""
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
        """The cross-entropies of a batch, read window by window, and the state after it if it is carried."""
        x, y, found = batch["x"], batch["y"], []
        carries = bool(self.carried_rows) or x.shape[1] > self.length
        for window, targets in zip(x.split(self.length, dim=1), y.split(self.length, dim=1), strict=True):
            losses, state = model.nll(window, targets, state, need_state=carries)
            found.append(losses)
        return torch.cat(found, dim=1), state

    def train_at(self, epoch: int, seed: int) -> TokenWindows:
        """The training set, cut at other places in each epoch, which depend on seed and epoch alone."""
        return self.train.cut_elsewhere(int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1)[0]))

    def carried(self, split: Split) -> TokenWindows:
        """A split as one window, or one per row, that a model reads window by window, carrying its state."""
        assert isinstance(split, TokenWindows)
        return split.uncut()

    def restarted(self) -> "TextTask":
        valid, test = (replace(split, length=self.length) for split in (self.valid, self.test))
        return replace(self, carries=False, valid=valid, test=test)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"vocabulary": self.codec.size}

    def artifacts(self) -> dict[str, bytes]:
        return self.codec.artifacts()


@TASKS.register("text")
@dataclass(frozen=True)
class TextConfig(TaskConfig):
    """Text, predicted byte by byte or word by word."""

    pipeline: ClassVar[str | None] = "text-generation"
    actions: ClassVar[Mapping[str, str]] = {"generate": "longwave.tasks.text.generate"}

    data: Literal["own", "wikitext2", "wikitext103"] = "own"
    """A custom text, in `file`, or a published one."""
    file: Path | None = None
    """A custom text: the first 90 % of its bytes to train, then 5 % to validate and 5 % to test."""
    level: Literal["bytes", "words"] = "bytes"
    """What a token is; a custom text is read by bytes only."""
    length: int = 512
    """Bytes or words per window, in training and evaluation."""
    rows: int = at_least(0, 0)
    """Contiguous rows to cut each split into: windows begin with the true previous token; 0: with token 0."""
    carry_state: bool = False
    """Carry the state from window to window of a row, in training (truncated back-propagation) and evaluation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.carry_state and not self.rows:
            raise ValueError("carry_state: expected rows of consecutive windows (--task.rows), got none")

    def codec(self, folder: Path) -> Codec:
        """The codec of a run in `folder`."""
        return CODECS[self.level].from_folder(folder)

    def build(self, data_dir: Path | None = None) -> TextTask:
        task = self._custom() if self.data == "own" else self._published(data_dir)
        if not self.carry_state:
            return task
        return replace(task, carries=True, valid=task.carried(task.valid), test=task.carried(task.test))

    def on_random_data(self, rows: int, seed: int = 0) -> TextTask:
        """The task on windows of random tokens: bytes, or as many words as the published text has."""
        codec: Codec = Bytes()
        if self.level == "words":
            if self.data not in PUBLISHED:
                raise ValueError("level: a custom text is read by bytes; expected bytes, got words")
            codec = Words((END, *map(str, range(1, PUBLISHED[self.data].vocabulary))))
        tokens = np.random.default_rng(seed).integers(0, codec.size, rows * (self.length + 1), np.int32)
        windows = TokenRows(tokens, self.length, rows=rows)
        return _task(f"{self.data}-random", codec, dict.fromkeys(SPLITS, windows), "random tokens")

    def _published(self, data_dir: Path | None) -> TextTask:
        if self.file is not None:
            raise ValueError(f"file: expected none with data {self.data}, got {self.file}; `text` takes a file")
        name, published = self.data, PUBLISHED[self.data]
        folder = catalogue.require(name, data_dir)
        files = {split: folder / f"wiki.{split}.tokens" for split in SPLITS}
        if self.level == "bytes":
            tokens: dict[str, NDArray[Any]] = {split: read_bytes(file) for split, file in files.items()}
            return _task(f"{name}-bytes", Bytes(), self._cut(tokens), str(folder))
        codec = Words.of_lines(read_lines(files["train"]), published.ties)
        tokens = {split: np.fromiter(codec.encode_lines(read_lines(file)), np.int32) for split, file in files.items()}
        found, expected = (*map(len, tokens.values()), codec.size), (*published.tokens, published.vocabulary)
        notes = []
        if found != expected:
            numbers = [", ".join(f"{count:,}" for count in counts) for counts in (found, expected)]
            notes.append(
                f"{name} differs from the published text: {numbers[0]} words in train, valid, test and the vocabulary, "
                f"not {numbers[1]}; longwave data check {name} checks its files"
            )
        windows = self._cut(tokens)
        return _task(f"{name}-words", codec, windows, str(folder), notes=tuple(notes), paper=published.paper)

    def _custom(self) -> TextTask:
        if self.file is None:
            raise ValueError("text: expected --file FILE, your text, got none")
        if self.level != "bytes":
            raise ValueError("level: a custom text is read by bytes; expected bytes, got words")
        path = self.file.expanduser()
        tokens = read_bytes(path)
        # One byte in each split, and a full training window wherever the first begins.
        least = max(HELD_SHARE, math.ceil(2 * self.length * HELD_SHARE / (HELD_SHARE - 2)))
        if len(tokens) < least:
            raise ValueError(
                f"{path}: expected at least {least:,} bytes for windows of {self.length} (--length), got "
                f"{len(tokens):,}; give more text, or shorter windows"
            )
        held = len(tokens) // HELD_SHARE
        splits = np.split(tokens, [len(tokens) - 2 * held, len(tokens) - held])
        return _task("text", Bytes(), self._cut(dict(zip(SPLITS, splits, strict=True))), str(path))

    def _cut(self, splits: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """Cut each split into windows, or into rows of windows."""
        length, rows, n_train = self.length, self.rows, len(splits["train"])
        if length < 2:
            raise ValueError(f"length: expected windows of at least 2 tokens, got {length}")
        if 2 * length > n_train:
            raise ValueError(f"length: expected at most half of the {n_train:,} training tokens, got {length:,}")
        if rows:
            for split, tokens in splits.items():
                least = 2 if split != "train" else length + 1
                if len(tokens) // rows < least:
                    raise ValueError(
                        f"rows: expected rows of at least {least:,} tokens, got {rows:,} rows of "
                        f"{len(tokens) // rows:,} in the {split} set; use fewer rows, or shorter windows"
                    )
            return {split: TokenRows(tokens, length, rows=rows) for split, tokens in splits.items()}
        # The same number of full windows in every epoch, wherever the first begins.
        count = (n_train - length + 1) // length
        return {
            split: TokenWindows(tokens, length, count=count if split == "train" else None)
            for split, tokens in splits.items()
        }


def _task(name: str, codec: Codec, splits: dict[str, Any], origin: str, **facts: Any) -> TextTask:
    return TextTask(
        name=name,
        vocabulary=codec.size,
        goal=f"bits_per_{codec.unit}",
        unit=codec.unit,
        origin=origin,
        codec=codec,
        **splits,
        **facts,
    )
