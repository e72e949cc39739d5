"""Reading a CSV file with one row per step: a column that names the sequence, one of labels, all others are channels.

    sequence,label,x,y
    a,walk,0.1,0.4
    a,,0.2,0.5
    b,run,1.2,0.9

The rows of a sequence stand together, in the order of its steps. An empty label is a step whose label is not known.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from longwave.io.read import read_table
from longwave.io.table import Table
from longwave.tasks.sequences.data import Sequences
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
    table = read_table(path, (sequence, label, split or ""), skip_blank=True)
    own = [name.strip() for name in table.texts(sequence, "sequence")]
    known: dict[str, Any] = {}
    if labelled:
        known["tags"] = np.array(table.read(label, "label", read_tag), dtype=np.str_)
    starts = _starts(table, own, sequence)
    if labelled and split is not None:
        known["splits"] = _splits(table, own, starts, split)
    if columns is None:
        columns = [name for name in table.names if name and name not in (sequence, label, split)]
    if not columns:
        raise ValueError(f"{table.source}: expected columns of numbers beside {sequence!r} and {label!r}, got none")
    places = [table.place(name, "channel") for name in columns]
    if not starts:
        raise ValueError(f"{table.source}: expected rows below the header, one per step, got none")
    values = table.numbers(places)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"{table.where(row, columns[column])}: expected a number such as 1234.5, got "
            f"{table.text(row, places[column])[:40]!r}; a column that is not a channel must be named as the sequence, "
            "the label or the split, or be removed from the file"
        )
    return Sequences(
        values,
        np.diff([*starts, len(table)]),
        source=table.source,
        names=tuple(own[row] for row in starts),
        columns=tuple(columns),
        **known,
    )


def _starts(table: Table, own: list[str], column: str) -> list[int]:
    """The rows at which sequences begin, of which `own` is the name at each row."""
    starts, found, current = list[int](), set[str](), None
    for row, name in enumerate(own):
        if name == current:
            continue
        where = table.where(row, column)
        if not name:
            raise ValueError(f"{where}: the sequence is missing; expected its name or number")
        if name in found:
            raise ValueError(
                f"{where}: sequence {name!r} continues after {current!r}; sort the rows by sequence, or give "
                "different sequences different names"
            )
        current = name
        starts.append(row)
        found.add(name)
    return starts


def _splits(table: Table, own: list[str], starts: list[int], column: str) -> tuple[str, ...]:
    """The split of each sequence, the same in all its rows."""
    splits = table.read(column, "split", read_split)
    expected = dict(zip((own[row] for row in starts), (splits[row] for row in starts), strict=True))
    for row, (name, split) in enumerate(zip(own, splits, strict=True)):
        if split != expected[name]:
            raise ValueError(
                f"{table.where(row, column)}: expected {expected[name]}, as in the first row of sequence {name!r}, got "
                f"{split}; a sequence belongs to one split"
            )
    return tuple(expected.values())
