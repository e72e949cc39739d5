"""Labels at each step of new sequences, with probabilities."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.io.csv import write_csv
from longwave.tasks.actions import check_kind, predict
from longwave.tasks.base import TrainedRun, batches
from longwave.tasks.sequences import predict as sequences_predict
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.predict import check_finite, predict_action, prepare
from longwave.tasks.sequences.task import SequenceSplit
from longwave.tasks.tag.task import TaggingInput


@dataclass(frozen=True)
class Tags:
    """The prediction for each step of some sequences: a probability for each class, and the label of the likeliest."""

    classes: tuple[str, ...]
    probabilities: list[NDArray[np.float64]]  # (length, classes) for each sequence
    names: tuple[str, ...]  # of the sequences
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.probabilities))

    @property
    def labels(self) -> list[list[str]]:
        """The likeliest class at each step of each sequence."""
        return [[self.classes[k] for k in chances.argmax(axis=1)] for chances in self.probabilities]

    def write(self, path: Path) -> None:
        """Write sequence, step, label and probabilities as CSV, one row per step, atomically."""
        write_csv(path, self._rows())

    def _rows(self) -> Iterator[list[str]]:
        yield ["sequence", "step", "label", *(f"p_{name}" for name in self.classes)]
        for name, labels, chances in zip(self.names, self.labels, self.probabilities, strict=True):
            for step, (label, row) in enumerate(zip(labels, chances, strict=True)):
                yield [name, str(step), label, *(f"{p:.6g}" for p in row)]


def probabilities(model: Any, split: SequenceSplit, batch_size: int) -> list[NDArray[np.float64]]:
    """The probability of each class at each step of each sequence of a split, (length, classes)."""
    found = []
    for batch in batches(split, batch_size):
        found += list(predict(model, batch).double().softmax(-1).numpy())
    return [chances[:length] for chances, length in zip(found, split.lengths, strict=True)]


def tag(run: TrainedRun, sequences: Sequences, *, device: str = "auto") -> Tags:
    """Label each step of sequences with the best weights of a run."""
    check_kind(run, "predict", ACTION, "tags")
    inputs = run.fact("inputs", TaggingInput.from_dict)
    split, notes = prepare(run, sequences, inputs)
    found = probabilities(run.load_best(device), split, run.batch_size)
    check_finite(np.array([chances.sum() for chances in found]), sequences.source)
    names = sequences.names or tuple(map(str, range(len(sequences))))
    return Tags(inputs.classes, found, names, tuple(notes))


@dataclass(frozen=True)
class Options(sequences_predict.Options):
    """Label each step of sequences: a label and the probability of each class, one row per step.

    Example: longwave predict runs/tag-my-seed0 --npz new.npz --out tags.csv
    """

    csv: Path | None = None
    """Or a CSV file, one step per row, with the column that names the sequence and the channels of training."""
    out: Path = Path("tags.csv")
    """Where to write the labels."""


ACTION = predict_action(Options, "tags", tag)
