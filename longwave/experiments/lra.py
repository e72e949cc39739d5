"""The Long Range Arena, with the updated settings, the paper's own, and small ones for a CPU."""

from dataclasses import fields, replace

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import PairConfig, SequenceConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.pairs.task import PairsConfig
from longwave.tasks.tokens.task import TokensConfig

LISTOPS = TokensConfig("listops", length=2048)
TEXT = TokensConfig("imdb", length=4096, least_count=15)
BUCKET = 100  # batches that are sorted by length together: reviews are a third as long as the longest, on average

# tab:lra, updated settings. Tokens: 4 states, one SSM for all features, and dt at the common rate. Pixels: 64 states,
# one SSM a feature (Image: n_ssm=1), and C at the rate of the SSM.
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

register(
    Experiment(
        "lra-listops",
        LISTOPS,
        WIDE,
        replace(STEADY, warmup=12_000),
        LoopConfig(epochs=40, batch_size=32, eval_batch_size=32, bucket=BUCKET),
    ),
    Experiment(
        "lra-listops-original",
        LISTOPS,
        replace(ORIGINAL, d_model=128, n_layers=6, prenorm=False),
        replace(PLATEAU, lr=0.01, weight_decay=0.01, plateau_patience=5),
        LoopConfig(epochs=50, batch_size=100, eval_batch_size=50, bucket=BUCKET),
    ),
    Experiment(
        "lra-listops-small",
        LISTOPS,
        NARROW,
        replace(STEADY, warmup=500),
        LoopConfig(epochs=4, batch_size=32, eval_batch_size=32, bucket=BUCKET, validations=2),
    ),
    Experiment(
        "lra-text",
        TEXT,
        replace(WIDE, prenorm=True),
        replace(STEADY, warmup=5_000),
        LoopConfig(epochs=32, batch_size=16, eval_batch_size=16, bucket=BUCKET),
    ),
    Experiment(
        "lra-text-original",
        TEXT,
        replace(ORIGINAL, d_model=64, n_layers=4),
        replace(PLATEAU, lr=0.001, plateau_patience=5),
        LoopConfig(epochs=20, batch_size=50, eval_batch_size=50, bucket=BUCKET),
    ),
    Experiment(
        "lra-text-small",
        TEXT,
        NARROW,
        replace(STEADY, warmup=500),
        LoopConfig(epochs=10, batch_size=16, eval_batch_size=16, bucket=BUCKET),
    ),
)

# Image

IMAGE = ImageConfig("grey-cifar", split_seed=42)

register(
    Experiment(
        "lra-image",
        IMAGE,
        replace(WIDE_PIXELS, d_model=512, mixer=replace(LARGE_STATE, n_ssm=1), dropout=0.1),
        replace(STEADY_PIXELS, warmup=18_000),
        LoopConfig(epochs=200, batch_size=50),
    ),
    Experiment(
        "lra-image-original",
        IMAGE,
        replace(ORIGINAL, d_model=512, n_layers=6, norm="layer", prenorm=False, dropout=0.2),
        replace(PLATEAU, lr=0.004, weight_decay=0.01, plateau_patience=20),
        LoopConfig(epochs=200, batch_size=50),
    ),
    Experiment(
        "lra-image-small",
        IMAGE,
        replace(NARROW, mixer=S4Config(bidirectional=True, n_ssm=1), dropout=0.1, tie_dropout=True),
        replace(STEADY, dt_lr=None, warmup=500),
        LoopConfig(epochs=20, batch_size=50),
    ),
)

# Retrieval

RETRIEVAL = PairsConfig("aan", length=4000)
SYNTHETIC = PairsConfig("retrieval-synthetic", length=1100)
# Topics differ in neighbouring characters: a state that forgets within a step sees them sooner.
NEIGHBOURS = S4Config(d_state=4, bidirectional=True, n_ssm=1, dt_max=1.0)


def _pair(model: SequenceConfig) -> PairConfig:
    """The same settings for pairs of sequences."""
    return PairConfig(**{field.name: getattr(model, field.name) for field in fields(model)})


register(
    Experiment(
        "lra-retrieval",
        RETRIEVAL,
        _pair(replace(WIDE, prenorm=True)),
        replace(STEADY, warmup=5_000, decay_steps=50_000),  # a little more than the run has
        LoopConfig(epochs=20, batch_size=64, eval_batch_size=64, bucket=BUCKET),
    ),
    Experiment(
        "lra-retrieval-original",
        RETRIEVAL,
        _pair(replace(ORIGINAL, d_model=256, n_layers=6)),
        replace(PLATEAU, lr=0.002, plateau_patience=20),
        LoopConfig(epochs=20, batch_size=64, eval_batch_size=64, bucket=BUCKET),
    ),
    Experiment(
        "lra-retrieval-small",
        replace(RETRIEVAL, length=2000),
        _pair(NARROW),
        replace(STEADY, warmup=500),
        LoopConfig(epochs=1, batch_size=16, eval_batch_size=32, bucket=BUCKET, validations=2),
    ),
    Experiment(
        "lra-retrieval-synthetic-small",
        SYNTHETIC,
        _pair(replace(NARROW, n_layers=2, mixer=NEIGHBOURS)),
        replace(STEADY, warmup=200),
        LoopConfig(epochs=5, batch_size=16, eval_batch_size=50, bucket=BUCKET, validations=2),
    ),
)
