"""What can be done with a trained run, by the kind of its task: `longwave predict`, `generate` and `stream`.

A kind registers an action: the options that the command line has for it, and a function that does it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longwave.core.registry import Registry
from longwave.tasks.base import Batch, call
from longwave.train.folder import RunFolder


class Action(NamedTuple):
    """One way to use a run."""

    options: type  # a dataclass; its docstring and those of its fields are the help of the command
    run: Callable[[RunFolder, Any], Iterator[str]]  # what it gives is printed as it comes


PREDICTORS: Registry[Action] = Registry("predictor", "longwave.infer")
GENERATORS: Registry[Action] = Registry("generator", "longwave.infer")
STREAMERS: Registry[Action] = Registry("streamer", "longwave.infer")


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Options of whatever computes with a model."""

    device: str = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""


def predict(model: Any, batch: Batch, call: Callable[[Any, Batch], Tensor] = call) -> Tensor:
    """The output of a model for a batch: computed where the model is, and then on the CPU."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with torch.no_grad():
        return call(model, {name: values.to(device) for name, values in batch.items()}).cpu()


def check_distinct(**paths: Path | None) -> None:
    """Refuse one file in two roles: what is read would be written over."""
    seen: dict[Path, str] = {}
    for role, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.expanduser().resolve(), role)
        if other != role:
            raise ValueError(f"--{role}: {path} is also --{other}; name another file")
