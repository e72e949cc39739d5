"""Rows of numbers as they come, each of them a step of a sequence."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longwave.data.cells import number
from longwave.data.lines import PIPE, lines
from longwave.registry import nearest


def read_rows(path: Path, follow: bool, columns: Sequence[str] | None, channels: int) -> Iterator[NDArray[np.float64]]:
    """The rows (rows, channels) of a CSV file, as many at a time as there are.

    With `columns`, these of the header; else all of them, with a header or without.
    """
    source = "stdin" if path == PIPE else str(path)
    places: list[int] | None = None
    delimiter, before = ",", 0
    for some in lines(path, follow):
        found = []
        for line, text in enumerate(some, before + 1):
            if not text.strip():
                continue
            where = f"{source}, line {line}"
            if places is None:
                delimiter = next((mark for mark in ",;\t" if mark in text), ",")
                cells = next(csv.reader([text], delimiter=delimiter))
                places = _places(cells, columns, channels, where)
                if not _are_numbers(cells):
                    continue
            cells = next(csv.reader([text], delimiter=delimiter))
            if len(cells) <= max(places):
                raise ValueError(f"{where}: expected {max(places) + 1} cells or more, got {len(cells)}")
            found.append([_number(cells[place], where, place) for place in places])
        before += len(some)
        if found:
            yield np.array(found)


def _places(cells: list[str], columns: Sequence[str] | None, channels: int, where: str) -> list[int]:
    """Which cells of a row are the channels, from the first line."""
    names = [cell.strip() for cell in cells]
    if columns is None:
        if len(cells) != channels:
            raise ValueError(
                f"{where}: expected {channels} columns, one for each channel of training, got {len(cells)}"
            )
        return list(range(channels))
    for name in columns:
        if name not in names:
            raise ValueError(f"{where}: there is no column {name!r} in the header; {nearest(name, names)}")
    return [names.index(name) for name in columns]


def _are_numbers(cells: list[str]) -> bool:
    try:
        return all(np.isfinite(number(cell)) for cell in cells)
    except ValueError:
        return False


def _number(cell: str, where: str, place: int) -> float:
    try:
        value = number(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(f"{where}, cell {place + 1}: expected a number such as 1234.5, got {cell[:40]!r}")
    return value
