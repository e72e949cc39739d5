"""One run, one folder: config.json, metrics.jsonl, checkpoints, best weights, result.json, report.html."""

import json
import math
import platform
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import longwave
from longwave import models
from longwave.models import ModelConfig, ResNetConfig
from longwave.tasks import baselines
from longwave.tasks.autoregressive import AutoregressiveTask
from longwave.tasks.base import Task
from longwave.tasks.classification import ClassificationTask, custom
from longwave.tasks.forecasting import ForecastTask
from longwave.tasks.sequences import from_arrays, save_npz
from longwave.tasks.text import TextTask, Words
from longwave.train.config import ClassifyConfig, Experiment, from_dict, to_dict
from longwave.train.experiments import build_task, find, fit_model
from longwave.train.loop import Run, write_json

FORMAT = 1  # of a run's config.json
ARRAYS = "data.npz"  # of a run on arrays: what it was trained on
VOCABULARY = "vocabulary.txt"  # of a run on words: what the numbers of its tokens mean


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    folder: Path
    experiment: Experiment
    result: dict[str, Any]
    main: bool  # whether this process is the one that prints


def start(experiment: Experiment, folder: Path, data_dir: Path | None = None, *, quiet: bool = False) -> Finished:
    """Train an experiment in a folder of its own."""
    check_new(folder)
    experiment = _with_whole_paths(experiment)
    data_dir = None if data_dir is None else data_dir.expanduser().resolve()
    task = build_task(experiment.task, data_dir)
    experiment = fit_model(experiment, task)
    run = Run(folder, experiment, task, quiet=quiet)
    if run.main:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(
            folder / "config.json",
            {
                "format": FORMAT,
                "experiment": to_dict(experiment),
                "data_dir": None if data_dir is None else str(data_dir),
                "task": task.describe(),
                "command": shlex.join(["longwave", *sys.argv[1:]]),
                "versions": {
                    "longwave": longwave.__version__,
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                },
            },
        )
        if isinstance(task, TextTask) and isinstance(task.codec, Words):
            task.codec.write(folder / VOCABULARY)
        for note in task.describe().get("notes", ()):
            run.display.say(f"note: {note}")
    return _finish(run, task, resume=False)


def classify(
    x: Any, y: Any, folder: Path, part: Any = None, experiment: Experiment | None = None, *, quiet: bool = False
) -> Finished:
    """Train a classifier on arrays: x (n, length, channels), (n, length) or a list of arrays, y (n,) labels.

    The arrays are written to data.npz in the folder of the run, so that it can be resumed and scored again.
    """
    check_new(folder)
    experiment = experiment or find("classify")
    if not isinstance(experiment.task, ClassifyConfig):
        raise ValueError(f"experiment: expected one of one's own sequences, such as classify, got {experiment.name}")
    task = replace(experiment.task, npz=folder / ARRAYS, csv=None)
    sequences = from_arrays(x, y, part)
    custom(sequences)  # which refuses what cannot be trained on before anything is written
    save_npz(folder / ARRAYS, sequences)
    return start(replace(experiment, task=task), folder, quiet=quiet)


def check_new(folder: Path) -> None:
    """Refuse a folder that has a run already."""
    if (folder / "config.json").exists():
        raise ValueError(
            f"{folder}: there is a run already; go on with longwave train --resume {folder}, or choose --out"
        )


def resume(folder: Path, *, quiet: bool = False) -> Finished:
    """Go on with the run in a folder, bit by bit as if it had never stopped."""
    experiment, task = _restore(folder)
    return _finish(Run(folder, experiment, task, quiet=quiet), task, resume=True)


def _with_whole_paths(experiment: Experiment) -> Experiment:
    """Files of one's own by their whole path, so that the run finds them from any folder."""
    given = {name: getattr(experiment.task, name, None) for name in ("csv", "npz", "file")}
    whole: dict[str, Any] = {name: path.expanduser().resolve() for name, path in given.items() if path is not None}
    return replace(experiment, task=replace(experiment.task, **whole))


def _restore(folder: Path, data_dir: Path | None = None) -> tuple[Experiment, Task]:
    """The experiment of a run and its task, made sure to be that of its training."""
    config = read_config(folder)
    experiment = from_dict(config["experiment"])
    task, arrays = experiment.task, folder / ARRAYS
    if isinstance(task, ClassifyConfig) and task.npz is not None and task.npz.name == ARRAYS and arrays.exists():
        experiment = replace(experiment, task=replace(task, npz=arrays))  # wherever the folder is by now
    stored = None if config["data_dir"] is None else Path(config["data_dir"])
    built = build_task(experiment.task, data_dir or stored)
    before, now = config["task"], json.loads(json.dumps(built.describe()))
    for name in ("inputs", "counts", "examples", "tokens", "digest"):
        if before.get(name) and not _is_close(before[name], now[name]):
            raise ValueError(
                f"{folder}: the data is not what the run was trained on; {name}: expected {before[name]!r:.300}, got "
                f"{now[name]!r:.300}. Train a new run on it, or see what longwave predict makes of it"
            )
    return experiment, built


def _is_close(a: Any, b: Any) -> bool:
    """Whether two values from JSON are the same, to the rounding of another machine's sums."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_close(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return bool(a == b)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a run."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: expected the folder of a run, with a config.json ({error})") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT or "experiment" not in config:
        raise ValueError(f"{path}: expected the config.json of a run in format {FORMAT}; written by another longwave?")
    return config


def _finish(run: Run, task: Task, resume: bool) -> Finished:
    result = run.fit(resume)
    if run.main:
        result["model"] = model_name(run.experiment.model)
        result["paper"] = task.paper
        if isinstance(task, ForecastTask):
            run.display.say("scoring the baselines")
            result["baselines"] = baselines.table(task)
            if absent := baselines.BASELINES.keys() - result["baselines"].keys():
                run.display.say(f"note: for a context and a horizon of this size left out: {', '.join(sorted(absent))}")
        if isinstance(task, AutoregressiveTask):
            result["baselines"] = {"frequencies alone": task.frequencies()}
        if isinstance(task, ClassificationTask):
            result["baselines"] = {"commonest class": task.commonest()}
        write_json(run.folder / "result.json", result)
        from longwave.report.page import write_report

        write_report(run.folder, task)
    run.accelerator.wait_for_everyone()
    return Finished(run.folder, run.experiment, result, run.main)


def model_name(config: ModelConfig | ResNetConfig) -> str:
    """What tables call a model."""
    if isinstance(config, ResNetConfig):
        return "ResNet-18"
    return config.mixer.upper() if len(config.mixer) <= 4 else config.mixer


def is_main_process() -> bool:
    """Whether this process is the one that speaks."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Part from the other processes of a run in good order: one that just exits may abort, and take them along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def load_best(folder: Path) -> Any:
    """The best weights of a run, ready to use."""
    if not (folder / "best").exists():
        raise ValueError(
            f"{folder}: there are no weights yet, as the run was stopped before its first validation; go on with "
            f"longwave train --resume {folder}"
        )
    return models.load(folder / "best").eval()


def evaluate(folder: Path, part: str, data_dir: Path | None = None) -> dict[str, float]:
    """Scores of the best weights of a run on one part of its data."""
    experiment, task = _restore(folder, data_dir)
    run = Run(folder, experiment, task, quiet=True)
    run.load_weights(load_best(folder))
    return run.evaluate(getattr(task, part))
