"""A small set is trained on whole: a second model, the judge, is trained without a third of it and validated on that.

A tenth of a small training set is too little to validate on, and a third too much to lose. So the model is trained on
all sequences; batches say which rows are `held` from the judge, which has a loss of its own beside that of the model
and answers for these rows in evaluation (`models.classifier`). The validation score is therefore that of the judge.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.tasks.base import FEW_EXAMPLES, Batch, Outcome, call
from longwave.tasks.classify.baselines import ConvolutionClassifier, NearestNeighbour
from longwave.tasks.classify.task import SequenceTask, class_weights, row_weights
from longwave.tasks.sequences.task import SequenceSplit, draw_share


@dataclass(frozen=True, kw_only=True)
class JudgedTask(SequenceTask):
    """A task whose validation set is the part of its training set that is held from the judge."""

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """As without a judge, but the loss of training is the mean of both losses, without the judge's of held rows."""
        if "held" not in batch:  # of the test set
            return super().outcome(model, batch)
        output = call(model, batch, held=batch["held"])
        if output.ndim == 2:
            return self._scored(output, self._losses(output, batch), batch)
        output, judge = output.unbind(1)  # in training
        losses = (self._losses(output, batch) + self._losses(judge, batch) * ~batch["held"]) / 2
        return self._scored(output, losses, batch)

    def _validated(self, classifier: NearestNeighbour | ConvolutionClassifier) -> tuple[Tensor, Tensor]:
        """By fits that leave out each sequence in turn, as the baseline was fitted to the validation set, too."""
        held = torch.from_numpy(self.train.rows["held"])
        return classifier.labels[held], classifier.left_out()[held]


def judged(task: SequenceTask) -> SequenceTask:
    """The task with all sequences to train on, if its validation set was drawn and is too small to judge by.

    A third of each class is then held from the judge, up to about a hundred sequences, and validates it.
    """
    if task.valid_was_given or len(task.valid) >= FEW_EXAMPLES:
        return task
    both = task.train.joined(task.valid)
    labels = both.labels
    held = np.zeros(len(both), bool)
    held[draw_share(labels, np.arange(len(both)), min(1 / 3, FEW_EXAMPLES / len(both)), seed=0)] = True
    if not held.any():
        return task
    classes, is_balanced = len(task.inputs.classes), task.weights is not None
    counts = {split: np.bincount(own, minlength=classes) for split, own in (("train", labels), ("valid", labels[held]))}
    note = (
        f"{len(task.valid)} validation sequences are too few: the model is trained on all {len(both)}, and a second "
        f"model, trained without {held.sum()} of them, is validated instead"
    )
    changes = {
        "train": _marked(both, held, is_balanced),
        "valid": _marked(both.chosen(held), held[held], is_balanced),
        "counts": task.counts | {split: tuple(count.tolist()) for split, count in counts.items()},
        "weights": class_weights(counts["train"]) if is_balanced else None,
        "notes": (*task.notes, note),
    }
    return JudgedTask(**vars(task) | changes)


def _marked(split: SequenceSplit, held: NDArray[np.bool_], is_balanced: bool) -> SequenceSplit:
    """The split with rows that say whether they are held, and new weights if classes are balanced."""
    weights = {"weight": row_weights(split.labels)} if is_balanced else {}
    return replace(split, rows={**split.rows, "held": held, **weights})
