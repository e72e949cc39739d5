"""A run with weights, wherever it is kept: its settings, what training found out about its data, and its model."""

import contextlib
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

import longwave
from longwave.core.settings import typed
from longwave.core.terminal import command_line
from longwave.experiments import Experiment
from longwave.experiments.prepared import Prepared
from longwave.models import format_1
from longwave.tasks.base import Task, TaskConfig
from longwave.train.config_file import FORMAT
from longwave.train.device import find_device

T = TypeVar("T")
TYPES = {  # of what config.json holds beside the experiment
    "data_dir": Path | None,
    "task": dict,
    "command": str,
    "versions": dict,
    "artifacts": tuple[str, ...] | None,
    "imported": str | None,
}


@dataclass(frozen=True)
class RunConfig:
    """The content of config.json."""

    experiment: Experiment
    data_dir: Path | None = None
    task: dict[str, Any] = field(default_factory=dict)  # as `Task.describe` gave it
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[str, ...] | None = None  # files of the task beside the run; None: an older run does not say
    imported: str | None = None  # the file that the weights are from, if another program trained them

    @classmethod
    def of(cls, prepared: Prepared, data_dir: Path | None) -> "RunConfig":
        """That of a run that is about to start."""
        versions = {"longwave": longwave.__version__, "torch": torch.__version__, "python": platform.python_version()}
        artifacts = tuple(sorted(prepared.artifacts))
        return cls(prepared.experiment, data_dir, prepared.task.describe(), command_line(), versions, artifacts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of training on its data."""
        return tuple(self.task.get("notes", ()))

    @property
    def examples(self) -> str:
        """How many examples each split has, in words."""
        train, valid, test = (self.task["examples"][split] for split in ("train", "valid", "test"))
        return f"{train:,} training, {valid:,} validation and {test:,} test examples"

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "experiment": self.experiment.to_dict(),
            "data_dir": None if self.data_dir is None else str(self.data_dir),
            "task": self.task,
            "command": self.command,
            "versions": self.versions,
            "artifacts": None if self.artifacts is None else list(self.artifacts),
            **({} if self.imported is None else {"imported": self.imported}),
        }

    @classmethod
    def from_dict(cls, content: Any, path: Path) -> "RunConfig":
        """The inverse of `to_dict`; `path` is what messages call the file."""
        try:
            settings = content["experiment"]
            settings = format_1.of_experiment(settings) if content.get("format") == 1 else settings
            experiment = Experiment.from_dict(settings, str(path))
        except ValueError as error:
            raise ValueError(f"{error}; written by a newer longwave?") from error
        given = {name: typed(content[name], kind, f"{path}: {name}") for name, kind in TYPES.items() if name in content}
        typed(given.get("task", {}).get("notes", []), tuple[str, ...], f"{path}: task: notes")
        return cls(experiment, **given)


class Trained:
    """What a run in a folder and a run in memory have in common."""

    is_replacing = False  # another run, which stays in `path` until this one has a checkpoint

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.settings: TaskConfig = config.experiment.task
        self.facts: Mapping[str, Any] = config.task  # what training found out about its data, as plain values
        self.batch_size: int = config.experiment.loop.eval_batch_size

    @property
    def config_path(self) -> Path:
        """The settings, as messages name them."""
        return self.path

    def check_supports_rate(self, option: str) -> None:
        self.config.experiment.check_supports_rate(option)

    def fact(self, name: str, read: Callable[[Any], T]) -> T:
        """A fact that training found out about its data, converted by `read` from plain values."""
        try:
            return read(self.facts[name])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            got = f"no {name}" if isinstance(error, KeyError) and name not in self.facts else str(error)
            raise ValueError(
                f"{self.config_path}: task: {name}: expected what training wrote there, got {got}"
            ) from error


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
        """What is needed of a run in a folder to use it when the folder is gone."""
        names = (*(run.config.artifacts or ()), *(run.result() or {}).get("files", ()))
        memory = cls(run.config, {name: run.artifact(name) for name in names})
        memory.path = run.path  # which messages name
        memory.model, memory._metrics, memory._result = run.load_best(), run.metrics(), run.result()
        return memory

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """No other process can write to it."""
        yield

    def write_config(self, artifacts: dict[str, bytes], *, overwrite: bool = False) -> None:
        """The settings are here already."""

    def clear(self) -> None:
        self._metrics = []

    def save_checkpoint(self, content: dict[str, Any]) -> None:
        """A run in memory is not resumed."""

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
        """A message that ends with how to resume the run: it cannot be."""
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
        """Keep what the task leaves at the end of training."""
        self._artifacts = {**self._artifacts, **kept}

    def artifact(self, name: str) -> bytes:
        return self._artifacts[name]

    def build_task(self, data_dir: str | Path | None = None) -> Task:
        """The data of training is not kept."""
        raise ValueError("folder: expected a run with its data; train with folder=, or use the data that you have")
