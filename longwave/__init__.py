"""longwave: long sequences with structured state spaces (S4).

Public names are loaded on first use, so that `import longwave` and `longwave --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longwave.infer.generate import generate
    from longwave.layers.s4 import DPLR, S4
    from longwave.train.optim import param_groups

__version__ = "0.1.0"
__all__ = ["DPLR", "S4", "__version__", "generate", "param_groups"]

_HOME = {
    "S4": "longwave.layers.s4",
    "DPLR": "longwave.layers.s4",
    "generate": "longwave.infer.generate",
    "param_groups": "longwave.train.optim",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'longwave' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
