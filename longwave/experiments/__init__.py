"""Named experiments: the paper's settings, in the order of its tables, and small ones for a CPU with few cores.

Settings are loaded on first use: their names alone (`families`) are known without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longwave.experiments.base import EXPERIMENTS, Experiment, LoopConfig, OptimConfig, register

__all__ = ["EXPERIMENTS", "Experiment", "LoopConfig", "OptimConfig", "register"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("longwave.experiments.base"), name)
