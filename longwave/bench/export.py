"""Exported files against their model: differences, sizes, and time per step in onnxruntime on one core."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.measure import best_times, in_fresh_process, machine
from longwave.bench.numbers import megabytes, three_digits
from longwave.core.text_table import TextTable
from longwave.exporting import graphs
from longwave.exporting.formats import FORMATS
from longwave.exporting.mixers import Direct, Fourier
from longwave.layers import S4Config
from longwave.models import SequenceModel
from longwave.models.stream import stream

LAYERS, D_MODEL, D_STATE = 4, 64, 64
STREAMED = 512  # steps of `step` and `blocks`
BLOCKS = (16, 32, 64, 128)
KERNELS = {"the sum": Direct, "transforms": Fourier}
WHOLE = {"the sum": (256, 512, 1024), "transforms": (256, 512, 1024, 4096)}


@BENCHES.register("export")
@dataclass(frozen=True)
class ExportBench(Bench):
    """Files that longwave export writes, in onnxruntime, against the model in torch.

    Example: longwave bench export --quick
    """

    cpu_only = "onnxruntime runs the files on one core"
    duration = "three minutes"
    caption = (
        f"{LAYERS} layers of {D_MODEL} features, N = {D_STATE}, an output at every step, one row, one thread; "
        "difference: the largest from the model's forward pass, over its largest output; the fastest of several "
        "repeats, both sides in turns"
    )

    def measure(self, progress: Progress) -> Result:
        """A row for each form and number of steps."""
        repeats, rows = 3 if self.quick else 10, []
        for T in (None, *(BLOCKS[:2] if self.quick else BLOCKS)):
            progress("step" if T is None else f"blocks of {T}")
            rows.append(in_fresh_process(time_carried, T=T, repeats=repeats))
        for kernel, lengths in WHOLE.items():
            for length in lengths[:1] if self.quick else lengths:
                progress(f"whole, {length} steps, by {kernel}")
                rows.append(in_fresh_process(time_whole, kernel=kernel, length=length, repeats=repeats))
        return {"machine": machine() | {"threads": 1}, "files": rows}

    def tables(self, result: Result) -> list[TextTable]:
        return [table("Files in onnxruntime", result["files"], COLUMNS, text=("form",))]


COLUMNS: dict[str, Callable[[Result], str]] = {
    "form": lambda row: row["form"],
    "steps": lambda row: f"{row['steps']:,}",
    "size": lambda row: megabytes(row["bytes"]),
    "difference": lambda row: f"{row['difference']:.1e}",
    "file": lambda row: f"{three_digits(row['seconds'] * 1e6)} us per step",
    "model": lambda row: f"{three_digits(row['model_seconds'] * 1e6)} us per step",
}


def make_model() -> SequenceModel:
    """An untrained causal model, in evaluation mode."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    settings: dict[str, Any] = {"norm": "batch", "input_size": 1, "output_size": 10, "decoder": "sequence"}
    return SequenceModel(d_model=D_MODEL, n_layers=LAYERS, mixer=S4Config(d_state=D_STATE), **settings).eval()


@torch.no_grad()
def time_carried(T: int | None, repeats: int) -> dict[str, Any]:
    """A file that takes T steps, or one, with its state; the model streams as many at a time."""
    model, size = make_model(), T or 1
    graph = graphs.carried(model, T)
    content = FORMATS["onnx"].write(graph, {})
    run = FORMATS["onnx"].load(content, graph, threads=1)
    x = torch.randn(1, STREAMED, 1)
    pieces = [piece[:, 0] if T is None else piece for piece in x.split(size, dim=1)]
    blocks, zeros = [piece.numpy() for piece in pieces], np.zeros((LAYERS, 1, D_MODEL, D_STATE), np.float32)
    live = stream(model)

    def through_file() -> np.ndarray[Any, Any]:
        state, found = zeros, []
        for block in blocks:
            y, state = run({"x": block, "state": state})
            found.append(y.reshape(1, size, -1))
        return np.concatenate(found, axis=1)

    def through_model() -> None:
        for piece in x.split(size, dim=1):
            live.push(piece)

    row = {"form": "step" if T is None else "blocks", "steps": size, "bytes": len(content)}
    return row | _compared(model, x, through_file, through_model, repeats)


@torch.no_grad()
def time_whole(kernel: str, length: int, repeats: int) -> dict[str, Any]:
    """A file that takes whole sequences, of full length."""
    model = make_model()
    graph = graphs.whole(model, length, lengths=False, kernel=KERNELS[kernel])
    content = FORMATS["onnx"].write(graph, {})
    run = FORMATS["onnx"].load(content, graph, threads=1)
    x = torch.randn(1, length, 1)
    row = {"form": f"whole, by {kernel}", "steps": length, "bytes": len(content)}
    given = {"x": x.numpy()}
    return row | _compared(model, x, lambda: run(given)[0], partial(model, x), repeats)


def _compared(
    model: SequenceModel, x: torch.Tensor, file: Callable[[], Any], own: Callable[[], object], repeats: int
) -> dict[str, float]:
    true = model(x)[0].numpy()
    difference = float(np.abs(file() - true).max() / np.abs(true).max())
    times = best_times({"file": file, "model": own}, repeats)
    return {
        "difference": difference,
        "seconds": times["file"] / x.shape[1],
        "model_seconds": times["model"] / x.shape[1],
    }
