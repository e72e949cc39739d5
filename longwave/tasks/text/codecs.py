"""Reading text, and the codecs that turn it into tokens and back: bytes, or words of a vocabulary."""

import codecs
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import Patient

END, UNKNOWN = "<eos>", "<unk>"
Ties = Literal["alphabet", "appearance"]
VOCABULARY = "vocabulary.txt"  # the words of a codec
# How words and punctuation are joined into written text.
JOINED = {"@-@": "-", "@,@": ",", "@.@": "."}  # within a word or a number
TO_THE_LEFT = {",", ".", ";", ":", "!", "?", ")", "]", "}", "%", "'", "'s", "'m", "'d", "'re", "'ve", "'ll", "n't"}
TO_THE_RIGHT = {"(", "[", "{", "$", "£", "€", "#"}
QUOTE = '"'


class Codec(ABC):
    """Turns text into tokens and back. Token 0 is the start of a sequence."""

    unit: ClassVar[str]  # what one token is called

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of different tokens."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""

    @abstractmethod
    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece, as the tokens come."""

    def prose(self, tokens: Iterable[int]) -> Iterator[str]:
        """Decode with the spacing of written text, where tokens are words."""
        return self.decode(tokens)

    def unknown(self, text: str) -> list[str]:
        """The words of a text that are not in the vocabulary, sorted."""
        return []

    def artifacts(self) -> dict[str, bytes]:
        """The files that `from_folder` needs, by name."""
        return {}

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Load the codec whose artifacts are in a folder."""
        return cls()


class Bytes(Codec):
    """Text as its UTF-8 bytes. Byte 0, which does not occur in text, is the start of a sequence."""

    unit = "byte"
    size = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            yield decoder.decode(bytes((token,)))
        yield decoder.decode(b"", final=True)


@dataclass(frozen=True)
class Words(Codec):
    """Text as words between spaces; each line ends with <eos>, which is word 0, the start of a sequence."""

    words: tuple[str, ...]
    unit: ClassVar[str] = "word"

    @property
    def size(self) -> int:
        return len(self.words)

    @classmethod
    def of_lines(cls, lines: Iterable[str], ties: Ties = "alphabet") -> Self:
        """The words of lines: <eos>, then the most frequent first; `ties` orders equally frequent ones.

        "appearance" is the order in which they appear, as in the models published for WikiText-103.
        """
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line.split())
        counts.pop(END, None)
        if ties == "appearance":
            return cls((END, *(word for word, _ in counts.most_common())))  # a stable sort of words as they appeared
        return cls((END, *sorted(counts, key=lambda word: (-counts[word], word))))

    def encode(self, text: str) -> list[int]:
        """The words of a text by number; a line end is <eos>, and a word outside the vocabulary is <unk>."""
        return list(self.encode_lines(text.split("\n")))[:-1]  # the last line has no end

    def encode_lines(self, lines: Iterable[str]) -> Iterator[int]:
        """The words of each line by number, then <eos>."""
        number = {word: k for k, word in enumerate(self.words)}
        unknown = number.get(UNKNOWN)
        for line in lines:
            for word in line.split():
                token = number.get(word, unknown)
                if token is None:
                    raise ValueError(
                        f"text: the word {word!r} is not in the vocabulary, which has no {UNKNOWN} either; "
                        "use words of the training text"
                    )
                yield token
            yield 0

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        gap = ""
        for token in tokens:
            yield "\n" if self.words[token] == END else gap + self.words[token]
            gap = "" if self.words[token] == END else " "

    def prose(self, tokens: Iterable[int]) -> Iterator[str]:
        return detokenised("\n" if self.words[token] == END else self.words[token] for token in tokens)

    def unknown(self, text: str) -> list[str]:
        return sorted(set(text.split()) - set(self.words))

    def artifacts(self) -> dict[str, bytes]:
        return {VOCABULARY: "".join(f"{word}\n" for word in self.words).encode()}

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        path = folder / VOCABULARY
        try:
            words = path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: expected the vocabulary of a run, one word per line, got {error}") from error
        if words[:1] != [END]:
            raise ValueError(
                f"{path}: expected the vocabulary of a run, one word per line, {END} first, got {words[:1]}"
            )
        return cls(tuple(words))


CODECS: dict[str, type[Codec]] = {"bytes": Bytes, "words": Words}  # by the level of a task on text


def read_bytes(path: str | Path) -> NDArray[np.uint8]:
    """The bytes of a file, which must not be empty."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; expected a text file")
    if not path.is_file():
        raise ValueError(f"{path}: expected a text file, got a folder or a device")
    tokens = np.fromfile(path, np.uint8)
    if not len(tokens):
        raise ValueError(f"{path}: the file is empty; expected text")
    return tokens


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; reading a large file shows progress."""
    path, progress = Path(path), Patient()
    progress.start(f"reading {path.name}", path.stat().st_size)
    with open(path, encoding="utf-8", newline="\n") as file:
        try:
            for line in file:
                yield line.removesuffix("\n")
                progress.advance(len(line))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8, got {error}; download it again") from error
        finally:
            progress.end()


def detokenised(words: Iterable[str]) -> Iterator[str]:
    """Each word with the space before it, if there is one, as the words come; "\\n" ends a line.

    The rules invert those of the tokeniser of WikiText, but not exactly: the side of a quotation mark on which there
    was a space is lost, so that marks are taken to open and close in turn within a line.
    """
    joins, quoted = True, False  # whether the next word follows without a space; whether a quotation is open
    for word in words:
        if word == "\n":
            joins, quoted = True, False
            yield word
        elif word in JOINED:
            joins = True
            yield JOINED[word]
        elif word == QUOTE:
            yield word if joins or quoted else f" {word}"
            joins = quoted = not quoted
        else:
            yield word if joins or word in TO_THE_LEFT else f" {word}"
            joins = word in TO_THE_RIGHT
