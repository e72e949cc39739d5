"""Models on disk: config.json, which says what they are, and model.safetensors. Offline, and nothing is unpickled."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from longwave.data import files
from longwave.models.base import ModelConfig

FORMAT = 2  # of config.json and model.safetensors; 1 had the settings of all mixers beside those of the model


def save_model(model: Any, folder: str | Path) -> None:
    """Write a model with a `config` into `folder`; each of the two files is written atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    # One entry only: the library writes several in random order, and the same weights should be the same bytes.
    files.write_bytes(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    settings = model.config.to_dict()
    files.write_json(folder / "config.json", {"format": FORMAT, "model": settings.pop("kind"), "config": settings})


def load_model(folder: str | Path) -> Any:
    """The model that `save_model` wrote, of whatever kind."""
    folder = Path(folder)
    config = _read_config(folder / "config.json")
    try:
        model: nn.Module = config.build()
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


def _read_config(path: Path) -> ModelConfig:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected the config.json of a longwave model, got {error}") from error
    kind = content.get("model") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"{path}: expected the config.json of a longwave model, got another JSON file")
    if content.get("format") not in (1, FORMAT):
        raise ValueError(
            f"{path}: format {content.get('format')!r}, but this longwave reads formats up to {FORMAT}; update longwave"
        )
    settings = content.get("config")
    if not isinstance(settings, dict):
        raise ValueError(f'{path}: expected the settings of a model under "config", got {settings!r:.200}')
    try:
        return ModelConfig.from_dict({"kind": kind, **settings}, str(path))
    except ValueError as error:
        raise ValueError(f"{error}; written by a newer longwave?") from error
