"""Runs from beginning to end: train, score, compare with baselines, report. What the commands and Python users call."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from longwave.core import files, lock
from longwave.experiments import EXPERIMENTS, Experiment
from longwave.experiments.prepared import prepare
from longwave.report.page import write_report
from longwave.tasks.base import Scores, Task, TaskConfig
from longwave.tasks.rates import check_rates
from longwave.train.device import find_device
from longwave.train.folder import RunFolder, RunPlace
from longwave.train.loop import Run

FEW_STEPS = 100
Stored = tuple[TaskConfig, tuple[str, ...]]  # the settings of a task on data that was stored beside its run, and notes


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    folder: Path
    experiment: Experiment
    result: dict[str, Any]
    main: bool  # whether this is the main process, which prints


def load_run(folder: RunPlace) -> RunFolder:
    """A run that was trained or published, to be used: its folder, or the hub's "user/name"."""
    return RunFolder.open(folder)


def start(
    experiment: Experiment,
    folder: str | Path,
    data_dir: str | Path | None = None,
    *,
    quiet: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> Finished:
    """Train an experiment in a folder of its own; `overwrite` replaces a run that is there."""
    folders = {experiment.loop.seed: Path(folder)}
    (finished,) = start_seeds(experiment, folders, data_dir, quiet=quiet, overwrite=overwrite, device=device)
    return finished


def start_seeds(
    experiment: Experiment,
    folders: Mapping[int, Path],
    data_dir: str | Path | None = None,
    *,
    quiet: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    notes: tuple[str, ...] = (),
) -> Iterator[Finished]:
    """Train an experiment once with each seed, in the folder of the seed; `notes` are shown beside those of the task.

    First the data is read and fitted to the model, then all folders are checked, and only then anything is written.
    """
    find_device(device)
    data_dir = None if data_dir is None else Path(data_dir).expanduser().resolve()
    prepared = prepare(experiment, data_dir, notes)
    seeded = [prepared.with_seed(seed) for seed in folders]
    run_folders = [
        RunFolder.create(folder, one, data_dir, overwrite=overwrite)
        for one, folder in zip(seeded, folders.values(), strict=True)
    ]
    for run_folder, one in zip(run_folders, seeded, strict=True):
        run = Run(run_folder, one, quiet=quiet, device=device)
        with run.locked(), _naming_the_cure(run):
            if run.main:
                run_folder.write_config(one.artifacts, overwrite=overwrite)
                for note in run.task.notes:
                    run.display.say(f"note: {note}")
            finished = _finish(run, resume=False)
        yield finished


def train_classifier(
    x: Any,
    y: Any,
    folder: str | Path,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    quiet: bool = False,
    device: str = "auto",
) -> Finished:
    """Train a classifier on arrays: x (n, length, channels), (n, length) or a list of arrays, y (n,) labels.

    The arrays are written to data.npz in the folder of the run, so that it can be resumed and scored again.
    """
    return _start_on(
        "classify", lambda task: task.on_arrays(x, y, split, Path(folder)), folder, experiment, quiet, device
    )


def train_regressor(
    x: Any,
    y: Any,
    folder: str | Path,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    names: Sequence[str] | None = None,
    quiet: bool = False,
    device: str = "auto",
) -> Finished:
    """Train a model that predicts numbers on arrays: x as for `train_classifier`, y (n,) or (n, targets).

    A number that is not known is NaN. `names` are those of the targets. The arrays are written to data.npz in the
    folder of the run.
    """
    return _start_on(
        "regress", lambda task: task.on_arrays(x, y, split, Path(folder), names), folder, experiment, quiet, device
    )


def train_tagger(
    x: Any,
    y: Any,
    folder: str | Path,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    quiet: bool = False,
    device: str = "auto",
) -> Finished:
    """Train a model that labels each step on arrays: x as for `train_classifier`, y (n, length) or a list of arrays.

    A label that is not known is "", NaN or, among numbers, -1. The arrays are written to data.npz in the folder of the
    run.
    """
    return _start_on("tag", lambda task: task.on_arrays(x, y, split, Path(folder)), folder, experiment, quiet, device)


def train_forecaster(
    data: Any,
    folder: str | Path,
    *,
    target: str | int | None = None,
    time: str | None = None,
    horizon: int | None = None,
    context: int | None = None,
    multivariate: bool | None = None,
    fill: Literal["linear", "mask"] | None = None,
    experiment: Experiment | None = None,
    quiet: bool = False,
    device: str = "auto",
) -> Finished:
    """Train a forecaster on a data frame or Series of pandas or polars, on an array, or on a CSV file, by its path.

    An array is one series (rows,), or has a column for each (rows, columns), named "0", "1" and so on. The series is
    read by the rules of `longwave.tasks.forecast.series`; an index of dates gives the times, unless `time` names a
    column. What is no file is written to data.csv in the folder of the run, so that it can be resumed and scored again.
    """
    given = {
        "target": None if target is None else str(target),
        "time": time,
        "horizon": horizon,
        "context": context,
        "multivariate": multivariate,
        "fill": fill,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}

    def store(task: Any) -> Stored:
        stored: Stored = dataclasses.replace(task, **changes).on_frame(data, Path(folder))
        return stored

    return _start_on("forecast", store, folder, experiment, quiet, device)


def _start_on(
    name: str,
    store: Callable[[Any], Stored],
    folder: str | Path,
    experiment: Experiment | None,
    quiet: bool,
    device: str,
) -> Finished:
    """Train `experiment`, by default the one called `name`, on data in memory.

    `store` takes the settings of the task, and writes the data into the folder.
    """
    folder, default = Path(folder), EXPERIMENTS.find(name)
    if (folder / "config.json").exists():  # before data is written into it
        raise ValueError(
            f"folder: {folder} already has a run; name another folder, or resume that run with "
            f"longwave.runs.resume({str(folder)!r})"
        )
    experiment = experiment or default
    if not isinstance(experiment.task, type(default.task)):
        raise ValueError(f"experiment: expected one of the kind {default.task.kind}, got {experiment.name}")
    find_device(device)
    with _holding(folder):
        task, notes = store(experiment.task)
        experiment = dataclasses.replace(experiment, task=task)
        (finished,) = start_seeds(experiment, {experiment.loop.seed: folder}, quiet=quiet, device=device, notes=notes)
        return finished


def _holding(folder: Path) -> contextlib.AbstractContextManager[Any]:
    """Keep others out of a folder that data goes to before the run begins; of several ranks, the first does so."""
    return lock.hold(folder) if os.environ.get("RANK", "0") == "0" else contextlib.nullcontext()


def resume(folder: RunPlace, *, quiet: bool = False, device: str = "auto") -> Finished:
    """Go on with the run in a folder, bit by bit as if it had never stopped."""
    find_device(device)
    run_folder = RunFolder.open(folder, published=False)
    if run_folder.config.imported is not None:
        raise ValueError(
            f"{run_folder.path}: its weights were imported from {run_folder.config.imported}, and there is no training "
            "to resume; expected a run of longwave train"
        )
    run = Run(run_folder, run_folder.prepare(), quiet=quiet, device=device)
    with run.locked(), _naming_the_cure(run):
        return _finish(run, resume=True)


def evaluate(
    folder: RunPlace,
    split: str = "test",
    data_dir: str | Path | None = None,
    *,
    carry_state: bool = False,
    restart_state: bool = False,
    device: str = "auto",
) -> Scores:
    """Scores of the best weights of a run on its train, valid or test set.

    With `carry_state` a model reads a text from its beginning to its end, and does not forget at the end of a window;
    with `restart_state` it does, even if it was trained with its state carried on. By default as in training.
    """
    if carry_state and restart_state:
        raise ValueError("restart_state: expected one of it and carry_state, got both")
    run = _best(folder, data_dir, device, restart_state=restart_state)
    examples = getattr(run.task, split)
    return run.evaluate(run.task.carried(examples) if carry_state or run.task.carried_rows else examples)


def evaluate_at(
    folder: RunPlace,
    rates: Sequence[float],
    split: str = "test",
    data_dir: str | Path | None = None,
    *,
    antialias: bool = False,
    device: str = "auto",
) -> Iterator[tuple[float, Scores]]:
    """Scores of the best weights of a run at other sampling rates: the data resampled, dt multiplied, nothing trained.

    A rate of 2 drops every second step, and 0.5 makes steps between by a polyphase filter; with `antialias`, such a
    filter stands before the dropping, too.
    """
    check_rates(rates)
    run_folder = RunFolder.open(folder)
    run_folder.check_supports_rate("rate")
    run = _best(run_folder, data_dir, device)
    examples = getattr(run.task, split)
    splits = [(rate, run.task.at_rate(examples, rate, antialias)) for rate in rates]  # refused before any is scored
    return ((rate, run.evaluate(own)) for rate, own in splits)


def _best(folder: RunPlace, data_dir: str | Path | None, device: str, *, restart_state: bool = False) -> Run:
    """A run with its best weights, to be scored."""
    find_device(device)
    run_folder = RunFolder.open(folder)
    prepared = run_folder.prepare(data_dir)
    if restart_state:
        prepared = dataclasses.replace(prepared, task=prepared.task.restarted())
    run = Run(run_folder, prepared, quiet=True, device=device)
    run_folder.load_best_into(run.model)
    return run


@contextlib.contextmanager
def _naming_the_cure(run: Run) -> Iterator[None]:
    """Have the error of a full disk say how to resume the run, once there is one."""
    try:
        yield
    except OSError as error:
        if error.errno in files.FULL and (run.folder.is_replacing or run.folder.config_path.exists()):
            error.add_note(run.resumed_by("make room, then "))
        raise


def _finish(run: Run, resume: bool) -> Finished:
    result, task = run.fit(resume), run.task
    if run.main:
        run.display.say("scoring the baselines")
        result["baselines"] = task.baselines()
        is_cut = run.schedule.steps(run.position) < run.schedule.all_steps  # by its minutes
        result["notes"] = notes_on(result, task, "--loop.minutes" if is_cut else "--loop.epochs")
        run.folder.write_result(result)
        run.display.say("drawing the report")
        shown = task if run.test_outputs is None else task.with_outputs(run.test_outputs)
        write_report(run.folder, run.model.cpu().eval(), shown, result)  # pictures are drawn from the CPU's memory
    run.accelerator.wait_for_everyone()
    return Finished(run.folder.path, run.experiment, result, run.main)


def notes_on(result: dict[str, Any], task: Task, limit: str = "--loop.epochs") -> list[str]:
    """What a reader of the scores should know: that the run was short, which `limit` ended, or a better baseline."""
    notes = []
    if result["steps"] < FEW_STEPS and not result["stopped_early"]:  # one that stopped early had patience enough
        notes.append(f"the run took {result['steps']} steps, too few to judge the model by: give it more {limit}")
    own = result["test"][task.goal]
    if baseline := task.best_baseline(result["baselines"], "test"):
        name, score = baseline
        if score > own if task.higher_is_better else score < own:
            figures = f"{task.goal.replace('_', ' ')} {score:.4g} on the test set against {own:.4g}"
            notes.append(f"the baseline {name} is better than this run: {figures}")
    return notes


def is_main_process() -> bool:
    """Whether this is the main process, which prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Destroy the process group: a process that just exits may abort, and take the others along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
