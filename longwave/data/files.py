"""Writing files atomically: a reader sees the old content or the new one, also after a kill or a power cut."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends, and leaves nothing if it fails.

    The processes of a run may all write the same file, so each writes under a name of its own first.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, got a folder")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the disk know which files a folder holds: else a rename may be lost with the power."""
    if os.name == "nt":  # where a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8; what is no text (a file's name may be such) becomes a question mark."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")
