"""Read the labels, targets, tags, weights and splits of sequences.

Whole numbers as labels are the same in all their forms: 3, 3.0 and "3.0" are the class "3". Missing numbers are NaN,
and missing labels of steps are "".
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.io.table import number

TargetKind = Literal["labels", "targets", "tags"]  # a name for each sequence, numbers for each, a name at each step
SPLIT_OF = {"train": "train", "valid": "valid", "validation": "valid", "val": "valid", "test": "test"}
NO_LABEL = ("", "nan", "<na>", "nat")


def as_array(values: Any, name: str) -> NDArray[Any]:
    """An array, a tensor, a series or a list as a numpy array."""
    if hasattr(values, "collect") and not hasattr(values, "shape"):
        raise ValueError(f"{name}: expected numbers in memory, got a {type(values).__name__}; call .collect()")
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: expected numbers, got a masked array; fill in what is masked")
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name}: expected an array of numbers ({error})") from error


# One label for each sequence


def read_each(values: Any, name: str, what: str, read: Callable[[Any, str], str]) -> tuple[str, ...]:
    """(n,) of what `read` gives for each value."""
    cells = np.asarray(values)
    if cells.ndim != 1:
        raise ValueError(f"{name}: expected one {what} per sequence, (n,), got shape {cells.shape}")
    if cells.dtype.kind == "c":
        raise ValueError(f"{name}: expected names or whole numbers, got {cells.dtype}")
    return tuple(read(cell, f"{name}[{k}]") for k, cell in enumerate(cells.tolist()))


def read_label(cell: Any, where: str) -> str:
    """A label as a name; a missing one is refused."""
    name = read_tag(cell, where)
    if not name:
        raise ValueError(f"{where}: the label is missing; expected a name or a whole number, or leave the sequence out")
    return name


def read_tag(cell: Any, where: str) -> str:
    """A label as a name, "" if it is missing; whole numbers are the same in all their forms."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    if isinstance(cell, str) and re.fullmatch(r"[-+]?\d+\.\d*", cell.strip()):
        cell = float(cell)  # as a column of whole numbers is written that was read as one of floats
    if isinstance(cell, float) and math.isfinite(cell):
        if not cell.is_integer():
            raise ValueError(
                f"{where}: expected a class, a name or a whole number, got {cell}; a quantity is not a class: "
                "longwave train regress predicts such numbers"
            )
        cell = int(cell)
    name = "" if cell is None else str(cell).strip()
    if any("\ud800" <= letter <= "\udfff" for letter in name):  # half of a pair of surrogates
        raise ValueError(f"{where}: expected a name that UTF-8 can encode, got {name[:40]!r}, with half a character")
    return "" if name.lower() in NO_LABEL else name


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels: by size if all are whole numbers, else by the alphabet."""
    names = sorted(set(labels))
    return tuple(sorted(names, key=int) if are_whole(names) else names)


def are_whole(names: Iterable[str]) -> bool:
    """Whether all labels are whole numbers."""
    return all(name.removeprefix("-").isdecimal() for name in names)


# Numbers for each sequence


def read_targets(y: Any, source: str) -> NDArray[np.float64]:
    """(n, targets) numbers, NaN where one is missing."""
    cells = as_array(y, f"{source}: y")
    if cells.dtype.kind not in "buif":
        raise ValueError(
            f"{source}: y: expected numbers, one or several per sequence, got {cells.dtype}; names are classes, for "
            "longwave train classify"
        )
    if cells.ndim not in (1, 2) or 0 in cells.shape:
        raise ValueError(
            f"{source}: y: expected one number per sequence, (n,), or several, (n, targets), got shape {cells.shape}"
        )
    values = cells.reshape(len(cells), -1).astype(np.float64)
    if np.isinf(values).any():
        row, column = (int(index[0]) for index in np.nonzero(np.isinf(values)))
        raise ValueError(
            f"{source}: y: sequence {row}, target {column}: expected a number, or NaN where it is not known, got "
            f"{values[row, column]}"
        )
    return values


def read_target(cell: Any, where: str) -> float:
    """The number in a cell of a table, NaN if it is missing."""
    value = number(cell)
    if math.isinf(value):
        raise ValueError(
            f"{where}: expected a number such as 1234.5, or nothing where it is not known, got {str(cell)[:40]!r}"
        )
    return value


def default_names(count: int) -> tuple[str, ...]:
    """Default names of targets."""
    return ("y",) if count == 1 else tuple(f"y{k}" for k in range(count))


def read_weights(weight: Any, source: str) -> NDArray[np.float64]:
    """(n,) numbers from 0 on, not all of them 0."""
    values = as_array(weight, f"{source}: weight")
    if values.ndim != 1 or values.dtype.kind not in "buif":
        raise ValueError(
            f"{source}: weight: expected one number per sequence, (n,), got {values.dtype} of shape {values.shape}"
        )
    values = values.astype(np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all() and (values > 0).any()):
        raise ValueError(f"{source}: weight: expected numbers from 0 on, one of them above 0")
    return values


# A label at each step


def read_tags(y: Any, source: str) -> NDArray[np.str_]:
    """Names of the shape of y, "" where one is missing: an empty text, NaN, or -1 in an array of numbers."""
    cells = as_array(y, f"{source}: y")
    if cells.dtype.kind == "c":
        raise ValueError(f"{source}: y: expected names or whole numbers, got {cells.dtype}")
    where = f"{source}: y"
    if cells.dtype.kind == "O":  # None among names, which cannot be sorted
        flat = cells.ravel().tolist()
        names = {cell: _tag(cell, where) for cell in set(flat)}
        return np.array([names[cell] for cell in flat], dtype=np.str_).reshape(cells.shape)
    different, places = np.unique(cells, return_inverse=True)
    return np.array([_tag(cell, where) for cell in different.tolist()], dtype=np.str_)[places].reshape(cells.shape)


def _tag(cell: Any, where: str) -> str:
    return "" if isinstance(cell, int | float) and cell == -1 else read_tag(cell, where)


# Splits


def read_split(cell: Any, where: str) -> str:
    """Train, valid or test."""
    name = (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip().lower()
    if name not in SPLIT_OF:
        raise ValueError(f"{where}: expected train, valid or test, got {name[:40]!r}")
    return SPLIT_OF[name]
