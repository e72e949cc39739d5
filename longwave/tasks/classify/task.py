"""Classification: cross-entropy and accuracy, and the splits of custom sequences, drawn class by class."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.models import ClassifierConfig, ModelConfig, Spec
from longwave.models.classifier import Classifier
from longwave.tasks.base import (
    TASKS,
    Adapted,
    Baselines,
    Batch,
    Outcome,
    Scores,
    Split,
    Sums,
    TaskInput,
    call,
)
from longwave.tasks.classify import baselines as sequence_baselines
from longwave.tasks.classify.baselines import ConvolutionClassifier, NearestNeighbour, predicted
from longwave.tasks.rates import AtRate, check_rates, drawn, ratio
from longwave.tasks.sequences.data import Sequences, read_rows
from longwave.tasks.sequences.targets import TargetKind, class_names
from longwave.tasks.sequences.task import (
    CountedTask,
    Index,
    SequenceInput,
    SequenceSplit,
    SequenceTaskConfig,
    channel_facts,
    check_several,
    class_splits,
    class_weights,
    note_rare_class,
    row_weights,
    sequence_fields,
)
from longwave.tasks.statistics import digest

AVERAGE = "average.npy"  # beside a run: the average training example, standardised


@dataclass(frozen=True, kw_only=True)
class LabelInput(TaskInput):
    """Facts about its data that every trained classifier needs."""

    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClassifierInput(SequenceInput, LabelInput):
    """Facts about its data that a trained classifier of sequences needs."""


@dataclass(frozen=True, kw_only=True)
class LabelTask(CountedTask):
    """Classify anything; an output has a logit for each class. A batch may have a weight for each row, (B,)."""

    trivial: ClassVar[str | None] = "class prior"

    inputs: LabelInput
    weights: tuple[float, ...] | None = None  # of each class in the training loss; None: all alike
    smoothing: float = 0.0  # share of the target that the training loss spreads over all classes
    goal: str = "accuracy"
    higher_is_better: bool = True
    scored: Tensor | None = field(default=None, compare=False, repr=False)  # logits (n, classes) of the test set

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The cross-entropy of each row, weighted or not; accuracy, the cross-entropy without weights, mean recall."""
        output = call(model, batch)
        return self._scored(output, self._losses(output, batch), batch)

    def _scored(self, output: Tensor, losses: Tensor, batch: Batch) -> Outcome:
        """The outcome for logits (B, classes) whose losses in training are these, (B,)."""
        y = batch["y"]
        plain = nn.functional.cross_entropy(output.detach(), y, reduction="sum")
        right = output.argmax(-1) == y
        scores: Sums = {"accuracy": (right.sum(), len(y)), "loss": (plain, len(y))}
        if "weight" in batch:
            scores["balanced_accuracy"] = ((right * batch["weight"]).sum(), len(y))
        return Outcome(losses.sum(), scores, output=output.detach())

    def with_outputs(self, outputs: Tensor) -> "LabelTask":
        return replace(self, scored=outputs)

    def baselines(self) -> Baselines:
        """The class prior: how common each class is in the training set."""
        return {"class prior": self._prior()}

    def _prior(self) -> dict[str, Scores]:
        train = np.array(self.counts["train"], dtype=np.float64)
        log_share = np.log(train / train.sum())
        scores = {}
        for split in self.held_out:
            counts = np.array(self.counts[split])
            accuracy = counts[train.argmax()] / counts.sum()
            scores[split] = {"accuracy": float(accuracy), "loss": float(-(counts @ log_share) / counts.sum())}
            if self.goal == "balanced_accuracy":
                scores[split]["balanced_accuracy"] = float(accuracy > 0) / int((counts > 0).sum())
        return scores

    def accuracies(self, true: Index, predicted: Index) -> Scores:
        """The scores of predicted labels (n,), by the true ones."""
        right = true == predicted
        scores = {"accuracy": float(right.mean())}
        if self.goal == "balanced_accuracy":
            scores["balanced_accuracy"] = float(np.mean([right[true == k].mean() for k in np.unique(true)]))
        return scores

    def _losses(self, output: Tensor, batch: Batch) -> Tensor:
        """The training loss of each row: cross-entropy, smoothed and weighted as the settings say."""
        y = batch["y"]
        expected = (len(y), len(self.inputs.classes))
        if output.shape != expected:
            raise ValueError(f"output: expected {expected}, a logit for each class, got {tuple(output.shape)}")
        losses = nn.functional.cross_entropy(output, y, reduction="none", label_smoothing=self.smoothing)
        losses = self.weighted(losses, batch)
        if self.weights is None:
            return losses
        return losses * torch.tensor(self.weights, device=output.device, dtype=output.dtype)[y]


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(LabelTask):
    """Classify sequences of numbers."""

    report_module: ClassVar[str | None] = "longwave.tasks.classify.report"

    inputs: ClassifierInput
    rates: tuple[float, ...] = ()  # sampling rates of training, one for each batch; none: as the sequences are

    @property
    def spec(self) -> Spec:
        """Channels in, a logit for each class out."""
        spec = self.inputs.spec(len(self.inputs.classes), ("mean", "last"))
        return replace(spec, length=None, changes_rate=True) if self.rates else spec

    def train_at(self, epoch: int, seed: int) -> Split:
        """The training set, each batch at one of the rates if there are any."""
        return drawn(self.train, self.rates, epoch, seed)

    def at_rate(self, split: Split, rate: float, antialias: bool = False) -> Split:
        check_rates([rate])
        return AtRate(split, ratio(rate), antialias)


def average_example(task: ClassificationTask, most: int = 1000) -> Tensor:
    """The mean of the first training examples; where lengths differ, of all steps, which is 0."""
    batch = task.train.batch(range(min(most, len(task.train))))
    return torch.zeros(1, 1, task.inputs.channels) if "lengths" in batch else batch["x"].mean(0, keepdim=True)


# Custom sequences


@dataclass(frozen=True, kw_only=True)
class SequenceTask(ClassificationTask):
    """Classify custom sequences, which fit in memory for baselines and closed-form starts."""

    train: SequenceSplit
    valid: SequenceSplit
    test: SequenceSplit
    valid_was_given: bool = False  # not drawn from the training set

    @property
    def spec(self) -> Spec:
        """Channels in, a logit for each class out; training examples to start from."""
        longest = int(self.train.lengths.max())
        rows = sum(map(len, (self.train, self.valid, self.test)))
        are_few = sequence_baselines.are_few(rows, longest * self.inputs.channels)
        # What the random convolutions of a model start from.
        examples = (lambda: self.train.batch(sequence_baselines.some(self.train))) if are_few else None
        return replace(super().spec, longest=longest, examples=examples)

    def for_model(self, model: ModelConfig) -> Adapted:
        """Adapt to a `Classifier`: train on all of a small set, and calibrate the share of its convolutions."""
        from longwave.tasks.classify.holdout import with_holdout

        if not isinstance(model, ClassifierConfig):
            return super().for_model(model)
        task = with_holdout(self)
        has_holdout = task is not self  # whose model is validated, so that no example chooses the weights of the other
        model = replace(model, holdout_model=has_holdout)
        return Adapted(task, model, 0 if has_holdout else len(self.valid), Classifier.calibrate)

    def artifacts(self) -> dict[str, bytes]:
        """The average example, the baseline of attributions."""
        content = io.BytesIO()
        np.save(content, average_example(self).numpy())
        return {AVERAGE: content.getvalue()}

    def baselines(self) -> Baselines:
        """The class prior, the nearest neighbour, and ridge regression on random convolutions."""
        found = super().baselines()
        rows = len(self.valid) + len(self.test)
        for classifier in sequence_baselines.fitted(self.train, rows, len(self.inputs.classes)):
            labels = {"valid": self._validated(classifier)}
            if len(self.test):
                labels["test"] = predicted(classifier, self.test)
            found[classifier.name] = {
                name: self.accuracies(*(own.numpy() for own in pair)) for name, pair in labels.items()
            }
        return found

    def _validated(self, classifier: NearestNeighbour | ConvolutionClassifier) -> tuple[Tensor, Tensor]:
        """The true labels of the validation set, and those that a baseline predicts."""
        return predicted(classifier, self.valid)


@TASKS.register("classify")
@dataclass(frozen=True)
class ClassifyConfig(SequenceTaskConfig):
    """A classification task on custom labelled sequences."""

    target_kind: ClassVar[TargetKind] = "labels"
    actions: ClassVar[Mapping[str, str]] = {
        "predict": "longwave.tasks.classify.predict",
        "stream": "longwave.tasks.classify.stream",
    }

    npz: Path | None = None
    """An .npz file with x (n, length, channels) or (n, length), and y (n,) labels; docs: classification."""
    csv: Path | None = None
    """Or a CSV file with a header, one row per sequence."""
    label: str = "label"
    """The column with the labels (with csv)."""
    split: str | None = None
    """The column with train, valid or test (with csv); by default the splits are drawn, 80/10/10 of each class."""
    balance: bool = False
    """Weight all classes equally, regardless of their sizes, in the loss and when choosing the best weights."""
    smoothing: float = 0.0
    """Label smoothing: the share of the target that the training loss spreads over all classes."""
    rates: tuple[float, ...] = ()
    """Sampling rates to train at, one per batch: 2 takes every second step and doubles dt; default: the data's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rates(self.rates, "rates")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing: expected a share of at least 0 and below 1, got {self.smoothing}")

    def read_csv(self, path: Path, labelled: bool = True, columns: Sequence[str] | None = None) -> Sequences:
        return read_rows(path, self.label, self.split, labelled)

    def on(self, sequences: Sequences) -> SequenceTask:
        """Labelled sequences as a task, with channels standardised by the training set.

        Splits that come with the sequences are kept; else 80 % of each class are drawn for training, 10 % for
        validation and 10 % for the test.
        """
        source, notes = sequences.source, list[str]()
        if sequences.labels is None:
            raise ValueError(f"{source}: y: expected a label for each sequence, got none")
        classes = class_names(sequences.labels)
        check_several(classes, source)
        code = {name: k for k, name in enumerate(classes)}
        labels = np.array([code[name] for name in sequences.labels], np.int64)
        given = sequences.splits
        splits, counts = class_splits(
            given, labels, classes, self.split_seed, source, notes, drawn_from=f"{source}: y", what="sequence"
        )
        note_rare_class(counts["train"], classes, "examples", self.balance, notes)
        inputs = ClassifierInput(classes=classes, **channel_facts(sequences, splits["train"], notes))

        def rows(index: Index) -> dict[str, NDArray[Any]]:
            weights = {"weight": row_weights(labels[index])} if self.balance else {}
            return {"y": labels[index], **weights}

        return SequenceTask(
            name="classify",
            weights=class_weights(counts["train"]) if self.balance else None,
            smoothing=self.smoothing,
            rates=self.rates,
            digest=digest(sequences.values, sequences.lengths, labels),
            goal="balanced_accuracy" if self.balance else "accuracy",
            valid_was_given=given is not None and "valid" in given,
            **sequence_fields(sequences, splits, inputs, counts, notes, rows),
        )
