"""Import a checkpoint of the authors' code, as a model on disk or as a run that can be scored and generate."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from longwave.core import files
from longwave.experiments import Experiment
from longwave.experiments.prepared import Prepared
from longwave.layers.state_space import DtTransform
from longwave.models import pretrained
from longwave.models.authors import Converted, Output, RealTransform, convert
from longwave.models.base import ModelConfig
from longwave.models.foreign import Checkpoint, read_checkpoint
from longwave.train.folder import RunFolder


class Imported(NamedTuple):
    """The result of an import."""

    version: int  # of the authors' code
    config: ModelConfig
    parameters: int
    dt: str  # how its parameter becomes a step size, and who says so
    notes: tuple[str, ...]  # on the data


def import_checkpoint(
    file: str | Path,
    out: str | Path,
    experiment: Experiment | None = None,
    data_dir: str | Path | None = None,
    *,
    dt: DtTransform | None = None,
    real: RealTransform | None = None,
    decoder: Output = "mean",
) -> Imported:
    """Write the model of a file into the new folder `out`, atomically.

    With an experiment, whose task the model has to fit, it is the folder of a run, for `longwave evaluate` and
    `longwave generate`. The data is read if the task depends on it: a vocabulary is that of a text.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"out: {out} already exists; expected the name of a new folder")
    checkpoint = read_checkpoint(file)
    converted = convert(checkpoint, dt=dt, real=real, decoder=decoder)
    data_dir = None if data_dir is None else Path(data_dir).expanduser().resolve()
    prepared = None if experiment is None else _prepared(converted.config, experiment, data_dir)
    with files.atomic_folder(out) as part:
        if prepared is None:
            pretrained.write_model(converted.config, converted.weights, part)
        else:
            _write_run(part, converted, prepared, data_dir, Path(file).name)
    parameters = sum(tensor.numel() for name, tensor in converted.weights.items() if ".running_" not in name)
    notes = () if prepared is None else prepared.task.notes
    return Imported(converted.version, converted.config, parameters, _dt(converted, checkpoint, dt), notes)


def _dt(converted: Converted, checkpoint: Checkpoint, given: DtTransform | None) -> str:
    """Describe the transform of dt that was used, and why."""
    model: Any = converted.config
    used, stated = model.mixer.dt_transform, ", ".join(sorted(map(str, checkpoint.values("dt_transform"))))
    if converted.version < 4:
        return f"{used}, the only one of version {converted.version}"
    if given is None:
        return f"{used}, as the hyper-parameters of the file say"
    return f"{used}, as given" + (f"; the hyper-parameters of the file say {stated}" if stated else "")


def _prepared(config: ModelConfig, experiment: Experiment, data_dir: Path | None) -> Prepared:
    """The experiment with the model of the file, which has to fit its task; data is read if the task depends on it.

    In float32: mixed precision is for training, and evaluation without a GPU would refuse it.
    """
    settings = experiment.task.with_absolute_paths()
    task = settings.on_random_data(1) if settings.is_self_describing else settings.build(data_dir)
    fitted = config.resolve(task.spec)
    for name in ("vocabulary", "input_size", "output_size", "time_size", "horizon"):
        found, expected = getattr(config, name, 0), getattr(fitted, name, 0)
        if found != expected:
            raise ValueError(
                f"{name}: expected {expected:,}, as the data of {experiment.name} has, got a file with {found:,}; is "
                "it the data that the model was trained on? Without --data the model alone is written"
            )
    optim = dataclasses.replace(experiment.optim, precision="no")
    return Prepared(dataclasses.replace(experiment, task=settings, model=config, optim=optim), task, task.spec)


def _write_run(folder: Path, converted: Converted, prepared: Prepared, data_dir: Path | None, source: str) -> None:
    """Write config.json, the best weights, and the files of the task."""
    run = RunFolder.create(folder, prepared, data_dir)
    facts = prepared.task.describe()
    if run.settings.is_self_describing:  # the data is random: only what the settings say of all data
        facts = {k: v for k, v in facts.items() if k not in {"examples", "data", *prepared.task.fingerprint}}
    run = RunFolder(folder, dataclasses.replace(run.config, task=facts, imported=source))
    run.write_config(prepared.artifacts)
    pretrained.write_model(converted.config, converted.weights, folder / pretrained.BEST)
