"""A kind is a file: kinds that live in this file alone train, resume, evaluate, report and predict by the commands.

What CONTRIBUTING says of adding something is true because of this: each kind is registered by one call.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import call
from torch import Tensor, nn

from longwave.core.progress import Progress
from longwave.experiments import EXPERIMENTS, Experiment, LoopConfig, OptimConfig
from longwave.io.download.catalogue import DATASETS, Dataset, File, Source, require
from longwave.io.download.making import MAKERS, Maker
from longwave.layers import MIXERS, Mixer, MixerConfig, S4Config
from longwave.models import MODELS, ModelConfig, Pretrained, SequenceConfig, Spec
from longwave.ops import BACKENDS, Backend
from longwave.pictures.html import Section
from longwave.ssm import INITS, NPLR, hippo
from longwave.tasks.base import TASKS, Action, Batch, Outcome, Task, TaskConfig, TrainedRun
from longwave.tasks.base import call as call_model
from longwave.tasks.statistics import digest

LENGTH = 6


# A data set: numbers in a text file, one sequence a line


def toy_set() -> Dataset:
    source = Source(("https://example.invalid/toy.txt",), "toy.txt", 1000, None)
    return Dataset("Toy numbers", "none", "toy.txt", (source,), (File("toy.txt"),))


# A data set that is made: a file of zeros


def toy_make(folder: Path, count: int, seed: int, progress: Progress) -> None:
    (folder / "zeros.txt").write_text("0\n" * count)


# A task: the sum of a sequence


@dataclass(frozen=True, eq=False)
class Rows:
    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Sequence[int]) -> Batch:
        x = self.x[torch.tensor(list(indices))]
        return {"x": x, "y": x.sum((1, 2)).unsqueeze(-1)}


@dataclass(frozen=True)
class SumTask(Task):
    goal: str = "error"

    @property
    def spec(self) -> Spec:
        return Spec(input_size=1, output_size=1, length=LENGTH)

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        error = call_model(model, batch) - batch["y"]
        return Outcome(error.square().sum(), {"error": (error.detach().abs().sum(), len(error))})

    def baselines(self) -> dict[str, Any]:
        scores = {name: float(split.batch(range(len(split)))["y"].abs().mean()) for name, split in self._splits()}
        return {"zero": {name: {"error": score} for name, score in scores.items()}}

    def report(self, model: Any) -> list[Section]:
        return [Section("Sums", f"<p>{len(self.test)} sums by {type(model).__name__}</p>")]

    def artifacts(self) -> dict[str, bytes]:
        return {"length.txt": str(LENGTH).encode()}

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"digest": digest(self.train.x.numpy())}

    def _splits(self) -> list[tuple[str, Any]]:
        return [("valid", self.valid), ("test", self.test)]


@dataclass(frozen=True)
class SumConfig(TaskConfig):
    rows: int = 20
    """How many lines of the file to use."""

    def build(self, data_dir: Path | None = None) -> SumTask:
        values = torch.from_numpy(np.loadtxt(require("toy-set", data_dir), dtype=np.float32))
        x = values[: self.rows, :, None]
        return SumTask("toy-sum", Rows(x[:-8]), Rows(x[-8:-4]), Rows(x[-4:]))

    @classmethod
    def action(cls, command: str) -> Action | None:
        return Action(SumOptions, toy_predict, toy_sum) if command == "predict" else None


# A mixer, an initialisation and a model


class Shift(Mixer):
    """y_t = w u_(t-1)."""

    def __init__(self, d_model: int, weight: float) -> None:
        super().__init__(d_model)
        self.weight = nn.Parameter(torch.full((d_model,), weight))

    def _mix(self, u, state, *, lengths, rate, need_state):
        before = torch.zeros_like(u[:, :1]) if state is None else state.unsqueeze(1)
        return torch.cat((before, u[:, :-1]), dim=1) * self.weight, u[:, -1]

    def _initial_state(self, batch):
        return self.weight.new_zeros(batch, len(self.weight))

    def _check_state(self, state, batch, device):
        assert state.shape == (batch, len(self.weight))


@dataclass(frozen=True)
class ShiftConfig(MixerConfig):
    layer = Shift
    weight: float = 0.5
    """The first weight."""


def toy_init(N: int) -> NPLR:
    """LegS with a faster decay."""
    A, B, P = INITS["legs"](N)
    return NPLR(A - 0.5 * torch.eye(N, dtype=A.dtype), B, P)


class LinearModel(Pretrained, nn.Module):
    def __init__(self, config: "LinearConfig") -> None:
        super().__init__()
        self.config, self.linear = config, nn.Linear(config.inputs, config.outputs)

    def forward(self, x, state=None, *, time=None, lengths=None):
        return self.linear(x.flatten(1)), None


@dataclass(frozen=True)
class LinearConfig(ModelConfig):
    inputs: int = 1
    outputs: int = 1

    def build(self) -> LinearModel:
        return LinearModel(self)

    def resolve(self, spec: Spec) -> "LinearConfig":
        return LinearConfig(inputs=spec.input_size * (spec.length or 1), outputs=spec.output_size)

    @property
    def label(self) -> str:
        return "linear"


# What the commands do with it


@dataclass(frozen=True)
class SumOptions:
    """Sum a sequence.

    Example: longwave predict runs/toy --values 1 2 3
    """

    values: tuple[float, ...]
    """The sequence."""


def toy_sum(run: TrainedRun, values: Sequence[float]) -> float:
    assert len(values) == int(run.artifact("length.txt"))
    y, _ = run.load_best()(torch.tensor(values).view(1, -1, 1))
    return y.item()


def toy_predict(run: TrainedRun, options: SumOptions) -> Iterator[str]:
    yield f"sum {toy_sum(run, options.values):.4f}\n"


@pytest.fixture
def toy(tmp_path, monkeypatch, _pages_are_not_rendered):
    """Every kind of this file, registered by one call each."""
    folder = tmp_path / "data"
    folder.mkdir()
    np.savetxt(folder / "toy.txt", np.random.default_rng(0).standard_normal((20, LENGTH)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWAVE_DATA", str(folder))
    optim = OptimConfig(lr=0.05, ssm_lr=0.05, schedule="constant")
    loop = LoopConfig(epochs=4, batch_size=4)
    registered = [
        (DATASETS, "toy-set", toy_set()),
        (MAKERS, "toy-made", Maker("Toy zeros", "toy-made", ("zeros.txt",), count=3, seed=0, make=toy_make)),
        (TASKS, "toy-sum", SumConfig),
        (MIXERS, "toy-shift", ShiftConfig),
        (MODELS, "ToyLinear", LinearConfig),
        (EXPERIMENTS, "toy", Experiment("toy", SumConfig(), LinearConfig(), optim, loop)),
        (
            EXPERIMENTS,
            "toy-deep",
            Experiment("toy-deep", SumConfig(), SequenceConfig(d_model=4, n_layers=1), optim, loop),
        ),
    ]
    for registry, name, item in registered:
        registry.register(name)(item)
    monkeypatch.setitem(INITS, "toy", toy_init)
    yield folder
    for registry, name, _ in registered:
        registry.unregister(name)


def test_a_toy_kind_trains_resumes_evaluates_reports_and_predicts(toy, capsys):
    assert call("data", "list") == 0
    assert "toy-set" in capsys.readouterr().out
    assert call("list", "--all") == 0
    assert "toy-deep" in capsys.readouterr().out.split()
    assert call("train", "toy", "--task.rows", "18", "--out", "run") == 0
    shown = capsys.readouterr()
    assert "linear (this run)" in shown.out
    assert "zero" in shown.out
    page = Path("run/report.html").read_text()
    assert "<p>4 sums by LinearModel</p>" in page
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["error"] < result["baselines"]["zero"]["test"]["error"]
    stored = json.loads(Path("run/config.json").read_text())["experiment"]
    assert (stored["task"], stored["model"]["kind"]) == ({"kind": "toy-sum", "rows": 18}, "ToyLinear")

    assert call("train", "--resume", "run") == 0
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == f"test error {result['test']['error']:.6f}\n"
    assert call("predict", "run", "--help") == 0
    assert "Example: longwave predict runs/toy --values 1 2 3" in capsys.readouterr().out
    assert call("predict", "run", "--values", *["1"] * LENGTH) == 0
    assert capsys.readouterr().out.startswith("sum ")
    assert call("generate", "run") == 2
    assert "a run of kind toy-sum cannot generate; use longwave predict run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        ["--model.mixer.kind", "toy-shift", "--model.mixer.weight", "0.25"],
        ["--model.mixer.init", "toy", "--model.mixer.d-state", "8"],
        ["--model.kind", "ToyLinear"],
    ],
    ids=["mixer", "initialisation", "model"],
)
def test_a_toy_part_of_a_model_trains_and_is_loaded_again(settings, toy, capsys):
    assert call("train", "toy-deep", "--loop.epochs", "1", "--out", "run", *settings) == 0
    result = json.loads(Path("run/result.json").read_text())
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == f"test error {result['test']['error']:.6f}\n"


def test_a_toy_backend_is_chosen_checked_and_trains(toy, capsys, monkeypatch):
    """It has one op; the reference does the others."""
    calls = []

    def convolve(u, K, D):
        calls.append(u.shape)
        return reference.functions["convolve"](u, K, D)

    reference = BACKENDS["reference"]
    functions = {"convolve": convolve, "convolve_backward": reference.functions["convolve_backward"]}
    BACKENDS.register("toy")(Backend("toy", functions, description=lambda: "one op"))
    monkeypatch.setenv("LONGWAVE_KERNEL", "toy")
    try:
        assert call("doctor") == 0
        assert "toy: one op; supports convolve" in capsys.readouterr().out
        calls.clear()
        assert call("train", "toy-deep", "--loop.epochs", "1", "--out", "run") == 0
        assert calls
    finally:
        BACKENDS.unregister("toy")


def test_a_toy_initialisation_is_that_of_the_layer(toy):
    layer = S4Config(d_state=8, init="toy").build(2)
    A, _ = hippo("toy", 8)
    decay = torch.linalg.eigvals(A).real.max()
    assert decay < torch.linalg.eigvals(hippo("legs", 8)[0]).real.max()
    assert layer.init == "toy"
    assert torch.isfinite(layer.kernel(32)).all()


def test_a_toy_data_set_is_made_and_listed(toy, capsys):
    assert call("data", "make", "toy-made") == 0
    assert (toy / "toy-made" / "zeros.txt").read_text() == "0\n0\n0\n"
    assert call("data", "list") == 0
    assert "made: 3 with seed 0" in capsys.readouterr().out
