"""Streams on one core: time of a chunk over its length, memory over an hour, precision over many steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.measure import (
    can_measure_memory,
    in_fresh_process,
    machine,
    resident_bytes,
    state_bytes,
    wall_and_processor,
)
from longwave.bench.numbers import megabytes, milliseconds, three_digits
from longwave.core.text_table import TextTable
from longwave.layers import MIXERS
from longwave.models import SequenceModel
from longwave.models.stream import stream

RATE = 16_000  # samples per second
MODELS = {  # layers, features, mixer: a small one, and the paper's on raw speech
    "4 layers of 64": (4, 64, "s4"),
    "6 layers of 128": (6, 128, "s4"),
    "4 layers of 64, S4D": (4, 64, "s4d"),
    "6 layers of 128, S4D": (6, 128, "s4d"),
}
CHUNKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds
D_STATE = 64
HOP, WINDOW = 1600, 16_000
HOUR, QUICK_HOUR = 3600, 60  # seconds
LOOKS = 6  # at the memory
STEPS, QUICK_STEPS = 10_000_000, 200_000
PIECE = 4096  # steps that are pushed at once where time is not measured


@BENCHES.register("stream")
@dataclass(frozen=True)
class StreamBench(Bench):
    """Stream sound of 16,000 samples per second through causal models of S4 and S4D, on one core.

    The time of a chunk over its length; whether memory stays constant over an hour; and the difference of single and
    double precision after ten million steps.

    Example: longwave bench stream --quick
    """

    cpu_only = "streams are measured on one core"
    duration = "20 minutes"
    caption = (
        "one thread; the fastest of several chunks, after the first, which derives from the weights what all the "
        "others use; real-time factor: processor time, which other work on a busy machine does not add to, over the "
        "length of the sound"
    )

    def measure(self, progress: Progress) -> Result:
        """Seconds of chunks, bytes over time, differences over steps."""
        chunks, memory = [], []
        for name, seconds in product(MODELS, CHUNKS):
            progress(f"{name}, chunks of {seconds * 1000:g} ms")
            repeats = 5 if self.quick else 15
            chunks.append(in_fresh_process(time_chunk, name=name, seconds=seconds, repeats=repeats))
        if can_measure_memory():
            length = QUICK_HOUR if self.quick else HOUR
            progress(f"memory over {length} seconds of sound")
            memory = in_fresh_process(watch_memory, name=next(iter(MODELS)), length=length)
        steps = QUICK_STEPS if self.quick else STEPS
        progress(f"single and double precision over {steps:,} steps")
        precision = in_fresh_process(compare_precision, name=next(iter(MODELS)), steps=steps)
        one_thread = machine() | {"threads": 1}
        return {"machine": one_thread, "chunks": chunks, "memory": memory, "precision": precision}

    def tables(self, result: Result) -> list[TextTable]:
        titles = {
            "chunks": f"Chunks of sound, {RATE:,} samples per second",
            "memory": "Memory of the process and size of the state, over one stream",
            "precision": "Largest difference of logits, single against double precision, over their standard deviation",
        }
        words: dict[str, Any] = {"chunks": {"text": ("model",), "sections": "model"}}
        return [
            table(title, result[part], COLUMNS[part], **words.get(part, {}))
            for part, title in titles.items()
            if result[part]
        ]


COLUMNS: dict[str, dict[str, Callable[[Result], str]]] = {
    "chunks": {
        "model": lambda row: row["model"],
        "chunk": lambda row: f"{row['length'] * 1000:g} ms",
        "time of a chunk": lambda row: milliseconds(row["seconds"]),
        "processor time": lambda row: milliseconds(row["processor_seconds"]),
        "real-time factor": lambda row: three_digits(row["factor"]),
    },
    "memory": {
        "sound so far": lambda row: f"{row['sound']:,.0f} s",
        "memory": lambda row: megabytes(row["resident"]),
        "state": lambda row: megabytes(row["state"]),
    },
    "precision": {
        "steps so far": lambda row: f"{row['steps']:,}",
        "difference": lambda row: f"{row['difference']:.1e}",
    },
}


def make_model(name: str) -> SequenceModel:
    """An untrained causal model, in evaluation mode."""
    torch.manual_seed(0)
    layers, width, kind = MODELS[name]
    mixer = MIXERS[kind].from_dict({"d_state": D_STATE})
    model = SequenceModel(d_model=width, n_layers=layers, norm="batch", input_size=1, output_size=10, mixer=mixer)
    return model.eval()


def noise(length: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Samples (1, length, 1), the same in any dtype."""
    return torch.randn(1, length, 1, generator=torch.Generator().manual_seed(seed)).to(dtype)


def time_chunk(name: str, seconds: float, repeats: int) -> dict[str, Any]:
    """The time of a chunk of `seconds`."""
    torch.set_num_threads(1)
    live = stream(make_model(name), hop=HOP, window=WINDOW)
    x = noise(max(1, round(seconds * RATE)), 0)
    live.push(x)
    timed = [wall_and_processor(lambda: live.push(x)) for _ in range(repeats)]
    best, processor = map(min, zip(*timed, strict=True))
    figures = {"seconds": best, "processor_seconds": processor, "factor": processor / seconds}
    return {"model": name, "length": seconds, **figures}


def watch_memory(name: str, length: int) -> list[dict[str, Any]]:
    """The memory of this process during a stream of `length` seconds, pushed second by second."""
    torch.set_num_threads(1)
    live, rows = stream(make_model(name), hop=HOP, window=WINDOW), []
    looks = {math.ceil(length * (k + 1) / LOOKS) for k in range(LOOKS)} | {1}
    for second in range(1, length + 1):
        live.push(noise(RATE, second))
        if second in looks:
            rows.append({"sound": second, "resident": resident_bytes(), "state": state_bytes(live.state)})
    return rows


def compare_precision(name: str, steps: int) -> list[dict[str, Any]]:
    """The largest difference of two streams so far, in single and double precision, at each power of ten."""
    torch.set_num_threads(1)
    single, double = (make_model(name).to(dtype) for dtype in (torch.float32, torch.float64))
    streams = [(stream(model, hop=HOP, window=WINDOW), model.decoder.linear.weight.dtype) for model in (single, double)]
    rows, largest, seen = [], 0.0, []
    done, marks = 0, [10**k for k in range(4, 9) if 10**k < steps] + [steps]
    for mark in marks:
        while done < mark:
            length = min(PIECE, mark - done)
            narrow, wide = (live.push(noise(length, done, dtype)).double() for live, dtype in streams)
            done += length
            if narrow.numel():
                largest = max(largest, float((narrow - wide).abs().max()))
                seen.append(wide[0])
        deviation = float(torch.cat(seen).std(0, correction=0).mean())
        rows.append({"steps": done, "difference": largest / deviation})
        seen = [torch.cat(seen)[-1000:]]
    return rows
