"""The paper's ablation of initialisations: sCIFAR by models of at most 100K parameters that differ in A alone.

The paper does not give their settings. These are ours: those of its later runs of the kind, at a width that keeps all
of them below 100K. `longwave ablate` runs them together.
"""

from dataclasses import replace

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import MixerConfig, S4Config
from longwave.layers.lssl import GAUSSIAN, LSSLConfig
from longwave.models import SequenceConfig
from longwave.tasks.images.task import ImageConfig

# One A and B for all features of a layer, a dt for each; so it is in S4 with n_ssm=1.
DENSE = LSSLConfig(n_ssm=1, dt_per_feature=True)
NPLR = S4Config(n_ssm=1)
MIXERS_BY_ROW: dict[str, MixerConfig] = {
    "dense-hippo": DENSE,
    "dense-random": replace(DENSE, init=GAUSSIAN),
    "diagonal-random": replace(DENSE, init=GAUSSIAN, structure="diagonal"),
    "nplr-hippo": NPLR,
    "nplr-random": replace(NPLR, init="random-nplr"),
}
UNCONSTRAINED = ("dense-hippo", "dense-random", "diagonal-random")  # also with a frozen A
WITHOUT_A = ("B", "dt")
DROPOUT = 0.1

PLAIN = SequenceConfig(d_model=112, n_layers=4, prenorm=False, glu=False)
PLATEAU = OptimConfig(lr=0.01, schedule="plateau", plateau_patience=10)
LONG = LoopConfig(epochs=100, batch_size=50)
SCIFAR = ImageConfig("scifar")
FEWER = replace(SCIFAR, train_size=10_000)


def _variants() -> dict[str, tuple[MixerConfig, float]]:
    """The mixer and the dropout of every row, by its name."""
    found: dict[str, tuple[MixerConfig, float]] = {}
    for row, mixer in MIXERS_BY_ROW.items():
        found[row] = mixer, 0.0
        if row in UNCONSTRAINED:
            found[f"{row}-frozen"] = replace(mixer, trainable=WITHOUT_A), 0.0  # type: ignore[call-arg]
    return found | {f"{row}-dropout": (mixer, DROPOUT) for row, mixer in MIXERS_BY_ROW.items()}


VARIANTS = _variants()
ROWS = tuple(VARIANTS)

for _row, (_mixer, _dropout) in VARIANTS.items():
    _model = replace(PLAIN, mixer=_mixer, dropout=_dropout)
    register(
        Experiment(f"ablation-{_row}", SCIFAR, _model, PLATEAU, LONG),
        Experiment(f"ablation-{_row}-small", FEWER, replace(_model, d_model=64), PLATEAU, replace(LONG, epochs=20)),
    )
