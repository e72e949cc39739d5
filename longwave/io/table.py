"""Tables of numbers and times, from a CSV file or a data frame: which columns are read, and what is in their cells."""

from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core.registry import nearest
from longwave.io.csv import MISSING, number, read_header
from longwave.io.gaps import Floats
from longwave.io.times import can_be_time, is_time, readings, rises

NO_TIME = "none"  # as the name of the time column: there is none, and none is looked for


@dataclass(frozen=True)
class Table:
    """Columns of numbers, as they stand in a file or data frame, and the cells of the time column."""

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
        """What messages call a row: the file and the line."""
        return f"{self.source}, {self.label(row)}"


def read_table(
    text: Iterable[str],
    source: str,
    target: str | None,
    time: str | None,
    multivariate: bool,
    columns: Collection[str] | None,
    skipped: int = 0,
) -> Table:
    """The columns of a CSV file that a series is made of; `skipped` lines below the header were left out."""
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
            raise ValueError(
                f"{source}, line {line + skipped}: expected {len(names)} cells as in the header, got {len(cells)}"
            )
        try:
            numbers.extend([number(cells[column]) for column in wanted])
        except ValueError:
            slow = np.full(len(wanted), np.nan)
            for place, column in enumerate(wanted):
                _put_cell(slow, place, cells[column], row, bad)
            numbers.extend(slow)
        line_numbers.append(line + skipped)
        if time_columns is None:
            may_be = [k for k, name in enumerate(names) if time is None and name != target and names.count(name) == 1]
            time_columns = [k for k in may_be if is_time(cells[k].strip())]
        times.append([cells[column].strip() for column in time_columns])
    if not line_numbers:
        raise ValueError(f"{source}: expected rows of numbers below the header, got none")
    values = np.array(numbers, dtype=np.float64).reshape(len(line_numbers), len(wanted))
    used = [names[column] for column in wanted]
    table = Table(source, used, values, bad, None, lambda row: f"line {line_numbers[row]}")
    by_column = {names[k]: [row[place] for row in times] for place, k in enumerate(time_columns or ())}
    if named is not None:
        return replace(table, times=by_column[named], time=named)
    return _with_found_times(table, by_column)


class ArrayFrame:
    """An array (rows, columns) as the little of a data frame that is asked for; columns are named by their number."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values, self.columns = values, [str(column) for column in range(values.shape[1])]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.values[:, int(name)]


def as_frame(data: Any) -> Any:
    """A data frame as it is, a Series as its one column, and an array of numbers, or what makes one, as its columns."""
    if hasattr(data, "columns"):
        return data
    if hasattr(data, "to_frame"):  # a Series; polars calls one without a name ""
        return data.to_frame("0" if data.name in (None, "") else str(data.name))
    try:
        values = np.asarray(data)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal lengths, or a tensor that is not at hand
        values = np.asarray(None)
    if values.dtype.kind not in "iuf" or values.ndim not in (1, 2):
        got = f"an array {values.dtype} {values.shape}" if values.ndim else type(data).__name__
        raise ValueError(
            "data: expected a data frame or Series, the path of a CSV file, or an array of numbers, (rows,) or "
            f"(rows, columns), got {got}"
        )
    return ArrayFrame(values.reshape(len(values), -1) if values.size else values.reshape(0, 1))


def _cells(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def table_of_frame(
    frame: Any,
    target: str | None,
    time: str | None,
    multivariate: bool,
    columns: Collection[str] | None,
) -> Table:
    """The columns of a data frame, Series or array that a series is made of."""
    frame = as_frame(frame)
    names = [str(name) for name in frame.columns]
    source = "array" if isinstance(frame, ArrayFrame) else "data frame"
    if len(frame) == 0:
        raise ValueError(f"{source}: expected rows of numbers, got none")
    time_column = _time_column(names, time)
    wanted = _wanted(names, target, time_column, multivariate, source, columns)
    values = np.full((len(frame), len(wanted)), np.nan)
    bad: dict[int, tuple[int, str]] = {}
    for place, column in enumerate(wanted):
        cells = _cells(frame[frame.columns[column]])
        if cells.dtype.kind in "iuf":
            values[:, place] = cells
        elif cells.dtype.kind in "mM":
            bad[place] = 0, str(cells[0])  # dates and durations are not numbers
        else:
            for row, cell in enumerate(cells.tolist()):
                _put_cell(values[row], place, cell, row, bad)
    table = Table(source, [names[column] for column in wanted], values, bad, None, lambda row: f"row {row}")
    index = _cells(frame.index) if hasattr(getattr(frame, "index", None), "to_numpy") else None
    if time_column is not None:
        cells = _cells(frame[frame.columns[names.index(time_column)]])
        table = replace(table, times=_time_cells(cells), time=time_column)
    elif time is None and index is not None and (index.dtype.kind == "M" or isinstance(index[0], datetime)):
        table = replace(table, times=_time_cells(index))
    elif time is None:
        others = {name: _cells(frame[column]) for name, column in zip(names, frame.columns, strict=True)}
        table = _with_found_times(
            table,
            {
                name: _time_cells(cells)
                for name, cells in others.items()
                if name != target and cells.dtype.kind in "OMUT"
            },
        )
    return table


def without_text(table: Table, target: str | None, notes: list[str]) -> Table:
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


def _time_column(names: list[str], time: str | None) -> str | None:
    """The time column, if it is named and not switched off; a column may be called none."""
    return None if time == NO_TIME and NO_TIME not in names else time


def _time_cells(cells: NDArray[Any]) -> Any:
    """Cells of a data frame as datetime64 or as text."""
    if cells.dtype.kind == "M":
        return cells
    return [cell.isoformat() if isinstance(cell, datetime) else str(cell) for cell in cells.tolist()]


def _with_found_times(table: Table, columns: dict[str, Any]) -> Table:
    """The table with the times of the one column of rising times, if there is one; two of them are refused."""
    rising, notes = [], []
    for name, cells in columns.items():
        found = readings(cells)
        if any(rises(times) for times in found):
            rising.append(name)
        elif found and len(cells) > 1:
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
        return can_be_time(cell)
    return True
