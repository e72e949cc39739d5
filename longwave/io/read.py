"""Tables from CSV files, and from memory: pandas and polars data frames and Series, Arrow tables, arrays, lists."""

import os
from collections.abc import Collection
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import open_csv, parse_table
from longwave.io.table import Cells, Table, may_be_times


def read_table(source: Any, texts: Collection[str] = (), only: Collection[str] | None = None, **rows: bool) -> Table:
    """The table in a CSV file, given by its path and read as `parse_table` says, or in what `table_of` takes."""
    if not isinstance(source, str | os.PathLike):
        return table_of(source)
    with open_csv(source) as (lines, name):
        return parse_table(lines, name, texts, only, **rows)


def table_of(data: Any) -> Table:
    """The columns of a data frame, a Series, or an array of numbers, whose columns are named "0", "1" and so on."""
    import narwhals.stable.v2 as nw

    try:
        frame: Any = nw.from_native(data, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = [str(name) for name in data.columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"data frame: {names.count(twice)} columns are named {twice!r}; rename them") from error
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"data: expected a data frame with its rows, got a {type(data).__name__}; call .collect()")
    if isinstance(frame, nw.Series):
        frame = frame.rename("0" if frame.name in (None, "") else str(frame.name)).to_frame()
    if not isinstance(frame, nw.DataFrame):
        return _table_of_array(data)
    index: Any = nw.maybe_get_index(frame)
    times = [] if index is None else _cells(nw.from_native(index.to_series(), series_only=True))
    columns = [_cells(column) for column in frame.iter_columns()]
    names = [str(name) for name in frame.columns]
    return Table("data frame", names, columns, index=times if len(times) and may_be_times(times) else None)


def _cells(column: Any) -> Cells:
    """A column of a data frame, its times in UTC; cells of types that a file cannot hold become text."""
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind in "biufM":
        return values
    pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return [None if is_null else _plain(cell) for cell, is_null in pairs]


def _plain(cell: Any) -> Any:
    return cell if isinstance(cell, str | bytes | Number) or hasattr(cell, "isoformat") else str(cell)


def _table_of_array(data: Any) -> Table:
    try:
        values = np.asarray(data)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal lengths, or a tensor on another device
        values = np.asarray(None)
    if values.dtype.kind not in "iuf" or values.ndim not in (1, 2):
        got = f"an array {values.dtype} {values.shape}" if values.ndim else type(data).__name__
        raise ValueError(
            "data: expected a data frame or Series, the path of a CSV file, or an array of numbers, (rows,) or "
            f"(rows, columns), got {got}"
        )
    columns: list[Cells] = list(values.reshape(len(values), -1).T if values.size else values.reshape(1, 0))
    return Table("array", [str(k) for k in range(len(columns))], columns)
