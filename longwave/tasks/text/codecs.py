"""Reading text, and the codecs that turn it into tokens and back: bytes, or words of a vocabulary."""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.core.progress import Patient

END, UNKNOWN = "<eos>", "<unk>"
Ties = Literal["alphabet", "appearance"]
VOCABULARY = "vocabulary.txt"  # the file in which the words of a codec are stored
# Words that were separated from their punctuation are joined again into written text.
JOINED = {"@-@": "-", "@,@": ",", "@.@": "."}  # within a word or a number
TO_THE_LEFT = {",", ".", ";", ":", "!", "?", ")", "]", "}", "%", "'", "'s", "'m", "'d", "'re", "'ve", "'ll", "n't"}
TO_THE_RIGHT = {"(", "[", "{", "$", "£", "€", "#"}
QUOTE = '"'


class Codec(Protocol):
    """Turns text into tokens and back."""

    @property
    def unit(self) -> str:
        """What one token is called: byte, word."""
        ...

    @property
    def size(self) -> int:
        """How many different tokens there are; token 0 is where a sequence starts."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        ...

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece, as the tokens come."""
        ...

    def prose(self, tokens: Iterable[int]) -> Iterator[str]:
        """As `decode`, with the spaces of written text where the tokens are words."""
        ...

    def unknown(self, text: str) -> list[str]:
        """What a text has that the codec cannot represent, in order and each once."""
        ...

    def artifacts(self) -> dict[str, bytes]:
        """The files that `from_folder` needs, by name."""
        ...

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """The codec whose artifacts are in a folder."""
        ...


class Bytes:
    """Text as its UTF-8 bytes. Byte 0, which does not occur in text, is where a sequence starts."""

    unit: ClassVar[str] = "byte"
    size: ClassVar[int] = 256

    def encode(self, text: str) -> list[int]:
        """The bytes of a text."""
        return list(text.encode())

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece, as the tokens come; bytes that are not UTF-8 are shown as U+FFFD."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            yield decoder.decode(bytes((token,)))
        yield decoder.decode(b"", final=True)

    def prose(self, tokens: Iterable[int]) -> Iterator[str]:
        """As `decode`: bytes are written text already."""
        return self.decode(tokens)

    def unknown(self, text: str) -> list[str]:
        """Nothing: every text has bytes."""
        return []

    def artifacts(self) -> dict[str, bytes]:
        """No files: there is nothing to store."""
        return {}

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """The same codec, whatever the folder."""
        return cls()


@dataclass(frozen=True)
class Words:
    """Text as words between spaces; each line ends with <eos>, which is word 0, where a sequence starts."""

    words: tuple[str, ...]
    unit: ClassVar[str] = "word"

    @property
    def size(self) -> int:
        """How many words there are."""
        return len(self.words)

    @classmethod
    def of(cls, text: str, ties: Ties = "alphabet") -> Self:
        """The words of a text, most frequent first behind <eos>; see `of_lines`."""
        return cls.of_lines(text.split("\n"), ties)

    @classmethod
    def of_lines(cls, lines: Iterable[str], ties: Ties = "alphabet") -> Self:
        """The words of lines: <eos>, then the most frequent first; `ties` says how equally frequent ones are ordered.

        "appearance": the first to appear first, as in the models that were published for WikiText-103.
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
        return list(self.encode_lines(text.split("\n")))[:-1]  # behind the last line there is no line end

    def encode_lines(self, lines: Iterable[str]) -> Iterator[int]:
        """The words of each line by number, and <eos> behind it."""
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
        """The text piece by piece, as the tokens come."""
        gap = ""
        for token in tokens:
            yield "\n" if self.words[token] == END else gap + self.words[token]
            gap = "" if self.words[token] == END else " "

    def prose(self, tokens: Iterable[int]) -> Iterator[str]:
        """As `decode`, without the spaces around punctuation and within numbers that stand between words."""
        return detokenised("\n" if self.words[token] == END else self.words[token] for token in tokens)

    def unknown(self, text: str) -> list[str]:
        """The words of a text that are not in the vocabulary."""
        return sorted(set(text.split()) - set(self.words))

    def artifacts(self) -> dict[str, bytes]:
        """The vocabulary, one word per line."""
        return {VOCABULARY: "".join(f"{word}\n" for word in self.words).encode()}

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """The words of the vocabulary in a folder."""
        return cls.read(folder / VOCABULARY)

    def write(self, path: Path) -> None:
        """Write the vocabulary atomically, one word per line."""
        files.write_bytes(path, self.artifacts()[VOCABULARY])

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote."""
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
    """The bytes of a file that is not empty."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; expected a text file")
    if not path.is_file():
        raise ValueError(f"{path}: expected a text file, got a folder or a device")
    tokens = np.fromfile(path, np.uint8)
    if not len(tokens):
        raise ValueError(f"{path}: the file is empty; expected text")
    return tokens


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file in UTF-8, without their ends; a large file shows how far it is read."""
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

    The rules are those of the tokeniser that WikiText was made with, turned round. They are no exact inverse: on which
    side of a quotation mark the space was, say, is not known, so that marks are taken to open and close in turn within
    a line.
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
