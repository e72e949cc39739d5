"""A task that trains in milliseconds, and runs of it in processes of their own, which may be killed at a chosen moment.

As a program it reads lists of cases as JSON from stdin, one per line, and writes what became of them to stdout. Its
forks run them, so that torch is imported once for all; one that outlives a case goes on with the next.
"""

import atexit
import contextlib
import dataclasses
import errno
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longwave.experiments import Experiment, LoopConfig, OptimConfig
from longwave.experiments.prepared import prepare_again, prepare_on
from longwave.layers import S4Config
from longwave.models import ModelConfig, SequenceConfig, Spec, load_model
from longwave.tasks.base import Batch, Outcome, Sums, Task, call
from longwave.tasks.regress.task import RegressConfig
from longwave.train import checkpoint
from longwave.train.display import Display
from longwave.train.folder import RunConfig, RunFolder
from longwave.train.loop import Interrupted, Run, TrainingError

LENGTH = 8


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples in memory."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Sequence[int]) -> Batch:
        chosen = torch.tensor(indices)
        return {"x": self.x[chosen], "y": self.y[chosen]}


@dataclass(frozen=True, eq=False)
class Jittered:
    """Examples with noise that follows from epoch, seed and index."""

    rows: Rows
    epoch: int
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Sequence[int]) -> Batch:
        batch = self.rows.batch(indices)
        for x, index in zip(batch["x"], indices, strict=True):
            x += torch.randn(x.shape, generator=torch.Generator().manual_seed(hash((self.epoch, self.seed, index))))
        return batch


@dataclass(frozen=True)
class Tiny(Task):
    """The mean of what comes in, by squared error."""

    jitter: bool = False

    @property
    def spec(self) -> Spec:
        return Spec(input_size=2, output_size=1, length=LENGTH)

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        output = call(model, batch)
        return Outcome(self.loss(output, batch), self.scores(output, batch))

    def train_at(self, epoch: int, seed: int) -> Any:
        return Jittered(self.train, epoch, seed) if self.jitter else self.train

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return (output - batch["y"]).square().sum()

    def scores(self, output: Tensor, batch: Batch) -> Sums:
        error = output - batch["y"]
        return {"mse": (error.square().sum(), error.numel()), "mae": (error.abs().sum(), error.numel())}


def make_task(train: int = 14, valid: int = 7, test: int = 5, dtype: torch.dtype = torch.float32, **more: Any) -> Tiny:
    generator = torch.Generator().manual_seed(99)
    parts = []
    for count in (train, valid, test):
        x = torch.randn(count, LENGTH, 2, generator=generator).to(dtype)
        parts.append(Rows(x, x.mean((1, 2)).unsqueeze(-1)))
    return Tiny("tiny", *parts, **{"goal": "mse"} | more)


def make_experiment(model: Any = (), optim: Any = (), loop: Any = ()) -> Experiment:
    tiny = SequenceConfig(d_model=4, n_layers=2, mixer=S4Config(d_state=4), dropout=0.3, input_size=2, output_size=1)
    return Experiment(
        "tiny",
        task=RegressConfig(),  # never built
        model=dataclasses.replace(tiny, **dict(model)),
        optim=OptimConfig(**{"lr": 0.05, **dict(optim)}),
        loop=LoopConfig(**{"epochs": 2, "batch_size": 4, "eval_batch_size": 3, "validations": 2, **dict(loop)}),
    )


def make_run(folder: Path, experiment: Experiment, task: Task, quiet: bool = False) -> Run:
    """A run that writes no config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    return Run(RunFolder(folder, RunConfig(experiment, None, {}, "", {})), prepare_again(experiment, task), quiet=quiet)


def fit(run: Run, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Train, and leave the result in the folder; only a run that overwrites another writes config.json."""
    with run.locked():
        if overwrite:
            run.folder.write_config({"notes.txt": b"new"}, overwrite=True)
        result = run.fit(resume)
        if run.main:
            run.folder.write_result(result)
    return result


# What a run leaves behind


def lines(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without the time that it took."""
    text = (folder / "metrics.jsonl").read_text()
    assert text.endswith("\n")
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in text.splitlines()]


def trace(folder: Path) -> dict[str, Any]:
    """Everything that must come out the same, to the bit: weights, optimiser, random states, scores."""
    content, note = checkpoint.load(folder / "checkpoints") or ({}, "none")
    assert note is None, note
    for measured in ("seconds", "validating", "timed_seconds"):
        content["position"].pop(measured)
    best = load_model(folder / "best").state_dict()
    result = json.loads((folder / "result.json").read_text())
    result.pop("seconds")
    return {
        "position": content["position"],
        "metrics": lines(folder),
        "result": result,
        "bits": {
            "model": bits(content["model"]),
            "optimizer": bits(content["optimizer"]),
            "random": bits(content["random"]),
            "average": bits(content["average"]),
            "best": bits(best),
        },
    }


def bits(value: Any) -> Any:
    """Tensors as bytes, so that == compares every bit."""
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return [bits(item) for item in value] if isinstance(value, list | tuple) else value


def assert_resumes_to_the_bit(
    folder: Path, task: Task, *, kind: ModelConfig | None = None, bucket: int = 0, **model: Any
) -> None:
    """A run of a task that is stopped after a step of the second epoch goes on as if it had not been.

    The model is a tiny sequence model with some settings, or one of another kind.
    """
    experiment = make_experiment(model=model, loop={"batch_size": 9, "bucket": bucket})
    experiment = prepare_on(dataclasses.replace(experiment, model=kind or experiment.model), task).experiment
    fit(make_run(folder / "never", experiment, task, quiet=True))
    stopped = make_run(folder / "stopped", experiment, task, quiet=True)
    step = stopped.step

    def step_and_stop(*arguments: Any) -> float:
        stopped._interrupted = signal.SIGINT if stopped.position.step == 5 else 0
        return step(*arguments)

    stopped.step = step_and_stop  # type: ignore[method-assign]
    try:
        fit(stopped)
    except Interrupted:
        assert stopped.position.step == 6
    else:
        raise AssertionError("the run came to its end before it was stopped")
    fit(make_run(folder / "stopped", experiment, task, quiet=True), resume=True)
    assert trace(folder / "stopped") == trace(folder / "never")


def damage(path: Path) -> None:
    """Turn one bit around."""
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


# Runs in processes of their own


def run_cases(cases: list[dict[str, Any]], together: bool = False) -> list[dict[str, Any]]:
    """What became of each case, one after the other or all at a time: its exit code and what it wrote to stderr.

    A case has a folder, and optionally the settings and the task, whether to resume or to overwrite what is there,
    whether to damage the last checkpoint before, where a signal strikes (see `arm`), at which operation on a file (see
    `watched_operations`), and the room in bytes that a file has; or a script to run instead, which knows its `folder`.
    """
    parent = _parent_of_cases()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps({"cases": cases, "together": together}) + "\n")
    parent.stdin.flush()
    answers: list[dict[str, Any]] = json.loads(parent.stdout.readline())
    return answers


@functools.cache
def _parent_of_cases() -> "subprocess.Popen[str]":
    """This file as a program, which serves all tests of a process and ends with it."""
    temporary = tempfile.TemporaryDirectory()  # what killed processes leave there goes with it
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": temporary.name}
    environment.pop("PYTHONWARNINGS", None)
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, __file__], env=environment, stdin=pipe, stdout=pipe, text=True)

    def end() -> None:
        parent.communicate()
        temporary.cleanup()

    atexit.register(end)
    return parent


def main() -> None:
    # What a first run imports, loads and prepares, once for all cases. One thread: nothing that a fork would lose.
    with tempfile.TemporaryDirectory() as folder:
        fit(make_run(Path(folder), make_experiment(), make_task(), quiet=True), overwrite=True)
    Display(False, 1, 1, "")
    for line in sys.stdin:
        print(json.dumps(_answers(**json.loads(line))), flush=True)


def _answers(cases: list[dict[str, Any]], together: bool) -> list[dict[str, Any]]:
    cases = [case | {"number": number} for number, case in enumerate(cases)]  # several may be of one folder
    if together:
        started = [(_start([case]), [case]) for case in cases]
        return [answer for pid, chain in started for answer in _ended(pid, chain)]
    return [answer for chain in _chains(cases) for answer in _ended(_start(chain), chain)]


def _chains(cases: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The cases cut behind each that ends its process, or leaves it unfit for another."""
    chains: list[list[dict[str, Any]]] = [[]]
    for case in cases:
        chains[-1].append(case)
        is_killed = case.get("operation", {}).get("does") == "kill"
        if is_killed or any(case.get(key) for key in ("strike", "room", "script")):
            chains.append([])
    return [chain for chain in chains if chain]


def _start(chain: list[dict[str, Any]]) -> int:
    """The id of a process that runs these cases, one after the other."""
    for case in chain:
        Path(case["folder"]).mkdir(parents=True, exist_ok=True)
        _beside(case, "code").unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        os.setsid()  # a signal to the group reaches the loader's processes, and nobody else
        code = 0
        for case in chain:
            code = _run_case(case)
            _beside(case, "code").write_text(str(code))
        os._exit(code)
    return pid


def _ended(pid: int, chain: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What became of the cases of a process: the last one may have been killed with it."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    answers = []
    for case in chain:
        code = _beside(case, "code")
        found = int(code.read_text()) if code.exists() else status
        answers.append({"code": found, "stderr": _beside(case, "log").read_text()})
    return answers


def _beside(case: dict[str, Any], ending: str) -> Path:
    """A file beside the folder of a case: what it wrote to stderr (log), its exit code (code)."""
    folder = Path(case["folder"])
    return folder.with_name(f"{folder.name}.{case['number']}.{ending}")


def _run_case(case: dict[str, Any]) -> int:
    """Run a case; its exit code."""
    folder = Path(case["folder"])
    log = os.open(_beside(case, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    os.close(log)
    try:
        if case.get("damage"):
            damage(folder / "checkpoints" / checkpoint.LAST)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that nohup started inherit that it is ignored
        if case.get("strike"):
            arm(**case["strike"])
        if case.get("room"):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (case["room"], case["room"]))
        if case.get("script"):
            exec(case["script"], {"folder": folder})
            return 0
        with watched_operations(folder, **case.get("operation", {})):
            run = make_run(folder, make_experiment(**case.get("settings", {})), make_task(**case.get("task", {})))
            fit(run, case.get("resume", False), case.get("overwrite", False))
        return 0
    except Interrupted as note:
        print(note, file=sys.stderr)
        return note.exit_code
    except TrainingError as error:
        print(error, file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:  # as the command line has it
        print(error, file=sys.stderr)
        return 2
    except BaseException:
        traceback.print_exc()
        return 3
    finally:
        sys.stderr.flush()


@contextlib.contextmanager
def watched_operations(folder: Path, at: int = 0, does: str = "") -> Iterator[None]:
    """Before the `at`-th operation on files in a folder: be killed, or have the disk be full; or only count them.

    Or, from the `at`-th on, have the disk be read-only.
    """
    count, is_watched = 0, bool(does)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if not is_watched:
            return
        if event == "open":
            is_change = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        else:
            is_change = event in ("os.rename", "os.mkdir") or (event in ("os.remove", "os.rmdir") and does != "full")
        if not is_change or not str(arguments[0]).startswith(str(folder)):
            return
        count += 1
        if does == "count":
            os.write(2, f"operation {count}: {event} {arguments[0]}\n".encode())
        elif count == at and does == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif count == at and does == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
        elif count >= at and does == "read-only":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

    if is_watched:
        sys.addaudithook(hook)  # for good: there is no way to take it out
    try:
        yield
    finally:
        is_watched = False


def arm(place: str, at: int, signals: Sequence[str] = ("SIGKILL",)) -> None:
    """Send signals to the whole group when `place` is reached for the `at`-th time."""
    count = 0

    def strike() -> None:
        nonlocal count
        count += 1
        if count == at:
            for name in signals:
                os.killpg(os.getpgrp(), getattr(signal, name))

    def around(owner: Any, name: str, before: bool) -> None:
        function = getattr(owner, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            if before:
                strike()
            result = function(*arguments, **keywords)
            if not before:
                strike()
            return result

        setattr(owner, name, call)

    replace = os.replace

    def replace_and_strike(source: Any, target: Any) -> None:
        if PLACES[place] == Path(target).name:
            strike()
        replace(source, target)

    if place == "half a line":
        log = RunFolder.log

        def half(self: RunFolder, line: dict[str, Any]) -> None:
            nonlocal count
            if count + 1 == at:
                with open(self.metrics_path, "a") as file:
                    file.write(json.dumps(line)[:30])
            strike()
            log(self, line)

        RunFolder.log = half  # type: ignore[method-assign]
    elif isinstance(PLACES[place], str):
        os.replace = replace_and_strike
    else:
        around(*PLACES[place])


# Where a signal may come: a file about to be moved into its place, or before or after a function.
PLACES: dict[str, Any] = {
    "in a step": (Tiny, "loss", False),
    "after a step": (Run, "step", False),
    "before a validation": (Run, "_validate", True),
    "in a validation": (Tiny, "scores", True),
    "in the best weights": "model.safetensors",
    "between the best weights and their config": "config.json",
    "half a line": None,
    "before a checkpoint": (checkpoint, "save", True),
    "in a checkpoint": (os, "fsync", True),
    "between the two moves of a checkpoint": checkpoint.LAST,
    "after a checkpoint": (checkpoint, "save", False),
    "in the final scores": (Run, "_finish", True),
}


if __name__ == "__main__":
    main()
