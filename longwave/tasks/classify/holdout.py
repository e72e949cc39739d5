"""Train on all of a small set; a second model, trained without a third of it, is validated on that third.

A tenth of a small training set is too little to validate on, and a third too much to lose. So the model is trained on
all sequences. Batches say which rows are `held` out from the second one, the holdout model, which has its own loss and
predicts these rows in evaluation (`models.classifier`). The validation score is that of the holdout model.
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
class HoldoutTask(SequenceTask):
    """A task whose validation set is the part of its training set that the holdout model is not trained on."""

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The mean of both losses in training, without the holdout model's of held rows."""
        if "held" not in batch:  # of the test set
            return super().outcome(model, batch)
        output = call(model, batch, held=batch["held"])
        if output.ndim == 2:
            return self._scored(output, self._losses(output, batch), batch)
        output, of_holdout = output.unbind(1)  # in training
        losses = (self._losses(output, batch) + self._losses(of_holdout, batch) * ~batch["held"]) / 2
        return self._scored(output, losses, batch)

    def _validated(self, classifier: NearestNeighbour | ConvolutionClassifier) -> tuple[Tensor, Tensor]:
        """Leave-one-out predictions, since the baseline was fitted to the validation set too."""
        held = torch.from_numpy(self.train.rows["held"])
        return classifier.labels[held], classifier.left_out()[held]


def with_holdout(task: SequenceTask) -> SequenceTask:
    """Train on all sequences if the validation set was drawn from them and is too small to validate on.

    A third of each class is then held out from the holdout model, up to about a hundred sequences, and validates it.
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
        f"{len(task.valid)} validation sequences are too few: the model is trained on all {len(both)}, and the "
        f"validation score is that of a holdout model, trained without {held.sum()} of them"
    )
    changes = {
        "train": _marked(both, held, is_balanced),
        "valid": _marked(both.chosen(held), held[held], is_balanced),
        "counts": task.counts | {split: tuple(count.tolist()) for split, count in counts.items()},
        "weights": class_weights(counts["train"]) if is_balanced else None,
        "notes": (*task.notes, note),
    }
    return HoldoutTask(**vars(task) | changes)


def _marked(split: SequenceSplit, held: NDArray[np.bool_], is_balanced: bool) -> SequenceSplit:
    """Mark the held rows of a split, with new weights if classes are balanced."""
    weights = {"weight": row_weights(split.labels)} if is_balanced else {}
    return replace(split, rows={**split.rows, "held": held, **weights})
