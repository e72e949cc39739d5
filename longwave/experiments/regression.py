"""Regression on custom sequences."""

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.models import SequenceConfig
from longwave.tasks.regress.task import RegressConfig


def _regress() -> Experiment:
    """Custom sequences: a small causal model, batches small enough for small sets, ended when it gets no better."""
    return Experiment(
        "regress",
        RegressConfig(),
        SequenceConfig(d_model=64, n_layers=4, dropout=0.1, tie_dropout=True),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=20),
        LoopConfig(epochs=None, batch_size=32, least_steps=1500, keep="auto"),
    )


register(_regress())
