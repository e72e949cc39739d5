"""Deep models: an encoder, a stack of residual blocks, a decoder; and a 2-D network to compare them with."""

from pathlib import Path
from typing import Any

from longwave.models import pretrained
from longwave.models.config import ModelConfig, ResNetConfig
from longwave.models.model import SequenceModel
from longwave.models.recurrence import Recurrence
from longwave.models.resnet import ResNet

# By the name in a saved model's config.json: the class of its settings, and its own.
MODELS: dict[str, tuple[Any, Any]] = {
    "SequenceModel": (ModelConfig, SequenceModel),
    "ResNet": (ResNetConfig, ResNet),
}

__all__ = ["MODELS", "ModelConfig", "Recurrence", "ResNet", "ResNetConfig", "SequenceModel", "build", "load"]


def build(config: ModelConfig | ResNetConfig) -> Any:
    """A new model of these settings."""
    return next(model for kind, model in MODELS.values() if type(config) is kind)(config)


def load(folder: str | Path) -> Any:
    """The model that `save_pretrained` wrote, whatever its kind."""
    return pretrained.load(folder, MODELS)
