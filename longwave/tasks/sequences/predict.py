"""What predictions of new sequences have in common, whatever the kind of task."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core.terminal import say
from longwave.tasks.actions import check_distinct
from longwave.tasks.base import TrainedRun
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.task import SequenceInput, SequenceSplit

FAR = 50  # standard deviations from the mean of the training set


def written(notes: Sequence[str], rows: int, out: Path) -> Iterator[str]:
    """What a command prints once the predictions are in their file."""
    for note in notes:
        say(f"note: {note}", sys.stdout)
    yield f"{rows} rows: {out}\n"


def read_new(run: TrainedRun, npz: Path | None, csv: Path | None, out: Path, does: str) -> Sequences:
    """The sequences in one of two files, read by the settings of the run; `out` must be another file."""
    if (csv is None) == (npz is None):
        raise ValueError(f"{run.path} is a run that {does}: expected --npz FILE or --csv FILE")
    check_distinct(csv=csv, npz=npz, out=out)
    settings: Any = run.settings
    sequences: Sequences = settings.read_new(npz, csv, run.facts.get("inputs", {}).get("columns"))
    return sequences


def prepare(run: TrainedRun, sequences: Sequences, inputs: SequenceInput) -> tuple[SequenceSplit, list[str]]:
    """New sequences as the model sees them, and notes; other channels than in training are refused."""
    if sequences.channels != inputs.channels:
        raise ValueError(
            f"{sequences.source}: expected {inputs.channels} channels, as in training, got {sequences.channels}"
        )
    settings: Any = run.settings
    values, notes = settings.arrange(sequences, inputs)
    outside = np.abs(values).max(axis=1) > FAR
    if outside.any():
        first = int(np.searchsorted(sequences.starts, np.argmax(outside), side="right")) - 1
        notes.append(
            f"sequence {first} has values of more than {FAR} standard deviations from the mean of the training set: "
            "is it in the same units?"
        )
    same_length = sequences.length is not None
    return SequenceSplit(values, sequences.starts, sequences.lengths, same_length), notes


def check_finite(outputs: NDArray[np.float64], source: str) -> None:
    """Refuse a sequence whose output (n, ...) is not finite."""
    is_finite: Any = np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"{source}: sequence {int(np.argmin(is_finite))}: the model has no finite answer; its values are too far "
            "from those of training"
        )
