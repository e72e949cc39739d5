"""Safetensors files with the SHA-256 of header and data in the metadata, to detect damage.

Files without a sum, as other programs and earlier versions write them, are read as they are.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from longwave.core import files

SUM = "sha256"


class Damaged(ValueError):
    """A damaged file of tensors."""


def write(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write tensors atomically, and notes into the header; the same tensors and notes are the same bytes."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry only: the library writes several in random order. The second, the sum, is put in here.
    header, values = _split(save(plain, metadata={"format": "pt"}))
    header["__metadata__"] |= notes or {}
    header["__metadata__"][SUM] = _sum(header, values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the values are aligned
    files.write_bytes(path, len(text).to_bytes(8, "little") + text + values)


def read(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file; damaged or other files are refused."""
    return read_with_notes(path, "the weights of a longwave model", "train again")[0]


def read_with_notes(path: Path, what: str, cure: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors of a file and the notes in its header; `what` and `cure` complete error messages."""
    try:
        data = path.read_bytes()
        tensors = load(data)
        header, values = _split(data)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise Damaged(f"{path}: expected {what}, got {error}") from error
    metadata: dict[str, str] = header.get("__metadata__") or {}
    # Its name may be what is damaged.
    expected = metadata.get(SUM) or next((text for text in metadata.values() if len(text) == 64), None)
    if expected is not None and expected != _sum(header, values):
        raise Damaged(
            f"{path}: the file is damaged: its content does not match its checksum; restore it from a copy, or {cure}"
        )
    return {name: tensor.clone() for name, tensor in tensors.items()}, metadata


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file and the values after it."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def _sum(header: dict[str, Any], values: bytes) -> str:
    """The checksum of a file, without the one in its header."""
    metadata = {name: text for name, text in header.get("__metadata__", {}).items() if name != SUM}
    plain = json.dumps({**header, "__metadata__": metadata}, sort_keys=True)
    return hashlib.sha256(plain.encode() + values).hexdigest()
