"""Reading a series from a CSV file or a data frame: numbers by row and column, and the times of the rows if given.

What is accepted, what is dropped with a note, and what is refused:

    column without a number    dropped, with a note; refused if it is the target
    cell that is not a number  refused
    missing cell               refused, or interpolated with fill="linear", or a gap with fill="mask", which `known` has
                               and the last known number stands in; missing: empty, NA, N/A, NaN, null, None
    missing rows               the same: rows are missing where the time jumps by a multiple of the step
    times                      must rise by one step, of seconds, microseconds or months (the same day, or the last)
    repeated times             refused, or the first or last row kept, or their mean taken, with `duplicates`
    irregular                  times must rise, no more; nothing is missing between them
    no time column named       the one column is used whose cells are times that rise, with a note; time="none": none is

A message names the line of the file (the header is line 1) or the row of the data frame (the first is row 0).
"""

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import parse_table
from longwave.io.read import read_table
from longwave.io.table import Table, is_missing, may_be_times, number, times_in
from longwave.io.times import (
    LOOKED_AT,
    Times,
    can_be_time,
    check_rising,
    check_spacing,
    misfits,
    read_times,
    readings,
    rises,
    show,
    spacing,
    step_name,
    times_at,
    usual_gap,
)

Floats = NDArray[np.float64]
Known = NDArray[np.bool_]
Cells = NDArray[Any]  # (rows,) of a column beside the target: numbers, or text that tells categories apart
Fill = Literal["linear", "mask"] | None
MANY = 0.1  # a larger share of a column that is missing is said
MOST_MISFITS = 0.1  # share of the cells of a column of times that may not be times, before it counts as something else
NO_TIME = "none"  # as the name of the time column: there is none, and none is looked for
Duplicates = Literal["error", "first", "last", "mean"]


class Ahead(NamedTuple):
    """Covariates that are known for the rows to forecast."""

    times: Times | None
    cells: Mapping[str, Cells]  # of columns beside the target


@dataclass(frozen=True, eq=False)
class Series:
    """Evenly spaced rows of numbers, or rows at irregular times. `notes` says what was dropped or filled in."""

    values: Floats  # (rows, columns); where a number is not known, what a model sees in its place
    columns: tuple[str, ...]
    target: int  # the column that a univariate forecast is about
    times: Times | None = None  # (rows,) datetime64[s], or [us] if one has a fraction of a second
    step: np.timedelta64 | None = None  # from row to row: in the unit of the times, or in months; None: irregular
    source: str = "array"
    notes: tuple[str, ...] = ()
    time: str | None = None  # the column that the times come from
    known: Known | None = None  # (rows, columns): where numbers are known; None: everywhere
    beside: Mapping[str, Cells] = field(default_factory=dict)  # columns that are not forecast, by name

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.columns):
            raise ValueError(f"values: expected (rows, {len(self.columns)}) numbers, got shape {self.values.shape}")
        if not 0 <= self.target < len(self.columns):
            raise ValueError(f"target: expected the number of a column below {len(self.columns)}, got {self.target}")
        if not np.isfinite(self.values).all():
            raise ValueError("values: expected finite numbers; read_series can fill in what is missing")
        if self.times is not None and len(self.times) != len(self.values):
            raise ValueError(f"times: expected one for each of {len(self.values)} rows, got {len(self.times)}")
        if self.known is not None and (self.known.shape != self.values.shape or self.known.dtype != np.bool_):
            expected = f"True or False for each of {self.values.shape} values"
            raise ValueError(f"known: expected {expected}, got {self.known.dtype} of shape {self.known.shape}")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_irregular(self) -> bool:
        """Whether rows are at irregular times."""
        return self.times is not None and self.step is None

    @property
    def given(self) -> Floats:
        """The values, NaN where they are not known: (rows, columns)."""
        return self.values if self.known is None else np.where(self.known, self.values, np.nan)

    @property
    def labels(self) -> dict[str, Iterable[str]]:
        """Columns that identify rows beside their times, where there are many series."""
        return {}

    def future(self, count: int) -> Times | None:
        """The times of the `count` rows that follow the last; None without times, or if they are irregular."""
        if self.times is None or self.step is None:
            return None
        return times_at(self.times, self.step, np.arange(len(self), len(self) + count))

    def ahead(self, rows: slice, names: Iterable[str]) -> Ahead:
        """The future covariates of some rows, by their column names."""
        times = None if self.times is None else self.times[rows]
        return Ahead(times, {name: self.beside[name][rows] for name in names})


@dataclass(frozen=True)
class Reading:
    """Reading options: the arguments of `read_series`."""

    target: str | None = None
    time: str | None = None
    multivariate: bool = False
    fill: Fill = None
    columns: Collection[str] | None = None
    duplicates: Duplicates = "error"
    id: str | None = None
    beside: Mapping[str, str] = field(default_factory=dict)  # columns that are not forecast, and when they are known
    categories: Collection[str] = ()  # those of them that are known to hold text
    irregular: bool = False  # rows at irregular times

    @property
    def texts(self) -> Collection[str]:
        """The columns whose cells are kept as text."""
        return [*(name for name in (self.time, self.id) if name is not None), *self.categories]

    @property
    def only(self) -> Collection[str] | None:
        """The columns that are looked at; None: all of them, to find the times or what holds numbers."""
        columns = self.columns if self.multivariate or self.target is None else (self.target,)
        return None if self.time is None or columns is None else (*columns, *self.texts, *self.beside)


def read_series(
    source: Any,
    target: str | None = None,
    time: str | None = None,
    multivariate: bool = False,
    fill: Fill = None,
    columns: Collection[str] | None = None,
    duplicates: Duplicates = "error",
    id: str | None = None,
    beside: Mapping[str, str] | None = None,
    categories: Collection[str] = (),
    irregular: bool = False,
) -> Series:
    """The series in a CSV file, given by its path, in a data frame or Series, in an Arrow table, or in an array.

    It is the target alone, or every column of numbers. `target` may be left out if one column alone holds numbers; if
    multivariate, it is then the last one. Without `time`, an index of dates gives the times, or the one column of
    rising times, if there is one; "none" uses none. With `columns`, all others are ignored. A file, or its gzip, has a
    header. An array is one series (rows,), or has a column for each (rows, columns), named "0", "1" and so on. With
    `id`, the column that tells many series apart, they are a `Panel`. `beside` names columns that are not forecast,
    with when they are known (past, future, static); of `categories` the cells are text, else as they look. With
    `irregular`, rows are taken at the times they have.
    """
    how = Reading(target, time, multivariate, fill, columns, duplicates, id, beside or {}, categories, irregular)
    return _read(read_table(source, how.texts, how.only), how)


def parse(text: Iterable[str], source: str, how: Reading, skipped: int = 0) -> Series:
    """The series in lines of CSV, the header first; `skipped` lines below it were left out."""
    return _read(parse_table(text, source, how.texts, how.only, skipped=skipped), how)


def check_columns(text: Iterable[str], source: str, how: Reading, skipped: int = 0) -> None:
    """Refuse lines of CSV without the columns that are read, or with too many cells or too few."""
    _roles(parse_table(text, source, how.texts, how.only, skipped=skipped), how)


def to_csv(series: Series, time: str = "time") -> bytes:
    """The content of a CSV file that `read_series` reads, to the bit; `time` names the column of the times.

    What is not known is an empty cell.
    """
    heads: dict[str, Iterable[str]] = series.labels | {
        name: map(str, cells.tolist()) for name, cells in series.beside.items()
    }
    if series.times is not None:
        heads = heads | {time: map(show, series.times)}
    rows = [[*heads, *series.columns]]
    for *head, row in zip(*heads.values(), series.given.tolist(), strict=True):
        rows.append([*head, *("" if math.isnan(number) else repr(number) for number in row)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


# From a table to a series


def _read(table: Table, how: Reading) -> Series:
    """The series in a table, or the panel, if a column tells its series apart."""
    _settle_beside(table, how)
    if how.id is None:
        return series_of(table, how)
    from longwave.tasks.forecast.panel import panel_of

    return panel_of(table, how)


def series_of(table: Table, how: Reading) -> Series:
    """The one series in a table."""
    if how.fill not in (None, "linear", "mask"):
        raise ValueError(f"fill: expected None, 'linear' or 'mask', got {how.fill!r}")
    if how.duplicates not in ("error", "first", "last", "mean"):
        raise ValueError(f"duplicates: expected 'error', 'first', 'last' or 'mean', got {how.duplicates!r}")
    if how.irregular and how.fill == "linear":
        raise ValueError(
            "fill: linear interpolation is for rows on a grid, and with irregular they are taken as they come; leave "
            "rows without a number out, or keep missing cells as gaps with fill='mask'"
        )
    columns, clock, notes = _roles(table, how)
    if how.irregular and clock is None:
        raise ValueError(f"{table.source}: irregular: expected a column of times; name it as the time column")
    values, columns = _numbers(table, columns, how.target, notes)
    target = columns[-1] if how.target is None else how.target
    if how.target is None and len(columns) > 1 and not how.multivariate:
        raise ValueError(f"{table.source}: target: not given; expected one of {', '.join(columns)}")
    every = np.arange(len(table))
    grid = _Grid(every, every, values)
    if clock is not None:
        try:
            grid = _on_grid(table, values, clock.cells, how, notes)
        except ValueError as error:
            if not clock.found or how.irregular:
                raise
            notes.append(
                f"the times in {_called(clock.column)} are ignored, and rows are taken as evenly spaced: {error}"
            )
        else:
            if clock.found:
                notes.append(f"{_called(clock.column)} is used as the time column, {_apart(grid)}")
    missing = np.argwhere(np.isnan(grid.values))
    if len(missing) and how.fill is None:
        row, column = missing[0]
        cure = "leave the row out" if how.irregular else "interpolate with fill='linear'"
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{table.where(grid.rows[row], columns[column])}: missing value{more}; put a number, "
            f"{cure}, or keep the gaps with fill='mask'"
        )
    values = np.full((grid.positions[-1] + 1, len(columns)), np.nan)
    values[grid.positions] = grid.values
    filled = fill_gaps(values, how.fill, len(values) - len(grid.values), columns)
    beside = {name: _beside(table, name, grid, len(values), how) for name in how.beside}
    return Series(
        filled.values,
        tuple(columns),
        columns.index(target),
        grid.times,
        grid.step,
        table.source,
        (*notes, *filled.notes),
        None if clock is None or grid.times is None else clock.column,
        filled.known,
        beside,
    )


def _settle_beside(table: Table, how: Reading) -> None:
    """Have the columns beside the target hold numbers (NaN: missing) or text, whichever they are as a whole."""
    if how.beside and (how.multivariate or how.target is None):
        got = "all columns" if how.multivariate else "none"
        raise ValueError(f"target: expected the name of one column to forecast beside others that are known, got {got}")
    for name, known in how.beside.items():
        place = table.place(name, known)
        if name in (how.target, how.time, how.id):
            raise ValueError(f"{known}: column {name!r} has another role already; expected a column beside the target")
        cells = table.columns[place]
        numbers = np.full(1, np.inf) if name in how.categories else table.numbers([place])[:, 0]
        if np.isinf(numbers).any() or np.isnan(numbers).all():
            texts = [table.text(row, place).strip() for row in range(len(cells))]
            table.columns[place] = ["" if is_missing(text) else text for text in texts]
        else:
            table.columns[place] = numbers


def _beside(table: Table, name: str, grid: "_Grid", rows: int, how: Reading) -> Cells:
    """A column beside the target, at all times: where it is missing, what it was before."""
    cells = table.columns[table.names.index(name)]
    given: Any = cells if isinstance(cells, np.ndarray) else np.array(cells, object)
    given, is_text = given[grid.rows], given.dtype == object
    missing = np.array([not cell for cell in given], np.bool_) if is_text else np.isnan(given)
    if missing.any() and how.fill is None:
        row = int(missing.argmax())
        raise ValueError(
            f"{table.where(grid.rows[row], name)}: missing value; fill it in, or use fill='linear' or "
            "fill='mask' to forecast with gaps"
        )
    known = np.zeros(rows, np.bool_)
    known[grid.positions[~missing]] = True
    if not known.any():
        raise ValueError(f"{table.where(grid.rows[0], name)}: expected a value in one row at least, got none")
    values = np.zeros(rows, given.dtype)
    values[grid.positions[~missing]] = given[~missing]
    return values[np.maximum.accumulate(np.where(known, np.arange(rows), known.argmax()))]


def _called(column: str | None) -> str:
    """A column's name in messages; pandas writes an index without one."""
    return f"column {column!r}" if column else "the column without a name"


def find_clock(table: Table, how: Reading) -> str | None:
    """The column of the times, named or found; None: there is none, or the index has them."""
    clock = _roles(table, how)[1]
    return None if clock is None else clock.column


class _Clock(NamedTuple):
    """The times of the rows, as they stand in a column or in the index of a data frame."""

    column: str | None
    cells: Any
    found: bool = False  # whether the column was found, not named: then what is wrong with it is a note


def _roles(table: Table, how: Reading) -> tuple[list[str], _Clock | None, list[str]]:
    """The columns that may hold the series, the times of the rows, and notes; refuses a table without them.

    A column without a name, as data frames write their index, is never part of the series.
    """
    names, notes = table.names, list[str]()
    if not len(table):
        raise ValueError(f"{table.source}: expected rows of numbers, got none")
    is_file = table.lines is not None
    if is_file and how.target not in names and all(is_missing(name) or _is_value(name) for name in names):
        raise ValueError(
            f"{table.source}: expected a header with the names of the columns, got {','.join(names)[:60]!r}; "
            "put a first line such as date,price"
        )
    clock = None
    is_named = how.time is not None and how.time != NO_TIME
    if how.time in names or (is_named and table.index is None):
        clock = _Clock(how.time, times_in(table.columns[table.place(str(how.time), "time")]))
    elif table.index is not None and how.time != NO_TIME:
        clock = _Clock(None, times_in(table.index))
    elif how.time is None:
        clock = _found_clock(table, how.target, notes)
    if how.target is not None:
        table.place(how.target, "target")
        if clock is not None and how.target == clock.column:
            raise ValueError(f"{table.source}: target and time are both {how.target!r}; expected two columns")
        if not how.multivariate:
            return [how.target], clock, notes
    own = [name for name in names if name and (how.columns is None or name in how.columns)]
    own = [name for name in own if name not in how.beside]
    columns = [name for name in own if clock is None or name != clock.column]
    for name in columns:
        table.place(name, "columns")
    if not columns:
        raise ValueError(f"{table.source}: expected a column of numbers with a name, got the columns {names}")
    return columns, clock, notes


def _found_clock(table: Table, target: str | None, notes: list[str]) -> _Clock | None:
    """The one column of rising times, if there is one; two of them are refused."""
    rising: list[_Clock] = []
    for name, cells in zip(table.names, table.columns, strict=True):
        if name != target and name.strip().lower() == "year" and isinstance(cells, np.ndarray) and _are_years(cells):
            cells = [str(int(cell)) if np.isfinite(cell) else "" for cell in cells]
        elif name == target or table.names.count(name) > 1 or not _look_like_times(cells):
            continue
        times = times_in(cells)
        ways = readings(times)
        if not ways and len(wrong := misfits(times)) <= MOST_MISFITS * len(times):  # reading them will name the first
            ways = readings(np.delete(times, wrong) if isinstance(times, np.ndarray) else _without(times, wrong))
        if any(rises(way) for way in ways):
            rising.append(_Clock(name, times, found=True))
        elif ways and len(times) > 1:
            notes.append(f"{_called(name)} has times that are not increasing, so it is not used as the time column")
    if len(rising) > 1:
        raise ValueError(
            f"{table.source}: time: the columns {' and '.join(repr(clock.column) for clock in rising[:2])} both have "
            f"increasing times; name one of them as the time column, or {NO_TIME!r} for no times"
        )
    return rising[0] if rising else None


def _look_like_times(cells: Any) -> bool:
    """Whether cells look like times, judged by the first few."""
    return any(may_be_times(cells[k : k + 1]) for k in range(min(len(cells), LOOKED_AT)))


def _without(cells: list[str], rows: NDArray[np.int64]) -> list[str]:
    """Cells without those of some rows."""
    left_out = set(rows.tolist())
    return [cell for row, cell in enumerate(cells) if row not in left_out]


def _are_years(cells: NDArray[Any]) -> bool:
    """Whether numbers can be years, a few of which may be missing."""
    given = cells[np.isfinite(cells)] if cells.dtype.kind in "iuf" else cells[:0]
    is_enough = 0 < len(given) >= (1 - MOST_MISFITS) * len(cells)
    return is_enough and bool(((given >= 1000) & (given < 3000) & (given == np.floor(given))).all())


def _is_value(cell: str) -> bool:
    """Whether a cell is a number or a time, so that it cannot be the name of a column."""
    return math.isfinite(number(cell)) or can_be_time(cell)


def _numbers(table: Table, columns: list[str], target: str | None, notes: list[str]) -> tuple[Floats, list[str]]:
    """The numbers of columns, NaN where one is missing; columns without any are dropped, text in others is refused."""
    values = table.numbers([table.names.index(name) for name in columns])
    keep = [bool(np.isfinite(numbers).any()) for numbers in values.T]
    for column, name in enumerate(columns):
        row = int(np.isinf(values[:, column]).argmax())
        cell = table.text(row, table.names.index(name)) if np.isinf(values[row, column]) else ""
        if keep[column] and cell:
            raise ValueError(
                f"{table.where(row, name)}: expected a number, got {cell[:40]!r}; "
                "write numbers as 1234.5, and leave a cell empty if there is none"
            )
        if keep[column]:
            continue
        held = f"text such as {cell[:40]!r}" if cell else "nothing"
        if name == target:
            raise ValueError(f"{table.source}: target: expected numbers in column {name!r}, got {held}")
        hint = "; if these are the times of the rows, name it as the time column" if can_be_time(cell) else ""
        notes.append(f"column {name!r} was dropped: it holds {held}, and no number{hint}")
    if not any(keep):
        raise ValueError(f"{table.source}: expected a column of numbers, got none in {', '.join(columns)}")
    return values[:, keep], [name for name, is_kept in zip(columns, keep, strict=True) if is_kept]


class _Grid(NamedTuple):
    """Rows of a table, one for each time, and where they stand in the series, which may have more.

    Without a step, times are irregular.
    """

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    values: Floats  # of the rows
    times: Times | None = None  # of all positions
    step: np.timedelta64 | None = None


def _on_grid(table: Table, values: Floats, cells: Any, how: Reading, notes: list[str]) -> _Grid:
    """One row for each time, and the times, missing ones put in if they are to be filled."""
    times = read_times(cells, table.where, not how.irregular)
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 rows, to know the step between them, got 1")
    check_rising(times, table.where, repeats=how.duplicates != "error")
    rows, values = _without_repeats(values, times, how.duplicates, notes)
    times = times[rows]
    if len(times) < 2:
        raise ValueError(f"{table.source}: time: expected at least 2 different times, got 1")
    if how.irregular:
        return _Grid(rows, np.arange(len(rows)), values, times)
    step, positions = spacing(times)
    if check_spacing(times, step, positions, lambda row: table.where(int(rows[row])), how.fill is not None):
        times = times_at(times, step, np.arange(positions[-1] + 1))
    return _Grid(rows, positions, values, times, step)


def _apart(grid: _Grid) -> str:
    """Describe the step between rows in words."""
    if grid.times is None or grid.step is not None:
        return f"{step_name(grid.step)} apart"
    return f"{step_name(usual_gap(grid.times))} apart in the median"


def _without_repeats(
    values: Floats, times: Times, duplicates: Duplicates, notes: list[str]
) -> tuple[NDArray[np.int64], Floats]:
    """One row for each time: the first or the last of those that have it, or their mean, without missing cells."""
    begins = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    repeated = len(times) - len(begins)
    if not repeated:
        return begins, values
    rows = begins if duplicates == "first" else np.append(begins[1:], len(times)) - 1
    kept = "averaged" if duplicates == "mean" else f"kept the {duplicates} of each"
    notes.append(f"{repeated} duplicate time{'s' * (repeated > 1)}: {kept}")
    if duplicates != "mean":
        return rows, values[rows]
    known = ~np.isnan(values)
    counts = np.add.reduceat(known, begins, axis=0, dtype=np.int64)
    sums = np.add.reduceat(np.where(known, values, 0), begins, axis=0)
    return rows, np.where(counts > 0, sums / counts.clip(1), np.nan)


# Gaps


class Filled(NamedTuple):
    """Numbers (rows, columns) without gaps, and how they came to be so."""

    values: Floats
    known: Known | None  # where numbers were given, if gaps are remembered; None: everywhere
    notes: tuple[str, ...]


def fill_gaps(values: Floats, fill: Fill, missing_rows: int, columns: list[str]) -> Filled:
    """Numbers in place of NaN in values (rows, columns), of which `missing_rows` rows were not there at all.

    The line between the neighbours of a gap ("linear") is known only when the gap is over; the last known number
    ("mask") is known in the gap already, and losses and scores leave the gaps out.
    """
    known = ~np.isnan(values)
    missing = int(known.size - known.sum())
    if not missing:
        return Filled(values, None, ())
    if fill == "mask":
        return Filled(carry_forward(values), known, _notes_on_gaps(known, columns))
    counts = {"row": missing_rows, "cell": missing - missing_rows * len(columns)}
    notes = (
        f"{count} missing {what}{' was' if count == 1 else 's were'} interpolated"
        for what, count in counts.items()
        if count
    )
    return Filled(interpolate(values), None, tuple(notes))


def interpolate(values: Floats) -> Floats:
    """Missing numbers on a line between their neighbours; at the ends, the nearest number."""
    filled, rows = values.copy(), np.arange(len(values))
    for column in filled.T:
        known = ~np.isnan(column)
        column[~known] = np.interp(rows[~known], rows[known], column[known])
    return filled


def carry_forward(values: Floats) -> Floats:
    """Missing numbers as the last one before them in their column; before the first, that first one."""
    known = ~np.isnan(values)
    rows = np.where(known, np.arange(len(values))[:, None], known.argmax(axis=0))
    return np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)


def _notes_on_gaps(known: Known, columns: list[str]) -> tuple[str, ...]:
    missing = known.size - int(known.sum())
    are = "is" if missing == 1 else "are"
    total = f"{missing} of {known.size} values {are} missing; models see the last known value instead"
    shares = zip(columns, 1 - known.mean(axis=0), strict=True)
    many = (f"column {name!r}: {share:.0%} of the values are missing" for name, share in shares if share > MANY)
    return total, *many
