"""Classification of custom sequences."""

from longwave.experiments.base import FAMILIES, Experiment, Family, LoopConfig, OptimConfig, register
from longwave.models import SequenceConfig
from longwave.tasks.classification import ClassifyConfig


def _classify() -> Experiment:
    """Custom sequences: a small causal model, trained for a number of steps that suits a small set, too."""
    return Experiment(
        "classify",
        ClassifyConfig(),
        SequenceConfig(d_model=64, n_layers=4, dropout=0.1, tie_dropout=True),
        OptimConfig(lr=0.004, weight_decay=0.05, warmup=100),
        LoopConfig(epochs=None, batch_size=32, least_steps=1500, keep="auto"),
    )


register(_classify())
FAMILIES.register("classification")(
    Family("Classification", [], custom=(("classify --npz FILE (or --csv FILE)", "the classes of sequences"),))
)
