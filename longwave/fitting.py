"""Train on arrays, data frames and files, with the run in a folder or in memory."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from longwave.experiments import EXPERIMENTS, Experiment
from longwave.experiments.forecasting import with_gaps
from longwave.experiments.prepared import prepare_on
from longwave.runs import FinishedRun, fit
from longwave.tasks.base import OnData
from longwave.tasks.sequences.data import Channels
from longwave.train.device import find_device
from longwave.train.folder import RunFolder
from longwave.train.trained import MemoryRun


def train_classifier(
    x: Any,
    y: Any,
    folder: str | Path | None = None,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    channels: Channels | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a classifier on arrays: x (n, length, channels), (n, length) or a list of arrays, y (n,) labels.

    With `channels="first"`, x is (n, channels, length). A run in a folder keeps the arrays in data.npz there, so that
    it can be resumed and scored again.
    """
    return train_on("classify", _arrays(channels, x, y, split), folder, experiment, overwrite, quiet, device)


def train_regressor(
    x: Any,
    y: Any,
    folder: str | Path | None = None,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    names: Sequence[str] | None = None,
    channels: Channels | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a model that predicts numbers on arrays: x as for `train_classifier`, y (n,) or (n, targets).

    A number that is not known is NaN. `names` are those of the targets.
    """
    on = _arrays(channels, x, y, split, names=names)
    return train_on("regress", on, folder, experiment, overwrite, quiet, device)


def train_tagger(
    x: Any,
    y: Any,
    folder: str | Path | None = None,
    split: Any = None,
    experiment: Experiment | None = None,
    *,
    channels: Channels | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a model that labels each step on arrays: x as for `train_classifier`, y (n, length) or a list of arrays.

    A label that is not known is "", NaN or, among numbers, -1.
    """
    return train_on("tag", _arrays(channels, x, y, split), folder, experiment, overwrite, quiet, device)


def train_forecaster(
    data: Any,
    folder: str | Path | None = None,
    *,
    target: str | int | None = None,
    time: str | None = None,
    horizon: int | None = None,
    context: int | None = None,
    multivariate: bool | None = None,
    fill: Literal["linear", "mask"] | None = None,
    level: Sequence[float] | None = None,
    id: str | None = None,
    past: Sequence[str] | None = None,
    future: Sequence[str] | None = None,
    static: Sequence[str] | None = None,
    scale: Literal["series", "all"] | None = None,
    irregular: bool | None = None,
    experiment: Experiment | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a forecaster on a data frame or Series of pandas or polars, on an array, or on a CSV file, by its path.

    An array is one series (rows,), or has a column for each (rows, columns), named "0", "1" and so on. The series is
    read by the rules of `longwave.tasks.forecast.series`; an index of dates gives the times, unless `time` names a
    column. `level=[80, 95]` are the levels, in per cent, of the intervals that are scored. `id` names the column that
    tells many series apart, for one model of all of them; each is standardised by itself, unless `scale="all"`.
    `past`, `future` and `static` name columns beside the target that are known up to now, ahead, or constant. With
    `irregular`, rows are taken at the times they have; without an experiment, the model is one of S4D, which sees the
    gaps. A run in a folder keeps what is no file in data.csv there, so that it can be resumed and scored again.
    """
    if irregular and experiment is None:
        experiment = with_gaps(EXPERIMENTS.find("forecast"))
    given: dict[str, Any] = dict(time=time, horizon=horizon, context=context, multivariate=multivariate, fill=fill)
    beside = {"past": past, "future": future, "static": static}
    given |= {"id": id, "scale": scale, "irregular": irregular} | {
        name: tuple(names) for name, names in beside.items() if names is not None
    }
    given |= {"target": None if target is None else str(target), "level": None if level is None else tuple(level)}
    changes = {name: value for name, value in given.items() if value is not None}

    def on(task: Any, folder: Path | None) -> OnData:
        made: OnData = dataclasses.replace(task, **changes).on_frame(folder, data)
        return made

    return train_on("forecast", on, folder, experiment, overwrite, quiet, device)


def train_audio(
    data: str | Path,
    folder: str | Path | None = None,
    experiment: Experiment | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a classifier of audio files: a folder with one subfolder per class, or a CSV file that lists them."""
    on = _files(**{"folder" if Path(data).is_dir() else "csv": data})
    return train_on("audio", on, folder, experiment, overwrite, quiet, device)


def train_text(
    file: str | Path,
    folder: str | Path | None = None,
    experiment: Experiment | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train a byte-level language model on a text file."""
    return train_on("text", _files(file=file), folder, experiment, overwrite, quiet, device)


def _files(**paths: str | Path) -> Callable[[Any, Path | None], OnData]:
    """A function that gives task settings their files."""

    def on(task: Any, folder: Path | None) -> OnData:
        settings = dataclasses.replace(task, **{name: Path(path) for name, path in paths.items()})
        settings = settings.with_absolute_paths()
        return OnData(settings, settings.build())

    return on


def _arrays(
    channels: Channels | None, x: Any, y: Any, split: Any, **known: Any
) -> Callable[[Any, Path | None], OnData]:
    """A function that puts the settings of a sequence task on arrays."""
    given = {} if channels is None else {"channels": channels}
    return lambda task, folder: dataclasses.replace(task, **given).on_arrays(folder, x, y, split, **known)


def train_on(
    name: str,
    on: Callable[[Any, Path | None], OnData],
    folder: str | Path | None = None,
    experiment: Experiment | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    device: str = "auto",
) -> FinishedRun:
    """Train `experiment`, by default the one called `name`, on data in memory: in a folder, or in memory without one.

    `on` puts the settings of a task on the data; with a folder, it also says which files keep it there.
    """
    default = EXPERIMENTS.find(name)
    experiment = experiment or default
    if not isinstance(experiment.task, type(default.task)):
        raise ValueError(f"experiment: expected an experiment of kind {default.task.kind}, got {experiment.name}")
    find_device(device)
    folder = None if folder is None else Path(folder)
    settings, task, data = on(experiment.task, None if folder is None else folder.absolute())
    prepared = prepare_on(dataclasses.replace(experiment, task=settings), task)
    if folder is None:
        return fit(prepared, MemoryRun.create(prepared), quiet=quiet, device=device)
    if (folder / "config.json").exists() and not overwrite:
        raise ValueError(
            f"folder: {folder}: run already exists; choose another, replace it with overwrite=True, or resume it "
            f"with longwave.runs.resume({str(folder)!r})"
        )
    place = RunFolder.create(folder, prepared, None, overwrite=overwrite)
    return fit(prepared, place, data, quiet=quiet, overwrite=overwrite, device=device)
