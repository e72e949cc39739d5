"""Checkpoints that survive a kill at any time.

A file is written atomically, and the one before is kept. Each carries the SHA-256 of its content, so that a damaged one
is recognised, and the one before serves. Loading unpickles no
code (`weights_only`).
"""

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from longwave.core import files
from longwave.models.foreign import DAMAGE

MAGIC = b"longwave checkpoint 1\n"
LAST, PREVIOUS, DAMAGED = "last.ckpt", "previous.ckpt", "damaged.ckpt"


class Damaged(ValueError):
    """A damaged checkpoint."""


def save(folder: Path, content: dict[str, Any]) -> None:
    """Make `content` (tensors, numbers, strings, lists and dicts) the last checkpoint of `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    last = folder / LAST
    with files.atomic(last) as file:
        file.write(MAGIC + hashlib.sha256(payload).digest())
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
        if last.exists():
            os.replace(last, folder / PREVIOUS)


def load(folder: Path) -> tuple[dict[str, Any], str | None] | None:
    """The last undamaged checkpoint, and a note if it is not the last one written; None if there is none."""
    note = None
    for name in (LAST, PREVIOUS):
        path = folder / name
        if not path.exists():
            # A kill between the two moves of `save` leaves only the one before.
            continue
        try:
            return _read(path), note
        except Damaged as error:
            note = f"{error}; resuming from the checkpoint before it"
    if note is not None:
        raise Damaged(f"{folder}: all checkpoints are damaged; train again with --overwrite, or in another folder")
    return None


def set_damaged_aside(folder: Path) -> None:
    """Rename the damaged last checkpoint, so that the next `save` does not overwrite the good one with it."""
    os.replace(folder / LAST, folder / DAMAGED)


def clear(folder: Path) -> None:
    """Remove the checkpoints of an earlier run."""
    for name in (LAST, PREVIOUS):
        (folder / name).unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    head, digest, payload = data[: len(MAGIC)], data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if head != MAGIC:
        raise Damaged(f"{path} is not a longwave checkpoint")
    if hashlib.sha256(payload).digest() != digest:
        raise Damaged(f"{path} is damaged")
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's, on what is no checkpoint
            content: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True, map_location="cpu")
    except DAMAGE as error:
        raise Damaged(f"{path} contains objects other than tensors and plain values, and was not loaded") from error
    if not isinstance(content, dict):
        raise Damaged(f"{path} contains something other than the state of a run")
    return content
