"""Image classification pixel by pixel: the paper's sMNIST, pMNIST and sCIFAR, and small settings for a CPU."""

import dataclasses

from longwave.experiments import lra
from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.layers.attention import AttentionConfig
from longwave.layers.lssl import LSSLConfig
from longwave.layers.recurrent import LSTMConfig
from longwave.models import ModelConfig, ResNetConfig, SequenceConfig
from longwave.tasks.images.task import ImageConfig

SMNIST, PMNIST, SCIFAR = ImageConfig("smnist"), ImageConfig("pmnist"), ImageConfig("scifar")

# tab:image, updated settings.
WIDE = SequenceConfig(
    d_model=512,
    n_layers=6,
    mixer=S4Config(bidirectional=True, n_ssm=2, dt_transform="softplus"),
    prenorm=False,
    dropout=0.1,
    dropout_after=("mixer", "activation", "linear"),
    tie_dropout=True,
)
# The paper gives no settings for digits: those of sCIFAR, at half the width.
DIGITS = dataclasses.replace(WIDE, d_model=256)
STEADY = OptimConfig(lr=0.01, weight_decay=0.05, decay_norms=False, warmup=900)
LONG = LoopConfig(epochs=200, batch_size=50)
# tab::best-hyperparameters. One way and without GLU this has the 7.9 million parameters that the paper counts.
ORIGINAL = dataclasses.replace(lra.ORIGINAL, d_model=1024, n_layers=6, norm="layer", prenorm=False, dropout=0.25)
PLATEAU = dataclasses.replace(lra.PLATEAU, lr=0.01, weight_decay=0.01, plateau_patience=20)
# The paper gives the architecture and the scores of its ResNet-18, not how it was trained.
DECAYED = OptimConfig(lr=0.001, weight_decay=0.05, warmup=900)
# About an hour on two cores: narrower, less deep, and causal, so that it can stream. With batch norm the first hundreds
# of steps get much further than with layer norm, and an hour has few of them.
NARROW = SequenceConfig(d_model=64, n_layers=4, norm="batch", dropout=0.1, tie_dropout=True)
NARROW_RESNET = ResNetConfig(width=16)
AUGMENTED = dataclasses.replace(SCIFAR, augment=True)
# What S4 is compared with in tab:image, at its own small size, to be run under equal minutes (--loop.minutes).
RIVALS: dict[str, ModelConfig] = {
    "lstm": dataclasses.replace(NARROW, n_layers=1, mixer=LSTMConfig()),
    "transformer": dataclasses.replace(
        NARROW, mixer=AttentionConfig(bidirectional=True), norm="layer", feed_forward=256, glu=False
    ),
    "lssl": dataclasses.replace(NARROW, mixer=LSSLConfig()),
}
RATES = {"lstm": 0.002, "transformer": 0.002, "lssl": 0.01}


def _small(name: str, task: ImageConfig, model: ModelConfig = NARROW, epochs: int = 10, lr: float = 0.01) -> Experiment:
    optim = OptimConfig(lr=lr, weight_decay=0.05, warmup=500)
    return Experiment(f"{name}-small", task, model, optim, LoopConfig(epochs=epochs, batch_size=50, validations=2))


register(
    Experiment("smnist", SMNIST, DIGITS, STEADY, LONG),
    _small("smnist", SMNIST),
    Experiment("pmnist", PMNIST, DIGITS, STEADY, LONG),
    _small("pmnist", PMNIST, epochs=16),  # pixels without neighbours are learned more slowly
    Experiment("scifar", SCIFAR, WIDE, STEADY, LONG),
    _small("scifar", SCIFAR),
    Experiment("scifar-original", SCIFAR, ORIGINAL, PLATEAU, LONG),  # its small setting would be that of scifar
    Experiment("scifar-resnet18", SCIFAR, ResNetConfig(), DECAYED, LONG),
    _small("scifar-resnet18", SCIFAR, NARROW_RESNET, epochs=20, lr=0.002),
)
# The end of sec:experiments-general: with mild augmentation, and each with the other's norm. S4 has layer norm in the
# paper and batch norm at its small size, so that the name says which norm it is.
register(
    Experiment("scifar-augmented", AUGMENTED, WIDE, STEADY, LONG),
    _small("scifar-augmented", AUGMENTED),
    Experiment("scifar-resnet18-augmented", AUGMENTED, ResNetConfig(), DECAYED, LONG),
    _small("scifar-resnet18-augmented", AUGMENTED, NARROW_RESNET, epochs=20, lr=0.002),
    Experiment("scifar-batch-norm", SCIFAR, dataclasses.replace(WIDE, norm="batch"), STEADY, LONG),
    _small("scifar-layer-norm", SCIFAR, dataclasses.replace(NARROW, norm="layer")),
    Experiment("scifar-resnet18-layer-norm", SCIFAR, ResNetConfig(norm="layer"), DECAYED, LONG),
    _small("scifar-resnet18-layer-norm", SCIFAR, dataclasses.replace(NARROW_RESNET, norm="layer"), epochs=20, lr=0.002),
)
for _task in (SMNIST, SCIFAR):
    register(*(_small(f"{_task.data}-{_name}", _task, _model, lr=RATES[_name]) for _name, _model in RIVALS.items()))
