"""Export models for other runtimes, as ONNX or torch's .pt2 (`longwave.export`, `longwave export`).

mixers.py    layers of state spaces in real arithmetic
graphs.py    what a file computes: a step, a block of steps, whole sequences, forecasts
formats.py   how a file is written and run
examples.py  what a file is checked with: examples of a run, and the outputs of its model
metadata.py  what a file says of itself: scaling, class names, vocabulary, intervals
"""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from longwave.core import files
from longwave.exporting import examples, graphs, metadata
from longwave.exporting.formats import FORMATS, Run, check_packages
from longwave.layers.checks import check_choice, check_count
from longwave.runs import FinishedRun
from longwave.train.folder import RunFolder
from longwave.train.trained import MemoryRun

Form = Literal["step", "blocks", "whole"]
FORMS: tuple[Form, ...] = ("step", "blocks", "whole")
BLOCK = 64  # steps
MOST_DIFFERENCE = 1e-5  # between a file's outputs and those of its model, relative to the largest if that is above 1


class Exported(NamedTuple):
    """The result of an export: the checked file, and how far it is from the model."""

    path: Path
    metadata_path: Path  # the same as in the file, as JSON
    metadata: dict[str, Any]
    difference: float  # the largest from the model's outputs
    largest: float  # of these outputs
    checked: str  # on what


def export(
    source: Any,
    out: str | Path | None = None,
    *,
    form: Form = "whole",
    to: Literal["onnx", "pt2"] = "onnx",
    length: int | None = None,
    lengths: bool | None = None,
    level: Sequence[float] | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Exported:
    """Write a model as a file that runs without longwave, and check it by its runtime against the model.

    source   a model, a run (as `longwave.open` gives it, or its folder), or the hub's "user/name"
    out      the file; by default model.onnx or model.pt2. Its metadata is written beside it, as model.json
    form     "step", one step with the state in and out; "blocks", `length` steps at a time (a power of two; 64);
             "whole", sequences of up to `length` steps (by default those of training), also for bidirectional models
    lengths  whole: whether rows may have lengths of their own, as a second input; by default as in the run's data
    level    forecasts: intervals in per cent; by default 80 and 95 if the run has the errors for them, () for none
    say      called with a line per stage of the work, which takes from seconds to minutes
    """
    check_choice("form", form, FORMS)
    check_choice("to", to, FORMATS)
    if length is not None:
        check_count("length", length)
    path = Path(f"model.{to}" if out is None else out).expanduser()
    if path.suffix == ".json":
        raise ValueError(f"out: expected the name of a file in the format {to}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"out: {path.parent}: no such folder")
    check_packages(to)
    say("reading the model and examples of its data")
    run, model = _opened(source)
    data = examples.of(run, model)
    graph = _graph(run, model, data, form, length, lengths, level)
    described = metadata.of(run, model, graph, form)
    say("writing the graph")
    content = FORMATS[to].write(graph, described)
    say("comparing it with the model")
    difference, largest = _difference(FORMATS[to].load(content, graph), model, data, form, graph)
    if not difference <= MOST_DIFFERENCE * max(1.0, largest):
        raise ValueError(
            f"{path}: not written, because its outputs differ from those of the model by {difference:.2g}, of numbers "
            f"up to {largest:.3g}, on {data.what}; expected at most {MOST_DIFFERENCE:g}{_advice(model, form)}"
        )
    beside = path.with_suffix(".json")
    files.write_bytes(path, content)
    files.write_text(beside, json.dumps(described, indent=1) + "\n")
    return Exported(path, beside, described, difference, largest, data.what)


def _opened(source: Any) -> tuple[RunFolder | MemoryRun | None, Any]:
    """The run, if there is one, and the model."""
    if getattr(source, "config", None) is not None and callable(source):
        return None, copy.deepcopy(source).cpu().float().eval()
    if isinstance(source, FinishedRun):
        source = source.run
    run = source if isinstance(source, RunFolder | MemoryRun) else RunFolder.open(source)
    return run, run.load_best("cpu")


def _graph(
    run: Any, model: Any, data: examples.Examples, form: Form, length: int | None, lengths: bool | None, level: Any
) -> graphs.Graph:
    """The graph to export."""
    horizon = getattr(model.config, "horizon", 0)
    if form != "whole":
        if form == "step" and length is not None:
            raise ValueError(f"length: form step takes one step at a time; expected None, or form blocks, got {length}")
        return graphs.carried(model, None if form == "step" else length or BLOCK)
    if horizon:
        return graphs.forecast(model, *metadata.forecast_facts(run, model, length, level))
    if level:
        raise ValueError(f"level: intervals are for forecasts; expected None, got {level}")
    length = length or data.longest
    if length is None:
        raise ValueError(
            "length: expected the steps of the longest sequence, because a model without its run has no data"
        )
    return graphs.whole(model, length, "lengths" in data.batches[0] if lengths is None else lengths)


def _difference(run: Run, model: Any, data: examples.Examples, form: Form, graph: graphs.Graph) -> tuple[float, float]:
    """The largest difference between the outputs of file and model, and the largest output."""
    difference = largest = 0.0
    for batch in data.batches:
        if form == "whole":
            inputs, expected = examples.of_whole(model, batch, graph)
            found = run(inputs)[0]
        else:
            inputs, expected = examples.of_steps(model, batch, graph.steps)
            found = _streamed(run, graph, inputs["x"])
        if not np.isfinite(expected).all():
            raise ValueError("model: expected finite outputs, got NaN or inf")
        difference = max(difference, float(np.abs(found - expected[:, : found.shape[1]]).max(initial=0)))
        largest = max(largest, float(np.abs(expected).max(initial=0)))
    return difference, largest


def _streamed(run: Run, graph: graphs.Graph, x: Any) -> Any:
    """y (B, L, outputs) of x (B, L, ...), block by block; steps after the last whole block are left out."""
    T, is_step = graph.steps, graph.steps == 1
    carried: dict[str, Any] = {}
    for name, values in graph.inputs.items():
        if name != "x":
            shape = [len(x) if axis in graph.axes[name] else size for axis, size in enumerate(values.shape)]
            carried[name] = np.zeros(shape, values.numpy().dtype)
    found = []
    for k in range(0, x.shape[1] - T + 1, T):
        y, *after = run({"x": x[:, k] if is_step else x[:, k : k + T], **carried})
        carried = dict(zip(carried, after, strict=True))
        found.append(y[:, None] if is_step else y)
    return np.concatenate(found, axis=1)


def _advice(model: Any, form: Form) -> str:
    """Advice for a file that is not accurate enough."""
    if getattr(model, "convolutions", None) is not None:
        return (
            "; the random convolutions count the steps above a threshold, and rounding can move a step across it: "
            "train without them (--model.convolutions 0)"
        )
    return "; report it as an issue, with the run's config.json"
