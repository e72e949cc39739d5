"""Labels of new sequences, with probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import write_csv
from longwave.tasks.actions import check_kind, predict_all
from longwave.tasks.base import Split, TrainedRun
from longwave.tasks.classify.task import ClassifierInput
from longwave.tasks.sequences import predict as sequences_predict
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.predict import check_finite, predict_action, prepare


@dataclass(frozen=True)
class Labels:
    """The prediction for each of some sequences: a probability for each class, and the label of the likeliest."""

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]  # (n, classes)
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # that the sequences were read from, where each has one of its own

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each sequence."""
        return [self.classes[k] for k in self.probabilities.argmax(axis=1)]

    def write(self, path: str | Path) -> None:
        """Write the file if there is one, label and probabilities as CSV, one row per sequence, atomically."""
        columns: dict[str, Sequence[str]] = {"file": self.files} if self.files else {}
        columns["label"] = self.labels
        for name, own in zip(self.classes, self.probabilities.T, strict=True):
            columns[f"p_{name}"] = [f"{p:.6g}" for p in own]
        write_csv(path, [list(columns), *map(list, zip(*columns.values(), strict=True))])


def probabilities(model: Any, split: Split, batch_size: int) -> NDArray[np.float64]:
    """The probability of each class for each example of a split, (n, classes)."""
    return np.asarray(predict_all(model, split, batch_size).softmax(-1).numpy())


def classify(run: TrainedRun, sequences: Sequences, *, device: str = "auto") -> Labels:
    """Classify sequences with the best weights of a run: as they were in training, before standardisation.

    Images come as pixels from 0 to 255, row by row.
    """
    check_kind(run, "predict", ACTION, "classifies")
    inputs = run.fact("inputs", ClassifierInput.from_dict)
    split, notes = prepare(run, sequences, inputs)
    found = probabilities(run.load_best(device), split, run.batch_size)
    check_finite(found, sequences.source)
    return Labels(inputs.classes, found, tuple(notes))


@dataclass(frozen=True)
class Options(sequences_predict.Options):
    """Classify sequences: a label and the probability of each class, one row per sequence.

    Example: longwave predict runs/classify-my-seed0 --npz new.npz --out labels.csv
    """

    npz: Path | None = None
    """Sequences (x, and lengths if they differ); images as pixels from 0 to 255, row by row."""
    out: Path = Path("labels.csv")
    """Where to write the labels."""


ACTION = predict_action(Options, "classifies", classify)
