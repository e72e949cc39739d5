"""Read tensors from files that other programs wrote with torch.save, without running anything in them.

Checkpoints of Lightning hold objects of other libraries beside the tensors, such as their settings by OmegaConf. They
are read as `Foreign`, which keeps what an object was to be made of and does nothing with it.
"""

import pickle
import re
import shlex
import struct
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Foreign:
    """Stands for an object of another program, or for a class or function of it."""

    content: Any = None  # what it was to be made of

    def __init__(self, *arguments: Any) -> None:
        self.content = arguments

    def __setstate__(self, state: Any) -> None:
        self.content = state


class Checkpoint(NamedTuple):
    """The content of another program's checkpoint."""

    tensors: dict[str, Tensor]
    hyper_parameters: Any  # of a checkpoint of Lightning: dicts, lists, plain values and Foreign; else None

    def values(self, name: str) -> set[Any]:
        """All plain values that the hyper-parameters have under this name, at any depth."""
        return {value for key, value in _entries(self.hyper_parameters) if key == name}


def _entries(content: Any) -> Iterator[tuple[Any, Any]]:
    """The names and plain values of nested dicts, lists and foreign objects, each of which is visited once."""
    left, seen = [(None, content)], set()
    while left:
        key, value = left.pop()
        if isinstance(value, str | int | float):
            yield key, value
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, dict):
                left += value.items()
            elif isinstance(value, list | tuple):
                left += [(None, part) for part in value]
            elif isinstance(value, Foreign) and isinstance(value.content, dict):
                # Of OmegaConf: a container has its _content, a value its _val.
                left.append((key, value.content.get("_val", value.content.get("_content"))))


def read_checkpoint(path: str | Path) -> Checkpoint:
    """The tensors by name of a state dict, or of a checkpoint of Lightning, and the hyper-parameters beside them.

    torch builds tensors and plain containers alone (`weights_only`), and stand-ins for what a file names beyond them.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a state dict written by torch.save")
    try:
        stand_ins: Any = [(Foreign, name) for name in _foreign_names(path)]
        with (
            warnings.catch_warnings(action="ignore"),  # torch's, on what is refused below
            torch.serialization.safe_globals(stand_ins),
        ):
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
    return Checkpoint(state, None if state is content else content.get("hyper_parameters"))


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is plain memory, with as many numbers as its file had: none is expanded."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _foreign_names(path: Path) -> list[str]:
    """Names of the objects that a file would build besides tensors and plain containers."""
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
        f"{path}: expected tensors and settings, but this file would build {some} in a way that cannot be read "
        "without running it; none of it was run. If you trust the file, strip it where the code "
        f"that wrote it is installed, with: python -c {shlex.quote(code)}"
    )
