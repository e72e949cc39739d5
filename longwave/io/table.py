"""Tables: named columns of cells from a CSV file, a data frame or an array, to read as numbers, names or times."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longwave.core.registry import nearest
from longwave.io.times import is_time

Cells = NDArray[Any] | list[Any]
Read = TypeVar("Read")
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, or a word for a missing value."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def number(cell: Any) -> float:
    """The number in a cell: NaN if it is missing, inf if it is anything else, such as Python's 1_5."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str) and ("_" in cell or not cell.strip().isascii()):  # digits of other scripts
        return math.inf
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.inf
    return math.inf if math.isnan(value) else value


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of cells, all of one length. Messages give the line of a row in the file, or count rows from 0."""

    source: str
    names: list[str]
    columns: list[Cells]  # arrays of numbers or datetime64, lists of cells as they came (None: missing); [] if not read
    lines: Sequence[int] | None = None  # (rows,) of the file; None: there is no file
    index: Cells | None = None  # (rows,) of a data frame, if it holds times
    numbers_of: Sequence[int] | None = None  # (rows,) what messages call rows of a data frame; None: 0, 1 and so on

    def __len__(self) -> int:
        return max(map(len, self.columns), default=0) if self.lines is None else len(self.lines)

    def where(self, row: int, name: str | None = None) -> str:
        """The name of a row, or of a cell, in messages."""
        if self.lines is not None:
            label = f"line {self.lines[row]}"
        else:
            label = f"row {row if self.numbers_of is None else self.numbers_of[row]}"
        return f"{self.source}, {label}" + ("" if name is None else f", column {name!r}")

    def place(self, name: str, role: str) -> int:
        """The index of a column; one that is missing or duplicated is refused."""
        if name not in self.names:
            expected = nearest(name, filter(None, self.names))
            raise ValueError(f"{self.source}: {role}: no column {name!r}; {expected}")
        if (count := self.names.count(name)) > 1:
            raise ValueError(f"{self.source}: {role}: {count} columns are named {name!r}; expected one")
        return self.names.index(name)

    def text(self, row: int, place: int) -> str:
        """A cell as text; empty if it is missing."""
        cell = self.columns[place][row]
        return "" if cell is None or cell != cell else str(cell)

    def numbers(self, places: Sequence[int]) -> NDArray[np.float64]:
        """(rows, columns): NaN where a cell is missing, inf where it is not a finite number."""
        values = np.empty((len(self), len(places)))
        for values_of, place in zip(values.T, places, strict=True):
            cells = self.columns[place]
            if isinstance(cells, list):
                values_of[:] = [number(cell) for cell in cells]
            elif cells.dtype.kind == "M":
                values_of[:] = np.where(np.isnat(cells), np.nan, np.inf)
            else:
                values_of[:] = cells
        return values

    def texts(self, name: str, role: str) -> list[str]:
        """(rows,) text, with its spaces; empty where a cell is missing."""
        place = self.place(name, role)
        return [self.text(row, place) for row in range(len(self))]

    def read(self, name: str, role: str, read: Callable[[Any, str], Read]) -> list[Read]:
        """(rows,): `read(cell, where)` of each cell; equal cells are read once."""
        cells = self.columns[self.place(name, role)]
        if not isinstance(cells, list):
            cells = (cells.astype(str) if cells.dtype.kind == "M" else cells).tolist()
        found: dict[Any, Read] = {}
        for row, cell in enumerate(cells):
            if cell not in found:
                found[cell] = read(cell, self.where(row, name))
        return [found[cell] for cell in cells]


def may_be_times(cells: Cells) -> bool:
    """Whether cells look like times, judged by the first; numbers do not, as they may be anything."""
    return is_time(_time_text(cells[0])) if isinstance(cells, list) else cells.dtype.kind == "M"


def times_in(cells: Cells) -> Any:
    """(rows,) as `times.read_times` takes them: text, or datetime64."""
    is_ready = not isinstance(cells, list) and cells.dtype.kind == "M"
    return cells if is_ready else [_time_text(cell) for cell in cells]


def _time_text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell.strip()
    return "" if cell is None else cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
