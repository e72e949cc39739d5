"""longwave: long sequences with structured state spaces (S4).

Public names are loaded on first use, so that `import longwave` and `longwave --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longwave.backtests import backtest
    from longwave.estimators import S4Classifier, S4Forecaster, S4Regressor, S4Tagger
    from longwave.exporting import export
    from longwave.fitting import (
        train_audio,
        train_classifier,
        train_forecaster,
        train_regressor,
        train_tagger,
        train_text,
    )
    from longwave.layers.s4 import S4, S4Config
    from longwave.layers.s4d import S4D, S4DConfig
    from longwave.layers.state_space import DPLR
    from longwave.models import SequenceConfig, SequenceModel, load_model
    from longwave.models.authors import from_authors
    from longwave.models.generate import generate
    from longwave.models.stream import stream
    from longwave.publish import push_to_hub
    from longwave.runs import load_run
    from longwave.train.optim import param_groups

__version__ = "0.2.0"
__all__ = [
    "DPLR",
    "S4",
    "S4D",
    "S4Classifier",
    "S4Config",
    "S4DConfig",
    "S4Forecaster",
    "S4Regressor",
    "S4Tagger",
    "SequenceConfig",
    "SequenceModel",
    "__version__",
    "backtest",
    "export",
    "from_authors",
    "generate",
    "load_model",
    "load_run",
    "open",
    "param_groups",
    "push_to_hub",
    "stream",
    "train_audio",
    "train_classifier",
    "train_forecaster",
    "train_regressor",
    "train_tagger",
    "train_text",
]

_HOME = {  # the module of a name
    "S4": "longwave.layers.s4",
    "S4Config": "longwave.layers.s4",
    "S4D": "longwave.layers.s4d",
    **dict.fromkeys(("S4Classifier", "S4Forecaster", "S4Regressor", "S4Tagger"), "longwave.estimators"),
    "S4DConfig": "longwave.layers.s4d",
    "backtest": "longwave.backtests",
    "DPLR": "longwave.layers.state_space",
    "export": "longwave.exporting",
    "SequenceConfig": "longwave.models",
    "SequenceModel": "longwave.models",
    "from_authors": "longwave.models.authors",
    "load_model": "longwave.models",
    "load_run": "longwave.runs",
    "open": "longwave.runs",
    "generate": "longwave.models.generate",
    "param_groups": "longwave.train.optim",
    "push_to_hub": "longwave.publish",
    "stream": "longwave.models.stream",
    **dict.fromkeys((name for name in __all__ if name.startswith("train_")), "longwave.fitting"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'longwave' has no attribute {name!r}")
    from longwave.core.extras import named

    with named():
        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
