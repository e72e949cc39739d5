"""Covariates: columns known only in the past, known ahead, or constant in each series.

A model gets them as features of the steps of a window, after those of the time: a number standardised, a category as
one feature for each value it had in training, and one for all others. A linear layer over such features is a table of
vectors, one for each category. In the rows to forecast, what is known in the past alone is 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.settings import typed
from longwave.io.read import read_table
from longwave.io.table import Table, is_missing, number, times_in
from longwave.io.times import Times, read_times, show
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.series import Ahead, Cells, Reading, Series
from longwave.tasks.forecast.windows import ForecastData
from longwave.tasks.statistics import mean_and_deviation

MOST_CATEGORIES = 100  # of a column: more are more likely names than categories
REGRESSED = 32  # rows of a context whose covariates are regressors of linear forecasts
Known = Literal["past", "future", "static"]


@dataclass(frozen=True)
class Covariate:
    """A covariate: when it is known, and how a model sees it."""

    name: str
    known: Known
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()  # in training; none: it holds numbers

    @property
    def size(self) -> int:
        """The number of its features."""
        return len(self.categories) + 1 if self.categories else 1

    def features(self, cells: Cells) -> NDArray[np.float32]:
        """(rows, size)."""
        if not self.categories:
            return ((cells - self.mean) / self.deviation).astype(np.float32)[:, None]
        places = {name: k for k, name in enumerate(self.categories)}
        found = np.zeros((len(cells), self.size), np.float32)
        found[np.arange(len(cells)), [places.get(cell, len(places)) for cell in cells]] = 1
        return found


@dataclass(frozen=True)
class Covariates:
    """All covariates of a series."""

    each: tuple[Covariate, ...]

    @classmethod
    def of(cls, data: ForecastData, past: tuple[str, ...], future: tuple[str, ...], static: tuple[str, ...]) -> Any:
        """The covariates of a series, with statistics of its training rows."""
        series, found = data.series, []
        pairs = [(name, known) for known, names in _roles(past, future, static).items() for name in names]
        for name, known in pairs:
            cells = series.beside[name][data.train_rows]
            if cells.dtype.kind == "f":
                mean, deviation = mean_and_deviation(cells[:, None], series.source)
                found.append(Covariate(name, known, float(mean[0]), float(deviation[0]) or 1.0))
                continue
            categories = tuple(np.unique(cells.astype(str)).tolist())
            if len(categories) > MOST_CATEGORIES:
                raise ValueError(
                    f"{series.source}: {known}: column {name!r} has {len(categories)} different values in training, "
                    f"such as {categories[0]!r}; expected numbers, or at most {MOST_CATEGORIES} categories"
                )
            found.append(Covariate(name, known, categories=categories))
        return cls(tuple(found))

    @classmethod
    def from_plain(cls, values: Any) -> "Covariates":
        """The inverse of `to_plain`."""
        if not isinstance(values, list) or not all(isinstance(one, Mapping) for one in values):
            raise ValueError(f"expected a list of covariates, got {values!r:.80}")
        kinds = {"name": str, "known": Known, "mean": float, "deviation": float, "categories": tuple[str, ...]}
        try:
            return cls(tuple(Covariate(**{k: typed(v, kinds[k], k) for k, v in one.items()}) for one in values))
        except (KeyError, TypeError) as error:
            raise ValueError(f"expected the fields of a covariate ({error})") from error

    def to_plain(self) -> list[dict[str, Any]]:
        """Plain values, ready for JSON."""
        return [asdict(one) for one in self.each]

    def names(self, known: Known) -> tuple[str, ...]:
        """The columns of a role: past, future or static."""
        return tuple(one.name for one in self.each if one.known == known)

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that hold categories."""
        return tuple(one.name for one in self.each if one.categories)

    @property
    def roles(self) -> list[Known]:
        """When each feature is known."""
        return [one.known for one in self.each for _ in range(one.size)]

    def ahead(self, times: int) -> Tensor:
        """1 for each feature that is known of the rows to forecast, after so many of the time, else 0."""
        return torch.tensor([1.0] * times + [float(known != "past") for known in self.roles])

    def features(self, beside: Mapping[str, Cells]) -> NDArray[np.float32]:
        """(rows, features)."""
        return np.concatenate([one.features(beside[one.name]) for one in self.each], axis=1)

    def window(self, series: Series, future: Mapping[str, Cells], context: int, horizon: int) -> NDArray[np.float32]:
        """The features (context + horizon, features) of the window whose horizon follows a series."""
        rows = {name: cells[-context:] for name, cells in series.beside.items()}
        ahead = {name: np.repeat(cells[-1:], horizon) for name, cells in rows.items()} | dict(future)
        later = np.where([known == "past" for known in self.roles], np.float32(0), self.features(ahead))
        return np.concatenate((self.features(rows), later))

    def unseen(self, beside: Mapping[str, Cells]) -> Iterator[str]:
        """A note for each category that was not in training."""
        for one in self.each:
            if one.categories and (new := sorted(set(beside[one.name].tolist()) - set(one.categories))):
                yield f"column {one.name!r}: {', '.join(map(repr, new[:3]))} was not in training, and counts as 'other'"

    def regressors(self, context: int, horizon: int) -> NDArray[np.int64]:
        """The places of the features that linear forecasts regress on, in a window (context + horizon, features).

        The last rows of the context, and of what is known ahead the rows to forecast, too; of what is constant, one.
        """
        used = np.zeros((context + horizon, len(self.roles)), np.bool_)
        for k, known in enumerate(self.roles):
            first = context - 1 if known == "static" else max(0, context - REGRESSED)
            used[first : context + horizon if known == "future" else context, k] = True
        return np.flatnonzero(used)


def _roles(past: tuple[str, ...], future: tuple[str, ...], static: tuple[str, ...]) -> dict[Known, tuple[str, ...]]:
    return {"past": past, "future": future, "static": static}


def check_static(series: Series, names: tuple[str, ...]) -> None:
    """Refuse a column that should be constant in each series and is not."""
    each = series.each() if isinstance(series, Panel) else [("", series)]
    for _, one in each:
        for name in names:
            changes = one.beside[name] != one.beside[name][0]
            if changes.any():
                row = int(changes.argmax())
                raise ValueError(
                    f"{one.source}: static: column {name!r} changes from {one.beside[name][0]!r} to "
                    f"{one.beside[name][row]!r} at row {row} of the series; expected one value, or name it under past "
                    "or future"
                )


# What is known ahead


def read_ahead(source: Any, how: Reading, names: tuple[str, ...], series: Series, horizon: int) -> dict[str, Ahead]:
    """Read the future covariates of the rows to forecast from a file or data frame, by id ("" for a single series).

    Of rows at irregular times, that is also when they are: the next times that are given.
    """
    ids = [how.id] if how.id else []
    times = [series.time] if series.time else []
    table = read_table(source, [*ids, *times, *how.categories], [*ids, *times, *names])
    stamps: Any = None
    if series.times is not None:
        is_index = table.index is not None and series.time not in table.names
        cells: Any = table.index if is_index else table.columns[table.place(str(series.time), "time")]
        stamps = np.array([], series.times.dtype)
        if len(table):
            stamps = read_times(times_in(cells), table.where, not how.irregular)
        if not how.irregular:
            stamps = stamps.astype(series.times.dtype)
    labels = [cell.strip() for cell in table.texts(how.id, "id")] if how.id else [""] * len(table)
    each: dict[str, Series] = dict(series.each()) if isinstance(series, Panel) else {"": series}
    rows: dict[tuple[str, Any], int] = {}
    counts = dict.fromkeys(each, 0)
    left_out = series.left_out if isinstance(series, Panel) else ()
    for row, label in enumerate(labels):
        if label in left_out:
            continue
        if label not in each:
            raise ValueError(
                f"{table.where(row)}: {how.id} {label!r} is not among the series to forecast; give the rows that "
                "follow those series"
            )
        key = label, counts[label] if stamps is None else stamps[row]
        if key in rows:
            raise ValueError(f"{table.where(row)}: {_when(key[1])} is given twice{_of(how, label)}")
        rows[key] = row
        counts[label] += 1
    found = {}
    for label, one in each.items():
        following = _next_times(table, rows, label, one, horizon, how) if how.irregular else one.future(horizon)
        steps: list[Any] = list(range(horizon)) if following is None else list(following)
        absent = [step for step in steps if (label, step) not in rows]
        if absent:
            raise ValueError(
                f"{table.source}: no row for {_when(absent[0])}{_of(how, label)}; expected {', '.join(names)} "
                f"for the {horizon} rows after the last known one"
            )
        places = [rows[label, step] for step in steps]
        when = [_when(step) for step in steps]
        found[label] = Ahead(following, {name: _ahead(table, name, places, when, how) for name in names})
    return found


def _next_times(
    table: Table, rows: Mapping[tuple[str, Any], int], label: str, series: Series, horizon: int, how: Reading
) -> Times:
    """The first `horizon` times of a series in a table that are after its last."""
    assert series.times is not None
    last = series.times[-1]
    later = sorted(time for name, time in rows if name == label and time > last)
    if len(later) < horizon:
        raise ValueError(
            f"{table.source}: expected the times of {horizon} rows after {_when(last)}{_of(how, label)}, the rows to "
            f"forecast, got {len(later)}"
        )
    return np.array(later[:horizon])


def _when(step: Any) -> str:
    """A time, its day alone where it is midnight, or the number of a step."""
    if isinstance(step, int):
        return f"step {step + 1}"
    return show(step).removesuffix(" 00:00:00")


def _of(how: Reading, label: str) -> str:
    return f" of {how.id} {label!r}" if how.id else ""


def _ahead(table: Any, name: str, rows: list[int], when: list[str], how: Reading) -> Cells:
    """The cells of a column in some rows; a missing one is refused."""
    cells = table.columns[table.place(name, "future")]
    for row, time in zip(rows, when, strict=True):
        cell = cells[row]
        if is_missing(cell) or cell != cell:
            raise ValueError(f"{table.where(row)}: {name} is missing for {time}")
        if name not in how.categories and not np.isfinite(number(cell)):
            raise ValueError(f"{table.where(row, name)}: expected a number, got {str(cell)[:40]!r}")
    if name in how.categories:
        return np.array([str(cells[row]).strip() for row in rows], object)
    return np.array([number(cells[row]) for row in rows])
