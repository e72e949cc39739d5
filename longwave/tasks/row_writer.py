"""The output of `longwave stream`: rows written as they come, as CSV, JSON lines, or short lines for a terminal."""

import contextlib
import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longwave.core import files
from longwave.core.terminal import say
from longwave.tasks.actions import OnDevice

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Writing(OnDevice):
    """Options of every stream."""

    out: Path | None = None
    """Write the rows to this file as they come, in full precision; with --follow, also print short lines."""
    jsonl: bool = False
    """One JSON object per line, instead of CSV in a file or a pipe, and short lines on a terminal."""
    follow: bool = False
    """Keep reading as the CSV file grows, like tail -F, until Ctrl-C; outputs start with the next new row."""
    from_start: bool = False
    """With --follow: also give outputs for rows that the file already has."""


def check_follow(options: Writing, csv: Path | None) -> None:
    """Refuse options that want a CSV file to follow, where there is none."""
    if options.follow and csv is None:
        raise ValueError("--follow: requires --csv FILE; a pipe is always read until it ends")
    if options.from_start and not options.follow:
        raise ValueError("--from-start: requires --follow; without it, all rows have outputs")


def written(rows: Iterator[Row], options: Writing) -> Iterator[str]:
    """The rows as text, printed or in the file; Ctrl-C ends them.

    A terminal gets short lines, a pipe CSV; whoever follows a file sees short lines beside the file that is written.
    """
    count = 0
    is_short = options.follow if options.out is not None else sys.stdout.isatty() and not options.jsonl
    with contextlib.suppress(KeyboardInterrupt):  # the usual end of a stream
        for row in rows:
            if is_short:
                yield short_line(row, shutil.get_terminal_size().columns) + "\n"
            if options.out is not None:
                _put(options.out, _text(row, options.jsonl, is_first=not count), is_first=not count)
            elif not is_short:
                yield _text(row, options.jsonl, is_first=not count)
            count += 1
    if options.out is not None:
        if not count:
            _put(options.out, "", is_first=True)
        yield f"{count} rows: {options.out}\n"


def short_line(row: Row, width: int) -> str:
    """A row for people: when, and the likeliest classes or both ends of each forecast, as many as fit."""
    at = row["time"] if "time" in row else f"row {row['row']:<6}"
    line = f"{at:8.2f} s" if isinstance(at, float) else at
    if "forecast" in row:
        ids = [cell for name, cell in row.items() if isinstance(cell, str) and name != "time"]
        line = "  ".join([*ids, line])
        first = 2 if len(row["forecast"]) == 1 else 1
        cells = [f"{name} {_ends(values, first)}" for name, values in row["forecast"].items()]
    else:
        chances = sorted(row["probabilities"].items(), key=lambda item: -item[1])
        cells = [f"{name} {chance:.3f}" for name, chance in chances]
    for k, cell in enumerate(cells):
        more = "" if k == len(cells) - 1 else "  ..."
        if k and len(line) + 2 + len(cell) + len(more) > width:
            return f"{line}  ..."
        line += f"  {cell}"
    return line


def _ends(values: list[float], first: int) -> str:
    """The first numbers of a forecast and the last."""
    cells = [f"+{k} {short_number(value)}" for k, value in enumerate(values, 1)]
    return " ".join(cells if len(cells) <= first + 2 else [*cells[:first], "...", cells[-1]])


def short_number(value: float) -> str:
    """Four significant digits, and the whole part in any case."""
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"


def _put(path: Path, text: str, is_first: bool) -> None:
    """Append to a file, visible to readers at once; the first row replaces earlier content."""
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
    """Print a note on the rows."""
    say(f"note: {text}")
