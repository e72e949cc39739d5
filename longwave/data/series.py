"""Reading a series from a CSV file or a data frame: numbers by row and column, and the times of the rows if given.

What is accepted, what is dropped with a note, and what is refused:

    column without a number    dropped, with a note; refused if it is the target
    cell that is not a number  refused
    missing cell               refused, or interpolated with fill="linear"; missing: empty, NA, N/A, NaN, null, None
    missing rows               the same: rows are missing where the time jumps by a multiple of the step
    times                      must rise by one step, of seconds or of months (always the same day, or always the last)
    repeated times             refused, or the first or last row kept, or their mean taken, with `duplicates`
    no time column named       the one column is used whose cells are times that rise, with a note; time="none": none is

A message names the line of the file (the header is line 1) or the row of the data frame (the first is row 0).
"""

import csv
import gzip
import io
import itertools
import os
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.data import files
from longwave.registry import nearest

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]
Fill = Literal["linear"] | None
Duplicates = Literal["error", "first", "last", "mean"]
NO_TIME = "none"  # as the name of the time column: there is none, and none is looked for

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
DATE_FORMATS = ("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%Y-%m", "%Y")  # tried in this order, after ISO 8601
CLOCK_FORMATS = {0: "", 1: " %H:%M", 2: " %H:%M:%S"}  # by the number of colons
TIME_EXAMPLES = "2016-07-01 13:00:00, 2016-07-01, 7/1/2016 13:00, 1.7.2016 or 2016-07"
LARGER_UNITS = (("second", 60, "minute"), ("minute", 60, "hour"), ("hour", 24, "day"), ("month", 12, "year"))
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Series:
    """Evenly spaced rows of numbers without gaps. `notes` says what was dropped or filled in on reading."""

    values: Floats  # (rows, columns)
    columns: tuple[str, ...]
    target: int  # the column that a univariate forecast is about
    times: Times | None = None  # (rows,) datetime64[s]
    step: np.timedelta64 | None = None  # from row to row: in seconds, or in months
    source: str = "array"
    notes: tuple[str, ...] = ()
    time: str | None = None  # the column that the times come from

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.columns):
            raise ValueError(f"values: expected (rows, {len(self.columns)}) numbers, got shape {self.values.shape}")
        if not 0 <= self.target < len(self.columns):
            raise ValueError(f"target: expected the number of a column below {len(self.columns)}, got {self.target}")
        if not np.isfinite(self.values).all():
            raise ValueError("values: expected finite numbers; read_csv and from_frame can fill in what is missing")
        if self.times is not None and (len(self.times) != len(self.values) or self.step is None):
            raise ValueError(f"times: expected one for each of {len(self.values)} rows, and a step")

    def __len__(self) -> int:
        return len(self.values)

    def future(self, count: int) -> Times | None:
        """The times of the `count` rows that follow the last; None without times."""
        if self.times is None or self.step is None:
            return None
        return _times_at(self.times, self.step, np.arange(len(self), len(self) + count))


def read_csv(
    path: str | os.PathLike[str],
    target: str | None = None,
    time: str | None = None,
    multivariate: bool = False,
    fill: Fill = None,
    columns: Collection[str] | None = None,
    duplicates: Duplicates = "error",
) -> Series:
    """The series in a CSV file (or its gzip) with a header: the target alone, or every column of numbers.

    The separator is a comma, or a semicolon or tab if the header has no comma. `target` may be left out if one column
    alone holds numbers; if multivariate, it is then the last one. Without `time`, the one column of rising times is
    used if there is one; "none" uses none. With `columns`, all others are ignored.
    """
    with open_csv(path) as (text, source):
        table = _read_table(text, source, target, time, multivariate, columns)
    return _series(table, target, multivariate, fill, duplicates)


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


def from_frame(
    frame: Any,
    target: str | None = None,
    time: str | None = None,
    multivariate: bool = False,
    fill: Fill = None,
    columns: Collection[str] | None = None,
    duplicates: Duplicates = "error",
) -> Series:
    """The series in a data frame of pandas or polars, by the rules of `read_csv`.

    Without `time`, an index of dates gives the times, if the frame has one, else the one column of rising times.
    """
    names = [str(name) for name in frame.columns]
    source = "data frame"
    if len(frame) == 0:
        raise ValueError(f"{source}: expected rows of numbers, got none")
    time_column = _time_column(names, time)
    wanted = _wanted(names, target, time_column, multivariate, source, columns)
    values = np.full((len(frame), len(wanted)), np.nan)
    bad: dict[int, tuple[int, str]] = {}
    for place, column in enumerate(wanted):
        cells = np.asarray(frame[frame.columns[column]].to_numpy())
        if cells.dtype.kind in "iuf":
            values[:, place] = cells
        elif cells.dtype.kind in "mM":
            bad[place] = 0, str(cells[0])  # dates and durations are not numbers
        else:
            for row, cell in enumerate(cells.tolist()):
                _put_cell(values[row], place, cell, row, bad)
    table = _Table(source, [names[column] for column in wanted], values, bad, None, lambda row: f"row {row}")
    index = np.asarray(frame.index.to_numpy()) if hasattr(getattr(frame, "index", None), "to_numpy") else None
    if time_column is not None:
        cells = np.asarray(frame[frame.columns[names.index(time_column)]].to_numpy())
        table = replace(table, times=_time_cells(cells), time=time_column)
    elif time is None and index is not None and (index.dtype.kind == "M" or isinstance(index[0], datetime)):
        table = replace(table, times=_time_cells(index))
    elif time is None:
        others = {name: np.asarray(frame[column].to_numpy()) for name, column in zip(names, frame.columns, strict=True)}
        table = _with_found_times(
            table,
            {
                name: _time_cells(cells)
                for name, cells in others.items()
                if name != target and cells.dtype.kind in "OMUT"
            },
        )
    return _series(table, target, multivariate, fill, duplicates)


def read(
    source: Any,
    target: str | None = None,
    time: str | None = None,
    multivariate: bool = False,
    fill: Fill = None,
    columns: Collection[str] | None = None,
    duplicates: Duplicates = "error",
) -> Series:
    """The series in a CSV file, given by its path, or in a data frame, whose index may have the times instead."""
    if isinstance(source, (str, os.PathLike)):
        return read_csv(source, target, time, multivariate, fill, columns, duplicates)
    if hasattr(source, "index") and time not in [str(name) for name in source.columns]:
        time = None
    return from_frame(source, target, time, multivariate, fill, columns, duplicates)


def write_csv(path: str | os.PathLike[str], series: Series, time: str = "time") -> None:
    """Write a series as `read_csv` reads it, to the bit; `time` names the column of the times. Atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    stamps = [[]] * len(series) if series.times is None else [[_show(stamp)] for stamp in series.times]
    writer.writerow([*([] if series.times is None else [time]), *series.columns])
    writer.writerows([*stamp, *map(repr, row)] for stamp, row in zip(stamps, series.values.tolist(), strict=True))
    files.write_text(Path(path), text.getvalue())


def step_name(step: np.timedelta64 | None) -> str | None:
    """A step in words: "1 hour", "15 minutes", "3 months"."""
    if step is None:
        return None
    count = int(step.astype(np.int64))
    unit = "month" if in_months(step) else "second"
    for smaller, factor, larger in LARGER_UNITS:
        if unit == smaller and count % factor == 0:
            count, unit = count // factor, larger
    return f"{count} {unit}" + ("s" if count != 1 else "")


def in_months(step: np.timedelta64) -> bool:
    """Whether a step counts months, not seconds."""
    return np.datetime_data(step.dtype)[0] == "M"


def season(step: np.timedelta64 | None) -> int:
    """Rows in a season: a day if rows are less than a day apart, a week of days, a year of weeks or months; else 1."""
    if step is None:
        return 1
    count = int(step.astype(np.int64))
    if in_months(step):
        return 12 // count if 12 % count == 0 else 1
    if count == DAY:
        return 7
    if count == 7 * DAY:
        return 52
    return DAY // count if DAY % count == 0 else 1


# Reading cells


@dataclass(frozen=True)
class _Table:
    source: str
    names: list[str]
    values: Floats  # NaN where a cell is missing or is not a number
    bad: dict[int, tuple[int, str]]  # by column: the first cell that is neither a number nor missing, with its row
    times: Any  # None, strings, or datetime64
    label: Callable[[int], str]  # what messages call a row
    time: str | None = None  # the column of the times
    found: bool = False  # whether it was found, not named: then what is wrong with it is a note
    notes: tuple[str, ...] = ()

    def where(self, row: int) -> str:
        return f"{self.source}, {self.label(row)}"


def _read_table(
    text: Iterable[str],
    source: str,
    target: str | None,
    time: str | None,
    multivariate: bool,
    columns: Collection[str] | None,
) -> _Table:
    header, names, rows = read_header(text, source)
    if target not in names and all(name.lower() in MISSING or _is_value(name) for name in names):
        raise ValueError(
            f"{source}: expected a header with the names of the columns, got {header[:60]!r}; "
            "put a first line such as date,price"
        )
    named = _time_column(names, time)
    wanted = _wanted(names, target, named, multivariate, source, columns)
    time_columns: list[int] | None = None if named is None else [names.index(named)]  # or those that may be it
    numbers, line_numbers = array("d"), array("q")
    times: list[list[str]] = []
    bad: dict[int, tuple[int, str]] = {}
    for row, (line, cells) in enumerate(rows):
        if len(cells) != len(names):
            raise ValueError(f"{source}, line {line}: expected {len(names)} cells as in the header, got {len(cells)}")
        try:
            numbers.extend([number(cells[column]) for column in wanted])
        except ValueError:
            slow = np.full(len(wanted), np.nan)
            for place, column in enumerate(wanted):
                _put_cell(slow, place, cells[column], row, bad)
            numbers.extend(slow)
        line_numbers.append(line)
        if time_columns is None:
            may_be = [k for k, name in enumerate(names) if time is None and name != target and names.count(name) == 1]
            time_columns = [k for k in may_be if _is_time(cells[k].strip())]
        times.append([cells[column].strip() for column in time_columns])
    if not line_numbers:
        raise ValueError(f"{source}: expected rows of numbers below the header, got none")
    values = np.array(numbers, dtype=np.float64).reshape(len(line_numbers), len(wanted))
    used = [names[column] for column in wanted]
    table = _Table(source, used, values, bad, None, lambda row: f"line {line_numbers[row]}")
    by_column = {names[k]: [row[place] for row in times] for place, k in enumerate(time_columns or ())}
    if named is not None:
        return replace(table, times=by_column[named], time=named)
    return _with_found_times(table, by_column)


def _time_column(names: list[str], time: str | None) -> str | None:
    """The time column, if it is named and not switched off; a column may be called none."""
    return None if time == NO_TIME and NO_TIME not in names else time


def _time_cells(cells: NDArray[Any]) -> Any:
    """Cells of a data frame as datetime64 or as text."""
    if cells.dtype.kind == "M":
        return cells
    return [cell.isoformat() if isinstance(cell, datetime) else str(cell) for cell in cells.tolist()]


def _with_found_times(table: _Table, columns: dict[str, Any]) -> _Table:
    """The table with the times of the one column of rising times, if there is one; two of them are refused."""
    rising, notes = [], []
    for name, cells in columns.items():
        readings = _readings(cells)
        if any(_rises(times) for times in readings):
            rising.append(name)
        elif readings and len(cells) > 1:
            notes.append(f"column {name!r} holds times that do not rise, and is not used as the time column")
    if len(rising) > 1:
        raise ValueError(
            f"{table.source}: time: the columns {' and '.join(map(repr, rising[:2]))} both hold rising times; name one "
            f"of them as the time column, or {NO_TIME!r} for no times"
        )
    if not rising:
        return replace(table, notes=(*table.notes, *notes))
    keep = [place for place, name in enumerate(table.names) if name != rising[0]]
    bad = {new: table.bad[old] for new, old in enumerate(keep) if old in table.bad}
    return replace(
        table,
        names=[table.names[place] for place in keep],
        values=table.values[:, keep],
        bad=bad,
        times=columns[rising[0]],
        time=rising[0],
        found=True,
        notes=(*table.notes, *notes),
    )


def _wanted(
    names: list[str],
    target: str | None,
    time: str | None,
    multivariate: bool,
    source: str,
    columns: Collection[str] | None = None,
) -> list[int]:
    """The columns to read; those without a name (an index written by a data frame) are never taken."""
    for role, name in (("target", target), ("time", time)):
        if name is None:
            continue
        if name not in names:
            raise ValueError(f"{source}: {role}: there is no column {name!r}; {nearest(name, filter(None, names))}")
        if names.count(name) > 1:
            raise ValueError(f"{source}: {role}: {names.count(name)} columns are named {name!r}; rename them")
    if target is not None and target == time:
        raise ValueError(f"{source}: target and time are both {target!r}; expected two columns")
    if target is not None and not multivariate:
        return [names.index(target)]
    wanted = [k for k, name in enumerate(names) if name and name != time and (columns is None or name in columns)]
    if twice := {names[column] for column in wanted if names.count(names[column]) > 1}:
        raise ValueError(f"{source}: several columns are named {min(twice)!r}; rename them")
    if not wanted:
        raise ValueError(f"{source}: expected a column of numbers with a name, got the columns {names}")
    return wanted


def number(cell: Any) -> float:
    """The number in a cell; Python's 1_5 and digits of other scripts are not accepted."""
    if isinstance(cell, str) and ("_" in cell or not cell.strip().isascii()):
        raise ValueError(f"expected a number such as 1234.5, got {cell!r}")
    return float(cell)


def _put_cell(values: Any, place: int, cell: Any, row: int, bad: dict[int, tuple[int, str]]) -> None:
    """Write a cell's number to values[place]; a missing one leaves NaN, and so does text, which is remembered."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return
    try:
        values[place] = number(cell)
    except (TypeError, ValueError):
        if str(cell) not in ("<NA>", "NaT"):  # what pandas calls missing
            bad.setdefault(place, (row, str(cell)))


def _is_value(cell: str) -> bool:
    """Whether a cell is a number or a time, so that it cannot be the name of a column."""
    try:
        float(cell)
    except ValueError:
        return any(_parse([cell], form) is not None for form in (None, *_formats(cell)))
    return True


# From cells to a series


def _series(
    table: _Table, target: str | None, multivariate: bool, fill: Fill, duplicates: Duplicates = "error"
) -> Series:
    if fill not in (None, "linear"):
        raise ValueError(f"fill: expected None or 'linear', got {fill!r}")
    if duplicates not in ("error", "first", "last", "mean"):
        raise ValueError(f"duplicates: expected 'error', 'first', 'last' or 'mean', got {duplicates!r}")
    notes: list[str] = list(table.notes)
    table = _without_text(table, target, notes)
    if target is None:
        if len(table.names) > 1 and not multivariate:
            raise ValueError(f"{table.source}: target: not given; expected one of {', '.join(table.names)}")
        target = table.names[-1]
    grid: _Grid | None = None
    if table.times is not None:
        try:
            table, grid = _on_grid(table, fill, duplicates, notes)
        except ValueError as error:
            if not table.found:
                raise
            notes.append(f"the times in column {table.time!r} are not used, and rows count as evenly spaced: {error}")
        else:
            if table.found:
                notes.append(f"column {table.time!r} was found to hold the times, {step_name(grid.step)} apart")
    values, missing_rows = table.values, 0
    if grid is not None and len(grid.times) > len(values):
        missing_rows = len(grid.times) - len(values)
        notes.append(f"{missing_rows} missing rows were interpolated")
        values = np.full((len(grid.times), values.shape[1]), np.nan)
        values[grid.positions] = table.values
    cells = int(np.isnan(table.values).sum())
    if cells and fill is None:
        row, column = (int(i[0]) for i in np.nonzero(np.isnan(table.values)))
        raise ValueError(
            f"{table.where(row)}, column {table.names[column]!r}: the cell is missing"
            f"{f', and {cells - 1} more are' if cells > 1 else ''}; put a number, or interpolate with fill='linear'"
        )
    if cells:
        notes.append(f"{cells} missing cells were interpolated")
    if cells or missing_rows:
        values = _interpolate(values)
    columns = tuple(table.names)
    if grid is None:
        return Series(values, columns, columns.index(target), source=table.source, notes=tuple(notes))
    place = columns.index(target)
    return Series(values, columns, place, grid.times, grid.step, table.source, tuple(notes), table.time)


class _Grid(NamedTuple):
    """Evenly spaced times, and where the rows of a table stand among them."""

    times: Times
    step: np.timedelta64
    positions: NDArray[np.int64]


def _on_grid(table: _Table, fill: Fill, duplicates: Duplicates, notes: list[str]) -> tuple[_Table, _Grid]:
    """The table with one row for each time, and its times, missing ones put in if they are to be filled."""
    times = _read_times(table.times, table.where)
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 rows, to know the step between them, got 1")
    _check_rising(times, table.where, repeats=duplicates != "error")
    table, times = _without_repeats(table, times, duplicates, notes)
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 different times, got 1")
    step, positions = _spacing(times)
    if _check_spacing(times, step, positions, table.where, fill):
        times = _times_at(times, step, np.arange(positions[-1] + 1))
    return table, _Grid(times, step, positions)


def _without_repeats(table: _Table, times: Times, duplicates: Duplicates, notes: list[str]) -> tuple[_Table, Times]:
    """One row for each time: the first or the last of those that have it, or their mean, without missing cells."""
    begins = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    repeated = len(times) - len(begins)
    if not repeated:
        return table, times
    rows = begins if duplicates == "first" else np.append(begins[1:], len(times)) - 1
    values = table.values[rows]
    if duplicates == "mean":
        known = ~np.isnan(table.values)
        counts = np.add.reduceat(known, begins, axis=0, dtype=np.int64)
        sums = np.add.reduceat(np.where(known, table.values, 0), begins, axis=0)
        values = np.where(counts > 0, sums / counts.clip(1), np.nan)
    kept = "their mean was taken" if duplicates == "mean" else f"the {duplicates} of each was kept"
    notes.append(f"{repeated} rows have the time of the row before: {kept}")
    label = table.label
    return replace(table, values=values, times=times[rows], label=lambda row: label(int(rows[row]))), times[rows]


def _without_text(table: _Table, target: str | None, notes: list[str]) -> _Table:
    """The table without columns that hold no number; refuse text and infinities in all others."""
    keep = []
    for column, name in enumerate(table.names):
        numbers = table.values[:, column]
        row, cell = table.bad.get(column, (-1, ""))
        if np.isnan(numbers).all():
            held = f"text such as {cell[:40]!r}" if cell else "nothing"
            hint = "; if these are the times of the rows, name it as the time column" if _is_value(cell) else ""
            if name == target:
                raise ValueError(f"{table.source}: target: expected numbers in column {name!r}, got {held}")
            notes.append(f"column {name!r} was dropped: it holds {held}, and no number{hint}")
            continue
        if row < 0 and np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers)))
            cell = str(numbers[row])
        if row >= 0:
            raise ValueError(
                f"{table.where(row)}, column {name!r}: expected a number, got {cell[:40]!r}; "
                "write numbers as 1234.5, and leave a cell empty if there is none"
            )
        keep.append(column)
    if not keep:
        raise ValueError(f"{table.source}: expected a column of numbers, got none in {', '.join(table.names)}")
    names = [table.names[column] for column in keep]
    return replace(table, names=names, values=table.values[:, keep], bad={})


def _interpolate(values: Floats) -> Floats:
    """Missing numbers on a line between their neighbours; at the ends, the nearest number."""
    filled, rows = values.copy(), np.arange(len(values))
    for column in filled.T:
        known = ~np.isnan(column)
        column[~known] = np.interp(rows[~known], rows[known], column[known])
    return filled


# Times


def _read_times(cells: Any, where: Callable[[int], str]) -> Times:
    if isinstance(cells, np.ndarray):
        if np.isnat(cells).any():
            raise ValueError(f"{where(int(np.argmax(np.isnat(cells))))}: the time is missing")
        return cells.astype("datetime64[s]")
    forms = _forms(cells[0])
    readings = _readings(cells)
    if not readings:
        fits = [any(_parse([cell], form) is not None for form in forms) for cell in cells]
        row = fits.index(False) if False in fits else 0
        raise ValueError(f"{where(row)}: expected a time such as {TIME_EXAMPLES}, got {cells[row][:40]!r}")
    # 1/2/2020 may be a day in January or in February: the reading that is evenly spaced is the right one.
    return next((times for times in readings if _is_even(times)), readings[0])


def _forms(cell: str) -> list[str | None]:
    """The formats that a cell can be read by; None stands for ISO 8601."""
    return [form for form in (None, *_formats(cell)) if _parse([cell], form) is not None]


def _readings(cells: Any) -> list[Times]:
    """The ways to read all cells as times; none if one of them is no time."""
    if isinstance(cells, np.ndarray):
        return [] if np.isnat(cells).any() else [cells.astype("datetime64[s]")]
    return [times for form in _forms(cells[0]) if (times := _parse(cells, form)) is not None]


def _rises(times: Times) -> bool:
    """Whether times go on, though some may be repeated."""
    return len(times) > 1 and bool((times[1:] >= times[:-1]).all()) and bool(times[-1] > times[0])


def _is_time(cell: str) -> bool:
    """Whether a cell is a time and no number, as years and 20240131 are."""
    try:
        float(cell)
    except ValueError:
        return bool(_forms(cell))
    return False


def _formats(cell: str) -> list[str]:
    return [date + CLOCK_FORMATS.get(cell.count(":"), "") for date in DATE_FORMATS]


def _parse(cells: Sequence[str], form: str | None) -> Times | None:
    """The times that all the cells hold, read by one format (None: ISO 8601); None if one of them does not fit."""
    try:
        if form is None:
            read = [datetime.fromisoformat(cell) for cell in cells]
            read = [time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time for time in read]
        else:
            read = [datetime.strptime(cell, form) for cell in cells]
    except (ValueError, OverflowError):  # a time before the first day, seen from UTC
        return None
    return np.array(read, dtype="datetime64[s]")


def _spacing(times: Times) -> tuple[np.timedelta64, NDArray[np.int64]]:
    """Of rising times, at least two: the most frequent step, and the steps from the first to each, rounded down."""
    numbers = times.astype(np.int64)
    monthly = np.diff(numbers).min() >= 28 * DAY and _same_place_in_month(times)
    if monthly:
        numbers = times.astype("datetime64[M]").astype(np.int64)
    lengths, counts = np.unique(np.diff(numbers), return_counts=True)
    step = int(lengths[np.argmax(counts)])
    return np.timedelta64(step, "M" if monthly else "s"), (numbers - numbers[0]) // step


def _same_place_in_month(times: Times) -> bool:
    months = times.astype("datetime64[M]")
    return any(len(np.unique(place)) == 1 for place in (times - months, months + 1 - times))


def _times_at(times: Times, step: np.timedelta64, positions: NDArray[np.int64]) -> Times:
    """The times that lie `positions` steps after times[0]."""
    if not in_months(step):
        return times[0] + positions * step
    months = times.astype("datetime64[M]")
    wanted = months[0] + positions * step
    from_start, to_end = times - months, (months + 1).astype(times.dtype) - times
    last_days = bool((to_end <= np.timedelta64(DAY, "s")).all())
    if last_days or len(np.unique(from_start)) > 1:
        return wanted + 1 - to_end[0]
    # A month that has no such day gives its last one.
    day = np.timedelta64(DAY, "s")
    whole_days = np.minimum(from_start[0] // day, ((wanted + 1).astype(times.dtype) - wanted) // day - 1)
    return wanted + whole_days * day + from_start[0] % day


def _is_even(times: Times) -> bool:
    rising = len(times) > 1 and bool((np.diff(times.astype(np.int64)) > 0).all())
    return rising and _off_step(times, *_spacing(times)) is None


def _off_step(times: Times, step: np.timedelta64, positions: NDArray[np.int64]) -> int | None:
    """The first row that is not one step after the row before."""
    off = (np.diff(positions) != 1) | (_times_at(times, step, positions) != times)[1:]
    return int(np.argmax(off)) + 1 if off.any() else None


def _check_rising(times: Times, where: Callable[[int], str], repeats: bool) -> None:
    falls = np.diff(times.astype(np.int64)) < (0 if repeats else 1)
    if not falls.any():
        return
    row = int(np.argmax(falls)) + 1
    if times[row] == times[row - 1]:
        raise ValueError(
            f"{where(row)}: the time {_show(times[row])} is that of the row before too; expected one row for "
            "each time (times are read to the second, and clocks that are set back repeat an hour: use UTC), or "
            "duplicates='first', 'last' or 'mean'"
        )
    raise ValueError(
        f"{where(row)}: the time {_show(times[row])} comes after {_show(times[row - 1])}; "
        "sort the rows by time, the oldest first"
    )


def _check_spacing(
    times: Times,
    step: np.timedelta64,
    positions: NDArray[np.int64],
    where: Callable[[int], str],
    fill: Fill,
) -> int:
    """How many rows are missing; refuse times off the step, and gaps unless they are to be filled."""
    row = _off_step(times, step, positions)
    if row is None:
        return 0
    missing = int(positions[-1]) + 1 - len(times)
    on_grid = bool((_times_at(times, step, positions) == times).all())
    can_fill = on_grid and missing <= len(times)  # more than that is more likely a wrong time than a gap
    if can_fill and fill == "linear":
        return missing
    cure = (
        f"{missing} rows are missing: add them, or interpolate with fill='linear'" if can_fill else "correct the times"
    )
    expected = _times_at(times, step, positions[row - 1 : row] + 1)[0]
    raise ValueError(
        f"{where(row)}: expected {_show(expected)}, {step_name(step)} after the row before, got {_show(times[row])}; "
        f"{cure}, or have no time column (time='none'): rows are then taken to be evenly spaced"
    )


def _show(time: np.datetime64) -> str:
    return str(time).replace("T", " ")
