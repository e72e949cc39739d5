"""Deep models: an encoder, a stack of residual blocks, a decoder."""

from longwave.models.config import ModelConfig
from longwave.models.model import SequenceModel

__all__ = ["ModelConfig", "SequenceModel"]
