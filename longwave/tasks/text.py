"""Text, to be told byte by byte or word by word: WikiText-2, and any file of one's own.

WikiText-2 is read as it is published: words with spaces between them, one line a paragraph, rare words as <unk>. At
word level each line ends with <eos>, and the vocabulary is that of the train part; at byte level the files are taken as
they are. A file of one's own is cut by position: the first 90 % to train, then 5 % to validate and 5 % to test.
"""

import codecs
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.tasks import download
from longwave.tasks.autoregressive import AutoregressiveTask, Windows

Level = Literal["bytes", "words"]
END, UNKNOWN = "<eos>", "<unk>"
HELD_SHARE = 20  # one byte in so many of one's own text is for validation, and one for the test


# From text to tokens and back


class Bytes:
    """Text as its UTF-8 bytes. Byte 0, which text does not have, is where a sequence starts."""

    size = 256

    def encode(self, text: str) -> list[int]:
        """The bytes of a text."""
        return list(text.encode())

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece as the tokens come; bytes that are no UTF-8 are shown as U+FFFD."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            yield decoder.decode(bytes((token,)))
        yield decoder.decode(b"", final=True)


@dataclass(frozen=True)
class Words:
    """Text as words between spaces; each line ends with <eos>, which is word 0, where a sequence starts."""

    words: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many words there are."""
        return len(self.words)

    @classmethod
    def of(cls, text: str) -> "Words":
        """The words of a text: <eos>, then the commonest first, and those that are equally common by the alphabet."""
        counts = Counter(text.split())
        counts.pop(END, None)
        return cls((END, *sorted(counts, key=lambda word: (-counts[word], word))))

    def encode(self, text: str) -> list[int]:
        """The words of a text by number; line ends are <eos>, and a word that is not known is <unk>."""
        number = {word: k for k, word in enumerate(self.words)}
        unknown = number.get(UNKNOWN)
        tokens: list[int] = []
        for k, line in enumerate(text.split("\n")):
            if k:
                tokens.append(number[END])
            for word in line.split():
                token = number.get(word, unknown)
                if token is None:
                    raise ValueError(f"text: the word {word!r} is not in the vocabulary, which has no {UNKNOWN} either")
                tokens.append(token)
        return tokens

    def unknown(self, text: str) -> list[str]:
        """The words of a text that are read as <unk>."""
        return sorted(set(text.split()) - set(self.words))

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece as the tokens come."""
        gap = ""
        for token in tokens:
            yield "\n" if self.words[token] == END else gap + self.words[token]
            gap = "" if self.words[token] == END else " "

    def write(self, path: Path) -> None:
        """Write the words, one a line; the file appears whole or not at all."""
        part = path.with_name(f".{path.name}.part")
        part.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8", newline="\n")
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Words":
        """What `write` wrote."""
        try:
            words = path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: expected the words of a run, one a line, got {error}") from error
        if words[:1] != [END]:
            raise ValueError(f"{path}: expected the words of a run, one a line, {END} first, got {words[:1]}")
        return cls(tuple(words))


# Tasks


@dataclass(frozen=True, kw_only=True)
class TextTask(AutoregressiveTask):
    """Tell the next byte or word of a text."""

    codec: Bytes | Words

    def reported(self, means: dict[str, float]) -> dict[str, float]:
        """The loss in nats, perplexity, and the loss in bits."""
        scores = super().reported(means)
        return {"loss": scores["loss"], "perplexity": float(np.exp(scores["loss"])), self.bits: scores[self.bits]}

    def train_at(self, epoch: int, seed: int) -> Windows:
        """The train part, cut at other places in each epoch; they follow from seed and epoch alone."""
        draw = int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1)[0])
        return replace(self.train, start=draw % self.length)

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        return super().describe() | {"vocabulary": self.codec.size}


def load(
    name: str, level: Level = "bytes", length: int = 512, data_dir: str | os.PathLike[str] | None = None
) -> TextTask:
    """A published text; its files are looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache."""
    if name != "wikitext2":
        raise ValueError(f"data: expected wikitext2, got {name!r}")
    folder = download.require(name, None if data_dir is None else Path(data_dir))
    files = {part: folder / f"wiki.{part}.tokens" for part in ("train", "valid", "test")}
    if level == "bytes":
        return _task(f"{name}-bytes", Bytes(), {p: read_bytes(f) for p, f in files.items()}, length, str(folder))
    texts = {part: _read_words(file) for part, file in files.items()}
    codec = Words.of(texts["train"])
    parts = {part: np.array(codec.encode(text), np.int32) for part, text in texts.items()}
    return _task(f"{name}-words", codec, parts, length, str(folder))


def from_file(path: str | os.PathLike[str], length: int = 512) -> TextTask:
    """A text of one's own as a task, byte by byte."""
    path = Path(path).expanduser()
    tokens = read_bytes(path)
    # A byte in each part, and a whole window to train on wherever the first begins.
    least = max(HELD_SHARE, math.ceil(2 * length * HELD_SHARE / (HELD_SHARE - 2)))
    if len(tokens) < least:
        raise ValueError(
            f"{path}: expected at least {least:,} bytes for windows of {length} (--length), got {len(tokens):,}; "
            "give more text, or shorter windows"
        )
    held = len(tokens) // HELD_SHARE
    train = len(tokens) - 2 * held
    parts = {"train": tokens[:train], "valid": tokens[train : train + held], "test": tokens[train + held :]}
    return _task("text", Bytes(), parts, length, str(path))


def read_bytes(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; expected a text")
    if not path.is_file():
        raise ValueError(f"{path}: expected a text file, got a folder or a device")
    tokens = np.fromfile(path, np.uint8)
    if not len(tokens):
        raise ValueError(f"{path}: the file is empty; expected a text")
    return tokens


def _read_words(path: Path) -> str:
    try:
        text = bytes(read_bytes(path)).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got {error}; fetch it again") from error
    return text if text.endswith("\n") else text + "\n"


def _task(name: str, codec: Bytes | Words, parts: dict[str, NDArray[Any]], length: int, origin: str) -> TextTask:
    if length < 2:
        raise ValueError(f"length: expected windows of at least 2 tokens, got {length}")
    if 2 * length > len(parts["train"]):
        raise ValueError(
            f"length: expected at most half of the {len(parts['train']):,} tokens to train on, got {length:,}"
        )
    unit = "byte" if isinstance(codec, Bytes) else "word"
    return TextTask(
        name=name,
        # As many windows in every epoch, and each of them whole, wherever the first begins.
        train=Windows(parts["train"], length, count=(len(parts["train"]) - length + 1) // length),
        valid=Windows(parts["valid"], length),
        test=Windows(parts["test"], length),
        input_size=1,
        output_size=codec.size,
        goal=f"bits_per_{unit}",
        unit=unit,
        origin=origin,
        codec=codec,
    )
