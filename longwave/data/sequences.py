"""Reading labelled sequences: an .npz file, a CSV file with one row per sequence, arrays, a data frame.

In an .npz file, which holds plain arrays only (nothing is unpickled):

    x        (n, length, channels) or (n, length) numbers
    y        (n,) labels: names or whole numbers
    split    (n,) optional: "train", "valid" or "test"
    lengths  (n,) if the sequences differ in length; x is then (total, channels) or (total,), one after the other

What is accepted, and what is refused:

    labels            kept as names; 3, 3.0 and "3.0" are the class "3"; a missing one is refused, and so is 0.5
    values            real and finite; NaN and infinities are refused, by example, step and channel
    end of a CSV row  empty cells are not steps, so rows may differ in length; "nan" there, and an empty cell before
                      a number, are refused
    no steps          refused

Messages count examples and steps from 0, and lines of a file from 1.
"""

import math
import os
import re
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.data import files
from longwave.data.series import MISSING, number, open_csv, read_header
from longwave.registry import nearest

SPLITS = {"train": "train", "valid": "valid", "validation": "valid", "val": "valid", "test": "test"}
KEYS = ("x", "y", "split", "part", "lengths")  # part: as split was once called


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences one after the other, with their labels and splits if they are known."""

    values: NDArray[Any]  # (total, channels) real and finite
    lengths: NDArray[np.int64]  # (n,)
    labels: tuple[str, ...] | None = None  # (n,)
    splits: tuple[str, ...] | None = None  # (n,): train, valid or test
    source: str = "arrays"

    def __post_init__(self) -> None:
        _check_values(self)
        for name, given in (("y", self.labels), ("split", self.splits)):
            if given is not None and len(given) != len(self):
                raise ValueError(
                    f"{self.source}: {name}: expected one for each of {len(self)} sequences, got {len(given)}"
                )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def channels(self) -> int:
        """Numbers of a step."""
        return int(self.values.shape[1])

    @property
    def length(self) -> int | None:
        """The length of all sequences; None if they differ."""
        return int(self.lengths[0]) if (self.lengths == self.lengths[0]).all() else None

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each sequence begins in `values`."""
        return np.cumsum(self.lengths) - self.lengths


def read_npz(path: str | os.PathLike[str], labelled: bool = True) -> Sequences:
    """The sequences in an .npz file; without `labelled`, labels and splits are ignored."""
    path = Path(path).expanduser()
    try:
        with path.open("rb") as binary:  # numpy, given a path, would leave a damaged file open
            file = np.load(binary, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError(f"{path}: expected an .npz file with x and y, got a single array; use numpy.savez")
            names = file.files
            wanted = KEYS if labelled else ("x", "lengths")
            arrays = {name: _plain_array(file, name, path) for name in wanted if name in names}
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: there is no such file; expected an .npz file with x and y") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path}: expected an .npz file with x and y, got a folder") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: the file is damaged ({error}); write it again with numpy.savez") from error
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise ValueError(
            f"{path}: expected an .npz file with x and y, as numpy.savez writes it, got another format"
        ) from error
    for name in ("x", "y") if labelled else ("x",):
        if name not in arrays:
            raise ValueError(
                f"{path}: {name}: is not in the file; expected x and y, got {', '.join(names) or 'nothing'}"
            )
    split = arrays.get("split", arrays.get("part"))
    return _sequences(arrays["x"], arrays.get("lengths"), arrays.get("y"), split, str(path))


def read_csv(
    path: str | os.PathLike[str], label: str = "label", split: str | None = None, labelled: bool = True
) -> Sequences:
    """The sequences in a CSV file (or its gzip) with a header: a column of labels, and the steps in all others.

    `split` names a column that says train, valid or test. Columns without a name are not read. Without `labelled`,
    labels and splits are ignored, and their columns may be absent.
    """
    with open_csv(path) as (text, source):
        _, names, numbered = read_header(text, source)
        rows = ((f"{source}, line {line}", cells) for line, cells in numbered)
        return _from_rows(names, rows, label, split, labelled, source)


def from_frame(frame: Any, label: str = "label", split: str | None = None, labelled: bool = True) -> Sequences:
    """The sequences in a data frame of pandas or polars, one row each, by the rules of `read_csv`."""
    names = [str(name) for name in frame.columns]
    # By place where that can be: pandas lets several columns have one name.
    series = [frame.iloc[:, k] if hasattr(frame, "iloc") else frame[name] for k, name in enumerate(frame.columns)]
    columns = [_cells(np.asarray(column.to_numpy())) for column in series]
    rows = ((f"data frame, row {k}", list(cells)) for k, cells in enumerate(zip(*columns, strict=True)))
    return _from_rows(names, rows, label, split, labelled, "data frame")


def from_arrays(x: Any, y: Any = None, split: Any = None) -> Sequences:
    """The sequences in x: (n, length, channels), (n, length), or a list of arrays (length, channels) or (length,)."""
    if not isinstance(x, list | tuple):
        x = _array(x, "x")
        if x.dtype.kind != "O":
            return _sequences(x, None, y, split, "arrays")
    arrays = [_array(sequence, f"x[{k}]") for k, sequence in enumerate(x)]
    if not arrays:
        raise ValueError("x: expected sequences, got none")
    shapes = {array.shape[1:] if array.ndim else None for array in arrays}
    if len(shapes) > 1 or arrays[0].ndim not in (1, 2):
        shown = ", ".join(sorted({str(array.shape) for array in arrays})[:3])
        raise ValueError(f"x: expected arrays (length, channels), all with the same channels, got {shown} ...")
    lengths = np.array([len(array) for array in arrays], np.int64)
    return _sequences(np.concatenate(arrays), lengths, y, split, "arrays")


def save_npz(path: str | os.PathLike[str], sequences: Sequences) -> None:
    """Write sequences atomically, as `read_npz` reads them."""
    path = Path(path)
    arrays: dict[str, Any] = {"x": sequences.values}
    if sequences.length is None:
        arrays["lengths"] = sequences.lengths
    else:
        arrays["x"] = sequences.values.reshape(len(sequences), sequences.length, sequences.channels)
    if sequences.labels is not None:
        arrays["y"] = np.array(sequences.labels)
    if sequences.splits is not None:
        arrays["split"] = np.array(sequences.splits)
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file:
        np.savez(file, **arrays)


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels: by size if all are whole numbers, else by the alphabet."""
    names = sorted(set(labels))
    return tuple(sorted(names, key=int) if all(_is_whole(name) for name in names) else names)


# From arrays


def _plain_array(file: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        values = file[name]
    except ValueError as error:
        hint = (
            "Sequences of unequal length go one after the other, with an array `lengths` "
            "(longwave.data.sequences.save_npz)"
            if name == "x"
            else f"Text is plain as {name}.astype(str)"
        )
        raise ValueError(
            f"{path}: {name}: holds Python objects, which are not loaded; expected plain numbers or text. {hint}"
        ) from error
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{path}: {name}: is not an array; expected a file as numpy.savez writes it")
    return values


def _array(values: Any, name: str) -> NDArray[Any]:
    """An array, a tensor, a series or a list as a numpy array."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: expected numbers, got a masked array; fill in what is masked")
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name}: expected an array of numbers ({error})") from error


def _sequences(x: NDArray[Any], lengths: Any, y: Any, split: Any, source: str) -> Sequences:
    if x.dtype.kind not in "buif":
        raise ValueError(f"{source}: x: expected real numbers, got {x.dtype}")
    if lengths is None:
        if x.ndim not in (2, 3) or 0 in x.shape:
            raise ValueError(
                f"{source}: x: expected (n, length, channels) or (n, length), none of them 0, got {x.shape}; sequences "
                "of unequal length go one after the other, with an array `lengths`"
            )
        lengths = np.full(x.shape[0], x.shape[1])
        values = x.reshape(x.shape[0] * x.shape[1], -1)
    else:
        lengths = np.asarray(lengths)
        values = x[:, None] if x.ndim == 1 else x
        if values.ndim != 2:
            raise ValueError(
                f"{source}: x: beside lengths, expected the steps of all sequences one after the other, (total, "
                f"channels) without padding, got {x.shape}"
            )
        if lengths.ndim != 1 or lengths.dtype.kind not in "ui":
            raise ValueError(
                f"{source}: lengths: expected whole numbers, one per sequence, got {lengths.dtype} {lengths.shape}"
            )
        if lengths.sum() != len(values):
            raise ValueError(
                f"{source}: lengths: expected numbers that add up to the {len(values):,} steps of x, got a sum of "
                f"{lengths.sum():,}"
            )
    return Sequences(
        values,
        lengths.astype(np.int64),
        None if y is None else _labels(y, source),
        None if split is None else _splits(split, source),
        source,
    )


def _check_values(sequences: Sequences) -> None:
    values, lengths, source = sequences.values, sequences.lengths, sequences.source
    if not len(lengths) or (lengths < 1).any():
        which = f"sequence {int(np.argmax(lengths < 1))} has none" if len(lengths) else "there are no sequences"
        raise ValueError(f"{source}: expected sequences of one step or more; {which}")
    if not values.shape[1]:
        raise ValueError(f"{source}: x: expected one channel or more, got none")
    finite = np.isfinite(values).all(axis=1) if values.dtype.kind == "f" else np.ones(1, bool)
    if not finite.all():
        row = int(np.argmin(finite))
        example = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
        step, channel = row - int(sequences.starts[example]), int(np.argmin(np.isfinite(values[row])))
        count = int((~finite).sum())
        raise ValueError(
            f"{source}: sequence {example}, step {step}, channel {channel}: expected a finite number, got "
            f"{values[row, channel]}{f', and {count - 1} more steps have such' if count > 1 else ''}; fill them in or "
            "leave the sequences out"
        )


def _labels(y: Any, source: str) -> tuple[str, ...]:
    cells = np.asarray(y)
    if cells.ndim != 1:
        raise ValueError(f"{source}: y: expected one label per sequence, (n,), got shape {cells.shape}")
    if cells.dtype.kind == "c":
        raise ValueError(f"{source}: y: expected names or whole numbers, got {cells.dtype}")
    return tuple(_label(cell, f"{source}: y[{k}]") for k, cell in enumerate(cells.tolist()))


def _label(cell: Any, where: str) -> str:
    """A label as a name; whole numbers are the same in all their forms."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    if isinstance(cell, str) and re.fullmatch(r"[-+]?\d+\.\d*", cell.strip()):
        cell = float(cell)  # as a column of whole numbers is written that was read as one of floats
    if isinstance(cell, float) and math.isfinite(cell):
        if not cell.is_integer():
            raise ValueError(
                f"{where}: expected a class, a name or a whole number, got {cell}; a quantity is not a class"
            )
        cell = int(cell)
    name = "" if cell is None else str(cell).strip()
    if name.lower() in ("", "nan", "<na>", "nat"):
        raise ValueError(f"{where}: the label is missing; expected a name or a whole number, or leave the sequence out")
    return name


def _splits(split: Any, source: str) -> tuple[str, ...]:
    cells = np.asarray(split)
    if cells.ndim != 1:
        raise ValueError(f"{source}: split: expected one per sequence, (n,), got shape {cells.shape}")
    return tuple(_split(cell, f"{source}: split[{k}]") for k, cell in enumerate(cells.tolist()))


def _split(cell: Any, where: str) -> str:
    name = (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip().lower()
    if name not in SPLITS:
        raise ValueError(f"{where}: expected train, valid or test, got {name[:40]!r}")
    return SPLITS[name]


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


# From rows


def _from_rows(
    names: list[str],
    rows: Iterable[tuple[str, Sequence[Any]]],
    label: str,
    split: str | None,
    labelled: bool,
    source: str,
) -> Sequences:
    for role, name in (("label", label), ("split", split)):
        if labelled and name is not None and names.count(name) != 1:
            if name in names:
                raise ValueError(f"{source}: {role}: {names.count(name)} columns are named {name!r}; expected one")
            raise ValueError(f"{source}: {role}: there is no column {name!r}; {nearest(name, filter(None, names))}")
    steps = [k for k, name in enumerate(names) if name and name not in (label, split)]
    if not steps:
        raise ValueError(f"{source}: expected columns of numbers beside {label!r}, one per step, got none")
    values = array("d")
    lengths: list[int] = []
    labels: list[str] = []
    splits: list[str] = []
    for where, row in rows:
        if len(row) == 1 and len(names) > 1 and isinstance(row[0], str) and not row[0].strip():
            continue  # a line of blanks
        if len(row) > len(names):
            raise ValueError(f"{where}: expected at most {len(names)} cells, as in the header, got {len(row)}")
        cells = [*row, *[None] * (len(names) - len(row))]
        numbers = [cells[k] for k in steps]
        while numbers and _is_missing(numbers[-1]) and not (isinstance(numbers[-1], str) and numbers[-1].strip()):
            numbers.pop()
        if not numbers:
            raise ValueError(f"{where}: expected numbers, one per step, got none")
        try:
            floats = [number(cell) for cell in numbers]
        except (TypeError, ValueError):
            floats = [math.nan]
        if not all(map(math.isfinite, floats)):
            raise ValueError(_bad_cell(numbers, [names[k] for k in steps], where))
        values.extend(floats)
        lengths.append(len(floats))
        if labelled:
            labels.append(_label(cells[names.index(label)], f"{where}, column {label!r}"))
            if split is not None:
                splits.append(_split(cells[names.index(split)], f"{where}, column {split!r}"))
    if not lengths:
        raise ValueError(f"{source}: expected rows below the header, one per sequence, got none")
    return Sequences(
        np.array(values, np.float64)[:, None],
        np.array(lengths, np.int64),
        tuple(labels) if labelled else None,
        tuple(splits) if labelled and split is not None else None,
        source,
    )


def _cells(column: NDArray[Any]) -> list[Any]:
    """Plain values; times as text, which is never read as a number."""
    cells: list[Any] = (column.astype(str) if column.dtype.kind in "mM" else column).tolist()
    return cells


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or str(cell) == "<NA>"


def _bad_cell(cells: Sequence[Any], names: list[str], where: str) -> str:
    for cell, name in zip(cells, names, strict=False):
        if _is_missing(cell):
            state = f"is missing ({cell.strip()!r})" if isinstance(cell, str) and cell.strip() else "is missing"
            return f"{where}, column {name!r}: the value {state}; only the end of a row may be empty"
        try:
            finite = math.isfinite(number(cell))
        except (TypeError, ValueError):
            finite = False
        if not finite:
            return (
                f"{where}, column {name!r}: expected a number such as 1234.5, got {str(cell)[:40]!r}; a column that is "
                "not a step must be named as the label or the split, or be removed from the file"
            )
    raise AssertionError("all cells are numbers")
