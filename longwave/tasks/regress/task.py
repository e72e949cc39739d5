"""Regression: one number or several for each sequence, some of which may be missing."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from longwave.models import Spec
from longwave.tasks.base import TASKS, Baselines, Batch, Outcome, Scores, Sums, batches, call
from longwave.tasks.sequences import linear
from longwave.tasks.sequences.data import Sequences, read_rows
from longwave.tasks.sequences.targets import TargetKind
from longwave.tasks.sequences.task import (
    Index,
    SequenceInput,
    SequencesTask,
    SequenceTaskConfig,
    channel_facts,
    plain_splits,
    sequence_fields,
)
from longwave.tasks.statistics import deviation_or_one, digest, mean_and_deviation, standardised

SHOWN_TARGETS = 6  # with more of them, scores are those of all targets together
ROUND = str.maketrans("[]", "()")  # names of scores go to terminals, where square brackets are styles
BATCH = 256  # sequences of a batch when baselines are scored


@dataclass(frozen=True, kw_only=True)
class RegressionInput(SequenceInput):
    """Facts about its data that a trained model needs."""

    targets: tuple[str, ...]
    target_mean: tuple[float, ...]  # of the training set
    target_deviation: tuple[float, ...]  # the same; 1 for a target that does not change

    def restore(self, standard: NDArray[Any]) -> NDArray[np.float64]:
        """(..., targets) in units of the data, from those of the model's output."""
        return standard.astype(np.float64) * np.array(self.target_deviation) + np.array(self.target_mean)


@dataclass(frozen=True, kw_only=True)
class RegressionTask(SequencesTask):
    """Predict numbers; an output has one for each target, standardised by the training set.

    A batch has y (B, targets), standardised, and known (B, targets): where y is missing it is 0, and does not count.
    """

    report_module: ClassVar[str | None] = "longwave.tasks.regress.report"
    trivial: ClassVar[str | None] = "mean of training set"

    inputs: RegressionInput
    goal: str = "mse"

    @property
    def spec(self) -> Spec:
        """Channels in, a number for each target out."""
        return self.inputs.spec(len(self.inputs.targets), ("mean", "last"))

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The squared error of each known target; the sums that the scores follow from, target by target."""
        output = call(model, batch)
        y, known = batch["y"], batch["known"]
        if output.shape != y.shape:
            raise ValueError(f"output: expected {tuple(y.shape)}, a number for each target, got {tuple(output.shape)}")
        error = torch.where(known, output - y, 0)
        squares = error.square()
        sums: Sums = {"mse": (squares.detach().double().sum(), self.count(batch))}
        counts = known.sum(0).tolist()
        parts = {"error": error.detach().double().abs(), "square": error.detach().double().square()}
        parts |= {"y": y.double(), "y_square": y.double().square()}
        for name, values in parts.items():
            for k, total in enumerate(values.sum(0)):
                sums[f"{name}_{k}"] = (total, int(counts[k]))
        return Outcome(self.weighted(squares, batch).sum(), sums)

    def count(self, batch: Batch) -> int:
        """Number of known targets."""
        return int(batch["known"].sum())

    def reported(self, means: Scores) -> Scores:
        """mse in standardised units; mae and rmse in those of the data, and r2, the share of the variance explained."""
        r2 = [self._r2(means, k) for k in range(len(self.inputs.targets))]
        found = [value for value in r2 if value is not None]
        scores = {"mse": means["mse"]}
        if len(r2) <= SHOWN_TARGETS:
            for k, name in enumerate(self.inputs.targets):
                if math.isnan(means[f"error_{k}"]):
                    continue  # none of its values is known
                ending = f"_{name.translate(ROUND)}" if len(r2) > 1 else ""
                unit = self.inputs.target_deviation[k]
                scores[f"mae{ending}"] = means[f"error_{k}"] * unit
                scores[f"rmse{ending}"] = math.sqrt(means[f"square_{k}"]) * unit
        return {**scores, "r2": sum(found) / len(found)} if found else scores

    def _r2(self, means: Scores, k: int) -> float | None:
        """1 - mean squared error / variance, of the values of the split; None if they do not vary."""
        spread = means[f"y_square_{k}"]
        variance = spread - means[f"y_{k}"] ** 2
        return 1 - means[f"square_{k}"] / variance if variance > 1e-12 * spread else None

    # Baselines

    def baselines(self) -> Baselines:
        """The mean of the training set, and ridge regression on a summary of each sequence and on all its steps."""
        zeros = torch.zeros(len(self.inputs.targets), dtype=torch.float64)
        found = {"mean of training set": self.scores_of(lambda x, **_: (zeros.expand(len(x), -1), None), BATCH)}
        features: dict[str, Callable[[Batch], linear.Matrix]] = {"ridge on summary": summaries}
        if self.inputs.length is not None:
            features["ridge on all steps"] = lambda batch: batch["x"].double().flatten(1).numpy()
        for name, function in features.items():
            width = function(self.train.batch([0])).shape[1]
            if linear.is_solvable(len(self.train), width):
                found[name] = self.scores_of(self._ridge(function), BATCH)
        return found

    def _ridge(self, features: Callable[[Batch], linear.Matrix]) -> Callable[..., tuple[Tensor, None]]:
        """Each target fitted to the sequences where it is known; the penalty is chosen on the validation set."""
        x, valid_x = (
            np.concatenate([features(batch) for batch in batches(split, BATCH)]) for split in (self.train, self.valid)
        )
        y, valid_y = (split.rows["y"].astype(np.float64) for split in (self.train, self.valid))
        mean, deviation = mean_and_deviation(x, "features")
        scale = np.array(deviation_or_one(deviation))
        x, valid_x = (x - mean) / scale, (valid_x - mean) / scale
        fits = []
        for k in range(y.shape[1]):
            rows, valid_rows = (split.rows["known"][:, k] for split in (self.train, self.valid))

            def error(ridge: linear.Ridge, k: int = k, rows: NDArray[np.bool_] = valid_rows) -> float:
                return float(np.square(ridge(valid_x[rows])[:, 0] - valid_y[rows, k]).sum())

            fits.append(linear.fit(x[rows], y[rows, k : k + 1], error))

        def model(x: Tensor, lengths: Tensor | None = None, **_: Any) -> tuple[Tensor, None]:
            batch = {"x": x} if lengths is None else {"x": x, "lengths": lengths}
            standard = (features(batch) - mean) / scale
            return torch.from_numpy(np.concatenate([ridge(standard) for ridge in fits], axis=1)), None

        return model


def summaries(batch: Batch) -> linear.Matrix:
    """Simple features of each sequence of a batch, (B, 6 channels)."""
    x = batch["x"].double().numpy()
    lengths = batch["lengths"].tolist() if "lengths" in batch else [x.shape[1]] * len(x)
    return np.stack([linear.summary(row[:length]) for row, length in zip(x, lengths, strict=True)])


def _target_statistics(sequences: Sequences, index: Index) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each target over the sequences at `index` where it is known."""
    assert sequences.targets is not None
    means, deviations = [], []
    for name, values in zip(sequences.target_names, sequences.targets[index].T, strict=True):
        own = values[~np.isnan(values)]
        if not len(own):
            raise ValueError(
                f"{sequences.source}: y: target {name!r} has no known value in the training set; leave it out, or "
                "add sequences where it is known"
            )
        mean, deviation = mean_and_deviation(own[:, None], f"{sequences.source}: y: target {name!r}")
        means.append(mean[0])
        deviations.append(deviation[0])
    return np.array(means), np.array(deviations)


@TASKS.register("regress")
@dataclass(frozen=True)
class RegressConfig(SequenceTaskConfig):
    """A regression task on custom sequences."""

    target_kind: ClassVar[TargetKind] = "targets"
    actions: ClassVar[Mapping[str, str]] = {"predict": "longwave.tasks.regress.predict"}

    npz: Path | None = None
    """An .npz file with x (n, length, channels) or (n, length), y (n,) or (n, targets) numbers; docs: regression."""
    csv: Path | None = None
    """Or a CSV file with a header, one row per sequence."""
    target: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Column of numbers to predict (with csv), by default the one named target; repeat it for several."""

    def read_csv(self, path: Path, labelled: bool = True, columns: Sequence[str] | None = None) -> Sequences:
        return read_rows(path, split=self.split, labelled=labelled, targets=self.target or ("target",))

    def on(self, sequences: Sequences) -> RegressionTask:
        """Sequences with targets as a task, channels and targets standardised by the training set.

        Splits that come with the sequences are kept; else 80 % are drawn for training, 10 % for validation and 10 % for
        the test. A sequence none of whose targets is known is left out.
        """
        if sequences.targets is None:
            raise ValueError(f"{sequences.source}: y: expected a number for each sequence, got none")
        targets, names, notes = sequences.targets, sequences.target_names, list[str]()
        known = ~np.isnan(targets)
        splits = plain_splits(sequences, np.flatnonzero(known.any(axis=1)), "known target", self.split_seed, notes)
        counts = {split: known[index].sum(axis=0) for split, index in splits.items()}
        target_mean, target_deviation = _target_statistics(sequences, splits["train"])
        for k, target in enumerate(names):
            if target_deviation[k] == 0:
                notes.append(f"target {target!r} is constant in the training set")
            if missing := [split for split in ("valid", "test") if len(splits[split]) and not counts[split][k]]:
                notes.append(f"target {target!r} has no known value in {' and '.join(missing)}")
        inputs = RegressionInput(
            targets=names,
            target_mean=tuple(target_mean.tolist()),
            target_deviation=deviation_or_one(target_deviation),
            **channel_facts(sequences, splits["train"], notes),
        )
        filled = np.where(known, targets, target_mean)
        standard = standardised(filled, inputs.target_mean, inputs.target_deviation).astype(np.float32)
        standard[~known] = 0
        return RegressionTask(
            name="regress",
            digest=digest(sequences.values, sequences.lengths, filled, known, *splits.values()),
            **sequence_fields(
                sequences,
                splits,
                inputs,
                counts,
                notes,
                lambda index: {"y": standard[index], "known": known[index]},
            ),
        )
