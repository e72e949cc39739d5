"""Tables of forecasts as CSV files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from longwave.io.csv import write_csv
from longwave.io.times import show


def write_table(path: str | Path, table: Mapping[str, Any]) -> None:
    """Write columns of equal lengths, atomically; times are dates alone if all of them are at midnight.

    Numbers have twelve digits, since a small change of a large one should be seen; what is not known is empty.
    """
    columns = {name: np.asarray(values) for name, values in table.items()}
    times = [values for values in columns.values() if values.dtype.kind == "M"]
    if all((values == values.astype("datetime64[D]")).all() for values in times):
        columns |= {n: values.astype("datetime64[D]") for n, values in columns.items() if values.dtype.kind == "M"}
    write_csv(path, [list(columns), *map(list, zip(*map(_texts, columns.values()), strict=True))])


def _texts(values: Any) -> Iterable[str]:
    if values.dtype.kind == "M":
        return map(show, values)
    if values.dtype.kind == "f":
        return ("" if np.isnan(value) else f"{value:.12g}" for value in values)
    return map(str, values)
