"""Shared parts of predict, generate and stream: checks, device, predictions, output files."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from longwave.core.terminal import say
from longwave.tasks.base import Action, Batch, Split, TrainedRun, batches, call


def check_kind(run: TrainedRun, command: str, action: Action, does: str) -> None:
    """Refuse a run of another kind of task."""
    if run.settings.action(command) is not action:
        raise ValueError(f"{run.path}: expected a run that {does}, got one of kind {run.settings.kind}")


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Options of commands that run a model."""

    device: str = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""


def predict(model: Any, batch: Batch, call: Callable[[Any, Batch], Tensor] = call) -> Tensor:
    """The output of a model for a batch, computed on the model's device and returned on the CPU."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with torch.no_grad():
        return call(model, {name: values.to(device) for name, values in batch.items()}).cpu()


def predict_all(model: Any, split: Split, batch_size: int) -> Tensor:
    """The outputs of a model for all examples of a split, (n, ...), in double precision."""
    return torch.cat([predict(model, batch).double() for batch in batches(split, batch_size)])


def check_distinct(**paths: Path | None) -> None:
    """Refuse one file in two roles, such as input and output."""
    seen: dict[Path, str] = {}
    for role, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.expanduser().resolve(), role)
        if other != role:
            raise ValueError(f"--{role}: {path} is also --{other}; name another file")


class Predictions(Protocol):
    """Predictions for new data, one row of a file each."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the predictions."""
        ...

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def write(self, path: Path) -> None:
        """Write them as CSV."""
        ...


def written(found: Predictions, out: Path) -> Iterator[str]:
    """Write predictions to a file; yields what the command prints."""
    found.write(out)
    for note in found.notes:
        say(f"note: {note}", sys.stdout)
    yield f"{len(found)} row{'s' * (len(found) != 1)}: {out}\n"
