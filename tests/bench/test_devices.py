"""Benches on a GPU, with stand-ins for it: what is timed lies there, times are between events, memory is its own.

The meta device, whose tensors have no values, stands for a GPU where only the place of tensors matters.
"""

import contextlib
from typing import ClassVar

import pytest
import torch
from command import call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from longwave import ops
from longwave.bench import base, generation, measure, step
from longwave.bench.base import BENCHES
from longwave.bench.step import StepBench

ON_DEVICES = [name for name, bench in BENCHES.items() if not bench.cpu_only]
ON_THE_CPU = [name for name, bench in BENCHES.items() if bench.cpu_only]


class OnlyOn(TorchDispatchMode):
    """Fails where torch is called with numbers on another device; single numbers and indices may lie anywhere."""

    def __init__(self, device):
        super().__init__()
        self.device, self.calls = torch.device(device), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        self.calls += any(t.device == self.device for t in tensors)
        misplaced = [t for t in tensors if t.device != self.device and t.numel() > 1 and t.is_floating_point()]
        assert not misplaced, f"{function} with {misplaced[0].shape} on {misplaced[0].device}"
        return function(*args, **(kwargs or {}))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", [name for name in ON_DEVICES if name != "step"])
def test_all_that_is_timed_lies_on_the_device(name, monkeypatch):
    timed = []

    def run_there(function, device, *_):
        with OnlyOn(device) as watch:
            function()
        timed.append(watch.calls)
        return 1e-3

    monkeypatch.setattr(base, "find_device", torch.device)
    monkeypatch.setattr(measure, "seconds_of", run_there)
    monkeypatch.setattr(generation, "seconds_of", run_there)
    result = BENCHES[name](device="meta").run(lambda text: None)
    assert timed
    assert all(timed)
    assert result["machine"]["device"] == "meta"


@pytest.mark.usefixtures("tiny")
def test_a_training_step_is_that_of_a_run_on_the_device(monkeypatch):
    """Its batches, too; the device of a run of training is tested with it."""
    asked, memory = [], []
    found = step.Run
    monkeypatch.setattr(base, "find_device", torch.device)
    monkeypatch.setattr(base, "machine", lambda device: {"device": device})
    monkeypatch.setattr(
        step, "Run", lambda *given, device, **more: (asked.append(device), found(*given, device="cpu", **more))[1]
    )
    monkeypatch.setattr(
        step, "_batch", lambda run, rows, device: (asked.append(device), run.task.train.batch(range(rows)))[1]
    )
    monkeypatch.setattr(step, "wall_and_processor", lambda run, device: (asked.append(device), run(), (0.5, 0.4))[2])
    for name in ("available_bytes", "peak_bytes"):
        monkeypatch.setattr(step, name, lambda device: memory.append(device) or 1 << 30)
    StepBench(names=("lra-listops",), device="cuda:1", quick=True).run(lambda text: None)
    assert set(asked) == set(memory) == {"cuda:1"}
    assert len(asked) == 5  # the run, two batches for the memory, one for the step, the step


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ON_DEVICES)
def test_the_cpu_may_be_named(name, capsys):
    assert call("bench", name, "--quick", "--json", "--device", "cpu") == 0
    assert '"device"' not in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_device_that_is_not_there_is_refused(name, capsys):
    assert call("bench", name, "--quick", "--device", "cuda") == 2
    shown = capsys.readouterr()
    assert "device: 'cuda' is not available; expected one of auto, cpu" in shown.err
    assert "measuring" not in shown.err


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_a_bench_for_the_cpu_refuses_another_device_with_the_reason(name, capsys):
    files = ("old.json", "new.json") if name == "compare" else ()
    assert call("bench", name, *files, "--quick", "--device", "cuda") == 2
    assert f"device: expected cpu, because {BENCHES[name].cpu_only}, got 'cuda'" in capsys.readouterr().err


# Times and memory


class FakeEvent:
    """An event of a GPU, whose time is the number of events before it in milliseconds."""

    order: ClassVar[list] = []

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.order.append(self)

    def synchronize(self):
        self.order.append("waited")

    def elapsed_time(self, end):
        return self.order.index(end) - self.order.index(self)


def test_a_gpu_is_timed_between_events_after_three_runs_to_warm_up(monkeypatch):
    """It is told to run a function, and does so later: the clock of the CPU would measure the telling."""
    FakeEvent.order.clear()
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: FakeEvent.order.append("idle"))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    seconds = measure.best_times({"f": lambda: FakeEvent.order.append("f")}, 2, "cuda")
    assert seconds == {"f": 2e-3}
    timed = ["idle", FakeEvent, "f", FakeEvent, "waited"]
    assert [FakeEvent if isinstance(e, FakeEvent) else e for e in FakeEvent.order] == ["f"] * 3 + 2 * timed


class FakeGPU:
    """What torch counts on a GPU where 100 bytes are held, and 30 more at most during a run."""

    def __init__(self):
        self.held = self.peak = 100

    def run(self):
        self.peak = max(self.peak, self.held + 30)

    def reset_peak_memory_stats(self, device):
        self.peak = self.held

    def memory_allocated(self, device):
        return self.held

    def max_memory_allocated(self, device):
        return self.peak

    def mem_get_info(self, device):
        return 5_000_000_000, 8_000_000_000


def test_memory_on_a_gpu_is_the_peak_of_its_tensors(monkeypatch):
    gpu = FakeGPU()
    for name in ("reset_peak_memory_stats", "memory_allocated", "max_memory_allocated", "mem_get_info"):
        monkeypatch.setattr(torch.cuda, name, getattr(gpu, name))

    def warm_up():
        gpu.peak = 1000

    monkeypatch.setattr(measure, "resident_bytes", lambda *_: pytest.fail("that of the process was read"))
    assert measure.can_measure_memory("cuda")
    for measured in (measure.growth_of, measure.live_growth_of):
        assert measured(warm_up, gpu.run, "cuda:1") == 30
    assert measure.peak_of_tensors(gpu.run, "cuda") == 30
    assert measure.peak_bytes("cuda") == 130
    assert measure.available_bytes("cuda") == 5_000_000_000
    assert measure.too_little_memory(6_000_000_000, "cuda").endswith("5.0 GB are available")


def test_the_line_of_a_machine_names_its_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(ops, "backend_name", lambda kind="cpu": {"cuda": "reference", "cpu": "native"}[kind])
    machine = measure.machine("cuda:1")
    assert measure.machine_line(machine).startswith("cuda:1, a GPU, beside ")
    assert machine["backend"].startswith("reference (")
    assert "device" not in measure.machine()
