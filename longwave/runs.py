"""Train, score, compare with baselines and report: the functions behind the commands."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from longwave.core import files
from longwave.experiments import Experiment
from longwave.experiments.prepared import Prepared, prepare
from longwave.publish import assemble
from longwave.report.page import scores_html, training_curves, write_report
from longwave.tasks.base import Scores, Task, scored_split
from longwave.tasks.rates import check_rates
from longwave.train.device import find_device
from longwave.train.folder import RunFolder, RunPlace
from longwave.train.loop import Run
from longwave.train.trained import MemoryRun

FEW_STEPS = 100


class FinishedRun:
    """A finished run, to predict, evaluate, stream, generate and plot with, as far as its kind of task supports it."""

    def __init__(self, run: RunFolder | MemoryRun, result: dict[str, Any], main: bool = True) -> None:
        self.run, self.result, self.main = run, result, main  # main: whether this is the main process, which prints

    @property
    def folder(self) -> Path | None:
        """The folder of the run, if it has one."""
        return self.run.path if isinstance(self.run, RunFolder) else None

    @property
    def experiment(self) -> Experiment:
        return self.run.config.experiment

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the data and the scores."""
        return (*self.run.config.notes, *self.result.get("notes", ()))

    @functools.cached_property
    def model(self) -> Any:
        """The model with the best weights, on the CPU."""
        return self.run.load_best()

    def predict(self, data: Any, **options: Any) -> Any:
        """Predictions for new data: arrays, a data frame, files, as in training; `options` are those of its kind."""
        return self._call("predict", data, **options)

    def stream(self, **options: Any) -> Any:
        """Rows as they come, each a dict; the options are those of `longwave stream`, such as csv="-"."""
        return self._call("stream", **options)

    def generate(self, **options: Any) -> Any:
        """Text, images or sound; the options are those of `longwave generate`, such as length=500."""
        return self._call("generate", **options)

    def evaluate(self, split: str = "test", data_dir: str | Path | None = None, **options: Any) -> Scores:
        """Scores on the train, valid or test set, as `longwave.runs.evaluate` gives them."""
        if not isinstance(self.run, RunFolder):
            raise ValueError(
                "evaluate: a run without a folder does not keep its data, and its scores are in run.result; train it "
                "with folder=..., or predict for the data that you have"
            )
        return evaluate(self.run, split, data_dir, **options)

    def plot(self) -> Any:
        """Plot the training loss and the validation score as a matplotlib figure."""
        metrics = self.run.metrics()
        if not metrics:
            raise ValueError("plot: the run has no metrics of its training, as a published one has none")
        return training_curves(metrics, self.result.get("goal") or next(iter(self.result["valid"])))

    def save(self, folder: str | Path) -> None:
        """Write what the commands open into a folder: the weights, all settings, and a card with the scores."""
        assemble(self.run, Path(folder), Path(folder).name)

    def _call(self, command: str, *data: Any, **options: Any) -> Any:
        action = self.run.settings.action(command)
        if action is None:
            raise ValueError(f"{command}: a run of kind {self.run.settings.kind} cannot {command}")
        return action.call(self.run, *data, **options)

    def __repr__(self) -> str:
        split, where = scored_split(self.result)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.result[split].items())
        return f"FinishedRun({self.experiment.title}: {shown} on the {where} set)"

    def _repr_html_(self) -> str:
        return scores_html(self.result)


def load_run(folder: RunPlace) -> RunFolder:
    """Load a trained or published run from its folder, or by the hub's "user/name"."""
    return RunFolder.open(folder)


def open(folder: RunPlace) -> FinishedRun:
    """Open a finished run by its folder or the hub's "user/name"."""
    run = RunFolder.open(folder)
    result = run.result()
    if result is None and not run.is_published:
        raise ValueError(run.resumed_by(f"{run.path}: expected a finished run; ", "resume with"))
    return FinishedRun(run, result or {"valid": {}, "test": {}})


def start(
    experiment: Experiment,
    folder: str | Path,
    data_dir: str | Path | None = None,
    *,
    quiet: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train an experiment in its own folder; `overwrite` replaces an existing run."""
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
) -> Iterator[FinishedRun]:
    """Train an experiment once with each seed, in the folder of the seed.

    First the data is read and fitted to the model, then all folders are checked, and only then anything is written.
    """
    find_device(device)
    data_dir = None if data_dir is None else Path(data_dir).expanduser().resolve()
    prepared = prepare(experiment, data_dir)
    seeded = [prepared.with_seed(seed) for seed in folders]
    run_folders = [
        RunFolder.create(folder, one, data_dir, overwrite=overwrite)
        for one, folder in zip(seeded, folders.values(), strict=True)
    ]
    for run_folder, one in zip(run_folders, seeded, strict=True):
        yield fit(one, run_folder, quiet=quiet, overwrite=overwrite, device=device)


def fit(
    prepared: Prepared,
    place: RunFolder | MemoryRun,
    data: Mapping[str, bytes] = {},
    *,
    quiet: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a prepared experiment; in a folder, also write its settings, the files of its `data`, and a report."""
    run = Run(place, prepared, quiet=quiet, device=device)
    with run.locked(), _naming_the_cure(run):
        if run.main:
            place.write_config({**prepared.artifacts, **data}, overwrite=overwrite)
            for note in run.task.notes:
                run.display.say(f"note: {note}")
        return _finish(run, resume=False)


def resume(folder: RunPlace, *, quiet: bool = False, device: str = "auto") -> FinishedRun:
    """Resume the run in a folder, bit by bit as if it had never stopped."""
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
    residuals: bool = False,
    device: str = "auto",
) -> Scores:
    """Score the best weights of a run on its train, valid or test set.

    With `carry_state` a model reads a text from its beginning to its end, and does not forget at the end of a window;
    with `restart_state` it does, even if it was trained with its state carried on. By default as in training.
    With `residuals`, the errors of held-out windows are stored in the folder of a forecaster, for its intervals.
    """
    if carry_state and restart_state:
        raise ValueError("restart_state: expected restart_state or carry_state, got both")
    run = _best(folder, data_dir, device, restart_state=restart_state)
    if residuals and run.main:
        result = run.folder.result()
        if result is None:
            raise ValueError(
                run.folder.resumed_by(f"{run.folder.path}: residuals: expected a run at its end; ", "resume with")
            )
        _conclude(run, result)
        if "files" not in result:
            raise ValueError(f"residuals: a run of kind {run.folder.settings.kind} has no intervals; a forecast has")
        run.folder.write_result(result)
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
    """Score the best weights of a run at other sampling rates, by resampling the data and scaling dt.

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
    """Open a run with its best weights, for scoring."""
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
    """Add to the error of a full disk how to resume the run, if there is one."""
    try:
        yield
    except OSError as error:
        if error.errno in files.FULL and (run.folder.is_replacing or run.folder.config_path.exists()):
            error.add_note(run.folder.resumed_by("make room, then "))
        raise


def _finish(run: Run, resume: bool) -> FinishedRun:
    result, task, place = run.fit(resume), run.task, run.folder
    if run.main and isinstance(place, RunFolder):
        run.display.say("scoring the baselines")
        result["baselines"] = task.baselines()
    if run.main:
        task = _conclude(run, result, compare=isinstance(place, RunFolder))
        is_cut = run.schedule.steps(run.position) < run.schedule.all_steps  # by its minutes
        limits = ("--loop.epochs", "--loop.minutes") if isinstance(place, RunFolder) else ("epochs", "minutes")
        result["notes"] = notes_on(result, task, limits[is_cut], _is_improving(place.metrics(), task))
        place.write_result(result)
    if run.main and isinstance(place, RunFolder):
        run.display.say("drawing the report")
        shown = task if run.test_outputs is None else task.with_outputs(run.test_outputs)
        write_report(place, run.model.cpu().eval(), shown, result)  # pictures are drawn from the CPU's memory
    run.accelerator.wait_for_everyone()
    return FinishedRun(place, result, run.main)


def _is_improving(metrics: list[dict[str, Any]], task: Task) -> bool:
    """Whether the last validation was better than all before it, or the only one: more steps might help."""
    sign = -1 if task.higher_is_better else 1
    *earlier, last = (sign * line[f"valid_{task.goal}"] for line in metrics)
    return all(last < value - 1e-3 * abs(value) for value in earlier)


def _conclude(run: Run, result: dict[str, Any], compare: bool = True) -> Task:
    """Let the task add to the result and store its files; returns the task for the report."""
    task, kept, more = run.task.conclude(run.model.eval(), compare)
    run.folder.write_files(kept)
    result.update(more, **({"files": sorted(kept)} if kept else {}))
    return task


def notes_on(result: dict[str, Any], task: Task, limit: str = "--loop.epochs", is_improving: bool = True) -> list[str]:
    """Notes for readers of the scores: the run was short (ended by `limit`), or a baseline is better."""
    notes = [result["summary"]] if result.get("summary") else []
    if result["steps"] < FEW_STEPS and not result["stopped_early"] and is_improving:
        notes.append(f"the run took {result['steps']} steps, too few to judge the model: increase {limit}")
    split, where = scored_split(result)
    own = result[split][task.goal]
    trivial = result.get("baselines", {}).get(task.trivial, {})
    if trivial and trivial[split][task.goal] == own:
        notes.append(f"the run is exactly as good as the {task.trivial}: it has learnt nothing from the input")
    if baseline := task.best_baseline(result.get("baselines", {}), split):
        name, score = baseline
        is_better = score > own if task.higher_is_better else score < own
        if is_better and not math.isclose(score, own, rel_tol=1e-3):  # a difference that four digits show
            figures = f"{task.goal.replace('_', ' ')} {score:.4g} on the {where} set against {own:.4g}"
            notes.append(f"the baseline {name} is better than this run: {figures}")
    return notes


def is_main_process() -> bool:
    """Whether this is the main process, which prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Destroy the process group: a process that just exits may abort, and take the others along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
