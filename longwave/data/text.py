"""Reading text, and the codecs that turn it into tokens and back: bytes, or words of a vocabulary."""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from longwave.data import files

END, UNKNOWN = "<eos>", "<unk>"
VOCABULARY = "vocabulary.txt"  # the file in which the words of a codec are stored


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
    def of(cls, text: str) -> Self:
        """The words of a text: <eos>, then the most frequent first, and equally frequent ones by the alphabet."""
        counts = Counter(text.split())
        counts.pop(END, None)
        return cls((END, *sorted(counts, key=lambda word: (-counts[word], word))))

    def encode(self, text: str) -> list[int]:
        """The words of a text by number; a line end is <eos>, and a word outside the vocabulary is <unk>."""
        number = {word: k for k, word in enumerate(self.words)}
        unknown = number.get(UNKNOWN)
        tokens: list[int] = []
        for k, line in enumerate(text.split("\n")):
            if k:
                tokens.append(number[END])
            for word in line.split():
                token = number.get(word, unknown)
                if token is None:
                    raise ValueError(
                        f"text: the word {word!r} is not in the vocabulary, which has no {UNKNOWN} either; "
                        "use words of the training text"
                    )
                tokens.append(token)
        return tokens

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text piece by piece, as the tokens come."""
        gap = ""
        for token in tokens:
            yield "\n" if self.words[token] == END else gap + self.words[token]
            gap = "" if self.words[token] == END else " "

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


def read_words(path: str | Path) -> str:
    """The text of a file in UTF-8, of which every line ends with a line end."""
    try:
        text = bytes(read_bytes(path)).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got {error}; download it again") from error
    return text if text.endswith("\n") else text + "\n"
