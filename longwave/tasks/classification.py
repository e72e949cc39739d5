"""Classification: cross-entropy and accuracy, the parts of one's own sequences, and what new ones must be like."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longwave.tasks.base import Batch, Task, TaskInput, deviation_or_one, digest, mean_and_deviation, standardised
from longwave.tasks.sequences import Sequences, class_names

SHARE = 10  # one in so many sequences of a class is for validation, and one for the test
RARE = 10  # a class this many times rarer than the commonest is worth a note


@dataclass(frozen=True)
class ClassifierInput(TaskInput):
    """What a trained classifier must know of its data."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]  # of the train part, by channel
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
    """Say which class a sequence belongs to; an output has a logit for each."""

    inputs: ClassifierInput
    counts: dict[str, tuple[int, ...]]  # examples of each class, by part
    weights: tuple[float, ...] | None = None  # of each class in the training loss; None: all alike
    origin: str = ""  # where the data was read from, for the report
    digest: str = ""  # of the data, as it was read
    notes: tuple[str, ...] = ()
    goal: str = "accuracy"
    higher_is_better: bool = True

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean cross-entropy; a sum over rows, weighted or not, so that parts of a batch add up to the whole."""
        y = self._labels(output, batch)
        if self.weights is None:
            return nn.functional.cross_entropy(output, y)
        losses = nn.functional.cross_entropy(output, y, reduction="none")
        return (losses * torch.tensor(self.weights, device=output.device, dtype=output.dtype)[y]).mean()

    def scores(self, output: Tensor, batch: Batch) -> dict[str, tuple[Tensor, int]]:
        """Accuracy, the cross-entropy without weights, and if classes are to weigh alike the mean of their recalls."""
        y = self._labels(output, batch)
        right = output.argmax(-1) == y
        scores = {
            "accuracy": (right.sum(), len(y)),
            "loss": (nn.functional.cross_entropy(output, y, reduction="sum"), len(y)),
        }
        if "weight" in batch:
            scores["balanced_accuracy"] = ((right * batch["weight"]).sum(), len(y))
        return scores

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        return super().describe() | {
            "data": self.origin,
            "counts": {part: list(counts) for part, counts in self.counts.items()},
            "notes": list(self.notes),
            "inputs": self.inputs.to_dict(),
            "digest": self.digest,
        }

    def commonest(self) -> dict[str, dict[str, float]]:
        """Scores of one who has seen the labels of the train part and nothing else: what a model has to beat."""
        train = np.array(self.counts["train"], dtype=np.float64)
        log_share = np.log(train / train.sum())
        scores = {}
        for part in ("valid", "test"):
            counts = np.array(self.counts[part])
            accuracy = counts[train.argmax()] / counts.sum()
            scores[part] = {"accuracy": float(accuracy), "loss": float(-(counts @ log_share) / counts.sum())}
            if self.goal == "balanced_accuracy":
                scores[part]["balanced_accuracy"] = float(accuracy > 0) / int((counts > 0).sum())
        return scores

    def _labels(self, output: Tensor, batch: Batch) -> Tensor:
        expected = (len(batch["y"]), len(self.inputs.classes))
        if output.shape != expected:
            raise ValueError(f"output: expected {expected}, a logit for each class, got {tuple(output.shape)}")
        return batch["y"]


# One's own sequences


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
    """Labelled sequences of one's own as a task.

    Parts that come with the sequences are kept; else 80 % of each class are drawn to train, 10 % to validate and 10 %
    to test. Channels are standardised by the train part. `balance` weighs each class in the training loss by the
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
    if sequences.parts is None:
        parts = _draw_parts(labels, classes, split_seed, sequences.source)
    else:
        parts = _given_parts(np.array(sequences.parts), labels, classes, split_seed, sequences.source, notes)
    counts = {part: np.bincount(labels[index], minlength=len(classes)) for part, index in parts.items()}
    largest, smallest = int(counts["train"].max()), int(counts["train"].min())
    if largest >= RARE * smallest:
        rare, common = classes[int(counts["train"].argmin())], classes[int(counts["train"].argmax())]
        treatment = "they count alike" if balance else "--balance makes them count alike"
        notes.append(
            f"class {rare!r} has {smallest:,} examples to train on and {common!r} has {largest:,}: look at the recall "
            f"of each class, not at the accuracy alone; {treatment}"
        )
    mean, deviation = _statistics(sequences, parts["train"])
    notes += [f"channel {k} does not change in the train part" for k in np.flatnonzero(deviation == 0)]
    inputs = ClassifierInput(classes, tuple(mean.tolist()), deviation_or_one(deviation), sequences.length)
    values = inputs.standardise(sequences.values)

    def split(index: NDArray[np.int64]) -> SequenceSplit:
        same = sequences.length is not None
        own = labels[index]
        counts = np.bincount(own, minlength=len(classes))
        weights = len(own) / ((counts > 0).sum() * counts[own]) if balance else None
        return SequenceSplit(values, sequences.starts[index], sequences.lengths[index], own, same, weights)

    return ClassificationTask(
        name=name,
        train=split(parts["train"]),
        valid=split(parts["valid"]),
        test=split(parts["test"]),
        input_size=sequences.channels,
        output_size=len(classes),
        inputs=inputs,
        counts={part: tuple(count.tolist()) for part, count in counts.items()},
        weights=tuple((counts["train"].sum() / (len(classes) * counts["train"])).tolist()) if balance else None,
        origin=sequences.source,
        notes=tuple(notes),
        digest=digest(sequences.values, sequences.lengths, labels),
        goal="balanced_accuracy" if balance else "accuracy",
    )


def shuffled(count: int, seed: int) -> NDArray[np.int64]:
    """The numbers 0 to count - 1 in a random order that no version of numpy or torch will change.

    numpy promises the same raw output of PCG64 for ever, and no such thing of its `permutation`.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")


def _draw_parts(
    labels: NDArray[np.int64], classes: tuple[str, ...], seed: int, source: str
) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of each class, and at least one of each in each part."""
    order = shuffled(len(labels), seed)
    parts: dict[str, list[NDArray[np.int64]]] = {"train": [], "valid": [], "test": []}
    for k, name in enumerate(classes):
        members = order[labels[order] == k]
        if len(members) < 3:
            raise ValueError(
                f"{source}: y: class {name!r} has {len(members)} sequence{'s' * (len(members) > 1)}, too few for one "
                "in each part; expected 3 or more of each class: leave it out, join it with another, or say yourself "
                "what is train, valid and test (part)"
            )
        held = max(1, round(len(members) / SHARE))
        parts["valid"].append(members[:held])
        parts["test"].append(members[held : 2 * held])
        parts["train"].append(members[2 * held :])
    return {part: np.sort(np.concatenate(chosen)) for part, chosen in parts.items()}


def _given_parts(
    given: NDArray[Any],
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    seed: int,
    source: str,
    notes: list[str],
) -> dict[str, NDArray[np.int64]]:
    """The parts as they were given; without a valid part, one in ten of the train part of each class."""
    parts = {part: np.flatnonzero(given == part) for part in ("train", "valid", "test")}
    for part in ("train", "test"):
        if not len(parts[part]):
            raise ValueError(f"{source}: part: expected sequences in train and test, got none in {part}")
    if not len(parts["valid"]):
        order = parts["train"][shuffled(len(parts["train"]), seed)]
        members = [order[labels[order] == k] for k in range(len(classes))]
        # A class of one keeps its only example to train on.
        held = [m[: min(len(m) - 1, max(1, round(len(m) / SHARE)))] for m in members if len(m)]
        parts["valid"] = np.sort(np.concatenate(held))
        parts["train"] = np.setdiff1d(parts["train"], parts["valid"])
        if not len(parts["valid"]):
            raise ValueError(f"{source}: part: no sequence is for validation, and train is too small to take some")
        notes.append(f"no sequence was marked valid: {len(parts['valid'])} of the train part were taken for it")
    for k, name in enumerate(classes):
        here = [part for part, index in parts.items() if (labels[index] == k).any()]
        if "train" not in here:
            raise ValueError(
                f"{source}: part: class {name!r} is in {' and '.join(here)}, and not in train; it cannot be learnt: "
                "move some of it to train, or leave it out"
            )
        if missing := [part for part in ("valid", "test") if part not in here]:
            notes.append(f"class {name!r} is not in {' and '.join(missing)}")
    return parts


def _statistics(sequences: Sequences, index: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each channel over all steps of the sequences at `index`."""
    chosen = np.zeros(len(sequences), bool)
    chosen[index] = True
    values = sequences.values[np.repeat(chosen, sequences.lengths)]
    return mean_and_deviation(values, f"{sequences.source}: x")
