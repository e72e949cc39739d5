"""Many series in one long table, with a column of ids: a store, a sensor, a patient.

A panel is read as one long series that knows where each of its series begins. They are in the order of their ids, so
that the order of the rows of a file, series by series, does not matter. Each is read by the rules of one series; the
steps between rows must agree.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import Patient
from longwave.io.table import Cells, Table, times_in
from longwave.io.times import read_times, step_name
from longwave.tasks.forecast.series import Reading, Series, find_clock, series_of

NAMED = 3  # series that a note names, and in which times are looked for

Rows = Any  # the number of a row; of a panel one of each series: NDArray (series,)


def rows_of(firsts: Rows, ends: Rows) -> Any:
    """An index of the rows from `firsts` to `ends` of a series, or of each series of a panel."""
    if np.ndim(firsts) == np.ndim(ends) == 0:
        return slice(firsts, ends)
    lengths = ends - firsts
    return np.repeat(firsts - (lengths.cumsum() - lengths), lengths) + np.arange(lengths.sum())


@dataclass(frozen=True, eq=False)
class Panel(Series):
    """Series with the same columns and the same step, one after the other."""

    id: str = "id"  # the column that tells them apart
    ids: tuple[str, ...] = ()  # in order
    starts: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64))
    """(series + 1,): the first row of each, and the number of all rows."""
    places: tuple[str, ...] = ()  # where the first row of each stands, for messages
    left_out: tuple[str, ...] = ()  # the ids of series that were given, too

    @property
    def labels(self) -> dict[str, Iterable[str]]:
        """The ids of the rows."""
        return {self.id: np.repeat(self.ids, self.lengths).tolist()}

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The rows of each series."""
        return np.diff(self.starts)

    def each(self) -> Iterator[tuple[str, Series]]:
        """The individual series, each with its id."""
        for name, place, start, end in zip(self.ids, self.places, self.starts[:-1], self.starts[1:], strict=True):
            yield (
                name,
                Series(
                    self.values[start:end],
                    self.columns,
                    self.target,
                    None if self.times is None else self.times[start:end],
                    self.step,
                    f"{self.source}, {place}, {self.id} {name!r}",
                    (),
                    self.time,
                    None if self.known is None else self.known[start:end],
                    {column: cells[start:end] for column, cells in self.beside.items()},
                ),
            )

    def only(self, kept: NDArray[np.bool_], *notes: str) -> "Panel":
        """The panel of some of the series, with notes on the others, if there are any."""
        if kept.all():
            return self
        rows = np.repeat(kept, self.lengths)
        chosen = np.flatnonzero(kept)
        return dataclasses.replace(
            self,
            values=self.values[rows],
            times=None if self.times is None else self.times[rows],
            known=None if self.known is None else self.known[rows],
            beside={name: cells[rows] for name, cells in self.beside.items()},
            ids=tuple(self.ids[k] for k in chosen),
            places=tuple(self.places[k] for k in chosen),
            starts=np.concatenate([[0], self.lengths[kept].cumsum()]),
            left_out=(*self.left_out, *(self.ids[k] for k in np.flatnonzero(~kept))),
            notes=(*self.notes, *notes),
        )

    def named(self, which: NDArray[np.bool_]) -> str:
        """Some of the series, with their rows, and where they stand."""
        chosen = np.flatnonzero(which)
        names = [f"{self.ids[k]!r} ({self.lengths[k]} rows, from {self.places[k]})" for k in chosen[:NAMED]]
        more = len(chosen) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")


def panel_of(table: Table, how: Reading) -> Panel:
    """The panel in a table."""
    assert how.id is not None
    if how.multivariate:
        raise ValueError("multivariate: expected one target of many series (id), got all columns; name the target")
    cells = table.texts(how.id, "id")
    if not cells:
        raise ValueError(f"{table.source}: expected rows of numbers, got none")
    labels, inverse = np.unique(np.array([cell.strip() for cell in cells]), return_inverse=True)
    if not labels[0]:
        row = int(np.argmin(inverse))
        raise ValueError(f"{table.where(row, how.id)}: the id is missing; expected that of the series of the row")
    order = np.argsort(inverse, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
    table = _without(table, how.id)
    clocks = (find_clock(_rows(table, rows), how) for rows in sorted(groups, key=len, reverse=True)[:NAMED])
    column = next((name for name in clocks if name is not None), None)
    if column is not None:  # once for all series
        place = table.place(column, "time")
        table.columns[place] = read_times(times_in(table.columns[place]), table.where, not how.irregular)
        how = dataclasses.replace(how, time=column)
    found, names, places = list[Series](), list[str](), list[str]()
    left_out, progress = dict[str, list[str]](), Patient()
    empty = _unknown(table, how)
    progress.start("reading series", len(groups))
    for label, rows in zip(labels.tolist(), groups, strict=True):
        progress.advance(1)
        where = table.where(int(rows[0]))
        if len(rows) == 1 or empty[rows].all():
            reason = "of a single row" if len(rows) == 1 else f"without a number in column {how.target!r}"
            left_out.setdefault(reason, []).append(f"{label!r} ({where})")
            continue
        try:
            series = series_of(_rows(table, rows), how)
        except ValueError as error:
            raise ValueError(f"{how.id} {label!r}: {error}") from error
        if found and series.step != found[0].step:
            raise ValueError(
                f"{where}: {how.id} {label!r}: the rows are {step_name(series.step)} apart, and those of "
                f"{names[0]!r} {step_name(found[0].step)}; sample all series alike"
            )
        found.append(series)
        names.append(label)
        places.append(where.removeprefix(f"{table.source}, "))
    progress.end()
    if not found:
        raise ValueError(
            f"{table.source}: every {how.id} is a series {' or '.join(left_out)}, such as "
            f"{next(iter(left_out.values()))[0]}: expected several rows of each; is {how.id!r} the column that tells "
            "series apart?"
        )
    said = summarised((name, series.notes) for name, series in zip(names, found, strict=True))
    for reason, which in left_out.items():
        more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
        said.append(f"series {reason} are left out: {', '.join(which[:NAMED])}{more}")
    joined = _joined(found, names, places, how, tuple(said), table.source)
    return dataclasses.replace(joined, left_out=tuple(sorted({*labels.tolist()} - {*names})))


def _unknown(table: Table, how: Reading) -> NDArray[np.bool_]:
    """(rows,): where the target is missing, if gaps may be filled."""
    if how.fill is None or how.target is None:
        return np.zeros(len(table), np.bool_)
    return np.asarray(np.isnan(table.numbers([table.place(how.target, "target")])[:, 0]))


def summarised(notes: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """The notes on series, by their ids; of those that differ in numbers alone, the first stands for all."""
    kinds = dict[str, list[str]]()
    for name, texts in notes:
        for text in texts:
            kinds.setdefault(re.sub(r"[\d.]+", "#", text), []).append(f"{name!r}: {text}")
    return [texts[0] + (f"; likewise {len(texts) - 1} more" if texts[1:] else "") for texts in kinds.values()]


def _joined(
    found: list[Series], names: list[str], places: list[str], how: Reading, notes: tuple[str, ...], source: str
) -> Panel:
    first = found[0]
    known = None
    if any(series.known is not None for series in found):
        known = np.concatenate([np.isfinite(series.given) for series in found])
    return Panel(
        values=np.concatenate([series.values for series in found]),
        columns=first.columns,
        target=first.target,
        times=None if first.times is None else np.concatenate([series.times for series in found]),
        step=first.step,
        source=source,
        notes=notes,
        time=first.time,
        known=known,
        beside={name: np.concatenate([series.beside[name] for series in found]) for name in first.beside},
        id=str(how.id),
        ids=tuple(names),
        starts=np.concatenate([[0], np.cumsum([len(series) for series in found])]),
        places=tuple(places),
    )


def _rows(table: Table, rows: NDArray[np.int64]) -> Table:
    """Some rows of a table, which messages call what they are in the whole."""

    def of(cells: Cells) -> Cells:
        return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows] if cells else cells

    return dataclasses.replace(
        table,
        columns=[of(cells) for cells in table.columns],
        lines=None if table.lines is None else [table.lines[row] for row in rows],
        index=None if table.index is None else of(table.index),
        numbers_of=rows.tolist(),
    )


def _without(table: Table, name: str) -> Table:
    """A table without a column."""
    place = table.names.index(name)
    names, columns = ([*one[:place], *one[place + 1 :]] for one in (table.names, table.columns))
    return dataclasses.replace(table, names=names, columns=columns)
