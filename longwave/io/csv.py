"""Open, parse and write CSV files."""

import csv
import gzip
import io
import itertools
import os
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from longwave.core import files
from longwave.io.table import Cells, Table

BLOCK = 1 << 15  # cells to keep as text before columns of numbers are packed


@contextmanager
def open_csv(path: str | os.PathLike[str]) -> Iterator[tuple[Iterable[str], str]]:
    """The lines of a CSV file, which may be gzipped, and its name for messages."""
    path = Path(path).expanduser()
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            binary: Any = gzip.GzipFile(fileobj=file) if zipped else file
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text, str(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; expected a CSV file with a header") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path}: expected a CSV file with a header, got a folder") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: the gzip file is damaged ({error}); download or write it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected text in UTF-8, got other bytes ({error}); save it as CSV in UTF-8"
        ) from error


def parse_table(
    lines: Iterable[str],
    source: str,
    texts: Collection[str] = (),
    only: Collection[str] | None = None,
    ragged: bool = False,
    skip_blank: bool = False,
    skipped: int = 0,
) -> Table:
    """The table in lines of CSV, the header first; `skipped` lines after it were dropped before.

    The separator is a comma, or a semicolon or tab if the header has no comma. The columns `texts` are kept as text,
    even if they hold numbers; with `only`, other columns are left empty. If `ragged`, rows may end early; with
    `skip_blank`, rows without any text are skipped.
    """
    lines = iter(lines)
    blank, first = 0, next(lines, "")
    while first and not first.strip():
        blank, first = blank + 1, next(lines, "")
    if not first:
        raise ValueError(f"{source}: the file is empty; expected a header with the names of the columns, then rows")
    reader = csv.reader(itertools.chain([first], lines), delimiter=separator(first), strict=True)
    try:
        names = [name.strip() for name in next(reader)]
        width, numbers = len(names), array("q")
        left_out = set() if only is None else {*names} - {*only}
        kinds = [None if name in left_out else list if name in texts else _packed for name in names]
        blocks: list[list[Cells]] = [[] for _ in names]  # of each column
        rows = (cells for cells in reader if cells and (len(cells) > 1 or width == 1 or cells[0].strip()))
        if skip_blank:
            rows = (cells for cells in rows if any(map(str.strip, cells)))
        while block := [
            (reader.line_num + blank + skipped, cells) for cells in itertools.islice(rows, 1 + BLOCK // width)
        ]:
            for line, cells in block:
                if len(cells) != width:
                    if len(cells) > width or not ragged:
                        expected = f"at most {width} cells," if ragged else f"{width} cells"
                        raise ValueError(
                            f"{source}, line {line}: expected {expected} as in the header, got {len(cells)}"
                        )
                    cells += [""] * (width - len(cells))
                numbers.append(line)
            columns = zip(*(cells for _, cells in block), strict=True)
            for parts, column, kind in zip(blocks, columns, kinds, strict=True):
                if kind is not None:
                    parts.append(kind(column))
    except csv.Error as error:
        raise ValueError(
            f"{source}: cannot be read as CSV ({error}); expected text with the same number of cells in all lines"
        ) from error
    return Table(source, names, [_joined(column) for column in blocks], numbers)


def separator(header: str) -> str:
    """The separator of cells, from the header."""
    return next((mark for mark in ",;\t" if mark in header), ",")


def _packed(cells: tuple[str, ...]) -> Cells:
    """Cells as an array if all are finite numbers, to save memory; otherwise unchanged."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return list(cells)
    text = "".join(cells)  # Python reads 1_5 and digits of other scripts as numbers
    return values if "_" not in text and text.isascii() and np.isfinite(values).all() else list(cells)


def _joined(blocks: list[Cells]) -> Cells:
    arrays = [block for block in blocks if isinstance(block, np.ndarray)]
    return np.concatenate(arrays) if len(arrays) == len(blocks) > 0 else [cell for block in blocks for cell in block]


def write_csv(path: str | os.PathLike[str], rows: Iterable[list[Any]]) -> None:
    """Write rows, the header first, atomically; missing folders are created."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    files.write_text(path, text.getvalue())
