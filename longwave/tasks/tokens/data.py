"""Labelled sequences of tokens, and the vocabulary that numbers them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longwave.core import files

PADDING, UNKNOWN, END = SPECIAL = ("<pad>", "<unk>", "<eos>")  # the first tokens of every vocabulary
FILE = "tokens.json"  # the vocabulary of a run; JSON, as a token may be a line end


@dataclass(frozen=True, eq=False)
class Labelled:
    """Concatenated sequences of codes, which their reader chose, and a label for each sequence."""

    codes: NDArray[Any]  # (total,)
    lengths: NDArray[np.int64]  # (n,)
    labels: NDArray[np.int64]  # (n,)

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens by their number: the special ones, then the most frequent first."""

    tokens: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of tokens, special ones included."""
        return len(self.tokens)

    @classmethod
    def of(cls, counts: NDArray[Any], name_of: Callable[[int], str], least: int = 1) -> Self:
        """The tokens that occur at least `least` times, from the counts of codes; ties in alphabetical order."""
        found = {name_of(int(code)): int(counts[code]) for code in np.flatnonzero(counts >= max(1, least))}
        return cls((*SPECIAL, *sorted(found, key=lambda token: (-found[token], token))))

    def renumbered(self, codes: NDArray[Any], name_of: Callable[[int], str]) -> NDArray[Any]:
        """The codes of a reader as numbers of this vocabulary, in the smallest integer type."""
        number = self._numbers()
        present = np.flatnonzero(np.bincount(codes))
        table = np.zeros(int(present[-1]) + 1 if len(present) else 0, np.min_scalar_type(self.size))
        for code in present:
            table[code] = number.get(name_of(int(code)), SPECIAL.index(UNKNOWN))
        found: NDArray[Any] = table[codes]
        return found

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of some tokens; unknown ones are <unk>."""
        number = self._numbers()
        return [number.get(token, SPECIAL.index(UNKNOWN)) for token in tokens]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        return [self.tokens[number] for number in numbers]

    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def artifacts(self) -> dict[str, bytes]:
        return {FILE: (json.dumps(self.tokens, indent=0) + "\n").encode()}

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """The vocabulary stored in a folder."""
        path = folder / FILE
        try:
            tokens = files.read_json(path)
        except ValueError as error:
            raise ValueError(f"{path}: expected the vocabulary of a run, a JSON list, got {error}") from error
        is_list = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        if not is_list or tuple(tokens[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"{path}: expected a list of tokens, {', '.join(SPECIAL)} first, got {tokens!r:.80}")
        return cls(tuple(tokens))
