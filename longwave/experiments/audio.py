"""Audio: spoken words and digits from their samples or from MFCC, and custom clips."""

from longwave.experiments.base import FAMILIES, Experiment, Family, LoopConfig, OptimConfig, register
from longwave.models import SequenceConfig
from longwave.tasks.fsdd import FsddConfig

# Causal and scaled by one number, so that it can stream.
STREAMING = SequenceConfig(d_model=64, n_layers=4, norm="batch", dropout=0.1, tie_dropout=True)

register(
    Experiment(
        "fsdd",
        FsddConfig(),
        STREAMING,
        OptimConfig(lr=0.01, weight_decay=0.05, warmup=200),
        LoopConfig(epochs=25, batch_size=20, eval_batch_size=50, bucket=30),
    ),
)
FAMILIES.register("audio")(Family("Audio", [("fsdd", "spoken digits, 8 kHz, about 3,500 samples")]))
