"""Tagging: a label at each step of a sequence, some of which may be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from longwave.core.random import shuffled
from longwave.models import Spec
from longwave.tasks.base import TASKS, Baselines, Batch, Outcome, Scores, Sums, call
from longwave.tasks.sequences import linear
from longwave.tasks.sequences.data import Sequences
from longwave.tasks.sequences.targets import TargetKind, class_names
from longwave.tasks.sequences.task import (
    NO_TAG,
    Index,
    SequenceInput,
    SequenceSplit,
    SequencesTask,
    SequenceTaskConfig,
    channel_facts,
    check_classes,
    check_several,
    class_weights,
    note_rare_class,
    plain_splits,
    sequence_fields,
)
from longwave.tasks.statistics import digest
from longwave.tasks.tag.data import read_steps

REACH = 4  # steps before and after, whose values the linear baseline sees
WIDEST = 512  # features of the linear baseline; with many channels it sees fewer steps


@dataclass(frozen=True, kw_only=True)
class TaggingInput(SequenceInput):
    """Facts about its data that a trained model needs."""

    classes: tuple[str, ...]
    columns: tuple[str, ...] | None  # the names of the channels, if the file had some


@dataclass(frozen=True, kw_only=True)
class TaggingTask(SequencesTask):
    """Classify each step; an output has a logit for each class at each step.

    A batch has y (B, L): the class of each step, NO_TAG where it is not known and behind the end of a row.
    """

    report_module: ClassVar[str | None] = "longwave.tasks.tag.report"

    inputs: TaggingInput
    weights: tuple[float, ...] | None = None  # of each class in the training loss; None: all alike
    goal: str = "accuracy"
    higher_is_better: bool = True

    @property
    def spec(self) -> Spec:
        """Channels in, a logit for each class at each step out; a step may see those after it."""
        return self.inputs.spec(len(self.inputs.classes), ("sequence",))

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The cross-entropy of each labelled step, weighted or not; accuracy, and what F1 follows from."""
        output, y = self._labelled(call(model, batch), batch)
        losses = nn.functional.cross_entropy(output, y, reduction="none")
        scores: Sums = {}
        found, count = output.argmax(-1), len(y)
        scores["accuracy"] = ((found == y).sum(), count)
        scores["loss"] = (losses.detach().double().sum(), count)
        for name, steps in (("hits", y[found == y]), ("found", found), ("true", y)):
            for k, total in enumerate(steps.bincount(minlength=len(self.inputs.classes))):
                scores[f"{name}_{k}"] = (total, count)
        if self.weights is not None:
            losses = losses * torch.tensor(self.weights, device=output.device, dtype=output.dtype)[y]
        return Outcome(losses.sum(), scores)

    def count(self, batch: Batch) -> int:
        """Number of labelled steps."""
        return int((batch["y"] != NO_TAG).sum())

    def reported(self, means: Scores) -> Scores:
        """Accuracy and cross-entropy of the labelled steps, and the mean F1 of the classes that are there or found."""
        both = {k: means[f"found_{k}"] + means[f"true_{k}"] for k in range(len(self.inputs.classes))}
        f1 = [2 * means[f"hits_{k}"] / total for k, total in both.items() if total > 0]
        return {"accuracy": means["accuracy"], "loss": means["loss"], "macro_f1": sum(f1) / len(f1)}

    def _labelled(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits and classes of the labelled steps."""
        y = batch["y"]
        expected = (*y.shape, len(self.inputs.classes))
        if output.shape != expected:
            raise ValueError(
                f"output: expected {expected}, a logit for each class at each step, got {tuple(output.shape)}; "
                "does the model have the decoder sequence?"
            )
        known = y != NO_TAG
        return output[known], y[known]

    # Baselines

    def baselines(self) -> Baselines:
        """The class prior, and ridge regression on the values around each step."""
        shares = torch.tensor(self.counts["train"], dtype=torch.float64)
        prior = (shares / shares.sum()).log()
        found = {"class prior": self.scores_of(lambda x, **_: (prior.expand(*x.shape[:2], -1), None), self._size(1))}
        reach = min(REACH, (WIDEST // self.inputs.channels - 1) // 2)
        width = self.inputs.channels * (2 * reach + 1)
        if reach >= 0:
            ridge = self._ridge(reach, linear.MEMORY // width)
            scores = self.scores_of(
                lambda x, **_: (torch.from_numpy(ridge(linear.windows(x.double().numpy(), reach))), None),
                self._size(width),
            )
            for own in scores.values():
                del own["loss"]  # its outputs are no logits
            found[f"ridge on {2 * reach + 1} steps"] = scores
        return found

    def _ridge(self, reach: int, most: int) -> linear.Ridge:
        """Least squares to 1 for the class of a step and 0 for the others; the validation set chooses the penalty."""
        x, y = _labelled_steps(self.train, reach, most)
        valid_x, valid_y = _labelled_steps(self.valid, reach, most)
        one_hot = np.eye(len(self.inputs.classes))[y]
        return linear.fit(x, one_hot, lambda ridge: float((ridge(valid_x).argmax(axis=1) != valid_y).mean()))

    def _size(self, width: int) -> int:
        """Sequences per batch, with so many features per step, when baselines are scored."""
        longest = max(int(split.lengths.max()) for split in (self.valid, self.test))
        return max(1, linear.MEMORY // (longest * max(width, len(self.inputs.classes))))


def _labelled_steps(split: SequenceSplit, reach: int, most: int) -> tuple[linear.Matrix, Index]:
    """Features (steps, features) and classes (steps,) of the labelled steps, of `most` of them at most."""
    tags = split.own_tags
    total = sum(int((own != NO_TAG).sum()) for own in tags)
    chosen = np.zeros(total, bool)
    chosen[shuffled(total, seed=0)[:most]] = True
    x, y, before = [], [], 0
    for own, start in zip(tags, split.starts, strict=True):
        steps = np.flatnonzero(own != NO_TAG)
        steps, before = steps[chosen[before : before + len(steps)]], before + len(steps)
        if len(steps):
            values = split.values[start : start + len(own)].astype(np.float64)
            x.append(linear.windows(values, reach)[steps])
            y.append(own[steps])
    return np.concatenate(x), np.concatenate(y)


@TASKS.register("tag")
@dataclass(frozen=True)
class TagConfig(SequenceTaskConfig):
    """A tagging task on custom sequences."""

    target_kind: ClassVar[TargetKind] = "tags"
    actions: ClassVar[Mapping[str, str]] = {
        "predict": "longwave.tasks.tag.predict",
        "stream": "longwave.tasks.classify.stream",
    }

    npz: Path | None = None
    """An .npz file with x (n, length, channels) or (n, length), and y (n, length) labels; docs: tagging."""
    csv: Path | None = None
    """Or a CSV file with a header, one row per step."""
    sequence: str = "sequence"
    """The column that names the sequence of each step (with csv)."""
    label: str = "label"
    """The column with the labels, empty where one is not known (with csv)."""
    balance: bool = False
    """Weight all classes equally, regardless of their sizes, in the loss and when choosing the best weights."""

    def read_csv(self, path: Path, labelled: bool = True, columns: Sequence[str] | None = None) -> Sequences:
        return read_steps(path, self.sequence, self.label, self.split, labelled, columns)

    def on(self, sequences: Sequences) -> TaggingTask:
        """Sequences with a label at each step as a task, with channels standardised by the training set.

        Splits that come with the sequences are kept; else 80 % are drawn for training, 10 % for validation and 10 % for
        the test. A sequence without a labelled step is left out.
        """
        if sequences.tags is None:
            raise ValueError(f"{sequences.source}: y: expected a label for each step, got none")
        source, notes = sequences.source, list[str]()
        different, places = np.unique(sequences.tags, return_inverse=True)
        classes = class_names(str(tag) for tag in different if tag)
        check_several(classes, source)
        codes = np.array([classes.index(str(tag)) if tag else NO_TAG for tag in different], np.int64)[places]
        members = np.flatnonzero(np.add.reduceat(codes != NO_TAG, sequences.starts))
        splits = plain_splits(sequences, members, "labelled step", self.split_seed, notes)
        counts = {}
        for split, index in splits.items():
            labels = codes[sequences.is_step_of(index) & (codes != NO_TAG)]
            counts[split] = np.bincount(labels, minlength=len(classes))
        cure = "" if sequences.splits is not None else "; another --split-seed draws other splits"
        check_classes(counts, classes, source, cure, notes)
        note_rare_class(counts["train"], classes, "steps", self.balance, notes)
        channels = channel_facts(sequences, splits["train"], notes)
        inputs = TaggingInput(classes=classes, columns=sequences.columns, **channels)
        return TaggingTask(
            name="tag",
            weights=class_weights(counts["train"]) if self.balance else None,
            digest=digest(sequences.values, sequences.lengths, codes, *splits.values()),
            goal="macro_f1" if self.balance else "accuracy",
            **sequence_fields(sequences, splits, inputs, counts, notes, tags=codes),
        )
