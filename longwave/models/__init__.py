"""Deep models: an encoder, a stack of residual blocks, a decoder; and a 2-D network to compare them with."""

from longwave.models.base import MODELS, Model, ModelConfig, Spec
from longwave.models.pretrained import load_model
from longwave.models.recurrence import Recurrence
from longwave.models.resnet import ResNet, ResNetConfig
from longwave.models.sequence import SequenceConfig, SequenceModel

__all__ = [
    "MODELS",
    "Model",
    "ModelConfig",
    "Recurrence",
    "ResNet",
    "ResNetConfig",
    "SequenceConfig",
    "SequenceModel",
    "Spec",
    "load_model",
]
