"""The Long Range Arena: ListOps and Text, with the updated settings, the paper's own, and small ones for a CPU."""

from dataclasses import replace

from longwave.experiments.base import FAMILIES, Experiment, Family, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.tasks.tokens import TokensConfig

LISTOPS = TokensConfig("listops", length=2048)
TEXT = TokensConfig("imdb", length=4096, least_count=15)
BUCKET = 100  # batches that are sorted by length together: reviews are a third as long as the longest, on average

# tab:lra, updated settings; one SSM for all features, and dt at the common rate.
WIDE = SequenceConfig(
    d_model=256,
    n_layers=6,
    mixer=S4Config(d_state=4, bidirectional=True, n_ssm=1),
    norm="batch",
    prenorm=False,
)
STEADY = OptimConfig(lr=0.01, dt_lr=0.01, weight_decay=0.05, decay_norms=False)
# tab::best-hyperparameters: one way, without GLU, 64 states.
ORIGINAL = SequenceConfig(norm="batch", glu=False)
PLATEAU = OptimConfig(schedule="plateau")
# About an hour on two cores.
NARROW = replace(WIDE, d_model=64, n_layers=4, prenorm=True)

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
FAMILIES.register("lra")(
    Family(
        "Long Range Arena (the paper's tab:lra)",
        [
            ("lra-listops", "nested lists of operators on digits, up to 1,999 tokens"),
            ("lra-listops-original", "the settings before the update"),
            ("lra-text", "film reviews, up to 4,095 characters"),
            ("lra-text-original", "the settings before the update"),
            ("lra-pathfinder", "do two marked ends belong to one snake? images, 1,024 steps"),
            ("lra-pathfinder-original", "the settings before the update"),
            ("lra-pathx", "the same in larger images, 16,384 steps"),
            ("lra-pathx-original", "the settings before the update"),
        ],
    )
)
