"""The interface of tasks: settings, three splits of batches, a loss, scores, baselines.

A kind of task is a file that registers its settings. A batch is a dict of tensors with the rows of the batch first. The
names that models and training know:

    x         (B, L, input_size) floats, or (B, L) whole numbers for tokens
    time      (B, L, time_size) optional: features of the time of each step
    gaps      (B, L) optional: the time since the step before, in units of the usual step, for irregular times
    lengths   (B,) optional: how many steps of each row count; of pairs, x (B, 2, L), it is (B, 2)
    rate      (B,) optional, the same for all rows: x is sampled at 1/rate of the usual frequency (see `rates`)
    y         the target, as the task's own loss expects it
    known     optional, of the shape of y: where the target is known; the loss leaves out the rest
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from longwave.core.registry import Registry
from longwave.core.settings import Settings
from longwave.models import ModelConfig, Spec
from longwave.pictures.html import Section

Batch = dict[str, Tensor]
SPLITS = ("train", "valid", "test")
Sums = dict[str, tuple[Tensor, int]]  # scores by name, each as a sum and a count, so that batches add up exactly
Scores = dict[str, float]
T = TypeVar("T")
FEW_EXAMPLES = 100  # scores of so few vary more by chance than from one validation to the next
Baselines = dict[str, dict[str, Scores]]  # by name, then by split ("valid", "test")
# Decides what a model decides by the validation set alone; takes the model, and gets batches of so many examples of it.
Calibrate = Callable[[Any, Callable[[int], Iterator[Batch]]], None]


class Split(Protocol):
    """One part of a data set. `batch` must depend on nothing but the indices: then a resumed run sees the same data.

    If all examples of a batch share something, or change as an epoch goes on, the split has `batch_within(indices,
    whole, place)` too: the examples at the indices as a part of the batch `whole`, whose other examples belong to other
    processes, and which comes after the share `place` of the epoch.
    """

    def __len__(self) -> int:
        """Number of examples."""
        ...

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples at these indices, as one batch."""
        ...


def part_of_batch(split: Split, indices: Sequence[int], whole: Sequence[int], place: float) -> Batch:
    """The examples at `indices` as a part of a batch of an epoch; see `Split`."""
    within: Callable[..., Batch] | None = getattr(split, "batch_within", None)
    return split.batch(indices) if within is None else within(indices, whole, place)


def lengths_of(split: Split) -> Any:
    """The lengths (n,) of the examples of a split that has them, known without reading any; None: all have one."""
    return getattr(split, "lengths", None)


@dataclass(frozen=True, eq=False)
class ChangedSplit:
    """A split whose examples are those of another, changed, in the same order."""

    split: Any

    def __len__(self) -> int:
        return len(self.split)

    @property
    def lengths(self) -> Any:
        """The lengths of the split's examples; None: all are equal."""
        return lengths_of(self.split)


class Outcome(NamedTuple):
    """The loss and the scores of a batch. A tuple, because accelerate converts those to float32 and no dataclasses."""

    loss: Tensor  # the sum of `Task.count` terms
    scores: Sums
    state: Any = None  # of the model after the batch, where `Task.carried_rows` says that the next one goes on from it
    output: Tensor | None = None  # of each row, if the report of the task shows more of the test set than its scores


class TrainedRun(ABC):
    """A trained run as tasks see it; implemented in `train` for folders and memory."""

    path: Path  # its folder
    settings: "TaskConfig"
    facts: Mapping[str, Any]  # what training found out about its data, as plain values
    batch_size: int  # of evaluation

    @property
    def config_path(self) -> Path:
        """The path of the settings, for messages."""
        return self.path

    def fact(self, name: str, read: Callable[[Any], T]) -> T:
        """A fact, converted from plain values by `read`; a missing or damaged one is refused."""
        try:
            return read(self.facts[name])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            got = f"no {name}" if isinstance(error, KeyError) and name not in self.facts else str(error)
            raise ValueError(
                f"{self.config_path}: task: {name}: expected what training wrote there, got {got}"
            ) from error

    @abstractmethod
    def artifact(self, name: str) -> bytes:
        """A file that the task left beside the run."""

    @abstractmethod
    def result(self) -> dict[str, Any] | None:
        """The run's scores and the `files` that its task wrote at the end of training; None before that."""

    @abstractmethod
    def load_best(self, device: str = "cpu") -> Any:
        """The model with the best weights, on a device."""

    @abstractmethod
    def build_task(self, data_dir: str | Path | None = None) -> "Task":
        """The task with the data of training."""

    @abstractmethod
    def check_supports_rate(self, option: str) -> None:
        """Refuse a model that cannot follow another sampling rate."""


class Action(NamedTuple):
    """One way to use a run."""

    options: type  # a dataclass; its docstring and those of its fields are the help of the command
    run: Callable[[TrainedRun, Any], Iterator[str]]  # what it gives is printed as it comes
    call: Callable[..., Any]  # the same from Python: the run, data to predict for, and options by keyword


@dataclass(frozen=True)
class TaskConfig(Settings):
    """The settings of a task."""

    pipeline: ClassVar[str | None] = None  # what the Hugging Face hub calls such a task
    # The modules, imported when needed, whose ACTION is what a command (predict, generate, stream) does with a run.
    actions: ClassVar[Mapping[str, str]] = {}
    registry: ClassVar[Registry[Any]] = Registry("task", "longwave.tasks", "task")

    @abstractmethod
    def build(self, data_dir: Path | None = None) -> "Task":
        """The task with its data, from `data_dir`, else LONGWAVE_DATA, else the user's cache."""
        raise TypeError(f"{type(self).__name__} does not say how to build its task")

    def on_random_data(self, rows: int, seed: int = 0) -> "Task":
        """The task on random examples of full length, to measure a training step without its data."""
        raise ValueError(f"task: the shapes of {self.kind} are not known without its data; train a few steps instead")

    @property
    def is_self_describing(self) -> bool:
        """Whether the settings alone, without the data, say everything that a model needs in use."""
        return False

    @classmethod
    def action(cls, command: str) -> Action | None:
        """The implementation of `longwave predict`, `generate` or `stream` for this kind; None if there is none."""
        if command not in cls.actions:
            return None
        action: Action = import_module(cls.actions[command]).ACTION
        return action

    def in_folder(self, folder: Path) -> Self:
        """The settings for a run in `folder`, where data that came as arrays was stored beside it."""
        return self


TASKS: Registry[type[TaskConfig]] = TaskConfig.registry


@dataclass(frozen=True)
class TaskInput(Settings):
    """Facts that a trained model needs on new data, as plain values for a run's config."""


@dataclass(frozen=True)
class Task(ABC):
    """A data set with its loss and scores. `goal` names the score that decides which weights are best."""

    report_module: ClassVar[str | None] = None  # imported when needed; its report(model, task) gives the sections

    trivial: ClassVar[str | None] = None  # the baseline that does not look at the input

    name: str
    train: Split
    valid: Split
    test: Split
    goal: str = "loss"
    higher_is_better: bool = False
    paper: Scores = field(default_factory=dict)  # the paper's S4 figures on the test set, by score
    origin: str = ""  # where the data was read from, for the report
    notes: tuple[str, ...] = ()  # what a user should know of the data

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """The task's requirements on a model."""

    @abstractmethod
    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """The loss of a batch, as a sum, and its scores. The task calls the model itself, as often as it needs to."""

    def count(self, batch: Batch) -> int:
        """Number of terms in the summed loss of a batch; by default its rows."""
        return len(batch["y"])

    def reported(self, means: Scores) -> Scores:
        """The scores of a split from their means; tasks add scores that are not means, such as perplexity."""
        return means

    @property
    def splits(self) -> dict[str, Any]:
        """All three, by name."""
        return {name: getattr(self, name) for name in SPLITS}

    @property
    def held_out(self) -> dict[str, Split]:
        """The validation set, and the test set if there is one."""
        return {"valid": self.valid, "test": self.test} if len(self.test) else {"valid": self.valid}

    def train_at(self, epoch: int, seed: int) -> Split:
        """The training set of an epoch; random choices must follow from epoch, seed and index alone."""
        return self.train

    def at_rate(self, split: Split, rate: float, antialias: bool = False) -> Split:
        """A split of the task as if sampled at 1/rate of its frequency, for models that know the time between steps."""
        raise ValueError(
            f"rate: the sampling rate of {self.name} cannot be changed; that of sequences of numbers with one label "
            "each can (classify, images, audio)"
        )

    @property
    def plane(self) -> tuple[int, int] | None:
        """Height and width if the steps are pixels of an image, row by row; otherwise None."""
        return None

    @property
    def carried_rows(self) -> int:
        """Rows of a training batch that continue those of the previous batch; 0: examples are independent.

        The examples are then trained on in order, in batches of so many, and `outcome` takes and gives a state, too.
        """
        return 0

    def carried(self, split: Split) -> Split:
        """A split for scoring with the model's state carried from window to window."""
        raise ValueError(
            f"carry_state: the examples of {self.name} do not follow one another; the windows of a text do"
        )

    def restarted(self) -> "Task":
        """The task with every example read from a state of 0, as is the default."""
        return self

    def with_outputs(self, outputs: Tensor) -> "Task":
        """The task with the outputs (n, ...) for its test set, so that its report need not compute them again."""
        return self

    def report(self, model: Any) -> list[Section]:
        """The sections that a run of this kind adds to its report; the model has the best weights."""
        if self.report_module is None:
            return []
        sections: list[Section] = import_module(self.report_module).report(model, self)
        return sections

    def for_model(self, model: ModelConfig) -> "Adapted":
        """Adapt the task to a model with these settings; by default it stays the same."""
        return Adapted(self, model, len(self.valid))

    def baselines(self) -> Baselines:
        """Scores of simple methods, which a model has to beat."""
        return {}

    def best_baseline(self, baselines: Baselines, split: str) -> tuple[str, float] | None:
        """The name and the score of the best baseline on the validation or test set, if there is one."""
        found = {name: splits[split][self.goal] for name, splits in baselines.items() if self.goal in splits[split]}
        if not found:
            return None
        best = (max if self.higher_is_better else min)(found, key=lambda name: found[name])
        return best, found[best]

    def conclude(self, model: Any, compare: bool = True) -> "Conclusion":
        """Add files and results at the end of training, from the model with its best weights.

        `compare`: whether baselines are scored, too.
        """
        return Conclusion(self)

    def artifacts(self) -> dict[str, bytes]:
        """Files that a run needs to be used again, by name."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Facts for a run's config and report; `fingerprint` is how a run recognises its data."""
        return {
            "name": self.name,
            "examples": {name: len(split) for name, split in self.splits.items()},
            "data": self.origin,
            "notes": list(self.notes),
            **self.fingerprint,
        }

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Facts by which a run recognises its data: a digest, counts, scales."""
        return {}


class OnData(NamedTuple):
    """A task on data in memory."""

    settings: TaskConfig
    task: Task
    files: Mapping[str, bytes] = {}  # that hold the data, for the folder of a run, which can then be resumed


class Conclusion(NamedTuple):
    """Results of `Task.conclude`."""

    task: Task  # as its report sees it
    files: Mapping[str, bytes] = {}  # to be kept beside the run, by name
    result: Mapping[str, Any] = {}  # to be added to the scores


class Adapted(NamedTuple):
    """A task adapted to a model, and the adapted settings of the model (see `Task.for_model`)."""

    task: Task
    model: ModelConfig
    n_selection_examples: int  # validation examples by which the best weights can be chosen
    calibrate: Calibrate | None = None  # called before each validation


def call(model: Any, batch: Batch, **more: Any) -> Tensor:
    """The output of a model for a batch, in float32 at least."""
    if "rate" in batch:
        more["rate"] = float(batch["rate"][0])
    if "gaps" in batch:
        more["gaps"] = batch["gaps"]
    output: Tensor = model(batch["x"], time=batch.get("time"), lengths=batch.get("lengths"), **more)[0]
    return output.to(torch.promote_types(output.dtype, torch.float32))


def scored_split(result: Mapping[str, Any]) -> tuple[str, str]:
    """The split whose scores tables show, and its display name: test, or valid if there is no test set."""
    return ("test", "test") if result["test"] else ("valid", "validation")


def batches(split: Split, size: int) -> Iterator[Batch]:
    """A whole split in batches of at most `size` rows, in order."""
    for start in range(0, len(split), size):
        yield split.batch(range(start, min(start + size, len(split))))


def score(task: Task, model: Any, split: Split, size: int) -> Scores:
    """Score a model, or a baseline with the same interface, on a split in batches of a size."""
    sums: Sums = {}
    for batch in batches(split, size):
        sums = add_up(sums, task.outcome(model, batch).scores)
    return task.reported({name: float(total) / count if count else math.nan for name, (total, count) in sums.items()})


def add_up(total: Sums, more: Sums) -> Sums:
    """Add the sums and counts of two sets of examples."""
    return {
        name: (total[name][0] + value, total[name][1] + count) if name in total else (value, count)
        for name, (value, count) in more.items()
    }
