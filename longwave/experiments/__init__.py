"""Named experiments: the paper's settings, in the order of its tables, and small ones for a CPU with few cores."""

from longwave.experiments.base import EXPERIMENTS, FAMILIES, Experiment, Family, LoopConfig, OptimConfig, register

__all__ = ["EXPERIMENTS", "FAMILIES", "Experiment", "Family", "LoopConfig", "OptimConfig", "register"]
