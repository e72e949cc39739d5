"""The folder of a run: config.json, metrics.jsonl, result.json, best/ (the best weights), checkpoints/, artifacts.

That of a published one has run.json in place of config.json, the best weights as a model beside it, and artifacts.
"""

import contextlib
import json
import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longwave.core import files, lock
from longwave.core.settings import typed
from longwave.core.terminal import with_command
from longwave.experiments.prepared import Prepared, prepare_again
from longwave.models import hub, load_model
from longwave.models.pretrained import BEST
from longwave.tasks.base import Task
from longwave.train import checkpoint, config_file, replacement
from longwave.train.config_file import StoredConfig
from longwave.train.device import find_device
from longwave.train.trained import RunConfig, Trained

SCORED = ("valid", "test")  # that have scores


class RunFolder(Trained):
    """One run on disk. Its settings are read once, when it is opened."""

    @property
    def place(self) -> Path:
        """The folder that has the files of the run now."""
        return self.path / replacement.NEW if self.is_replacing else self.path

    @property
    def is_published(self) -> bool:
        """Whether the run was published: only weights, settings and artifacts."""
        return config_file.is_published(self.path)

    @property
    def config_path(self) -> Path:
        return config_file.place(self.path)

    @property
    def best_path(self) -> Path:
        return self.path if self.is_published else self.place / BEST

    @property
    def checkpoints_path(self) -> Path:
        return self.place / "checkpoints"

    @property
    def metrics_path(self) -> Path:
        """The file with one line per validation."""
        return self.place / "metrics.jsonl"

    @classmethod
    def create(
        cls, path: str | Path, prepared: Prepared, data_dir: Path | None, *, overwrite: bool = False
    ) -> "RunFolder":
        """A folder for a new run; nothing is written before `write_config`."""
        check_new(path, overwrite)
        return cls(Path(path), RunConfig.of(prepared, data_dir))

    @classmethod
    def open(cls, run: "RunPlace", *, published: bool = True) -> "RunFolder":
        """The folder of a run that was started earlier, or, if `published` allows it, of one that was published.

        The latter may be the hub's "user/name" (see `hub.find`). Settings that were read already are not read again.
        """
        if isinstance(run, RunFolder):
            return run
        if not isinstance(run, StoredConfig):
            run = config_file.read(hub.find(run) if published else run, published=published)
        return cls(run.folder, RunConfig.from_dict(run.content, str(run.path)))

    @contextlib.contextmanager
    def locked(self) -> Iterator[str | None]:
        """Lock the folder, and remove what a killed process left half-written; gives a note or None.

        A run that should have replaced another, and ends without a checkpoint, is removed.
        """
        with lock.hold(self.path) as note:
            replacement.settle(self.path)
            replacement.discard(self.path)
            for folder in (self.path, self.path / "best", self.path / "checkpoints"):
                files.remove_abandoned_parts(folder)
            try:
                yield note
            finally:
                if self.is_replacing:
                    replacement.discard(self.path)

    def write_config(self, artifacts: dict[str, bytes], *, overwrite: bool = False) -> None:
        """Write config.json, and beside it what the run needs to be used again.

        If another run is there, and may be overwritten, it stays until the first checkpoint. Files that no run wrote
        stay where they are.
        """
        check_new(self.path, overwrite)  # once more: another process may have had the folder meanwhile
        self.is_replacing = (self.path / "config.json").exists()
        self.place.mkdir(parents=True, exist_ok=True)
        for name, content in artifacts.items():
            files.write_bytes(self.place / name, content)
        files.write_json(self.place / "config.json", self.config.to_dict())

    def save_checkpoint(self, content: dict[str, Any]) -> None:
        """Write a checkpoint; with it, the run takes the place of the one that it replaces, if there is one."""
        checkpoint.save(self.checkpoints_path, content)
        if self.is_replacing:
            replacement.announce(self.path)
            self.is_replacing = False
            replacement.settle(self.path)

    def build_task(self, data_dir: str | Path | None = None) -> Task:
        return self.prepare(data_dir).task

    def prepare(self, data_dir: str | Path | None = None) -> Prepared:
        """The experiment of the run, ready to be resumed or scored; other data than that of training is refused."""
        settings = self.config.experiment.task.in_folder(self.path)
        try:
            task = settings.build(self.config.data_dir if data_dir is None else Path(data_dir))
        except (OSError, ValueError) as error:
            if not self.is_published:
                raise
            raise ValueError(
                f"{self.path}: expected the data that the run was trained on, which is not published with it, and got: "
                f"{error}"
            ) from error
        prepared = prepare_again(self.config.experiment, task)
        task = prepared.task
        before, now = (json.loads(json.dumps(facts)) for facts in (self.config.task, task.describe()))
        for name in ("examples", *task.fingerprint):
            if before.get(name) and not _is_close(before[name], now.get(name)):
                raise ValueError(
                    f"{self.path}: the data is not what the run was trained on; {name}: expected "
                    f"{before[name]!r:.300}, got {now[name]!r:.300}. Train a new run on it, or use longwave predict"
                )
        return prepared

    def load_best(self, device: str = "cpu") -> Any:
        """The model with the best weights, ready to use on a device, in the dtype that its settings build."""
        where = find_device(device)
        if not self.best_path.exists():
            raise ValueError(
                with_resume_command(
                    f"{self.path}: no weights yet, as the run was stopped before its first validation; resume with",
                    self.path,
                )
            )
        return load_model(self.best_path, as_built=True).to(where).eval()

    def save_best(self, model: Any) -> None:
        model.save_pretrained(self.best_path)

    def load_best_into(self, model: Any) -> None:
        """Give the model of the run its best weights."""
        best = self.load_best()
        try:
            model.load_state_dict(best.state_dict())
        except RuntimeError as error:
            path = self.best_path / "config.json"
            raise ValueError(f"{path}: expected the model of {self.config_path}, got another: {error}") from error

    def artifact(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.path / name}: expected a file of the run, got {error}") from error

    def log(self, line: dict[str, Any]) -> None:
        with files.naming(self.metrics_path), open(self.metrics_path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without incomplete ones that a kill left."""
        return [line for line in self._logged() if line is not None]

    def _logged(self) -> Iterator[dict[str, Any] | None]:
        """The lines as they stand; None where one is damaged, or is not of a later step than those before it."""
        path, last = self.metrics_path, -1
        for text in path.read_text(errors="replace").splitlines() if path.exists() else ():
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            is_whole = isinstance(line, dict) and all(type(value) in (int, float) for value in line.values())
            if is_whole and isinstance(line.get("step"), int) and line["step"] > last:
                last = line["step"]
                yield line
            else:
                yield None

    def truncate_metrics(self, step: int) -> int:
        """Drop lines logged after a checkpoint, and damaged ones before it; returns the number of the latter."""
        kept, damaged, pending = [], 0, 0
        for line in self._logged():
            if line is None:
                pending += 1
            elif line["step"] <= step:
                kept.append(line)
                damaged, pending = damaged + pending, 0
        if self.metrics_path.exists():
            files.write_text(self.metrics_path, "".join(json.dumps(line) + "\n" for line in kept))
        return damaged

    def clear(self) -> None:
        """Remove checkpoints and metrics of an earlier run."""
        self.metrics_path.unlink(missing_ok=True)
        checkpoint.clear(self.checkpoints_path)

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None while the run is unfinished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return _checked_result(files.read_json(path))
        except ValueError as error:
            raise ValueError(
                with_resume_command(
                    f"{path}: expected the scores of a finished run, and the file cannot be read ({error}); write it "
                    "again with",
                    self.path,
                )
            ) from error

    def kept(self) -> str:
        """Describe what remains of a failed run."""
        if not (self.checkpoints_path / checkpoint.LAST).exists():
            return "There was no checkpoint yet"
        return f"The last good checkpoint is kept in {self.checkpoints_path}"

    def resumed_by(self, text: str, how: str = "resume from the last checkpoint with") -> str:
        """A message that ends with the command to resume the run; a run that replaces another may be gone."""
        if self.is_replacing:
            return f"{text}repeat the command; the earlier run in {self.path} is unchanged"
        return with_resume_command(f"{text}{how}", self.path)

    def write_files(self, kept: Mapping[str, bytes]) -> None:
        """Write what the task leaves at the end of training; result.json lists it."""
        for name, content in kept.items():
            files.write_bytes(self.path / name, content)

    def write_result(self, result: dict[str, Any]) -> None:
        files.write_json(self.path / "result.json", result)


RunPlace = str | Path | StoredConfig | RunFolder  # where a run is, or what was read there


def with_resume_command(text: str, path: str | Path) -> str:
    """A message that ends with the command to resume the run in a folder."""
    return with_command(text, f"longwave train --resume {shlex.quote(str(path))}")


def _checked_result(content: Any) -> dict[str, Any]:
    """Check the content of a result.json, as far as it is read elsewhere."""
    if not isinstance(content, dict):
        raise ValueError(f"expected scores by name, got {content!r:.80}")
    for name, kind in {"best_step": int, "steps": int, "parameters": int, "seconds": float}.items():
        typed(content.get(name), kind, name)
    scored: dict[str, Any] = {name: content.get(name) for name in SCORED}
    for name in ("baselines", "parts"):
        others = content.get(name, {})
        if not isinstance(others, dict) or not all(isinstance(splits, dict) for splits in others.values()):
            raise ValueError(f"{name}: expected the scores of each, got {others!r:.80}")
        # Without a test set, the run itself has no scores of it.
        kept = [split for split in SCORED if content.get(split) != {}]
        scored |= {f"{name}: {own}: {split}": splits.get(split) for own, splits in others.items() for split in kept}
    for own, levels in typed(content.get("intervals", {}), dict, "intervals").items():
        if isinstance(levels, dict):
            scored |= {f"intervals: {own}: {level}": of for level, of in levels.items()}
    scored["paper"] = content.get("paper", {})
    for name, scores in scored.items():
        if not isinstance(scores, dict):
            raise ValueError(f"{name}: expected scores, got {scores!r:.80}")
        for score, value in scores.items():
            typed(value, float, f"{name}: {score}")
    for name in ("notes", "files"):
        typed(content.get(name, []), tuple[str, ...], name)
    typed(content.get("model", ""), str, "model")
    return content


def check_new(path: str | Path, overwrite: bool = False) -> None:
    """Refuse a folder with a run, unless it may be overwritten, and one of another program."""
    replacement.settle(path)
    if not (Path(path) / "config.json").exists():
        return
    if overwrite:
        config_file.read(path)  # which refuses what is no run
        return
    raise ValueError(
        with_resume_command(
            f"{path}: run already exists; replace it with --overwrite, choose another folder with --out, or resume it "
            "with",
            path,
        )
    )


def _is_close(a: Any, b: Any) -> bool:
    """Whether two values from JSON are the same, to the rounding of another machine's sums."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_close(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return bool(a == b)
