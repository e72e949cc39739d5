"""Reading a series from a CSV file or a data frame: numbers by row and column, and the times of the rows if given.

What is accepted, what is dropped with a note, and what is refused:

    column without a number    dropped, with a note; refused if it is the target
    cell that is not a number  refused
    missing cell               refused, or interpolated with fill="linear", or a gap with fill="mask", which `known` has
                               and the last known number stands in; missing: empty, NA, N/A, NaN, null, None
    missing rows               the same: rows are missing where the time jumps by a multiple of the step
    times                      must rise by one step, of seconds or of months (always the same day, or always the last)
    repeated times             refused, or the first or last row kept, or their mean taken, with `duplicates`
    no time column named       the one column is used whose cells are times that rise, with a note; time="none": none is

A message names the line of the file (the header is line 1) or the row of the data frame (the first is row 0).
"""

import csv
import io
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.io.csv import open_csv
from longwave.io.gaps import Fill, Floats, Known, check_fill, fill_gaps
from longwave.io.table import Table, as_frame, read_table, table_of_frame, without_text
from longwave.io.times import (
    Times,
    check_rising,
    check_spacing,
    read_times,
    show,
    spacing,
    step_name,
    times_at,
)

Duplicates = Literal["error", "first", "last", "mean"]


@dataclass(frozen=True, eq=False)
class Series:
    """Evenly spaced rows of numbers. `notes` says what was dropped or filled in on reading."""

    values: Floats  # (rows, columns); where a number is not known, what a model sees in its place
    columns: tuple[str, ...]
    target: int  # the column that a univariate forecast is about
    times: Times | None = None  # (rows,) datetime64[s]
    step: np.timedelta64 | None = None  # from row to row: in seconds, or in months
    source: str = "array"
    notes: tuple[str, ...] = ()
    time: str | None = None  # the column that the times come from
    known: Known | None = None  # (rows, columns): where numbers are known; None: everywhere

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.columns):
            raise ValueError(f"values: expected (rows, {len(self.columns)}) numbers, got shape {self.values.shape}")
        if not 0 <= self.target < len(self.columns):
            raise ValueError(f"target: expected the number of a column below {len(self.columns)}, got {self.target}")
        if not np.isfinite(self.values).all():
            raise ValueError("values: expected finite numbers; read_csv and from_frame can fill in what is missing")
        if self.times is not None and (len(self.times) != len(self.values) or self.step is None):
            raise ValueError(f"times: expected one for each of {len(self.values)} rows, and a step")
        if self.known is not None and (self.known.shape != self.values.shape or self.known.dtype != np.bool_):
            expected = f"True or False for each of {self.values.shape} values"
            raise ValueError(f"known: expected {expected}, got {self.known.dtype} of shape {self.known.shape}")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def given(self) -> Floats:
        """The values, NaN where they are not known: (rows, columns)."""
        return self.values if self.known is None else np.where(self.known, self.values, np.nan)

    def future(self, count: int) -> Times | None:
        """The times of the `count` rows that follow the last; None without times."""
        if self.times is None or self.step is None:
            return None
        return times_at(self.times, self.step, np.arange(len(self), len(self) + count))


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
        table = read_table(text, source, target, time, multivariate, columns)
    return _series(table, target, multivariate, fill, duplicates)


@dataclass(frozen=True)
class Reading:
    """How a series is read: the arguments of `read_csv`."""

    target: str | None = None
    time: str | None = None
    multivariate: bool = False
    fill: Fill = None
    columns: Collection[str] | None = None
    duplicates: Duplicates = "error"


def parse(text: Iterable[str], source: str, how: Reading, skipped: int = 0) -> Series:
    """The series in lines of CSV, the header first; `skipped` lines below it were left out."""
    table = read_table(text, source, how.target, how.time, how.multivariate, how.columns, skipped)
    return _series(table, how.target, how.multivariate, how.fill, how.duplicates)


def from_frame(
    frame: Any,
    target: str | None = None,
    time: str | None = None,
    multivariate: bool = False,
    fill: Fill = None,
    columns: Collection[str] | None = None,
    duplicates: Duplicates = "error",
) -> Series:
    """The series in a data frame or Series of pandas or polars, or in an array, by the rules of `read_csv`.

    Without `time`, an index of dates gives the times, if the frame has one, else the one column of rising times. An
    array is one series (rows,), or has a column for each (rows, columns), named "0", "1" and so on.
    """
    table = table_of_frame(frame, target, time, multivariate, columns)
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
    """The series in a CSV file, given by its path, or as for `from_frame`; an index may have the times instead."""
    if isinstance(source, (str, os.PathLike)):
        return read_csv(source, target, time, multivariate, fill, columns, duplicates)
    source = as_frame(source)
    if hasattr(source, "index") and time not in [str(name) for name in source.columns]:
        time = None
    return from_frame(source, target, time, multivariate, fill, columns, duplicates)


def write_csv(path: str | os.PathLike[str], series: Series, time: str = "time") -> None:
    """Write a series as `read_csv` reads it, to the bit; `time` names the column of the times. Atomically.

    What is not known is an empty cell.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    stamps = [[]] * len(series) if series.times is None else [[show(stamp)] for stamp in series.times]
    writer.writerow([*([] if series.times is None else [time]), *series.columns])
    for stamp, row in zip(stamps, series.given.tolist(), strict=True):
        writer.writerow([*stamp, *("" if math.isnan(number) else repr(number) for number in row)])
    files.write_text(Path(path), text.getvalue())


# From a table to a series


def _series(
    table: Table, target: str | None, multivariate: bool, fill: Fill, duplicates: Duplicates = "error"
) -> Series:
    check_fill(fill)
    if duplicates not in ("error", "first", "last", "mean"):
        raise ValueError(f"duplicates: expected 'error', 'first', 'last' or 'mean', got {duplicates!r}")
    notes: list[str] = list(table.notes)
    table = without_text(table, target, notes)
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
    cells = int(np.isnan(table.values).sum())
    if cells and fill is None:
        row, column = (int(i[0]) for i in np.nonzero(np.isnan(table.values)))
        raise ValueError(
            f"{table.where(row)}, column {table.names[column]!r}: the cell is missing"
            f"{f', and {cells - 1} more are' if cells > 1 else ''}; put a number, "
            "interpolate with fill='linear', or keep the gaps with fill='mask'"
        )
    values = table.values
    if grid is not None and len(grid.times) > len(values):
        values = np.full((len(grid.times), values.shape[1]), np.nan)
        values[grid.positions] = table.values
    filled = fill_gaps(values, fill, len(values) - len(table.values), table.names)
    return Series(
        filled.values,
        tuple(table.names),
        table.names.index(target),
        None if grid is None else grid.times,
        None if grid is None else grid.step,
        table.source,
        (*notes, *filled.notes),
        None if grid is None else table.time,
        filled.known,
    )


class _Grid(NamedTuple):
    """Evenly spaced times, and where the rows of a table stand among them."""

    times: Times
    step: np.timedelta64
    positions: NDArray[np.int64]


def _on_grid(table: Table, fill: Fill, duplicates: Duplicates, notes: list[str]) -> tuple[Table, _Grid]:
    """The table with one row for each time, and its times, missing ones put in if they are to be filled."""
    times = read_times(table.times, table.where)
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 rows, to know the step between them, got 1")
    check_rising(times, table.where, repeats=duplicates != "error")
    table, times = _without_repeats(table, times, duplicates, notes)
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 different times, got 1")
    step, positions = spacing(times)
    if check_spacing(times, step, positions, table.where, fill is not None):
        times = times_at(times, step, np.arange(positions[-1] + 1))
    return table, _Grid(times, step, positions)


def _without_repeats(table: Table, times: Times, duplicates: Duplicates, notes: list[str]) -> tuple[Table, Times]:
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
