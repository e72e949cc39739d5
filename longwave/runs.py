"""Runs from beginning to end: train, score, compare with baselines, report. What the commands and Python users call."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from longwave.experiments import EXPERIMENTS, Experiment
from longwave.report.page import write_report
from longwave.tasks.base import Scores, Task
from longwave.train.folder import RunFolder, check_new
from longwave.train.loop import Run


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    folder: Path
    experiment: Experiment
    result: dict[str, Any]
    main: bool  # whether this is the main process, which prints


def start(experiment: Experiment, folder: Path, data_dir: Path | None = None, *, quiet: bool = False) -> Finished:
    """Train an experiment in a folder of its own."""
    check_new(folder)
    data_dir = None if data_dir is None else data_dir.expanduser().resolve()
    settings = experiment.task.with_absolute_paths()
    task = settings.build(data_dir)
    experiment = dataclasses.replace(experiment, task=settings, model=experiment.model.resolve(task.spec))
    run_folder = RunFolder.create(folder, experiment, task, data_dir)
    run = Run(run_folder, task, quiet=quiet)
    if run.main:
        run_folder.write_config(task.artifacts())
        for note in task.notes:
            run.display.say(f"note: {note}")
    return _finish(run, task, resume=False)


def classify(
    x: Any, y: Any, folder: Path, split: Any = None, experiment: Experiment | None = None, *, quiet: bool = False
) -> Finished:
    """Train a classifier on arrays: x (n, length, channels), (n, length) or a list of arrays, y (n,) labels.

    The arrays are written to data.npz in the folder of the run, so that it can be resumed and scored again.
    """
    return _start_on_arrays("classify", x, y, folder, split, experiment, quiet)


def regress(
    x: Any,
    y: Any,
    folder: Path,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    names: Sequence[str] | None = None,
    quiet: bool = False,
) -> Finished:
    """Train a model that predicts numbers on arrays: x as for `classify`, y (n,) or (n, targets), NaN if not known.

    `names` are those of the targets. The arrays are written to data.npz in the folder of the run.
    """
    return _start_on_arrays("regress", x, y, folder, split, experiment, quiet, names=names)


def tag(
    x: Any, y: Any, folder: Path, split: Any = None, experiment: Experiment | None = None, *, quiet: bool = False
) -> Finished:
    """Train a model that labels each step on arrays: x as for `classify`, y (n, length) or a list of arrays (length,).

    A label that is not known is "", NaN or, among numbers, -1. The arrays are written to data.npz in the folder of the
    run.
    """
    return _start_on_arrays("tag", x, y, folder, split, experiment, quiet)


def _start_on_arrays(
    kind: str, x: Any, y: Any, folder: Path, split: Any, experiment: Experiment | None, quiet: bool, **more: Any
) -> Finished:
    check_new(folder)
    experiment = experiment or EXPERIMENTS.find(kind)
    settings: Any = experiment.task
    if settings.kind != kind:
        raise ValueError(f"experiment: expected one for custom sequences, such as {kind}, got {experiment.name}")
    task = settings.on_arrays(x, y, split, folder, **more)
    return start(dataclasses.replace(experiment, task=task), folder, quiet=quiet)


def resume(folder: Path, *, quiet: bool = False) -> Finished:
    """Go on with the run in a folder, bit by bit as if it had never stopped."""
    run_folder = RunFolder.open(folder)
    task = run_folder.build_task()
    return _finish(Run(run_folder, task, quiet=quiet), task, resume=True)


def evaluate(folder: Path, split: str, data_dir: Path | None = None) -> Scores:
    """Scores of the best weights of a run on its train, valid or test set."""
    run_folder = RunFolder.open(folder)
    task = run_folder.build_task(data_dir)
    run = Run(run_folder, task, quiet=True)
    run.model.load_state_dict(run_folder.load_best().state_dict())
    return run.evaluate(getattr(task, split))


def _finish(run: Run, task: Task, resume: bool) -> Finished:
    result = run.fit(resume)
    if run.main:
        run.display.say("scoring the baselines")
        result["baselines"] = task.baselines()
        run.folder.write_result(result)
        write_report(run.folder, run.model.eval(), task, result)
    run.accelerator.wait_for_everyone()
    return Finished(run.folder.path, run.experiment, result, run.main)


def is_main_process() -> bool:
    """Whether this is the main process, which prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Part from the other processes of a run in good order: one that just exits may abort, and take them along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
