"""Arrays that are built once and memory-mapped from a cache, so that a set may be larger than memory.

The key of an array stands for everything that it depends on. `KEY.raw` has its numbers, `KEY.json` its type, shape and
further facts; the latter is written last, and marks the array as complete. The cache may be deleted at any time.
"""

import errno
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core import files

Put = Callable[[NDArray[Any]], None]
TYPES = ("int16", "float32")
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, eq=False)
class Mapped:
    """An array, and facts about it."""

    values: NDArray[Any]  # (total, columns)
    digest: str  # of the values
    facts: dict[str, Any]
    is_kept: bool  # on disk; else in memory, because the cache is not writable


def mapped(folder: Path, key: str, make: Callable[[Put], dict[str, Any]]) -> Mapped:
    """The array of a key, from the cache or built and cached.

    `make(put)` puts pieces (rows, columns) of one type, one after the other, and returns facts for JSON.
    """
    if (found := _load(folder, key)) is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.atomic(folder / f"{key}.raw") as file:
            pieces = _Pieces(file.write)
            facts = make(pieces.put)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        content = bytearray()
        pieces = _Pieces(content.extend)
        facts = make(pieces.put)
        values = np.frombuffer(content, np.dtype(pieces.dtype).newbyteorder("<")).reshape(pieces.rows, -1)
        return Mapped(values, pieces.digest.hexdigest(), facts, False)
    shape, digest = [pieces.rows, pieces.columns], pieces.digest.hexdigest()
    files.write_json(folder / f"{key}.json", {"dtype": pieces.dtype, "shape": shape, "digest": digest, "facts": facts})
    found = _load(folder, key)
    assert found is not None
    return found


class _Pieces:
    """Write an array piece by piece."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self.write, self.digest = write, hashlib.sha256()
        self.rows, self.columns, self.dtype = 0, 0, "float32"

    def put(self, piece: NDArray[Any]) -> None:
        assert piece.dtype.name in TYPES
        self.rows, self.columns, self.dtype = self.rows + len(piece), piece.shape[1], piece.dtype.name
        content = np.ascontiguousarray(piece, piece.dtype.newbyteorder("<")).tobytes()
        self.digest.update(content)
        self.write(content)


def _load(folder: Path, key: str) -> Mapped | None:
    """The cached array; None if it is missing or incomplete."""
    try:
        index = files.read_json(folder / f"{key}.json")
        shape, dtype = tuple(map(int, index["shape"])), index["dtype"]
        size = (folder / f"{key}.raw").stat().st_size
        if dtype not in TYPES or size != math.prod(shape) * np.dtype(dtype).itemsize:
            return None
        values = np.memmap(folder / f"{key}.raw", np.dtype(dtype).newbyteorder("<"), "r", shape=shape)
        return Mapped(values, str(index["digest"]), dict(index["facts"]), True)
    except (OSError, ValueError, KeyError, TypeError):
        return None
