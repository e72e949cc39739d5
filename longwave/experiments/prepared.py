"""Prepare an experiment to run: read its data, and fit model and loop to the data."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from longwave.experiments.base import Experiment
from longwave.models import Spec
from longwave.tasks.base import Calibrate, Task


@dataclass(frozen=True)
class Prepared:
    """An experiment and its task, fitted to each other."""

    experiment: Experiment
    task: Task
    spec: Spec  # of the task
    calibrate: Calibrate | None = None  # see `tasks.base.Adapted`

    @cached_property
    def artifacts(self) -> dict[str, bytes]:
        """Files by name that the trained model needs in use."""
        return self.task.artifacts()

    def with_seed(self, seed: int) -> "Prepared":
        """Copy with another seed."""
        experiment = self.experiment
        return replace(self, experiment=replace(experiment, loop=replace(experiment.loop, seed=seed)))


def prepare(experiment: Experiment, data_dir: Path | None = None) -> Prepared:
    """Read the data of an experiment and fit both to each other."""
    settings = experiment.task.with_absolute_paths()
    task = settings.build(data_dir)
    task = replace(task, notes=tuple(dict.fromkeys(task.notes)))  # each once
    return prepare_on(replace(experiment, task=settings), task)


def prepare_on(experiment: Experiment, task: Task) -> Prepared:
    """Fit an experiment to a built task: the sizes of its model, its loop, its warm-up."""
    task, model, n_selection_examples, calibrate = task.for_model(experiment.model)
    spec = task.spec
    if spec.is_irregular:
        experiment.check_takes_gaps("irregular")
    experiment = replace(experiment, model=model.resolve(spec))
    if spec.changes_rate:
        experiment.check_supports_rate("rates")
    return Prepared(experiment.fitted(len(task.train), n_selection_examples), task, spec, calibrate)


def prepare_again(experiment: Experiment, task: Task) -> Prepared:
    """Prepare an experiment that was fitted when its run began; its model stays unchanged."""
    task, _, n_selection_examples, calibrate = task.for_model(experiment.model)
    loop = experiment.loop.fitted(len(task.train), n_selection_examples)  # an imported run was fitted to no data
    return Prepared(replace(experiment, loop=loop), task, task.spec, calibrate)
