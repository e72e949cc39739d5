"""One training step of named experiments at their own size, on random data: time, memory and rows per second."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from torch import Tensor
from tyro.conf import Positional, arg

from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.measure import available_bytes, in_fresh_process, peak_bytes, wall_and_processor
from longwave.bench.numbers import megabytes, three_digits
from longwave.core.text_table import TextTable
from longwave.experiments import EXPERIMENTS, Experiment
from longwave.experiments.prepared import prepare_on
from longwave.tasks.base import Task, TaskConfig
from longwave.train.loop import Run
from longwave.train.trained import MemoryRun

QUICK_ROWS = 2
REPEATS = 2


@BENCHES.register("step")
@dataclass(frozen=True)
class StepBench(Bench):
    """Run one training step of named experiments, at their own size and batch, on random data of full length.

    No data set is needed. A step that would not fit into free memory is not started; the table then says how much it
    needs, and --accumulate cuts the batch into parts.

    Examples:
        longwave bench step lra-listops lra-text --accumulate 4
        longwave bench step wikitext103 --length 1024 --accumulate 8
    """

    names: Positional[Annotated[tuple[str, ...], arg(metavar="[NAME ...]")]] = ("lra-listops", "lra-text")
    """Names of experiments (longwave list --all)."""
    accumulate: int | None = None
    """Micro-batches per batch, to save memory; by default as in the experiment."""
    length: int | None = None
    """Sequence length (of a language model: its context); by default as in the experiment."""

    duration = "two minutes per name"
    caption = (
        "a step: forward, backward and AdamW in float32, the faster of two; its processor time, of all threads, is "
        "the better figure on a busy machine; memory: the peak of the whole process, libraries included"
    )

    def check(self) -> None:
        super().check()
        if self.accumulate is not None and self.accumulate < 1:
            raise ValueError(f"accumulate: expected at least 1, got {self.accumulate}")
        for name in self.names:
            _task(EXPERIMENTS.find(name), 1, self.length)

    def measure(self, progress: Progress) -> Result:
        """One row per experiment; quick: two rows of its batch."""
        rows = []
        for name in self.names:
            progress(f"a training step of {name}")
            options = {"accumulate": self.accumulate, "quick": self.quick, "length": self.length, "device": self.where}
            rows.append(in_fresh_process(measure_step, name=name, **options))
        return {"rows": rows}

    def tables(self, result: Result) -> list[TextTable]:
        notes = [f"{row['name']}: {row['reason']}" for row in result["rows"] if row["reason"]]
        return [table("One training step", result["rows"], COLUMNS, notes=notes, text=("experiment",))]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{three_digits(value)} s"


COLUMNS: dict[str, Callable[[Result], str]] = {
    "experiment": lambda row: row["name"],
    "parameters": lambda row: f"{row['parameters']:,}",
    "batch": lambda row: f"{row['batch']} x {row['length']:,}",
    "parts": lambda row: str(row["parts"]),
    "a step": lambda row: _seconds(row["step_seconds"]),
    "processor time": lambda row: _seconds(row["processor_seconds"]),
    "memory": lambda row: megabytes(row["peak_bytes"]),
    "rows per second": lambda row: three_digits(row["step_seconds"] and row["batch"] / row["step_seconds"]),
}


def _task(experiment: Experiment, rows: int, length: int | None) -> Task:
    """The task of an experiment on random data, with sequences of another length if one is given."""
    settings: Any = experiment.task
    if length is None:
        return experiment.task.on_random_data(rows)
    if length < 2 or not hasattr(settings, "length"):
        expected = "at least 2" if hasattr(settings, "length") else "none, as its sequences have one length"
        raise ValueError(f"length: expected {expected}, got {length} for {experiment.name}")
    changed: TaskConfig = replace(settings, length=length)
    return changed.on_random_data(rows)


def measure_step(
    name: str, accumulate: int | None, quick: bool, length: int | None = None, device: str = "cpu"
) -> dict[str, Any]:
    """Seconds of a step and the peak memory of this process; None, and a reason, if there is too little memory."""
    experiment = EXPERIMENTS.find(name)
    batch_size = min(experiment.loop.batch_size, QUICK_ROWS) if quick else experiment.loop.batch_size
    parts = min(batch_size, accumulate or experiment.optim.accumulate)
    task = _task(experiment, batch_size, length)
    optim = replace(experiment.optim, accumulate=parts, precision="no")  # fp16 is for GPUs
    prepared = prepare_on(replace(experiment, optim=optim), task)
    run = Run(MemoryRun.create(prepared), prepared, quiet=True, device=device)
    row: dict[str, Any] = {
        "name": name,
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "batch": batch_size,
        "length": prepared.spec.length or prepared.spec.longest,
        "parts": parts,
        "step_seconds": None,
        "processor_seconds": None,
        "reason": None,
    }
    needed = _needed(run, math.ceil(batch_size / parts), device)
    available = available_bytes(device)
    if needed is not None and available is not None and needed > available:
        reason = f"not run: it needs about {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are free"
        return {**row, "peak_bytes": needed, "reason": f"{reason}; a larger --accumulate needs less"}
    batch = _batch(run, batch_size, device)
    repeats = 1 if quick else REPEATS
    seconds, processor = min(wall_and_processor(lambda: run.step(batch), device) for _ in range(repeats))
    return {**row, "step_seconds": seconds, "processor_seconds": processor, "peak_bytes": peak_bytes(device)}


def _batch(run: Run, rows: int, device: str) -> dict[str, Tensor]:
    return {name: values.to(device) for name, values in run.task.train.batch(range(rows)).items()}


def _needed(run: Run, rows: int, device: str) -> int | None:
    """The peak memory of a step on `rows` at a time, extrapolated from fewer rows, which also warm up."""
    peaks, counts = [], (1, min(3, rows))
    for count in counts:
        run.module.train()
        run.module(_batch(run, count, device)).loss.backward()
        run.optimizer.zero_grad()
        peaks.append(peak_bytes(device))
    first, last = peaks
    if first is None or last is None:
        return None
    return last + (rows - counts[1]) * (last - first) // max(1, counts[1] - counts[0])
