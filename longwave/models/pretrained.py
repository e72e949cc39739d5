"""Save and load models as config.json and model.safetensors, without pickle."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from longwave.core import files
from longwave.layers.state_space import StateSpaces
from longwave.models import hub, weights
from longwave.models.base import FORMAT, ModelConfig
from longwave.ops import WeightType

BEST = "best"  # the folder of a run's best weights


class Pretrained:
    """Save, load, upload and download a model: a mixin for modules with a `config`."""

    modules: Any  # of the nn.Module that this is mixed into
    gives_features = False  # whether it has `features` and `nll`, which do not work out logits that nobody asks for

    @property
    def state_spaces(self) -> list[StateSpaces]:
        """The layers with SSMs, from the input to the output; a report shows the first and the last."""
        return [layer for layer in self.modules() if isinstance(layer, StateSpaces)]

    @property
    def parts(self) -> dict[str, Any]:
        """Submodels that are scored separately, by their display name."""
        return {}

    @property
    def summary(self) -> str | None:
        """A sentence about the model, to show with its scores; None: nothing to say."""
        return None

    @property
    def explained(self) -> Any:
        """The part of the model whose gradients a report shows; usually all of it."""
        return self

    def compiled_steps(self, rate: float = 1.0, weights: WeightType = "float32") -> Any:
        """Steps with the weights as they are now, f(z, states) in place.

        z (B, d_model) is the encoder's output, and afterwards what the last norm sees. `weights` is how those of linear
        layers are kept. None if the backend has no such steps for this model.
        """
        return None

    def check_states(self, states: Any, batch: int) -> None:
        """Refuse states that do not fit `batch` rows of this model, as far as can be checked."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors into `folder`, each atomically."""
        model: Any = self
        write_model(model.config, model.state_dict(), folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **where: Any) -> Self:
        """Load a model that `save_pretrained` wrote, or one from the hub (see `load_model`); nothing is unpickled."""
        model = load_model(folder, **where)
        if not isinstance(model, cls):
            raise ValueError(f"{folder}: expected a {cls.__name__}, got a {type(model).__name__}")
        return model

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool = True,
        licence: str | None = None,
        token: str | None = None,
        revision: str | None = None,
        client: Any = None,
    ) -> str:
        """Upload only the model, without its run, as the hub's "user/name"; returns the URL.

        `longwave.push_to_hub` uploads a run, with its scores and what its data needs. `client` is a
        huggingface_hub.HfApi, by default one that logs in with `token`, or as `hf auth login` has stored it.
        """
        model: Any = self
        parameters = sum(parameter.numel() for parameter in model.parameters())
        sections = {
            "Model": f"{type(model).__name__}, {parameters:,} parameters. All settings are in config.json.",
            "Training": "Not stated: this is the model alone, without its training run.",
        }

        def write(folder: Path) -> None:
            self.save_pretrained(folder)
            card = hub.card(model.config.label, sections, name, licence)
            (folder / "README.md").write_text(card, encoding="utf-8")

        where = {"token": token, "revision": revision, "client": client}
        return hub.push(write, name, private=private, licence=licence, **where)


def write_model(config: ModelConfig, tensors: Mapping[str, Tensor], folder: str | Path) -> None:
    """Write a model from settings and weights, without building it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights.write(folder / "model.safetensors", tensors)
    config.save_pretrained(folder)


def load_model(folder: str | Path, *, as_built: bool = False, **where: Any) -> Any:
    """Load a model of any kind that `save_pretrained` wrote, or the best weights of a run.

    Damaged weights are refused. `folder` may be the hub's "user/name" (see `hub.find`, also for its keywords: revision,
    cache_dir, token, local_files_only). Weights keep the dtype that they were saved in; with `as_built`, they get that
    of a new model.
    """
    folder = hub.find(folder, **where)
    if (folder / BEST / "config.json").exists() and not (folder / "model.safetensors").exists():
        folder = folder / BEST
    path = folder / "config.json"
    config, said = _read_config(path), str(path)
    path = folder / "model.safetensors"
    found = weights.read(path)
    model = _empty(config, said, found)
    expected = model.state_dict()
    for name, tensor in found.items():
        if name in expected and expected[name].is_floating_point() != tensor.is_floating_point():
            raise ValueError(f"{path}: {name}: expected {expected[name].dtype}, got {tensor.dtype}")
        if as_built and name in expected:
            found[name] = tensor.to(expected[name].dtype)
    try:
        model.load_state_dict(found, assign=True)
    except RuntimeError as error:
        raise ValueError(f"{path}: the weights do not fit the config.json beside them: {error}") from error
    return model


def _empty(config: ModelConfig, where: str, tensors: Mapping[str, Tensor]) -> Any:
    """Build a model whose weights `tensors` will replace, on the meta device to avoid random initialisation.

    Unless the model has something that is not among them, or does not build without.
    """
    try:
        with torch.device("meta"):
            model = config.build()
    except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError, NotImplementedError):
        return build(config, where)
    held = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return model if held <= tensors.keys() and _holds_no_more(model) else build(config, where)


def _holds_no_more(model: Any) -> bool:
    """Whether a model has no tensors but parameters and buffers."""
    return not any(isinstance(value, Tensor) for module in model.modules() for value in vars(module).values())


def build(config: ModelConfig, where: str) -> Any:
    """Build a model from settings; invalid ones are refused with `where` in the message."""
    try:
        return config.build()
    except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"{where}: its settings do not make a model: {error}") from error


def _read_config(path: Path) -> ModelConfig:
    try:
        content = files.read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: expected the config.json of a longwave model, got {error}") from error
    kind = content.get("model") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"{path}: expected the config.json of a longwave model, got another JSON file")
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{path}: format {content.get('format')!r}, but this version of longwave reads format {FORMAT}; "
            "update longwave"
        )
    settings = content.get("config")
    if not isinstance(settings, dict):
        raise ValueError(f'{path}: expected the settings of a model under "config", got {settings!r:.200}')
    try:
        return ModelConfig.from_dict({"kind": kind, **settings}, str(path))
    except ValueError as error:
        raise ValueError(f"{error}; written by a newer version of longwave?") from error
