"""Language modelling by bytes or words: WikiText-2, and any text file.

WikiText-2 is read as it is published: words with spaces between them, one line a paragraph, rare words as <unk>. At
word level each line ends with <eos>, and the vocabulary is that of the training set; at byte level the files are read
as they are. A custom file is cut by position: the first 90 % to train, then 5 % to validate and 5 % to test.
"""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.data import catalogue
from longwave.data.text import CODECS, Bytes, Codec, Words, read_bytes, read_words
from longwave.tasks.autoregressive import AutoregressiveTask, TokenWindows
from longwave.tasks.base import TASKS, Scores, TaskConfig

Level = Literal["bytes", "words"]
HELD_SHARE = 20  # one byte in so many of a custom text is for validation, and one for the test


# Tasks


@dataclass(frozen=True, kw_only=True)
class TextTask(AutoregressiveTask):
    """Predict the next byte or word of a text."""

    codec: Codec

    def reported(self, means: Scores) -> Scores:
        """The loss in nats, perplexity, and the loss in bits."""
        scores = super().reported(means)
        return {"loss": scores["loss"], "perplexity": float(np.exp(scores["loss"])), self.bits: scores[self.bits]}

    def train_at(self, epoch: int, seed: int) -> TokenWindows:
        """The training set, cut at other places in each epoch; they follow from seed and epoch alone."""
        draw = int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1)[0])
        return replace(self.train, start=draw % self.length)

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

    data: Literal["own", "wikitext2"] = "own"
    """A custom text, in `file`, or a published one."""
    file: Path | None = None
    """A custom text: the first 90 % of its bytes to train, then 5 % to validate and 5 % to test."""
    level: Literal["bytes", "words"] = "bytes"
    """What a token is; a custom text is read by bytes only."""
    length: int = 512
    """Bytes or words of a window, in training and in the scores."""

    def codec(self, folder: Path) -> Codec:
        """How a run in `folder` turns text into tokens and back."""
        return CODECS[self.level].from_folder(folder)

    def build(self, data_dir: Path | None = None) -> TextTask:
        """The task with its text."""
        if self.data != "own":
            if self.file is not None:
                raise ValueError(f"file: expected none with data {self.data}, got {self.file}; `text` takes a file")
            return load(self.data, self.level, self.length, data_dir)
        if self.file is None:
            raise ValueError("text: expected --file FILE, your text, got none")
        if self.level != "bytes":
            raise ValueError("level: a custom text is read by bytes; expected bytes, got words")
        return from_file(self.file, self.length)


def load(
    name: str, level: Level = "bytes", length: int = 512, data_dir: str | os.PathLike[str] | None = None
) -> TextTask:
    """A published text; its files are looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache."""
    if name != "wikitext2":
        raise ValueError(f"data: expected wikitext2, got {name!r}")
    folder = catalogue.require(name, None if data_dir is None else Path(data_dir))
    files = {split: folder / f"wiki.{split}.tokens" for split in ("train", "valid", "test")}
    if level == "bytes":
        return _task(f"{name}-bytes", Bytes(), {p: read_bytes(f) for p, f in files.items()}, length, str(folder))
    texts = {split: read_words(file) for split, file in files.items()}
    codec = Words.of(texts["train"])
    splits = {split: np.array(codec.encode(text), np.int32) for split, text in texts.items()}
    return _task(f"{name}-words", codec, splits, length, str(folder))


def from_file(path: str | os.PathLike[str], length: int = 512) -> TextTask:
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
    return _task("text", Bytes(), splits, length, str(path))


def _task(name: str, codec: Codec, splits: dict[str, NDArray[Any]], length: int, origin: str) -> TextTask:
    if length < 2:
        raise ValueError(f"length: expected windows of at least 2 tokens, got {length}")
    if 2 * length > len(splits["train"]):
        raise ValueError(
            f"length: expected at most half of the {len(splits['train']):,} tokens to train on, got {length:,}"
        )
    return TextTask(
        name=name,
        # As many windows in every epoch, and each of them whole, wherever the first begins.
        train=TokenWindows(splits["train"], length, count=(len(splits["train"]) - length + 1) // length),
        valid=TokenWindows(splits["valid"], length),
        test=TokenWindows(splits["test"], length),
        vocabulary=codec.size,
        goal=f"bits_per_{codec.unit}",
        unit=codec.unit,
        origin=origin,
        codec=codec,
    )
