"""What a trained run says of new data: the rows after a series, or the labels of sequences."""

import csv as csv_format
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longwave.tasks import images
from longwave.tasks.classification import ClassifierInput, SequenceSplit
from longwave.tasks.forecasting import SETS, ForecastInput
from longwave.tasks.sequences import Sequences
from longwave.tasks.series import read_csv
from longwave.train.config import ClassifyConfig, ForecastConfig, ImageConfig, from_dict
from longwave.train.loop import write_whole
from longwave.train.runs import load_best, read_config


@dataclass(frozen=True)
class Continuation:
    """A forecast of what comes after a series: values (horizon, columns), in the units of the series."""

    columns: tuple[str, ...]
    target: str
    known: Any  # (context, columns), the rows before
    known_times: Any  # datetime64 or None
    values: Any
    times: Any
    notes: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the forecast as CSV, whole or not at all."""
        stamps = [[]] * len(self.values) if self.times is None else [[str(t).replace("T", " ")] for t in self.times]
        head = [*([] if self.times is None else ["time"]), *self.columns]
        # Twelve digits: a small change of a large number should be seen.
        rows = [[*stamp, *(f"{v:.12g}" for v in row)] for stamp, row in zip(stamps, self.values, strict=True)]
        _write_csv(path, [head, *rows])


@dataclass(frozen=True)
class Labels:
    """What a classifier says of sequences: a probability for each class, and the label of the likeliest."""

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]  # (n, classes)
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each sequence."""
        return [self.classes[k] for k in self.probabilities.argmax(axis=1)]

    def write(self, path: Path) -> None:
        """Write label and probabilities as CSV, a row a sequence, whole or not at all."""
        rows = zip(self.labels, self.probabilities, strict=True)
        head = ["label", *(f"p_{name}" for name in self.classes)]
        _write_csv(path, [head, *([label, *(f"{p:.6g}" for p in row)] for label, row in rows)])


def _write_csv(path: Path, rows: Iterable[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv_format.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue())


def forecast(folder: Path, csv: Path) -> Continuation:
    """Forecast the rows after the last of a CSV file."""
    config = read_config(folder)
    settings = from_dict(config["experiment"]).task
    if not isinstance(settings, ForecastConfig):
        raise ValueError(f"{folder}: expected a run of a forecast, got one that classifies or generates")
    inputs = ForecastInput.from_dict(config["task"]["inputs"])
    named = None if settings.csv is not None else SETS[settings.data]
    time = settings.time if named is None else named.time
    series = read_csv(csv, inputs.target, time, settings.multivariate, settings.fill, inputs.columns)
    batch, future = inputs.continuation(series)
    model = load_best(folder)
    with torch.no_grad():
        y, _ = model(batch["x"], time=batch.get("time"))
    if not y.isfinite().all():
        raise ValueError(f"{csv}: the model has no finite answer; the values are too far from those of training")
    order = [series.columns.index(name) for name in inputs.columns]
    return Continuation(
        columns=inputs.columns,
        target=inputs.target,
        known=series.values[-inputs.context :, order],
        known_times=None if series.times is None else series.times[-inputs.context :],
        values=inputs.restore(y[0].double().numpy()),
        times=future,
        notes=tuple(series.notes),
    )


def classify(folder: Path, sequences: Sequences) -> Labels:
    """Label sequences: as they were in training, before standardisation; images as pixels from 0 to 255, row by row."""
    config = read_config(folder)
    experiment = from_dict(config["experiment"])
    if not isinstance(experiment.task, ImageConfig | ClassifyConfig):
        raise ValueError(f"{folder}: expected a run that classifies, got one that forecasts or generates")
    inputs = ClassifierInput.from_dict(config["task"]["inputs"])
    if sequences.channels != inputs.channels:
        raise ValueError(
            f"{sequences.source}: expected {inputs.channels} channels, as in training, got {sequences.channels}"
        )
    values, notes = inputs.standardise(sequences.values), []
    is_image = isinstance(experiment.task, ImageConfig)
    if inputs.length is not None and sequences.length != inputs.length:
        lengths = f"{sequences.lengths.min()} to {sequences.lengths.max()}"
        if is_image:
            raise ValueError(f"{sequences.source}: expected images of {inputs.length} pixels, got {lengths}")
        notes.append(f"the model was trained on sequences of {inputs.length} steps, and these have {lengths}")
    if is_image:
        low, high = sequences.values.min(), sequences.values.max()
        if low < 0 or high > 255:
            raise ValueError(f"{sequences.source}: expected pixels from 0 to 255, got {low:g} to {high:g}")
        if high <= 1:
            notes.append(f"pixels are expected from 0 to 255, and these are from {low:g} to {high:g}")
    if isinstance(experiment.task, ImageConfig) and images.SETS[experiment.task.data].permuted:
        order = images.permutation(inputs.length or 0)
        values = values.reshape(len(sequences), -1, inputs.channels)[:, order].reshape(values.shape)
    unknown = np.zeros(len(sequences), np.int64)
    split = SequenceSplit(values, sequences.starts, sequences.lengths, unknown, sequences.length is not None)
    model, rows = load_best(folder), []
    with torch.no_grad():
        for start in range(0, len(split), experiment.loop.eval_batch_size):
            batch = split.batch(range(start, min(start + experiment.loop.eval_batch_size, len(split))))
            output, _ = model(batch["x"], lengths=batch.get("lengths"))
            rows.append(output.double().softmax(-1).numpy())
    probabilities = np.concatenate(rows)
    known = np.isfinite(probabilities).all(axis=1)
    if not known.all():
        raise ValueError(
            f"{sequences.source}: sequence {int(np.argmin(known))}: the model has no finite answer; its values are too "
            "far from those of training"
        )
    return Labels(inputs.classes, probabilities, tuple(notes))
