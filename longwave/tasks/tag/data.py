"""Reading a CSV file with one row per step: a column that names the sequence, one of labels, all others are channels.

    sequence,label,x,y
    a,walk,0.1,0.4
    a,,0.2,0.5
    b,run,1.2,0.9

The rows of a sequence stand together, in the order of its steps. An empty label is a step whose label is not known.
"""

import math
import os
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from longwave.io.csv import number, open_csv, read_header
from longwave.tasks.sequences.data import Sequences, check_column
from longwave.tasks.sequences.targets import read_split, read_tag


def read_steps(
    path: str | os.PathLike[str],
    sequence: str = "sequence",
    label: str = "label",
    split: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] | None = None,
) -> Sequences:
    """The sequences in a CSV file (or its gzip) with a header and a row for each step.

    `split` names a column that says train, valid or test, the same for all steps of a sequence. `columns` are the
    channels; without them, all columns with a name that have no other role. Without `labelled`, labels and splits are
    ignored, and their columns may be absent.
    """
    with open_csv(path) as (text, source):
        _, names, rows = read_header(text, source)
        check_column(names, sequence, "sequence", source)
        if labelled:
            check_column(names, label, "label", source)
        if labelled and split is not None:
            check_column(names, split, "split", source)
        if columns is None:
            columns = [name for name in names if name and name not in (sequence, label, split)]
        if not columns:
            raise ValueError(f"{source}: expected columns of numbers beside {sequence!r} and {label!r}, got none")
        for name in columns:
            check_column(names, name, "channel", source)
        places = [names.index(name) for name in columns]
        values, lengths = array("d"), array("q")
        found: dict[str, str] = {}  # the sequences in their order, with their splits
        tags: list[str] = []
        current = None
        for line, cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{source}, line {line}"
            if len(cells) != len(names):
                raise ValueError(f"{where}: expected {len(names)} cells as in the header, got {len(cells)}")
            name = cells[names.index(sequence)].strip()
            own = read_split(cells[names.index(split)], f"{where}, column {split!r}") if labelled and split else ""
            if name != current:
                _check_new(name, found, current, sequence, where)
                current, found[name] = name, own
                lengths.append(0)
            if own != found[name]:
                raise ValueError(
                    f"{where}, column {split!r}: expected {found[name]}, as in the first row of sequence {name!r}, got "
                    f"{own}; a sequence belongs to one split"
                )
            values.extend(_numbers(cells, places, columns, where))
            lengths[-1] += 1
            if labelled:
                tags.append(read_tag(cells[names.index(label)], f"{where}, column {label!r}"))
    if not lengths:
        raise ValueError(f"{source}: expected rows below the header, one per step, got none")
    known: dict[str, Any] = {"tags": np.array(tags, dtype=np.str_)} if labelled else {}
    return Sequences(
        np.array(values, np.float64).reshape(-1, len(columns)),
        np.array(lengths, np.int64),
        splits=tuple(found.values()) if labelled and split is not None else None,
        source=source,
        names=tuple(found),
        columns=tuple(columns),
        **known,
    )


def _check_new(name: str, found: dict[str, str], current: str | None, column: str, where: str) -> None:
    if not name:
        raise ValueError(f"{where}, column {column!r}: the sequence is missing; expected its name or number")
    if name in found:
        raise ValueError(
            f"{where}, column {column!r}: sequence {name!r} goes on after {current!r} has begun; sort the rows by "
            "sequence, or give different sequences different names"
        )


def _numbers(cells: list[str], places: list[int], columns: Sequence[str], where: str) -> list[float]:
    try:
        numbers = [number(cells[k]) for k in places]
    except ValueError:
        numbers = [math.nan]
    if all(map(math.isfinite, numbers)):
        return numbers
    for k, name in zip(places, columns, strict=True):
        try:
            is_number = math.isfinite(number(cells[k]))
        except ValueError:
            is_number = False
        if not is_number:
            raise ValueError(
                f"{where}, column {name!r}: expected a number such as 1234.5, got {cells[k][:40]!r}; a column that is "
                "not a channel must be named as the sequence, the label or the split, or be removed from the file"
            )
    raise AssertionError("all cells are numbers")
