"""Read sequences and their targets from an .npz file, arrays, or a CSV file or data frame with one row each.

In an .npz file, which holds plain arrays only (nothing is unpickled):

    x        (n, length, channels) or (n, length) numbers; (n, channels, length) with channels="first"
    y        what is known of them, one of:
                 labels   (n,) names or whole numbers
                 targets  (n,) or (n, targets) numbers, NaN where one is missing
                 tags     (n, length), or (total,) beside lengths: names or whole numbers, one for each step; "", NaN
                          or, among numbers, -1 where one is missing
    names    (targets,) optional: what targets are called
    split    (n,) optional: "train", "valid" or "test"
    weight   (n,) optional: how much each counts in training, 0 or more
    lengths  (n,) if the sequences differ in length; x is then (total, channels) or (total,), one after the other

What is accepted, and what is refused:

    labels            kept as names; 3, 3.0 and "3.0" are the class "3"; a missing one is refused, and so is 0.5
    values            real and finite; NaN and infinities are refused, by example, step and channel
    end of a CSV row  empty cells are not steps, so rows may differ in length; "nan" there, and an empty cell before
                      a number, are refused
    no steps          refused

Messages count examples and steps from 0, and lines of a file from 1.
"""

import io
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.io.read import read_table
from longwave.io.table import Table, is_missing
from longwave.tasks.sequences.targets import (
    TargetKind,
    as_array,
    default_names,
    read_each,
    read_label,
    read_split,
    read_tags,
    read_target,
    read_targets,
    read_weights,
)

KEYS = ("x", "y", "names", "split", "lengths", "weight")
Channels = Literal["first", "last"]  # whether they stand before or behind the steps


@dataclass(frozen=True, eq=False)
class Sequences:
    """Concatenated sequences, with their splits and labels, targets or tags."""

    values: NDArray[Any]  # (total, channels) real and finite
    lengths: NDArray[np.int64]  # (n,)
    labels: tuple[str, ...] | None = None  # (n,)
    splits: tuple[str, ...] | None = None  # (n,): train, valid or test
    source: str = "arrays"
    targets: NDArray[np.float64] | None = None  # (n, targets), NaN where one is missing
    target_names: tuple[str, ...] = ()  # (targets,)
    tags: NDArray[np.str_] | None = None  # (total,), "" where one is missing
    names: tuple[str, ...] | None = None  # (n,) of the sequences, if the file has some
    columns: tuple[str, ...] | None = None  # (channels,) names, if the file has some
    weights: NDArray[np.float64] | None = None  # (n,) how much each counts in training
    notes: tuple[str, ...] = ()  # what a user should know of them

    def __post_init__(self) -> None:
        _check_values(self)
        known = {"y": self.targets if self.labels is None else self.labels, "split": self.splits}
        for name, given in {**known, "weight": self.weights}.items():
            if given is not None and len(given) != len(self):
                raise ValueError(
                    f"{self.source}: {name}: expected one for each of {len(self)} sequences, got {len(given)}"
                )
        if self.targets is not None and len(self.target_names) != self.targets.shape[1]:
            raise ValueError(
                f"{self.source}: names: expected one for each of {self.targets.shape[1]} targets, got "
                f"{len(self.target_names)}"
            )
        if len(set(self.target_names)) < len(self.target_names):
            raise ValueError(f"{self.source}: names: expected distinct names, got {', '.join(self.target_names)}")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def channels(self) -> int:
        """Numbers per step."""
        return int(self.values.shape[1])

    @property
    def length(self) -> int | None:
        """The length of all sequences; None if they differ."""
        return int(self.lengths[0]) if (self.lengths == self.lengths[0]).all() else None

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first step of each sequence in `values`."""
        return np.cumsum(self.lengths) - self.lengths

    def is_step_of(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(total,): whether each step belongs to one of the sequences at `index`."""
        chosen = np.zeros(len(self), bool)
        chosen[index] = True
        return np.repeat(chosen, self.lengths)


def read_npz(
    path: str | os.PathLike[str], labelled: bool = True, target_kind: TargetKind = "labels", channels: Channels = "last"
) -> Sequences:
    """The sequences in an .npz file; `target_kind` says what y is, and without `labelled`, only x is read."""
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
        raise FileNotFoundError(f"{path}: no such file; expected an .npz file with x and y") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path}: expected an .npz file with x and y, got a folder") from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:  # or it is encrypted
        raise ValueError(f"{path}: the file is damaged ({error}); write it again with numpy.savez") from error
    except (MemoryError, OverflowError) as error:
        raise ValueError(f"{path}: an array in it is larger than the memory ({error}); write smaller files") from error
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise ValueError(
            f"{path}: expected an .npz file with x and y, as numpy.savez writes it, got another format"
        ) from error
    for name in ("x", "y") if labelled else ("x",):
        if name not in arrays:
            raise ValueError(f"{path}: {name}: is missing; expected x and y, got {', '.join(names) or 'nothing'}")
    return _sequences(source=str(path), target_kind=target_kind, channels=channels, **arrays)


def read_rows(
    source: Any, label: str = "label", split: str | None = None, labelled: bool = True, targets: Sequence[str] = ()
) -> Sequences:
    """The sequences in a CSV file (or its gzip) or data frame, one row each: a column of labels, steps in all others.

    `targets` are columns of numbers to be read instead of the labels. `split` names a column that says train, valid or
    test. Columns without a name are not read. Without `labelled`, labels, targets and splits are ignored, and their
    columns may be absent.
    """
    table = read_table(source, (label, *targets, split or ""), ragged=True)
    wanted = tuple(targets) or (label,)
    known: dict[str, Any] = {}
    if labelled and targets:
        found = [table.read(name, "target", read_target) for name in wanted]
        known = {"targets": np.array(found, np.float64).T, "target_names": wanted}
    elif labelled:
        known = {"labels": tuple(table.read(label, "label", read_label))}
    if labelled and split is not None:
        known["splits"] = tuple(table.read(split, "split", read_split))
    steps = [k for k, name in enumerate(table.names) if name and name not in (*wanted, split)]
    if not steps:
        beside = ", ".join(map(repr, wanted))
        raise ValueError(f"{table.source}: expected columns of numbers beside {beside}, one per step, got none")
    if not len(table):
        raise ValueError(f"{table.source}: expected rows below the header, one per sequence, got none")
    values = table.numbers(steps)
    lengths = _lengths(table, steps, np.isfinite(values))
    inside = np.arange(len(steps)) < lengths[:, None]
    return Sequences(values[inside][:, None], lengths, source=table.source, **known)


def from_arrays(
    x: Any,
    y: Any = None,
    split: Any = None,
    target_kind: TargetKind = "labels",
    names: Sequence[str] | None = None,
    channels: Channels = "last",
    weight: Any = None,
) -> Sequences:
    """The sequences in x: (n, length, channels), (n, length), or a list of arrays (length, channels) or (length,).

    `target_kind` says what y is: labels (n,), targets (n,) or (n, targets), called `names`, or tags, a label at each
    step: (n, length), or a list of arrays (length,). With `channels` "first", x is (n, channels, length), or
    its arrays are (channels, length). `weight` (n,) is how much each sequence counts in training.
    """
    known: dict[str, Any] = {
        "split": split,
        "target_kind": target_kind,
        "names": names,
        "channels": channels,
        "weight": weight,
    }
    if not isinstance(x, list | tuple):
        x = as_array(x, "x")
        if x.dtype.kind != "O":
            return _sequences(x, y, **known)
    arrays = [as_array(sequence, f"x[{k}]") for k, sequence in enumerate(x)]
    if not arrays:
        raise ValueError("x: expected sequences, got none")
    if channels == "first":
        arrays = [array.T for array in arrays]
    shapes = {array.shape[1:] if array.ndim else None for array in arrays}
    if len(shapes) > 1 or arrays[0].ndim not in (1, 2):
        shown = ", ".join(sorted({str(array.shape) for array in arrays})[:3])
        raise ValueError(f"x: expected arrays (length, channels), all with the same channels, got {shown} ...")
    lengths = np.array([len(array) for array in arrays], np.int64)
    if target_kind == "tags" and y is not None:
        y = _joined_tags(y, lengths)
    return _sequences(np.concatenate(arrays), y, lengths, **known)


def save_npz(path: str | os.PathLike[str], sequences: Sequences) -> None:
    """Write sequences atomically, as `read_npz` reads them."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, npz_bytes(sequences))


def npz_bytes(sequences: Sequences) -> bytes:
    """The content of an .npz file with sequences."""
    arrays: dict[str, Any] = {"x": sequences.values}
    if sequences.length is None:
        arrays["lengths"] = sequences.lengths
    else:
        arrays["x"] = sequences.values.reshape(len(sequences), sequences.length, sequences.channels)
    if sequences.labels is not None:
        arrays["y"] = np.array(sequences.labels)
    if sequences.targets is not None:
        arrays |= {"y": sequences.targets, "names": np.array(sequences.target_names)}
    if sequences.tags is not None:
        shape = (len(sequences), -1) if sequences.length is not None else (-1,)
        arrays["y"] = sequences.tags.reshape(shape)
    if sequences.splits is not None:
        arrays["split"] = np.array(sequences.splits)
    if sequences.weights is not None:
        arrays["weight"] = sequences.weights
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


# From arrays


def _plain_array(file: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        values = file[name]
    except (ValueError, SyntaxError, tokenize.TokenError, TypeError, KeyError, IndexError, struct.error) as error:
        if "allow_pickle" not in str(error):  # numpy reads the header of an array as Python source
            raise ValueError(f"{path}: {name}: is damaged ({error}); write it again with numpy.savez") from error
        hint = (
            "Sequences of unequal length go one after the other, with an array `lengths` "
            "(longwave.tasks.sequences.data.save_npz)"
            if name == "x"
            else f"Text is plain as {name}.astype(str)"
        )
        raise ValueError(
            f"{path}: {name}: holds Python objects, which are not loaded; expected plain numbers or text. {hint}"
        ) from error
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{path}: {name}: is not an array; expected a file as numpy.savez writes it")
    return values


def _sequences(
    x: NDArray[Any],
    y: Any = None,
    lengths: Any = None,
    split: Any = None,
    names: Any = None,
    weight: Any = None,
    *,
    source: str = "arrays",
    target_kind: TargetKind = "labels",
    channels: Channels = "last",
) -> Sequences:
    if x.dtype.kind not in "buif":
        raise ValueError(f"{source}: x: expected real numbers, got {x.dtype}")
    if lengths is None:
        if x.ndim not in (2, 3) or 0 in x.shape:
            raise ValueError(
                f"{source}: x: expected (n, length, channels) or (n, length), each at least 1, got {x.shape}; "
                "sequences of unequal length go one after the other, with an array `lengths`"
            )
        if channels == "first" and x.ndim == 3:
            x = x.transpose(0, 2, 1)
        steps: tuple[int, ...] = x.shape[:2]
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
        steps = (len(values),)
    known: dict[str, Any] = {}
    if y is not None and target_kind == "labels":
        known["labels"] = read_each(y, f"{source}: y", "label", read_label)
    elif y is not None and target_kind == "targets":
        targets = read_targets(y, source)
        known["targets"] = targets
        known["target_names"] = (
            default_names(targets.shape[1]) if names is None else tuple(str(name).strip() for name in names)
        )
    elif y is not None:
        known["tags"] = _flat_tags(y, steps, source)
    if weight is not None:
        known["weights"] = read_weights(weight, source)
    splits = None if split is None else read_each(split, f"{source}: split", "split", read_split)
    notes = _transposed(values.shape[1], int(lengths.max(initial=0)), channels)
    return Sequences(values, lengths.astype(np.int64), splits=splits, source=source, notes=notes, **known)


def _transposed(count: int, longest: int, channels: Channels) -> tuple[str, ...]:
    """A note on sequences that look as if steps and channels were swapped."""
    if count <= longest:
        return ()
    other = "last" if channels == "first" else "first"
    return (
        f"x has {count} channels and only {longest} steps: if it is the other way round, use "
        f"channels={other!r} (--channels {other})",
    )


def _flat_tags(y: Any, steps: tuple[int, ...], source: str) -> NDArray[np.str_]:
    """(total,) of y, which is to have the shape `steps`."""
    tags = read_tags(y, source)
    if tags.shape != steps:
        shape = "(n, length)" if len(steps) == 2 else "(total,)"
        raise ValueError(f"{source}: y: expected a label for each step of x, {shape} = {steps}, got shape {tags.shape}")
    return tags.ravel()


def _joined_tags(y: Any, lengths: NDArray[np.int64]) -> NDArray[np.str_]:
    """(total,) of a list of tags for each sequence."""
    if len(y) != len(lengths):
        raise ValueError(f"y: expected labels for each of {len(lengths)} sequences, got {len(y)}")
    rows = [_flat_tags(row, (int(length),), f"y[{k}]") for k, (row, length) in enumerate(zip(y, lengths, strict=True))]
    return np.concatenate(rows)


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
            f"{values[row, channel]}{f', as in {count - 1} more steps' if count > 1 else ''}; fill them in or "
            "leave the sequences out"
        )


# From a table


def _lengths(table: Table, steps: Sequence[int], is_number: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(rows,): the steps of each row, without the empty cells at its end; a cell before that must hold a number."""
    lengths = np.full(len(table), len(steps))
    for row in np.flatnonzero(~is_number.all(axis=1)).tolist():
        cells = [table.text(row, place) for place in steps]
        while cells and not cells[-1].strip():
            cells.pop()
        if not cells:
            raise ValueError(f"{table.where(row)}: expected numbers, one per step, got none")
        lengths[row] = len(cells)
        bad = int(is_number[row].argmin())
        if bad >= len(cells):
            continue
        cell, where = cells[bad].strip(), table.where(row, table.names[steps[bad]])
        if is_missing(cell):
            raise ValueError(
                f"{where}: the value is missing{f' ({cell!r})' if cell else ''}; only the end of a row may be empty"
            )
        raise ValueError(
            f"{where}: expected a number such as 1234.5, got {cell[:40]!r}; a column that is not a step must be named "
            "as a label, a target or the split, or be removed from the file"
        )
    return lengths
