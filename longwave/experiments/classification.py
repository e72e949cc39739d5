"""Classification of custom sequences."""

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.models import ClassifierConfig
from longwave.tasks.classify.task import ClassifyConfig


def _classify() -> Experiment:
    """Custom sequences: random convolutions and a small S4 that sees both ways, trained long enough for a small set."""
    return Experiment(
        "classify",
        ClassifyConfig(smoothing=0.1),
        ClassifierConfig(),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=100),
        LoopConfig(epochs=None, batch_size=16, least_steps=500, keep="auto"),
    )


register(_classify())
