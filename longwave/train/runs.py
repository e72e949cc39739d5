"""One run, one folder: config.json, metrics.jsonl, checkpoints, best weights, result.json, report.html."""

import json
import platform
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import longwave
from longwave.models import SequenceModel
from longwave.tasks import baselines
from longwave.tasks.base import Task
from longwave.tasks.forecasting import SETS, ForecastInput, ForecastTask
from longwave.tasks.series import read_csv
from longwave.train.config import Experiment, from_dict, to_dict
from longwave.train.experiments import build_task, fit_model
from longwave.train.loop import Run, write_json

FORMAT = 1  # of a run's config.json


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
    return _finish(run, task, resume=False)


def check_new(folder: Path) -> None:
    """Refuse a folder that has a run already."""
    if (folder / "config.json").exists():
        raise ValueError(
            f"{folder}: there is a run already; go on with longwave train --resume {folder}, or choose --out"
        )


def resume(folder: Path, *, quiet: bool = False) -> Finished:
    """Go on with the run in a folder, bit by bit as if it had never stopped."""
    config = read_config(folder)
    experiment = from_dict(config["experiment"])
    task = build_task(experiment.task, None if config["data_dir"] is None else Path(config["data_dir"]))
    return _finish(Run(folder, experiment, task, quiet=quiet), task, resume=True)


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
        result["paper"] = task.paper
        if isinstance(task, ForecastTask):
            run.display.say("scoring the baselines")
            result["baselines"] = baselines.table(task)
        write_json(run.folder / "result.json", result)
        from longwave.report.page import write_report

        write_report(run.folder, task)
    run.accelerator.wait_for_everyone()
    return Finished(run.folder, run.experiment, result, run.main)


def is_main_process() -> bool:
    """Whether this process is the one that speaks."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def leave_processes() -> None:
    """Part from the other processes of a run in good order: one that just exits may abort, and take them along."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def load_best(folder: Path) -> SequenceModel:
    """The best weights of a run, ready to use."""
    return SequenceModel.from_pretrained(folder / "best").eval()


def evaluate(folder: Path, part: str, data_dir: Path | None = None) -> dict[str, float]:
    """Scores of the best weights of a run on one part of its data."""
    config = read_config(folder)
    experiment = from_dict(config["experiment"])
    stored = None if config["data_dir"] is None else Path(config["data_dir"])
    task = build_task(experiment.task, data_dir or stored)
    run = Run(folder, experiment, task, quiet=True)
    run.load_weights(load_best(folder))
    return run.evaluate(getattr(task, part))


@dataclass(frozen=True)
class Continuation:
    """A forecast of what comes after a series: values (horizon, columns), in the units of the series."""

    columns: tuple[str, ...]
    known: Any  # (context, columns), the rows before
    known_times: Any  # datetime64 or None
    values: Any
    times: Any

    def write(self, path: Path) -> None:
        """Write the forecast as CSV, whole or not at all."""
        lines = [
            ",".join((["time"] if self.times is not None else []) + [f'"{c}"' if "," in c else c for c in self.columns])
        ]
        for k, row in enumerate(self.values):
            stamp = [str(self.times[k]).replace("T", " ")] if self.times is not None else []
            lines.append(",".join(stamp + [f"{value:.8g}" for value in row]))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text("\n".join(lines) + "\n")
        part.replace(path)


def predict(folder: Path, csv: Path) -> Continuation:
    """Forecast the rows after the last of a CSV file."""
    config = read_config(folder)
    settings = from_dict(config["experiment"]).task
    inputs = ForecastInput.from_dict(config["task"]["inputs"])
    named = None if settings.csv is not None else SETS[settings.data]
    time = settings.time if named is None else named.time
    series = read_csv(csv, inputs.target, time, settings.multivariate, settings.fill)
    batch, future = inputs.continuation(series)
    model = load_best(folder)
    with torch.no_grad():
        y, _ = model(batch["x"], time=batch.get("time"))
    order = [series.columns.index(name) for name in inputs.columns]
    return Continuation(
        columns=inputs.columns,
        known=series.values[-inputs.context :, order],
        known_times=None if series.times is None else series.times[-inputs.context :],
        values=inputs.restore(y[0].double().numpy()),
        times=future,
    )
