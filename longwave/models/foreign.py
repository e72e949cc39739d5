"""Tensors from files written by other programs with torch.save. Nothing in such a file is ever run."""

import pickle
import re
import shlex
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# What torch raises on a file that is damaged, or that is something else.
DAMAGE = (
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """The tensors by name of a state dict, or of a checkpoint of Lightning that has one and nothing but plain values.

    torch builds tensors and plain containers alone (`weights_only`); a file that names anything else is refused.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a state dict written by torch.save")
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's, on what is refused below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGE as error:
        # Files of old versions of torch are named by its message alone.
        if names := _foreign_names(path) or re.findall(r"GLOBAL (\S+)", str(error)):
            raise ValueError(_refusal(path, names)) from error
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{path}: expected a state dict written by torch.save, got another or a damaged file ({reason:.200})"
        ) from error
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(state, dict) or not state:
        raise ValueError(f"{path}: expected tensors by name (a state dict), got {type(state).__name__}")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(f"{path}: {name!r:.80}: expected a tensor, got {type(value).__name__}")
        if not _is_plain(value):
            raise ValueError(f"{path}: {name}: expected a plain tensor, got {value.dtype} of the layout {value.layout}")
    return state


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is plain memory, with as many numbers as its file had: none is expanded."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _foreign_names(path: Path) -> list[str]:
    """The names of what a file would build besides tensors and plain containers."""
    try:
        found: Any = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except DAMAGE:
        return []
    return sorted(found)


def _refusal(path: Path, names: list[str]) -> str:
    some = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
    stripped = path.with_suffix(".stripped.pt")
    code = f"import torch; torch.save(torch.load({str(path)!r}, weights_only=False)['state_dict'], {str(stripped)!r})"
    return (
        f"{path}: expected only tensors, but this file would build {some}, which can run anything; none of it "
        "was run. A Lightning checkpoint contains its settings: if you trust the file, strip it where the code "
        f"that wrote it is installed, with: python -c {shlex.quote(code)}"
    )
