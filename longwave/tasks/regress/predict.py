"""Numbers for new sequences."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import write_csv
from longwave.tasks.actions import PREDICTORS, Action, OnDevice, predict
from longwave.tasks.base import Split, batches
from longwave.tasks.regress.task import RegressionInput
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.predict import check_finite, check_kind, prepare, read_new, written
from longwave.train.folder import RunFolder


@dataclass(frozen=True)
class Numbers:
    """The prediction for each of some sequences: a number for each target, in the units of the data."""

    targets: tuple[str, ...]
    values: NDArray[np.float64]  # (n, targets)
    notes: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write a column for each target as CSV, a row a sequence, atomically."""
        write_csv(path, [list(self.targets), *([f"{value:.7g}" for value in row] for row in self.values)])


def outputs(model: Any, split: Split, batch_size: int) -> NDArray[np.float64]:
    """The output of a model for each example of a split, (n, targets), in the units of the training loss."""
    return np.concatenate([predict(model, batch).double().numpy() for batch in batches(split, batch_size)])


def regress(folder: str | Path, sequences: Sequences, *, device: str = "auto") -> Numbers:
    """Predict the targets of sequences with the best weights of a run, in the units of the data."""
    return _regress(RunFolder.open(folder), sequences, device)


def _regress(folder: RunFolder, sequences: Sequences, device: str) -> Numbers:
    check_kind(folder, ACTION, "predicts numbers")
    inputs = folder.fact("inputs", RegressionInput.from_dict)
    split, notes = prepare(folder, sequences, inputs)
    found = outputs(folder.load_best(device), split, folder.config.experiment.loop.eval_batch_size)
    check_finite(found, sequences.source)
    return Numbers(inputs.targets, inputs.restore(found), tuple(notes))


@dataclass(frozen=True)
class Options(OnDevice):
    """Predict numbers for sequences: a column for each target, a row for each sequence.

    Example: longwave predict runs/regress-my-seed0 --npz new.npz --out predictions.csv
    """

    npz: Path | None = None
    """Sequences (x, and lengths if they differ)."""
    csv: Path | None = None
    """Or a CSV file, one sequence a row."""
    out: Path = Path("predictions.csv")
    """Where to write the predictions."""


def _predict(folder: RunFolder, options: Options) -> Iterator[str]:
    new = read_new(folder, options.npz, options.csv, options.out, "predicts numbers")
    numbers = _regress(folder, new, options.device)
    numbers.write(options.out)
    yield from written(numbers.notes, len(numbers.values), options.out)


ACTION = Action(Options, _predict)
PREDICTORS.register("regress")(ACTION)
