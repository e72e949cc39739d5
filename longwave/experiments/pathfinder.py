"""Pathfinder and Path-X of the Long Range Arena: the updated settings, the paper's own, and small ones for a CPU."""

from dataclasses import replace

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.tasks.pathfinder import PathfinderConfig

PATHFINDER, PATHX = PathfinderConfig("pathfinder"), PathfinderConfig("pathx")

# tab:lra, updated settings; one SSM a feature. Path-X has slower ones, for its 16,384 steps.
BOTH_WAYS = S4Config(bidirectional=True)
SLOW = replace(BOTH_WAYS, dt_min=0.0001)
WIDE = SequenceConfig(d_model=256, n_layers=6, mixer=BOTH_WAYS, norm="batch")
STEADY = OptimConfig(weight_decay=0.05, decay_norms=False, warmup=50_000)
# tab::best-hyperparameters: one way, without GLU.
ORIGINAL = SequenceConfig(d_model=256, n_layers=6, norm="batch", glu=False, tie_dropout=True)
PLATEAU = OptimConfig(schedule="plateau")
# An hour or two on two cores; of Path-X, on a set of 20,000 images.
SMALL = replace(STEADY, warmup=500)

register(
    Experiment(
        "lra-pathfinder",
        PATHFINDER,
        WIDE,
        replace(STEADY, lr=0.004),
        LoopConfig(epochs=200, batch_size=64, eval_batch_size=64),
    ),
    Experiment(
        "lra-pathfinder-original",
        PATHFINDER,
        replace(ORIGINAL, dropout=0.1),
        replace(PLATEAU, lr=0.004, plateau_patience=10),
        LoopConfig(epochs=200, batch_size=100, eval_batch_size=100),
    ),
    Experiment(
        "lra-pathfinder-small",
        PATHFINDER,
        replace(WIDE, d_model=64, n_layers=4),
        replace(SMALL, lr=0.004),
        LoopConfig(epochs=6, batch_size=50, validations=2),
    ),
    Experiment(
        "lra-pathx",
        PATHX,
        replace(WIDE, mixer=SLOW),
        replace(STEADY, lr=0.001),
        LoopConfig(epochs=50, batch_size=16, eval_batch_size=16),
    ),
    Experiment(
        "lra-pathx-original",
        PATHX,
        ORIGINAL,
        replace(PLATEAU, lr=0.0005, plateau_patience=20),
        LoopConfig(epochs=100, batch_size=32, eval_batch_size=32),
    ),
    Experiment(
        "lra-pathx-small",
        PATHX,
        replace(WIDE, d_model=64, n_layers=4, mixer=SLOW),
        replace(SMALL, lr=0.002),
        LoopConfig(epochs=4, batch_size=16, eval_batch_size=16, validations=2),
    ),
)
