"""Models on disk: config.json, which says what they are, and model.safetensors. Offline, and nothing is unpickled."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

FORMAT = 1  # of config.json and model.safetensors


def save(model: Any, folder: str | Path) -> None:
    """Write a model with a `config` into `folder`; each of the two files appears whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    # One entry only: the library writes several in random order, and the same weights should be the same bytes.
    save_file(weights, folder / ".model.safetensors.part", metadata={"format": "pt"})
    os.replace(folder / ".model.safetensors.part", folder / "model.safetensors")
    config = {"format": FORMAT, "model": type(model).__name__, "config": dataclasses.asdict(model.config)}
    (folder / ".config.json.part").write_text(json.dumps(config, indent=2) + "\n")
    os.replace(folder / ".config.json.part", folder / "config.json")


def load(folder: str | Path, kinds: Mapping[str, tuple[Any, Any]]) -> nn.Module:
    """The model that `save` wrote; `kinds` gives the classes of the config and of the model by the name stored."""
    folder = Path(folder)
    kind, config = _read_config(folder / "config.json", kinds)
    try:
        model: nn.Module = kind(config)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / 'config.json'}: its settings make no model: {error}") from error
    path = folder / "model.safetensors"
    try:
        # Copies, because the file may be replaced while the model lives.
        weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: expected the weights of a longwave model, got {error}") from error
    try:
        model.load_state_dict(weights, assign=True)  # in the dtype that they were saved in
    except RuntimeError as error:
        raise ValueError(f"{path}: the weights do not fit the config.json beside them: {error}") from error
    return model


def _read_config(path: Path, kinds: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected the config.json of a longwave model, got {error}") from error
    name = content.get("model") if isinstance(content, dict) else None
    if not isinstance(name, str) or name not in kinds:
        got = "another JSON file" if name is None else f"that of {name!r}"
        raise ValueError(f"{path}: expected the config.json of a longwave model ({', '.join(kinds)}), got {got}")
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{path}: format {content.get('format')!r}, but this longwave reads format {FORMAT}; update longwave"
        )
    settings = content.get("config")
    if not isinstance(settings, dict):
        raise ValueError(f'{path}: expected the settings of a model under "config", got {settings!r}')
    config, model = kinds[name]
    unknown = sorted(set(settings) - {field.name for field in dataclasses.fields(config)})
    if unknown:
        raise ValueError(f"{path}: unknown settings {', '.join(unknown)}; written by a newer longwave?")
    return model, config(**settings)
