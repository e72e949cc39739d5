"""Shared parts of predictions for new sequences."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.tasks.actions import OnDevice, Predictions, check_distinct, written
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.sequences.data import Channels, Sequences, from_arrays
from longwave.tasks.sequences.task import SequenceInput, SequenceSplit

FAR = 50  # standard deviations from the mean of the training set


@dataclass(frozen=True)
class Options(OnDevice):
    """Predict for new sequences in one of two files."""

    npz: Path | None = None
    """Sequences (x, and lengths if they differ)."""
    csv: Path | None = None
    """Or a CSV file, one sequence per row."""
    out: Path = Path("predictions.csv")
    """Where to write the predictions."""


def predict_action(options: type[Options], does: str, predict: Callable[..., Predictions]) -> Action:
    """`longwave predict` with runs of a kind: read new sequences by the settings of the run, predict, write.

    `predict(run, sequences, device=...)` gives the predictions in the order of the sequences.
    """

    def run_action(run: TrainedRun, options: Options) -> Iterator[str]:
        if (options.csv is None) == (options.npz is None):
            raise ValueError(f"{run.path} {does}: expected --npz FILE or --csv FILE")
        check_distinct(csv=options.csv, npz=options.npz, out=options.out)
        settings: Any = run.settings
        new = settings.read_new(options.npz, options.csv, run.facts.get("inputs", {}).get("columns"))
        yield from written(predict(run, new, device=options.device), options.out)

    def call(run: TrainedRun, x: Any, *, device: str = "auto", channels: Channels | None = None) -> Predictions:
        settings: Any = run.settings
        return predict(run, from_arrays(x, channels=channels or settings.channels), device=device)

    return Action(options, run_action, call)


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
            f"sequence {first} has values more than {FAR} standard deviations from the mean of the training set: "
            "is it in the same units?"
        )
    same_length = sequences.length is not None
    return SequenceSplit(values, sequences.starts, sequences.lengths, same_length), notes


def check_finite(outputs: NDArray[np.float64], source: str) -> None:
    """Refuse a sequence whose output (n, ...) is not finite."""
    is_finite: Any = np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"{source}: sequence {int(np.argmin(is_finite))}: the model output is NaN or inf; its values are too far "
            "from those of training"
        )
