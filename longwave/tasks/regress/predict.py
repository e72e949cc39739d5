"""Numbers for new sequences."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import write_csv
from longwave.tasks.actions import check_kind, predict_all
from longwave.tasks.base import TrainedRun
from longwave.tasks.regress.task import RegressionInput
from longwave.tasks.sequences import predict as sequences_predict
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.predict import check_finite, predict_action, prepare


@dataclass(frozen=True)
class Numbers:
    """The prediction for each of some sequences: a number for each target, in the units of the data."""

    targets: tuple[str, ...]
    values: NDArray[np.float64]  # (n, targets)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def write(self, path: Path) -> None:
        """Write a column for each target as CSV, one row per sequence, atomically."""
        write_csv(path, [list(self.targets), *([f"{value:.7g}" for value in row] for row in self.values)])


def regress(run: TrainedRun, sequences: Sequences, *, device: str = "auto") -> Numbers:
    """Predict the targets of sequences with the best weights of a run, in the units of the data."""
    check_kind(run, "predict", ACTION, "predicts numbers")
    inputs = run.fact("inputs", RegressionInput.from_dict)
    split, notes = prepare(run, sequences, inputs)
    found = predict_all(run.load_best(device), split, run.batch_size).numpy()
    check_finite(found, sequences.source)
    return Numbers(inputs.targets, inputs.restore(found), tuple(notes))


@dataclass(frozen=True)
class Options(sequences_predict.Options):
    """Predict numbers for sequences: one column per target, one row per sequence.

    Example: longwave predict runs/regress-my-seed0 --npz new.npz --out predictions.csv
    """


ACTION = predict_action(Options, "predicts numbers", regress)
