"""Numbers in the place of those that are missing from a series, and where they are missing.

    fill="linear"    the line between the neighbours of a gap: it is known only when the gap is over
    fill="mask"      the last known number: it is known in the gap already; and where the gaps are, for losses and
                     scores to leave them out

Without `fill`, whoever reads a series refuses one with gaps.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Known = NDArray[np.bool_]
Fill = Literal["linear", "mask"] | None
MANY = 0.1  # a larger share of a column that is missing is said


class Filled(NamedTuple):
    """Numbers (rows, columns) without gaps, and how they came to be so."""

    values: Floats
    known: Known | None  # where numbers were given, if gaps are remembered; None: everywhere
    notes: tuple[str, ...]


def check_fill(fill: Fill) -> None:
    """Refuse what is no way to treat missing numbers."""
    if fill not in (None, "linear", "mask"):
        raise ValueError(f"fill: expected None, 'linear' or 'mask', got {fill!r}")


def fill_gaps(values: Floats, fill: Fill, missing_rows: int, columns: list[str]) -> Filled:
    """Numbers in place of NaN in values (rows, columns), of which `missing_rows` rows were not there at all."""
    known = ~np.isnan(values)
    missing = int(known.size - known.sum())
    if not missing:
        return Filled(values, None, ())
    if fill == "mask":
        return Filled(carry_forward(values), known, _notes_on_gaps(known, columns))
    counts = {"rows": missing_rows, "cells": missing - missing_rows * len(columns)}
    notes = (f"{count} missing {what} were interpolated" for what, count in counts.items() if count)
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
    total = (
        f"{missing} of {known.size} values are missing; where a model sees them, it sees the last known ones instead"
    )
    shares = zip(columns, 1 - known.mean(axis=0), strict=True)
    many = (f"column {name!r}: {share:.0%} of the values are missing" for name, share in shares if share > MANY)
    return total, *many
