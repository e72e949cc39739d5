"""Rows of a CSV file as they arrive: as text, and as numbers, one row per step of a sequence."""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.core.registry import nearest
from longwave.core.terminal import say
from longwave.io.csv import separator
from longwave.io.table import number
from longwave.io.tail import PIPE, lines


class Rows(NamedTuple):
    """Rows of a CSV file that are available at one time; none at the first end of the file."""

    header: str  # empty if the file has none
    texts: list[str]
    lines: list[int]  # their line numbers
    is_new_file: bool  # whether these are the first rows of a file, or of one that replaced it
    is_past: bool  # whether they were there before the file was followed, so that they need no output


class RowReader:
    """The rows of a CSV file, or of a pipe; while a file is followed, events are reported on stderr.

    With `follow` it continues as the file grows, until Ctrl-C. Existing rows are past, unless `from_start`.
    `is_header(line, where)` tells whether the first line is a header.
    """

    def __init__(self, path: Path, follow: bool, from_start: bool, is_header: Callable[[str, str], bool]) -> None:
        self.path, self.follow, self.from_start = path, follow and path != PIPE, from_start
        self.is_header = is_header
        self.source = "stdin" if path == PIPE else str(path)
        self.header: str | None = None  # of this file, or of the one it replaced
        self.past, self.new = 0, 0  # rows so far

    def __enter__(self) -> "RowReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # On Ctrl-C here, or where an output is printed, which closes the generators that wait for it.
        if self.follow and isinstance(error, KeyboardInterrupt | GeneratorExit):
            say(f"stopped following {self.path}: {_count(self.new, 'new row')}")

    def __iter__(self) -> Iterator[Rows]:
        if self.follow and self.from_start:
            say(f"following {self.path} from its first row; Ctrl-C to stop")
        is_told = self.from_start
        line, has_begun, is_new = 0, False, False
        for some in lines(self.path, self.follow, say):
            if some.is_new_file:
                line, has_begun, is_new = 0, False, True
            texts, places = [], []
            for text in some.texts:
                line += 1
                if not text.strip():
                    continue
                if not has_begun:
                    has_begun = True
                    if self._begin(text, f"{self.source}, line {line}"):
                        continue
                texts.append(text)
                places.append(line)
            is_past = some.is_past and not self.from_start
            if is_past:
                self.past += len(texts)
            elif self.follow and not is_told:
                say(f"following {self.path}: {_count(self.past, 'row')} so far; Ctrl-C to stop")
                is_told = True
            self.new += 0 if is_past else len(texts)
            yield Rows(self.header or "", texts, places, is_new and bool(texts), is_past)
            is_new = is_new and not texts

    def _begin(self, first: str, where: str) -> bool:
        """Whether the first line of a file is a header; a replacement file must have the same header."""
        header = first.strip() if self.is_header(first, where) else ""
        if self.header not in (None, header):
            raise ValueError(
                f"{where}: expected the header of the previous file, {self.header or 'none'}, got {header or 'none'}; "
                "restart to follow a file with other columns"
            )
        self.header = header
        return bool(header)


class Numbers(NamedTuple):
    """Rows as numbers."""

    values: NDArray[np.float64]  # (rows, channels)
    is_new_file: bool
    is_past: bool


class NumberReader:
    """The rows of a CSV file as numbers: the `columns` of its header; if None, all, with or without a header."""

    def __init__(
        self, path: Path, follow: bool, from_start: bool, columns: Sequence[str] | None, channels: int
    ) -> None:
        self.rows = RowReader(path, follow, from_start, self._begin)
        self.columns, self.channels = columns, channels
        self._delimiter, self._places = ",", list[int]()

    def __iter__(self) -> Iterator[Numbers]:
        for some in self.rows:
            found = [self._numbers(text, line) for text, line in zip(some.texts, some.lines, strict=True)]
            if found:
                yield Numbers(np.array(found), some.is_new_file, some.is_past)

    def _begin(self, first: str, where: str) -> bool:
        """Find the columns in the first line; whether it is a header."""
        self._delimiter = separator(first)
        cells = next(csv.reader([first], delimiter=self._delimiter))
        names = [cell.strip() for cell in cells]
        if self.columns is None and len(cells) != self.channels:
            raise ValueError(
                f"{where}: expected {self.channels} columns, one per channel of training, got {len(cells)}"
            )
        for name in self.columns or ():
            if name not in names:
                raise ValueError(f"{where}: no column {name!r} in the header; {nearest(name, names)}")
        self._places = [*range(self.channels)] if self.columns is None else [names.index(name) for name in self.columns]
        return not all(math.isfinite(number(cell)) for cell in cells)

    def _numbers(self, text: str, line: int) -> list[float]:
        where = f"{self.rows.source}, line {line}"
        cells = next(csv.reader([text], delimiter=self._delimiter))
        if len(cells) <= max(self._places):
            raise ValueError(f"{where}: expected at least {max(self._places) + 1} cells, got {len(cells)}")
        values = [number(cells[place]) for place in self._places]
        for place, value in zip(self._places, values, strict=True):
            if not math.isfinite(value):
                raise ValueError(
                    f"{where}, cell {place + 1}: expected a number such as 1234.5, got {cells[place][:40]!r}"
                )
        return values


def _count(rows: int, what: str) -> str:
    return f"{rows:,} {what}{'s' * (rows != 1)}"
