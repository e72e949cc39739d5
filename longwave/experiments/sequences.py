"""Experiments on custom sequences: classification, regression and tagging.

Small models and small batches, for sets that may be small: they are passed over until there are enough steps.
"""

from dataclasses import replace

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import ClassifierConfig, SequenceConfig
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.regress.task import RegressConfig
from longwave.tasks.tag.task import TagConfig

CAUSAL = SequenceConfig(d_model=64, n_layers=4, dropout=0.1, tie_dropout=True)
BIDIRECTIONAL = replace(CAUSAL, mixer=S4Config(bidirectional=True), decoder="sequence")
OPTIM = OptimConfig(lr=0.004, weight_decay=0.05, warmup=20)
FEW_STEPS = LoopConfig(epochs=None, batch_size=16, min_steps=500, keep="auto")

register(
    # Random convolutions and a small bidirectional S4.
    Experiment("classify", ClassifyConfig(smoothing=0.1), ClassifierConfig(), replace(OPTIM, warmup=100), FEW_STEPS),
    Experiment("regress", RegressConfig(), CAUSAL, OPTIM, replace(FEW_STEPS, batch_size=32, min_steps=1500)),
    Experiment(
        "tag",
        TagConfig(),
        BIDIRECTIONAL,
        OPTIM,
        LoopConfig(epochs=None, batch_size=16, eval_batch_size=64, min_steps=1000),
    ),
)
