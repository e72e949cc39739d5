"""Deep models (encoder, residual blocks, decoder), and convolutional networks for comparison."""

from longwave.models.base import MODELS, LinearSolution, Model, ModelConfig, Shift, Spec
from longwave.models.classifier import Classifier, ClassifierConfig
from longwave.models.forecaster import Forecaster, ForecasterConfig
from longwave.models.pair import PairConfig, PairModel
from longwave.models.pretrained import Pretrained, load_model
from longwave.models.recurrence import Recurrence
from longwave.models.resnet import ResNet, ResNetConfig
from longwave.models.sequence import SequenceConfig, SequenceModel
from longwave.models.unet import UNet, UNetConfig
from longwave.models.waveform_cnn import WaveformCNN, WaveformCNNConfig

__all__ = [
    "MODELS",
    "Classifier",
    "ClassifierConfig",
    "Forecaster",
    "ForecasterConfig",
    "LinearSolution",
    "Model",
    "ModelConfig",
    "PairConfig",
    "PairModel",
    "Pretrained",
    "Recurrence",
    "ResNet",
    "ResNetConfig",
    "SequenceConfig",
    "SequenceModel",
    "Shift",
    "Spec",
    "UNet",
    "UNetConfig",
    "WaveformCNN",
    "WaveformCNNConfig",
    "load_model",
]
