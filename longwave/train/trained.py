"""A trained run, on disk or in memory: its settings, facts about its data, and its model."""

import contextlib
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor

import longwave
from longwave.core.settings import Settings, typed
from longwave.core.terminal import command_line
from longwave.experiments import Experiment
from longwave.experiments.prepared import Prepared
from longwave.tasks.base import Task, TaskConfig, TrainedRun
from longwave.train.config_file import FORMAT
from longwave.train.device import find_device


@dataclass(frozen=True)
class RunConfig(Settings):
    """The content of config.json."""

    experiment: Experiment
    data_dir: Path | None = None
    task: dict = field(default_factory=dict)  # as `Task.describe` gave it
    command: str = ""
    versions: dict = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()  # files of the task beside the run
    imported: str | None = None  # the file that the weights are from, if another program trained them

    @classmethod
    def of(cls, prepared: Prepared, data_dir: Path | None) -> "RunConfig":
        """The config of a run that is about to start."""
        versions = {"longwave": longwave.__version__, "torch": torch.__version__, "python": platform.python_version()}
        artifacts = tuple(sorted(prepared.artifacts))
        return cls(prepared.experiment, data_dir, prepared.task.describe(), command_line(), versions, artifacts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of training on its data."""
        return tuple(self.task.get("notes", ()))

    @property
    def examples(self) -> str:
        """Describe the number of examples per split."""
        train, valid, test = (self.task["examples"][split] for split in ("train", "valid", "test"))
        return f"{train:,} training, {valid:,} validation and {test:,} test examples"

    def to_dict(self) -> dict[str, Any]:
        content = {"format": FORMAT, **super().to_dict()}
        return {name: value for name, value in content.items() if name != "imported" or value is not None}

    @classmethod
    def from_dict(cls, content: Any, where: str = "config.json") -> "RunConfig":
        """The inverse of `to_dict`; other entries are ignored."""
        try:
            experiment = Experiment.from_dict(content["experiment"], where)
        except ValueError as error:
            raise ValueError(f"{error}; written by a newer version of longwave?") from error
        types = {name: kind for name, kind in get_type_hints(cls).items() if name in content and name != "experiment"}
        given = {name: typed(content[name], kind, f"{where}: {name}") for name, kind in types.items()}
        typed(given.get("task", {}).get("notes", []), tuple[str, ...], f"{where}: task: notes")
        return cls(experiment, **given)


class Trained(TrainedRun):
    """The base of runs in a folder and in memory."""

    is_replacing = False  # another run, which stays in `path` until this one has a checkpoint

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.settings: TaskConfig = config.experiment.task
        self.facts: Mapping[str, Any] = config.task  # what training found out about its data, as plain values
        self.batch_size: int = config.experiment.loop.eval_batch_size

    def check_supports_rate(self, option: str) -> None:
        self.config.experiment.check_supports_rate(option)


class MemoryRun(Trained):
    """A run without a folder. It can be copied and pickled, and `longwave.publish.assemble` writes it into a folder."""

    def __init__(self, config: RunConfig, artifacts: dict[str, bytes]) -> None:
        super().__init__(Path("run"), config)
        self._artifacts, self._metrics = artifacts, list[dict[str, Any]]()
        self._best: dict[str, Tensor] = {}
        self._result: dict[str, Any] | None = None
        self.model: Any = None

    @classmethod
    def create(cls, prepared: Prepared) -> "MemoryRun":
        return cls(RunConfig.of(prepared, None), prepared.artifacts)

    @classmethod
    def copy_of(cls, run: Any) -> "MemoryRun":
        """A copy of a run in a folder, to use when the folder is gone."""
        names = (*run.config.artifacts, *(run.result() or {}).get("files", ()))
        memory = cls(run.config, {name: run.artifact(name) for name in names})
        memory.path = run.path  # which messages name
        memory.model, memory._metrics, memory._result = run.load_best(), run.metrics(), run.result()
        return memory

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: no other process can write to memory."""
        yield

    def write_config(self, artifacts: dict[str, bytes], *, overwrite: bool = False) -> None:
        """Do nothing: the settings are already in memory."""

    def clear(self) -> None:
        self._metrics = []

    def save_checkpoint(self, content: dict[str, Any]) -> None:
        """Do nothing: a run in memory is not resumed."""

    def save_best(self, model: Any) -> None:
        self._best = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}

    def load_best_into(self, model: Any) -> None:
        """Give the model of the run its best weights, and keep it."""
        model.load_state_dict(self._best)
        self.model, self._best = model, {}

    def load_best(self, device: str = "cpu") -> Any:
        return self.model.to(find_device(device)).eval()

    def kept(self) -> str:
        return "Nothing is kept of a run without a folder"

    def resumed_by(self, text: str, how: str = "") -> str:
        """A message that ends with the fact that the run cannot be resumed."""
        return f"{text}a run without a folder cannot be resumed"

    def log(self, line: dict[str, Any]) -> None:
        self._metrics.append(line)

    def metrics(self) -> list[dict[str, Any]]:
        return self._metrics

    def write_result(self, result: dict[str, Any]) -> None:
        self._result = result

    def result(self) -> dict[str, Any] | None:
        return self._result

    def write_files(self, kept: Mapping[str, bytes]) -> None:
        """Keep the files that the task writes at the end of training."""
        self._artifacts = {**self._artifacts, **kept}

    def artifact(self, name: str) -> bytes:
        return self._artifacts[name]

    def build_task(self, data_dir: str | Path | None = None) -> Task:
        """Raise an error: the training data is not kept."""
        raise ValueError("folder: expected a run with its data; train with folder=, or use the data that you have")
