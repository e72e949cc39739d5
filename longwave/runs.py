"""Runs from beginning to end: train, score, compare with baselines, report. What the commands and Python users call."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from longwave.experiments import EXPERIMENTS, Experiment
from longwave.report.page import write_report
from longwave.tasks.base import Scores, Task
from longwave.train.folder import RunFolder, check_new
from longwave.train.loop import Run

FEW_STEPS = 100


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
    experiment = experiment.fitted(len(task.train), len(task.valid))
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
    check_new(folder)
    experiment = experiment or EXPERIMENTS.find("classify")
    on_arrays = getattr(experiment.task, "on_arrays", None)
    if on_arrays is None:
        raise ValueError(f"experiment: expected one for custom sequences, such as classify, got {experiment.name}")
    return start(dataclasses.replace(experiment, task=on_arrays(x, y, split, folder)), folder, quiet=quiet)


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
        result["notes"] = notes_on(result, task)
        run.folder.write_result(result)
        write_report(run.folder, run.model.eval(), task, result)
    run.accelerator.wait_for_everyone()
    return Finished(run.folder.path, run.experiment, result, run.main)


def notes_on(result: dict[str, Any], task: Task) -> list[str]:
    """What a reader of the scores should know: that the run was short, or that a baseline is better."""
    notes = []
    if result["steps"] < FEW_STEPS:
        notes.append(f"the run took {result['steps']} steps, too few to judge the model by: give it more --loop.epochs")
    goal, sign = task.goal, -1 if task.higher_is_better else 1
    known = {name: scores["test"][goal] for name, scores in result["baselines"].items() if goal in scores["test"]}
    if known:
        best = min(known, key=lambda name: sign * known[name])
        if sign * known[best] < sign * result["test"][goal]:
            figures = f"{goal.replace('_', ' ')} {known[best]:.4f} on the test set against {result['test'][goal]:.4f}"
            notes.append(f"the baseline {best} is better than this run: {figures}")
    return notes


def is_main_process() -> bool:
    """Whether this is the main process, which prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Part from the other processes of a run in good order: one that just exits may abort, and take them along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
