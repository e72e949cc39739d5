"""The Long Range Arena, with the updated settings, the paper's own, and small ones for a CPU."""

from dataclasses import replace
from typing import Any

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.layers.s4d import S4DConfig
from longwave.models import SequenceConfig
from longwave.tasks.base import TaskConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.pairs.task import PairsConfig
from longwave.tasks.pathfinder.task import PathfinderConfig
from longwave.tasks.tokens.task import TokensConfig

# tab:lra, updated settings. Tokens: 4 states, one SSM for all features, and dt at the common rate. Pixels: 64 states,
# one SSM per feature (Image: n_ssm=1), and C at the rate of the SSM.
WIDE = SequenceConfig(
    d_model=256,
    n_layers=6,
    mixer=S4Config(d_state=4, bidirectional=True, n_ssm=1, dt_transform="softplus"),
    norm="batch",
    prenorm=False,
    dropout_after=("mixer", "activation", "linear"),
    tie_dropout=True,
)
LARGE_STATE = S4Config(bidirectional=True, dt_transform="softplus")
WIDE_PIXELS = replace(WIDE, mixer=LARGE_STATE)
STEADY = OptimConfig(lr=0.01, dt_lr=0.01, weight_decay=0.05, decay_norms=False)
STEADY_PIXELS = replace(STEADY, dt_lr=None, c_lr=0.001)
# tab::best-hyperparameters: one way, without GLU, 64 states; C, too, starts at 0.001 at most.
ORIGINAL = SequenceConfig(norm="batch", glu=False, dropout_after=("activation", "linear"), tie_dropout=True)
PLATEAU = OptimConfig(schedule="plateau", c_lr=0.001)
# About an hour on two cores.
NARROW = SequenceConfig(
    d_model=64, n_layers=4, mixer=S4Config(d_state=4, bidirectional=True, n_ssm=1), norm="batch", prenorm=True
)
BRIEF = replace(STEADY, warmup=500)


def _loop(epochs: int, batch_size: int, eval_batch_size: int | None = None, **others: Any) -> LoopConfig:
    """Loop settings whose evaluation batch size defaults to that of training."""
    return LoopConfig(epochs, batch_size, eval_batch_size or batch_size, **others)


def _sorted(epochs: int, batch_size: int, eval_batch_size: int | None = None, **others: Any) -> LoopConfig:
    """Sort 100 batches by length together, since reviews are on average a third as long as the longest."""
    return _loop(epochs, batch_size, eval_batch_size, bucket=100, **others)


def _original(
    name: str, task: TaskConfig, loop: LoopConfig, *, lr: float, patience: int, optim: Any = None, **model: Any
) -> Experiment:
    """A task's settings in the paper's first version; `optim` has optimiser settings that only this task has."""
    changed = replace(PLATEAU, lr=lr, plateau_patience=patience, **optim or {})
    return Experiment(f"lra-{name}-original", task, replace(ORIGINAL, **{"n_layers": 6} | model), changed, loop)


# ListOps and Text

LISTOPS = TokensConfig("listops", length=2048)
TEXT = TokensConfig("imdb", length=4096, min_count=15)
DECAY = {"weight_decay": 0.01}

register(
    Experiment("lra-listops", LISTOPS, WIDE, replace(STEADY, warmup=12_000), _sorted(40, 32)),
    _original("listops", LISTOPS, _sorted(50, 100, 50), lr=0.01, patience=5, optim=DECAY, d_model=128, prenorm=False),
    Experiment("lra-listops-small", LISTOPS, NARROW, BRIEF, _sorted(4, 32, validations=2)),
    Experiment("lra-text", TEXT, replace(WIDE, prenorm=True), replace(STEADY, warmup=5_000), _sorted(32, 16)),
    _original("text", TEXT, _sorted(20, 50), lr=0.001, patience=5, d_model=64, n_layers=4),
    Experiment("lra-text-small", TEXT, NARROW, BRIEF, _sorted(10, 16)),
)

# Image

IMAGE = ImageConfig("grey-cifar", split_seed=42)
ONE_SSM = replace(WIDE_PIXELS, d_model=512, mixer=replace(LARGE_STATE, n_ssm=1), dropout=0.1)
WIDE_ORIGINAL = {"d_model": 512, "norm": "layer", "prenorm": False, "dropout": 0.2}
NARROW_IMAGE = replace(NARROW, mixer=S4Config(bidirectional=True, n_ssm=1), dropout=0.1, tie_dropout=True)

register(
    Experiment("lra-image", IMAGE, ONE_SSM, replace(STEADY_PIXELS, warmup=18_000), _loop(200, 50, 200)),
    _original("image", IMAGE, _loop(200, 50, 200), lr=0.004, patience=20, optim=DECAY, **WIDE_ORIGINAL),
    Experiment("lra-image-small", IMAGE, NARROW_IMAGE, replace(BRIEF, dt_lr=None), _loop(20, 50, 200)),
)

# Retrieval

RETRIEVAL = PairsConfig("aan", length=4000)
SHORTER = replace(RETRIEVAL, length=2000)
SYNTHETIC = PairsConfig("retrieval-synthetic", length=1100)
PAIR = replace(WIDE, prenorm=True).as_kind("PairModel")
NARROW_PAIR = NARROW.as_kind("PairModel")
# Topics differ in neighbouring characters: a state that forgets within a step sees them sooner.
NEIGHBOURS = replace(NARROW_PAIR, n_layers=2, mixer=replace(NARROW_PAIR.mixer, dt_max=1.0))
DECAYED = replace(STEADY, warmup=5_000, decay_steps=50_000)  # a little more than the run has
FIRST = _original("retrieval", RETRIEVAL, _sorted(20, 64), lr=0.002, patience=20, d_model=256)

register(
    Experiment("lra-retrieval", RETRIEVAL, PAIR, DECAYED, _sorted(20, 64)),
    replace(FIRST, model=FIRST.model.as_kind("PairModel")),
    Experiment("lra-retrieval-small", SHORTER, NARROW_PAIR, BRIEF, _sorted(1, 16, 32, validations=2)),
    Experiment(
        "lra-retrieval-synthetic-small",
        SYNTHETIC,
        NEIGHBOURS,
        replace(STEADY, warmup=200),
        _sorted(5, 16, 50, validations=2),
    ),
)

# Pathfinder and Path-X

PATHFINDER, PATHX = PathfinderConfig("pathfinder"), PathfinderConfig("pathx")
CENTRED, CENTRED_X = replace(PATHFINDER, centred=True), replace(PATHX, centred=True)

# One SSM per feature. Path-X has slower ones, for its 16,384 steps.
SNAKES = replace(WIDE_PIXELS, prenorm=True)
SLOW = replace(SNAKES, mixer=replace(LARGE_STATE, dt_min=0.0001))
LONG = replace(STEADY_PIXELS, warmup=50_000)
SLOW_ORIGINAL = {"ssm_lr": 0.0005, "c_lr": None}
# An hour or two on two cores; of Path-X, on a set of 20,000 images. There, easier images come first, and training sees
# one pixel in place of four of a row: state spaces learned so read all 16,384 pixels as well, by their dt alone.
BOTH_WAYS = replace(NARROW, mixer=S4Config(bidirectional=True))
LINEAR = replace(NARROW, mixer=S4DConfig(init="s4d-lin", bidirectional=True, dt_min=0.0002, dt_max=0.03))
EASY_FIRST = replace(PATHX, curriculum=2.25, rates=(4.0,))
# The label follows from no simple feature: training begins on a plateau, where a model of this size still was
# after an epoch at this rate. An epoch of easier images ends it.
SMALL = replace(STEADY, lr=0.004, dt_lr=None, warmup=1000)

register(
    Experiment("lra-pathfinder", PATHFINDER, SNAKES, replace(LONG, lr=0.004), _loop(200, 64)),
    _original("pathfinder", CENTRED, _loop(200, 100), lr=0.004, patience=10, d_model=256, dropout=0.1),
    Experiment("lra-pathfinder-small", replace(PATHFINDER, curriculum=1.0), BOTH_WAYS, SMALL, _loop(7, 32, 200)),
    Experiment("lra-pathx", PATHX, SLOW, replace(LONG, lr=0.001), _loop(50, 16)),
    _original("pathx", CENTRED_X, _loop(100, 32), lr=0.0005, patience=20, optim=SLOW_ORIGINAL, d_model=256),
    Experiment("lra-pathx-small", EASY_FIRST, LINEAR, replace(SMALL, warmup=100), _loop(3, 16)),
)
