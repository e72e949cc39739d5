"""Classification: cross-entropy and accuracy, and the splits of custom sequences, drawn class by class."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.data.answers import Answer, class_names
from longwave.data.sequences import Sequences, read_csv
from longwave.data.statistics import digest
from longwave.models import Spec
from longwave.tasks import sequence_baselines
from longwave.tasks.base import TASKS, Baselines, Batch, Outcome, Scores, Sums, Task, call
from longwave.tasks.sequences import (
    Index,
    SequenceInput,
    SequenceSplit,
    SequenceTaskConfig,
    channel_statistics,
    check_classes,
    draw_splits,
    given_splits,
    note_rare_class,
)


@dataclass(frozen=True, kw_only=True)
class ClassifierInput(SequenceInput):
    """What a trained classifier must know of its data."""

    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(Task):
    """Classify sequences; an output has a logit for each class. A batch may have a weight for each row, (B,)."""

    inputs: ClassifierInput
    counts: dict[str, tuple[int, ...]]  # examples of each class, by split
    weights: tuple[float, ...] | None = None  # of each class in the training loss; None: all alike
    digest: str = ""  # of the data, as it was read
    goal: str = "accuracy"
    higher_is_better: bool = True

    @property
    def spec(self) -> Spec:
        """Channels in, a logit for each class out."""
        return Spec(
            input_size=self.inputs.channels,
            output_size=len(self.inputs.classes),
            length=self.inputs.length,
            decoders=("mean", "last"),
        )

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The cross-entropy of each row, weighted or not; accuracy, the cross-entropy without weights, mean recall."""
        output = call(model, batch)
        y = self._labels(output, batch)
        losses = nn.functional.cross_entropy(output, y, reduction="none")
        plain = losses.detach().sum()
        if self.weights is not None:
            losses = losses * torch.tensor(self.weights, device=output.device, dtype=output.dtype)[y]
        right = output.argmax(-1) == y
        scores: Sums = {"accuracy": (right.sum(), len(y)), "loss": (plain, len(y))}
        if "weight" in batch:
            scores["balanced_accuracy"] = ((right * batch["weight"]).sum(), len(y))
        return Outcome(losses.sum(), scores)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The examples of each class, what the model must know of its input, and a digest."""
        counts = {split: list(counts) for split, counts in self.counts.items()}
        return {"counts": counts, "inputs": self.inputs.to_dict(), "digest": self.digest}

    def baselines(self) -> Baselines:
        """The class prior: how common each class is in the training set."""
        return {"class prior": self._prior()}

    def _prior(self) -> dict[str, Scores]:
        train = np.array(self.counts["train"], dtype=np.float64)
        log_share = np.log(train / train.sum())
        scores = {}
        for split in ("valid", "test"):
            counts = np.array(self.counts[split])
            accuracy = counts[train.argmax()] / counts.sum()
            scores[split] = {"accuracy": float(accuracy), "loss": float(-(counts @ log_share) / counts.sum())}
            if self.goal == "balanced_accuracy":
                scores[split]["balanced_accuracy"] = float(accuracy > 0) / int((counts > 0).sum())
        return scores

    def _labels(self, output: Tensor, batch: Batch) -> Tensor:
        expected = (len(batch["y"]), len(self.inputs.classes))
        if output.shape != expected:
            raise ValueError(f"output: expected {expected}, a logit for each class, got {tuple(output.shape)}")
        return batch["y"]


# Custom sequences


@dataclass(frozen=True, kw_only=True)
class SequenceTask(ClassificationTask):
    """Custom sequences: few enough for baselines that look at each of them."""

    def baselines(self) -> Baselines:
        """The class prior, the nearest neighbour, and ridge regression on random convolutions."""
        found = super().baselines()
        splits = {"valid": self.valid, "test": self.test}
        rows = sum(map(len, splits.values()))
        for classifier in sequence_baselines.fitted(self.train, rows, len(self.inputs.classes)):
            labels = {name: sequence_baselines.predicted(classifier, split) for name, split in splits.items()}
            found[classifier.name] = {name: self._accuracies(*pair) for name, pair in labels.items()}
        return found

    def _accuracies(self, true: Tensor, predicted: Tensor) -> Scores:
        right = (true == predicted).double()
        scores = {"accuracy": float(right.mean())}
        if self.goal == "balanced_accuracy":
            scores["balanced_accuracy"] = float(torch.stack([right[true == k].mean() for k in true.unique()]).mean())
        return scores


def custom(
    sequences: Sequences, balance: bool = False, split_seed: int = 0, name: str = "classify"
) -> ClassificationTask:
    """Custom labelled sequences as a task.

    Splits that come with the sequences are kept; else 80 % of each class are drawn to train, 10 % to validate and 10 %
    to test. Channels are standardised by the training set. `balance` weighs each class in the training loss by the
    inverse of its share, so that all count alike, and has the mean recall of the classes choose the weights.
    """
    if sequences.labels is None:
        raise ValueError(f"{sequences.source}: y: expected a label for each sequence, got none")
    classes = class_names(sequences.labels)
    if len(classes) < 2:
        raise ValueError(f"{sequences.source}: y: expected two classes or more, got {classes[0]!r} alone")
    code = {name: k for k, name in enumerate(classes)}
    labels = np.array([code[name] for name in sequences.labels], np.int64)
    notes: list[str] = []
    if sequences.splits is None:
        splits = _draw_splits(labels, classes, split_seed, sequences.source)
    else:
        splits = given_splits(sequences, labels, np.arange(len(labels)), split_seed, notes)
    counts = {split: np.bincount(labels[index], minlength=len(classes)) for split, index in splits.items()}
    if sequences.splits is not None:
        check_classes(counts, classes, sequences.source, "", notes)
    note_rare_class(counts["train"], classes, "examples", balance, notes)
    mean, deviation = channel_statistics(sequences, splits["train"], notes)
    inputs = ClassifierInput(classes=classes, mean=mean, deviation=deviation, length=sequences.length)
    values, starts, lengths = inputs.standardise(sequences.values), sequences.starts, sequences.lengths

    def examples(index: Index) -> SequenceSplit:
        own = labels[index]
        rows: dict[str, NDArray[Any]] = {"y": own}
        if balance:  # mean 1, and the same sum for each class
            counts = np.bincount(own, minlength=len(classes))
            rows["weight"] = len(own) / ((counts > 0).sum() * counts[own])
        return SequenceSplit(values, starts[index], lengths[index], sequences.length is not None, rows)

    return SequenceTask(
        name=name,
        train=examples(splits["train"]),
        valid=examples(splits["valid"]),
        test=examples(splits["test"]),
        inputs=inputs,
        counts={split: tuple(count.tolist()) for split, count in counts.items()},
        weights=tuple((counts["train"].sum() / (len(classes) * counts["train"])).tolist()) if balance else None,
        origin=sequences.source,
        notes=tuple(notes),
        digest=digest(sequences.values, sequences.lengths, labels),
        goal="balanced_accuracy" if balance else "accuracy",
    )


@TASKS.register("classify")
@dataclass(frozen=True)
class ClassifyConfig(SequenceTaskConfig):
    """A classification task on custom labelled sequences."""

    answer: ClassVar[Answer] = "labels"

    npz: Path | None = None
    """An .npz file with x (n, length, channels) or (n, length), and y (n,) labels; docs: classification."""
    csv: Path | None = None
    """Or a CSV file with a header, one row a sequence."""
    label: str = "label"
    """The column with the labels (with csv)."""
    split: str | None = None
    """The column that says train, valid or test (with csv); without it the splits are drawn, 80/10/10 of each class."""
    balance: bool = False
    """Have all classes count alike, however many examples they have: in the loss, and when weights are chosen."""

    @classmethod
    def upgrade(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The column of splits was once called `part`."""
        return {"split" if name == "part" else name: value for name, value in values.items()}

    def read_csv(self, path: Path, labelled: bool = True) -> Sequences:
        """The sequences in a CSV file."""
        return read_csv(path, self.label, self.split, labelled)

    def on(self, sequences: Sequences) -> ClassificationTask:
        """The task on these sequences."""
        return custom(sequences, self.balance, self.split_seed)


def _draw_splits(labels: Index, classes: tuple[str, ...], seed: int, source: str) -> dict[str, Index]:
    """80/10/10 of each class, and at least one of each in each."""
    for count, name in zip(np.bincount(labels), classes, strict=True):
        if count < 3:
            raise ValueError(
                f"{source}: y: class {name!r} has {count} sequence{'s' * int(count > 1)}, too few for one in each "
                "split; expected 3 or more of each class: leave it out, join it with another, or say yourself what is "
                "train, valid and test (split)"
            )
    return draw_splits(labels, np.arange(len(labels)), seed)
