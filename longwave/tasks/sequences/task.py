"""The base of tasks on custom sequences: settings, splits, batches, and checks of new sequences."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.random import shuffled
from longwave.core.settings import at_least
from longwave.models import Spec
from longwave.tasks.base import SPLITS, Batch, OnData, Scores, Task, TaskConfig, TaskInput, score
from longwave.tasks.sequences.data import Channels, Sequences, from_arrays, npz_bytes, read_npz
from longwave.tasks.sequences.targets import TargetKind
from longwave.tasks.statistics import deviation_or_one, mean_and_deviation, standardised

Index = NDArray[np.int64]
SHARE = 10  # one in so many sequences is for validation, and one for the test
RARE = 10  # a class this many times rarer than the commonest is worth a note
NO_TAG = -100  # what a batch has for a step without a label, and behind the end of a row
ARRAYS = "data.npz"  # in the folder of a run on arrays: what it was trained on


@dataclass(frozen=True, kw_only=True)
class SequenceInput(TaskInput):
    """Facts about its sequences that a trained model needs."""

    mean: tuple[float, ...]  # of the training set, by channel
    deviation: tuple[float, ...]  # the same; 1 for a channel that does not change
    length: int | None  # None: sequences differ in length

    @property
    def channels(self) -> int:
        """Numbers per step."""
        return len(self.mean)

    def spec(self, outputs: int, decoders: tuple[str, ...]) -> Spec:
        """Channels in, so many numbers out, for the whole sequence or for each step."""
        return Spec(input_size=self.channels, output_size=outputs, length=self.length, decoders=decoders)

    def standardise(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """(..., channels) as the model sees them."""
        return standardised(values, self.mean, self.deviation).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SequenceSplit:
    """Some of the sequences, in memory and standardised."""

    values: NDArray[Any]  # (total, channels) or (total,) of all sequences, one after the other
    starts: Index  # (n,) of those that belong to the split
    lengths: Index  # (n,)
    same_length: bool  # of the whole data set, so that batches of a model are all alike
    rows: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # (n, ...) by their name in a batch
    tags: Index | None = None  # (total,) of all sequences: the class of each step, NO_TAG where it is not known

    def __len__(self) -> int:
        return len(self.starts)

    def joined(self, other: "SequenceSplit") -> Self:
        """The sequences of both; tags are of all sequences anyway."""
        return replace(
            self,
            starts=np.concatenate([self.starts, other.starts]),
            lengths=np.concatenate([self.lengths, other.lengths]),
            rows={name: np.concatenate([values, other.rows[name]]) for name, values in self.rows.items()},
        )

    def chosen(self, index: Any) -> Self:
        """Some of the sequences."""
        rows = {name: values[index] for name, values in self.rows.items()}
        return replace(self, starts=self.starts[index], lengths=self.lengths[index], rows=rows)

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, longest of the batch, channels), zero behind the end of a row; lengths (B,), if they differ; what there
        is of each sequence under its name, and tags as y (B, longest of the batch).
        """
        index = np.asarray(indices, dtype=np.int64)
        batch = {"x": self._padded(self.values, index, 0)}
        batch |= {name: torch.from_numpy(values[index]) for name, values in self.rows.items()}
        if self.tags is not None:
            batch["y"] = self._padded(self.tags, index, NO_TAG)
        return batch if self.same_length else batch | {"lengths": torch.from_numpy(self.lengths[index])}

    def _padded(self, values: NDArray[Any], index: Index, fill: int) -> Tensor:
        """The steps (total, ...) of the sequences at an index as (B, longest, ...)."""
        lengths = self.lengths[index]
        padded = np.full((len(index), int(lengths.max(initial=0)), *values.shape[1:]), fill, values.dtype)
        for row, start, length in zip(padded, self.starts[index], lengths, strict=True):
            row[:length] = values[start : start + length]
        return torch.from_numpy(padded)

    @property
    def labels(self) -> Index:
        """(n,) classes of the sequences."""
        return self.rows["y"]

    @property
    def own_tags(self) -> list[Index]:
        """The tags of each sequence, (length,)."""
        assert self.tags is not None
        return [self.tags[start : start + length] for start, length in zip(self.starts, self.lengths, strict=True)]


# Tasks


@dataclass(frozen=True, kw_only=True)
class CountedTask(Task):
    """A task whose targets are counted, and whose data is known by a digest."""

    inputs: TaskInput  # what a trained model must know of its data
    counts: dict[str, tuple[int, ...]]  # known targets, of each class or column, by split
    digest: str = ""  # of the data, as it was read
    mean_weight: float = 1.0  # of training examples, if they have weights

    def weighted(self, losses: Tensor, batch: Batch) -> Tensor:
        """Losses (B, ...) times the weights of their rows, relative to the mean weight, if a batch has weights."""
        if "sample_weight" not in batch:
            return losses
        weights = (batch["sample_weight"] / self.mean_weight).to(losses)
        return losses * weights.view(-1, *[1] * (losses.ndim - 1))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The counts of known targets, facts about the input, and a digest."""
        counts = {split: list(counts) for split, counts in self.counts.items()}
        return {"counts": counts, "inputs": self.inputs.to_dict(), "digest": self.digest}


@dataclass(frozen=True, kw_only=True)
class SequencesTask(CountedTask):
    """A task on custom sequences, which are in memory."""

    train: SequenceSplit
    valid: SequenceSplit
    test: SequenceSplit
    inputs: SequenceInput

    def scores_of(self, model: Any, size: int) -> dict[str, Scores]:
        """The scores of a baseline that is called as a model, in batches of so many sequences."""
        return {name: score(self, model, own, size) for name, own in self.held_out.items()}


def sequence_fields(
    sequences: Sequences,
    splits: Mapping[str, Index],
    inputs: SequenceInput,
    counts: Mapping[str, NDArray[Any]],
    notes: Sequence[str],
    rows: Callable[[Index], Mapping[str, NDArray[Any]]] = lambda index: {},
    tags: Index | None = None,
) -> dict[str, Any]:
    """The fields that all tasks on custom sequences have; `rows` gives what batches have of the sequences at an index.

    `tags` are of all steps.
    """
    values, starts, lengths = inputs.standardise(sequences.values), sequences.starts, sequences.lengths
    same_length = sequences.length is not None

    def weighted(index: Index) -> Mapping[str, NDArray[Any]]:
        found = rows(index)
        return found if sequences.weights is None else {**found, "sample_weight": sequences.weights[index]}

    own = {
        split: SequenceSplit(values, starts[index], lengths[index], same_length, weighted(index), tags)
        for split, index in splits.items()
    }
    return {
        **own,
        "inputs": inputs,
        "counts": {split: tuple(count.tolist()) for split, count in counts.items()},
        "mean_weight": 1.0 if sequences.weights is None else float(sequences.weights[splits["train"]].mean()),
        "origin": sequences.source,
        "notes": (*sequences.notes, *notes),
    }


def count_labels(splits: Mapping[str, Any], classes: int) -> dict[str, tuple[int, ...]]:
    """The examples of each class in splits that have `labels`."""
    return {name: tuple(np.bincount(own.labels, minlength=classes).tolist()) for name, own in splits.items()}


def row_weights(labels: Index) -> NDArray[np.float64]:
    """A weight for each label, of mean 1 and with the same sum for each class."""
    counts = np.bincount(labels)
    return np.asarray(len(labels) / ((counts > 0).sum() * counts[labels]), np.float64)


def class_weights(counts: Index) -> tuple[float, ...]:
    """The inverse of each class' share, in units of that of equal shares."""
    return tuple((counts.sum() / (len(counts) * counts)).tolist())


# Splits


def in_random_order(groups: Index, members: Index, seed: int) -> Iterator[Index]:
    """The sequences `members` of each group, shuffled; `groups` (n,) are of all."""
    order = members[shuffled(len(members), seed)]
    return (order[groups[order] == group] for group in np.unique(groups[members]))


def draw_share(groups: Index, members: Index, share: float, seed: int) -> Index:
    """A share of each group of the sequences `members`: at least one, but of a group of one none."""
    grouped = in_random_order(groups, members, seed)
    return np.sort(np.concatenate([own[: min(len(own) - 1, max(1, round(share * len(own))))] for own in grouped]))


def draw_splits(groups: Index, members: Index, seed: int) -> dict[str, Index]:
    """80/10/10 of each group of the sequences `members`, at least one of each in each."""
    splits: dict[str, list[Index]] = {"train": [], "valid": [], "test": []}
    for own in in_random_order(groups, members, seed):
        held = max(1, round(len(own) / SHARE))
        splits["valid"].append(own[:held])
        splits["test"].append(own[held : 2 * held])
        splits["train"].append(own[2 * held :])
    return {split: np.sort(np.concatenate(chosen)) for split, chosen in splits.items()}


def class_splits(
    given: Sequence[str] | None,
    labels: Index,
    classes: Sequence[str],
    seed: int,
    source: str,
    notes: list[str],
    drawn_from: str,
    what: str,
) -> tuple[dict[str, Index], dict[str, Index]]:
    """The given splits, or else 80/10/10 of each class and at least one of each in each; and their counts by class."""
    everything = np.arange(len(labels))
    if given is not None:
        splits = given_splits(given, source, labels, everything, seed, notes)
    else:
        for count, name in zip(np.bincount(labels), classes, strict=True):
            if count < 3:
                raise ValueError(
                    f"{drawn_from}: class {name!r} has {count} {what}{'s' * int(count > 1)}, too few for one in each "
                    "split; expected at least 3 per class: leave it out, merge it with another, or assign splits "
                    "yourself (split)"
                )
        splits = draw_splits(labels, everything, seed)
    counts = {split: np.bincount(labels[index], minlength=len(classes)) for split, index in splits.items()}
    if given is not None:
        check_classes(counts, classes, source, "", notes)
    return splits, counts


def given_splits(
    given: Sequence[str], source: str, groups: Index, members: Index, seed: int, notes: list[str]
) -> dict[str, Index]:
    """The sequences `members` of each split, where `given` (n,) names that of each of all sequences.

    Without a validation set, a tenth of each group of the training set is taken.
    """
    named = np.array(given)
    splits = {split: members[named[members] == split] for split in SPLITS}
    if not len(splits["train"]):
        raise ValueError(f"{source}: split: expected sequences in train, got none")
    if not len(splits["valid"]):
        splits["valid"] = draw_share(groups, splits["train"], 1 / SHARE, seed)
        splits["train"] = np.setdiff1d(splits["train"], splits["valid"])
        if not len(splits["valid"]):
            raise ValueError(f"{source}: split: there is no validation set, and train is too small to take one from")
        notes.append(f"no sequence is marked valid: {len(splits['valid'])} of the training set are held out for it")
    if not len(splits["test"]):
        notes.append("no sequence is marked test: scores are those of the validation set")
    return splits


def plain_splits(sequences: Sequences, members: Index, target: str, seed: int, notes: list[str]) -> dict[str, Index]:
    """The splits that came with the sequences `members`, which have a target, else 80/10/10 of them."""
    if left_out := len(sequences) - len(members):
        notes.append(f"{left_out:,} of {len(sequences):,} sequences have no {target} and are left out")
    alike = np.zeros(len(sequences), np.int64)
    if sequences.splits is not None:
        return given_splits(sequences.splits, sequences.source, alike, members, seed, notes)
    if len(members) < 3:
        raise ValueError(
            f"{sequences.source}: expected at least 3 sequences with a known y, for train, valid and test, "
            f"got {len(members)}"
        )
    return draw_splits(alike, members, seed)


def check_several(classes: Sequence[str], source: str) -> None:
    """Refuse labels that are all the same."""
    if len(classes) < 2:
        got = f"only {classes[0]!r}" if classes else "none"
        raise ValueError(f"{source}: y: expected two or more classes, got {got}")


def check_classes(
    counts: Mapping[str, Sequence[int] | Index], classes: Sequence[str], source: str, cure: str, notes: list[str]
) -> None:
    """Refuse a class that is missing from the training set; note one missing from the validation or test set."""
    for k, name in enumerate(classes):
        here = [split for split, count in counts.items() if count[k]]
        if "train" not in here:
            raise ValueError(
                f"{source}: split: class {name!r} is in {' and '.join(here)} but not in train, so it cannot be learnt: "
                f"move some of it to train, or leave it out{cure}"
            )
        if missing := [split for split in ("valid", "test") if split not in here and any(counts[split])]:
            notes.append(f"class {name!r} is not in {' and '.join(missing)}")


def note_rare_class(counts: Index, classes: Sequence[str], what: str, balance: bool, notes: list[str]) -> None:
    """Note a class of the training set that is much rarer than the commonest."""
    largest, smallest = int(counts.max()), int(counts.min())
    if largest >= RARE * smallest:
        rare, common = classes[int(counts.argmin())], classes[int(counts.argmax())]
        treatment = "they are weighted equally" if balance else "--balance weights them equally"
        notes.append(
            f"class {rare!r} has {smallest:,} training {what} and {common!r} has {largest:,}: look at the recall of "
            f"each class, not only at the accuracy; {treatment}"
        )


def channel_facts(sequences: Sequences, index: Index, notes: list[str]) -> dict[str, Any]:
    """The fields of `SequenceInput`, over all steps of the sequences at `index`; a constant channel is noted."""
    values = sequences.values[sequences.is_step_of(index)]
    mean, deviation = mean_and_deviation(values, f"{sequences.source}: x")
    notes += [f"channel {k} is constant in the training set" for k in np.flatnonzero(deviation == 0)]
    return {"mean": tuple(mean.tolist()), "deviation": deviation_or_one(deviation), "length": sequences.length}


# Settings


@dataclass(frozen=True)
class SequenceTaskConfig(TaskConfig):
    """The settings of a task on custom sequences: a file, and how it is split."""

    target_kind: ClassVar[TargetKind]  # what y is

    npz: Path | None = None
    """An .npz file with x and y."""
    csv: Path | None = None
    """Or a CSV file with a header."""
    split: str | None = None
    """The column with train, valid or test (with csv); by default the splits are drawn, 80/10/10."""
    split_seed: int = at_least(0, 0)
    """Seed of the splits, if they are drawn."""
    channels: Channels = "last"
    """Whether x in an .npz file is (n, length, channels), last, or (n, channels, length), first."""

    @abstractmethod
    def read_csv(self, path: Path, labelled: bool = True, columns: Sequence[str] | None = None) -> Sequences:
        """The sequences in a CSV file; without `labelled`, targets and splits are ignored.

        `columns` are the channels of training, where they have names.
        """

    @abstractmethod
    def on(self, sequences: Sequences) -> Task:
        """The task on these sequences."""

    def read(self) -> Sequences:
        """The sequences in the file."""
        if (self.npz is None) == (self.csv is None):
            given = "neither" if self.npz is None else "both"
            raise ValueError(f"{self.kind}: expected --npz FILE or --csv FILE, got {given}")
        if self.npz is not None:
            return read_npz(self.npz, target_kind=self.target_kind, channels=self.channels)
        assert self.csv is not None
        return self.read_csv(self.csv)

    def read_new(self, npz: Path | None, csv: Path | None, columns: Sequence[str] | None) -> Sequences:
        """New sequences to predict for, in one of two files; their targets are ignored."""
        if npz is not None:
            return read_npz(npz, labelled=False, channels=self.channels)
        return self.read_csv(Path(csv or ""), False, columns)

    def build(self, data_dir: Path | None = None) -> Task:
        return self.on(self.read())

    def arrange(self, sequences: Sequences, inputs: SequenceInput) -> tuple[NDArray[np.float32], list[str]]:
        """New sequences in the form that a trained model sees, and notes."""
        notes = list(sequences.notes)
        if inputs.length is not None and sequences.length != inputs.length:
            lengths = f"{sequences.lengths.min()} to {sequences.lengths.max()}"
            notes.append(f"the model was trained on sequences of {inputs.length} steps, and these have {lengths}")
        return inputs.standardise(sequences.values), notes

    def on_arrays(self, folder: Path | None, x: Any, y: Any, split: Any = None, **known: Any) -> OnData:
        """The task on arrays, which are kept beside the run in a folder; `known` is as for `from_arrays`."""
        sequences = from_arrays(x, y, split, self.target_kind, channels=self.channels, **known)
        task = self.on(sequences)
        if folder is None:
            return OnData(replace(self, npz=None, csv=None), task)
        settings = replace(self, npz=folder / ARRAYS, csv=None, channels="last")
        return OnData(settings, task, {ARRAYS: npz_bytes(sequences)})

    def in_folder(self, folder: Path) -> Self:
        """Read the arrays stored beside the run, wherever its folder is now."""
        is_stored = self.npz is not None and self.npz.name == ARRAYS and (folder / ARRAYS).exists()
        return replace(self, npz=folder / ARRAYS) if is_stored else self
