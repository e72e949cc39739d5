"""Tagging of custom sequences."""

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.tasks.tag.task import TagConfig


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


register(_tag())
