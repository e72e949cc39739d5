"""Classification: cross-entropy and accuracy, the splits of custom sequences, and what new ones must be like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.data.random import shuffled
from longwave.data.sequences import Sequences, class_names, from_arrays, read_csv, read_npz, save_npz
from longwave.data.statistics import deviation_or_one, digest, mean_and_deviation, standardised
from longwave.models import Spec
from longwave.settings import check_least
from longwave.tasks import sequence_baselines
from longwave.tasks.base import TASKS, Baselines, Batch, Outcome, Scores, Sums, Task, TaskConfig, TaskInput, call

SHARE = 10  # one in so many sequences of a class is for validation, and one for the test
RARE = 10  # a class this many times rarer than the commonest is worth a note


@dataclass(frozen=True)
class ClassifierInput(TaskInput):
    """What a trained classifier must know of its data."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]  # of the training set, by channel
    deviation: tuple[float, ...]  # the same; 1 for a channel that does not change
    length: int | None  # None: sequences differ in length

    @property
    def channels(self) -> int:
        """Numbers of a step."""
        return len(self.mean)

    def standardise(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """(..., channels) as the model sees them."""
        return standardised(values, self.mean, self.deviation).astype(np.float32)


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


@dataclass(frozen=True, eq=False)
class SequenceSplit:
    """Some of the sequences, in memory and standardised."""

    values: NDArray[np.float32]  # (total, channels) of all sequences, one after the other
    starts: NDArray[np.int64]  # (n,) of those that belong to the split
    lengths: NDArray[np.int64]  # (n,)
    labels: NDArray[np.int64]  # (n,)
    same_length: bool  # of the whole data set, so that batches of a model are all alike
    weights: NDArray[np.float64] | None = None  # (n,) mean 1, and the same sum for each class; None: all 1

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, longest of the batch, channels), zero behind the end of a row; y (B,); lengths (B,), if they differ;
        weight (B,), if they have weights.
        """
        index = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[index]
        x = np.zeros((len(index), int(lengths.max(initial=0)), self.values.shape[1]), np.float32)
        for row, start, length in zip(x, self.starts[index], lengths, strict=True):
            row[:length] = self.values[start : start + length]
        batch = {"x": torch.from_numpy(x), "y": torch.from_numpy(self.labels[index])}
        if self.weights is not None:
            batch["weight"] = torch.from_numpy(self.weights[index])
        return batch if self.same_length else batch | {"lengths": torch.from_numpy(lengths)}


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
        splits = _given_splits(np.array(sequences.splits), labels, classes, split_seed, sequences.source, notes)
    counts = {split: np.bincount(labels[index], minlength=len(classes)) for split, index in splits.items()}
    largest, smallest = int(counts["train"].max()), int(counts["train"].min())
    if largest >= RARE * smallest:
        rare, common = classes[int(counts["train"].argmin())], classes[int(counts["train"].argmax())]
        treatment = "they count alike" if balance else "--balance makes them count alike"
        notes.append(
            f"class {rare!r} has {smallest:,} examples to train on and {common!r} has {largest:,}: look at the recall "
            f"of each class, not at the accuracy alone; {treatment}"
        )
    mean, deviation = _statistics(sequences, splits["train"])
    notes += [f"channel {k} does not change in the training set" for k in np.flatnonzero(deviation == 0)]
    inputs = ClassifierInput(classes, tuple(mean.tolist()), deviation_or_one(deviation), sequences.length)
    values = inputs.standardise(sequences.values)

    def examples(index: NDArray[np.int64]) -> SequenceSplit:
        same = sequences.length is not None
        own = labels[index]
        counts = np.bincount(own, minlength=len(classes))
        weights = len(own) / ((counts > 0).sum() * counts[own]) if balance else None
        return SequenceSplit(values, sequences.starts[index], sequences.lengths[index], own, same, weights)

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


ARRAYS = "data.npz"  # in the folder of a run on arrays: what it was trained on


@TASKS.register("classify")
@dataclass(frozen=True)
class ClassifyConfig(TaskConfig):
    """A classification task on custom labelled sequences."""

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
    split_seed: int = 0
    """Seed of the splits, if they are drawn."""

    def __post_init__(self) -> None:
        check_least(self, split_seed=0)

    @classmethod
    def upgrade(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The column of splits was once called `part`."""
        return {"split" if name == "part" else name: value for name, value in values.items()}

    def build(self, data_dir: Path | None = None) -> ClassificationTask:
        """The task with its sequences."""
        if (self.npz is None) == (self.csv is None):
            given = "neither" if self.npz is None else "both"
            raise ValueError(f"classify: expected --npz FILE or --csv FILE, got {given}")
        if self.npz is not None:
            sequences = read_npz(self.npz)
        else:
            assert self.csv is not None
            sequences = read_csv(self.csv, self.label, self.split)
        return custom(sequences, self.balance, self.split_seed)

    def arrange(self, sequences: Sequences, inputs: ClassifierInput) -> tuple[NDArray[np.float32], list[str]]:
        """New sequences in the form that a trained model sees, and notes."""
        notes = []
        if inputs.length is not None and sequences.length != inputs.length:
            lengths = f"{sequences.lengths.min()} to {sequences.lengths.max()}"
            notes.append(f"the model was trained on sequences of {inputs.length} steps, and these have {lengths}")
        return inputs.standardise(sequences.values), notes

    def on_arrays(self, x: Any, y: Any, split: Any, folder: Path) -> "ClassifyConfig":
        """The settings for arrays, which are written into the folder of the run, so that it can be used again."""
        sequences = from_arrays(x, y, split)
        custom(sequences)  # which refuses what cannot be trained on before anything is written
        save_npz(folder / ARRAYS, sequences)
        return replace(self, npz=folder / ARRAYS, csv=None)

    def in_folder(self, folder: Path) -> "ClassifyConfig":
        """With the arrays beside the run, wherever its folder is by now."""
        is_stored = self.npz is not None and self.npz.name == ARRAYS and (folder / ARRAYS).exists()
        return replace(self, npz=folder / ARRAYS) if is_stored else self


def _draw_splits(
    labels: NDArray[np.int64], classes: tuple[str, ...], seed: int, source: str
) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of each class, and at least one of each in each."""
    order = shuffled(len(labels), seed)
    splits: dict[str, list[NDArray[np.int64]]] = {"train": [], "valid": [], "test": []}
    for k, name in enumerate(classes):
        members = order[labels[order] == k]
        if len(members) < 3:
            raise ValueError(
                f"{source}: y: class {name!r} has {len(members)} sequence{'s' * (len(members) > 1)}, too few for one "
                "in each split; expected 3 or more of each class: leave it out, join it with another, or say yourself "
                "what is train, valid and test (split)"
            )
        held = max(1, round(len(members) / SHARE))
        splits["valid"].append(members[:held])
        splits["test"].append(members[held : 2 * held])
        splits["train"].append(members[2 * held :])
    return {split: np.sort(np.concatenate(chosen)) for split, chosen in splits.items()}


def _given_splits(
    given: NDArray[Any],
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    seed: int,
    source: str,
    notes: list[str],
) -> dict[str, NDArray[np.int64]]:
    """The splits as they were given; without a validation set, one in ten of each class of the training set."""
    splits = {split: np.flatnonzero(given == split) for split in ("train", "valid", "test")}
    for split in ("train", "test"):
        if not len(splits[split]):
            raise ValueError(f"{source}: split: expected sequences in train and test, got none in {split}")
    if not len(splits["valid"]):
        order = splits["train"][shuffled(len(splits["train"]), seed)]
        members = [order[labels[order] == k] for k in range(len(classes))]
        # A class of one keeps its only example to train on.
        held = [m[: min(len(m) - 1, max(1, round(len(m) / SHARE)))] for m in members if len(m)]
        splits["valid"] = np.sort(np.concatenate(held))
        splits["train"] = np.setdiff1d(splits["train"], splits["valid"])
        if not len(splits["valid"]):
            raise ValueError(f"{source}: split: no sequence is for validation, and train is too small to take some")
        notes.append(f"no sequence was marked valid: {len(splits['valid'])} of the training set were taken for it")
    for k, name in enumerate(classes):
        here = [split for split, index in splits.items() if (labels[index] == k).any()]
        if "train" not in here:
            raise ValueError(
                f"{source}: split: class {name!r} is in {' and '.join(here)}, and not in train; it cannot be learnt: "
                "move some of it to train, or leave it out"
            )
        if missing := [split for split in ("valid", "test") if split not in here]:
            notes.append(f"class {name!r} is not in {' and '.join(missing)}")
    return splits


def _statistics(sequences: Sequences, index: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each channel over all steps of the sequences at `index`."""
    chosen = np.zeros(len(sequences), bool)
    chosen[index] = True
    values = sequences.values[np.repeat(chosen, sequences.lengths)]
    return mean_and_deviation(values, f"{sequences.source}: x")
