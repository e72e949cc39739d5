"""Custom sequences: their classes, numbers for each of them, and labels of their steps."""

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import ClassifierConfig, SequenceConfig
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.regress.task import RegressConfig
from longwave.tasks.tag.task import TagConfig


def _classify() -> Experiment:
    """Custom sequences: random convolutions and a small S4 that sees both ways, trained long enough for a small set."""
    return Experiment(
        "classify",
        ClassifyConfig(smoothing=0.1),
        ClassifierConfig(),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=100),
        LoopConfig(epochs=None, batch_size=16, least_steps=500, keep="auto"),
    )


def _regress() -> Experiment:
    """Custom sequences: a small causal model, batches small enough for small sets, ended when it gets no better."""
    return Experiment(
        "regress",
        RegressConfig(),
        SequenceConfig(d_model=64, n_layers=4, dropout=0.1, tie_dropout=True),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=20),
        LoopConfig(epochs=None, batch_size=32, least_steps=1500, keep="auto"),
    )


def _tag() -> Experiment:
    """Custom sequences: a small model that sees both ways, small batches, ended when it gets no better."""
    return Experiment(
        "tag",
        TagConfig(),
        SequenceConfig(
            d_model=64,
            n_layers=4,
            mixer=S4Config(bidirectional=True),
            dropout=0.1,
            tie_dropout=True,
            decoder="sequence",
        ),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=20),
        LoopConfig(epochs=None, batch_size=16, eval_batch_size=64, least_steps=1000),
    )


register(_classify(), _regress(), _tag())
