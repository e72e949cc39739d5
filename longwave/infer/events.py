"""What `longwave stream` writes: rows that come one by one, as CSV or as JSON lines, each at once."""

import contextlib
import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longwave.data import files
from longwave.infer.base import OnDevice

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Writing(OnDevice):
    """Options of every stream."""

    out: Path | None = None
    """Write the rows to this file as they come, instead of printing them."""
    jsonl: bool = False
    """A JSON object a line, instead of CSV."""


def written(rows: Iterator[Row], options: Writing) -> Iterator[str]:
    """The rows as text, printed or in the file; Ctrl-C ends them."""
    count = 0
    with contextlib.suppress(KeyboardInterrupt):  # the usual end of a stream
        for row in rows:
            text = _text(row, options.jsonl, is_first=not count)
            count += 1
            if options.out is None:
                yield text
            else:
                _put(options.out, text, is_first=count == 1)
    if options.out is not None:
        if not count:
            _put(options.out, "", is_first=True)
        yield f"{count} rows: {options.out}\n"


def _put(path: Path, text: str, is_first: bool) -> None:
    """Add to a file, which is there for others to read at once; only the first row replaces what was there."""
    if is_first:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    files.append(path, text)


def _text(row: Row, jsonl: bool, is_first: bool) -> str:
    """A row, with the names of the columns before the first."""
    if jsonl:
        return json.dumps(row) + "\n"
    cells = {name: cell for key, value in row.items() for name, cell in _cells(key, value)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([list(cells), list(cells.values())] if is_first else [list(cells.values())])
    return text.getvalue()


def _cells(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """A value as the cells of a table: probabilities by class, forecasts by column and step."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, list):
                yield from ((f"{name}+{k + 1}", f"{number:.12g}") for k, number in enumerate(inner))
            else:
                yield f"p_{name}", f"{inner:.6g}"
    else:
        yield key, f"{value:.12g}" if isinstance(value, float) else str(value)


def note(text: str) -> None:
    """Say something beside the rows."""
    print(f"note: {text}", file=sys.stderr, flush=True)
