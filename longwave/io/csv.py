"""CSV files cell by cell: opening them, their header, the number in a cell; and writing them."""

import csv
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longwave.core import files

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))


@contextmanager
def open_csv(path: str | os.PathLike[str]) -> Iterator[tuple[Iterable[str], str]]:
    """The lines of a CSV file or its gzip, and what messages call it; what cannot be read is refused with a reason."""
    path = Path(path).expanduser()
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            binary: Any = gzip.GzipFile(fileobj=file) if zipped else file
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text, str(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: there is no such file; expected a CSV file with a header") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path}: expected a CSV file with a header, got a folder") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: the gzip file is damaged ({error}); download or write it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected text in UTF-8, got other bytes ({error}); save it as CSV in UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(
            f"{path}: cannot be read as CSV ({error}); expected text, with the same cells in all lines"
        ) from error


def read_header(text: Iterable[str], source: str) -> tuple[str, list[str], Iterator[tuple[int, list[str]]]]:
    """The header as it stands, the names in it, and the rows below: the number of a row's line, and its cells."""
    lines = iter(text)
    blank, first = 0, next(lines, "")
    while first and not first.strip():
        blank, first = blank + 1, next(lines, "")
    if not first:
        raise ValueError(f"{source}: the file is empty; expected a header with the names of the columns, then rows")
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter)
    names = [name.strip() for name in next(reader)]
    return first.strip(), names, ((reader.line_num + blank, cells) for cells in reader if cells)


def number(cell: Any) -> float:
    """The number in a cell; Python's 1_5 and digits of other scripts are not accepted."""
    if isinstance(cell, str) and ("_" in cell or not cell.strip().isascii()):
        raise ValueError(f"expected a number such as 1234.5, got {cell!r}")
    return float(cell)


def write_csv(path: str | Path, rows: Iterable[list[str]]) -> None:
    """Write rows, the header first, atomically; folders that are missing are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    files.write_text(path, text.getvalue())
