"""Metadata of exported files: scaling, class names, sampling rate, vocabulary, intervals."""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import longwave
from longwave.exporting.graphs import Forecast, Graph
from longwave.tasks.forecast.intervals import FILE, LEVELS, Intervals
from longwave.tasks.forecast.windows import ForecastInput

FORMAT = 1
BOOKKEEPING = ("name", "examples", "data", "notes", "counts", "digest")  # facts that are of use to training alone


def of(run: Any, model: Any, graph: Graph, form: str) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "longwave": longwave.__version__,
        "form": form,
        "model": model.config.label,
        "inputs": {name: _described(graph, name, values) for name, values in graph.inputs.items()},
        "outputs": list(graph.outputs),
        **graph.most,
    }
    if isinstance(graph.module, Forecast):
        found |= {"horizon": graph.module.horizon, "levels": list(graph.module.levels)}
    if run is None:
        return found
    facts = {name: value for name, value in run.facts.items() if name not in BOOKKEEPING}
    names = [name for name in run.config.artifacts if name.endswith((".txt", ".json", ".npz"))]
    artifacts = {name: _plain(name, run.artifact(name)) for name in names}
    return found | {"task": run.settings.kind, "facts": facts, "files": artifacts}


def forecast_facts(
    run: Any, model: Any, length: int | None, level: Sequence[float] | None
) -> tuple[int, int, bool, Tensor | None, tuple[float, ...]]:
    """Context and columns of a forecast, whether each column is a row of its own, half-widths, and their levels.

    `length` is the context of a model that takes any, and has no run.
    """
    config = model.config
    if run is None:
        context = getattr(config, "context", length)
        if context is None:
            raise ValueError("length: expected the rows of context, because a model without its run has no data")
        if level:
            raise ValueError(f"level: intervals need the errors of a run, got a model and {level}")
        return context, config.input_size, False, None, ()
    inputs = run.fact("inputs", ForecastInput.from_dict)
    if inputs.id is not None:
        raise ValueError(
            f"{run.path}: a panel has scales and intervals of its own for each series, which a file does not hold; "
            "expected a run on one series"
        )
    if inputs.usual_gap:
        raise ValueError(
            f"{run.path}: its forecasts read the gaps between rows at irregular times, which a file does not have as "
            "input; expected a run on even steps"
        )
    if beside := ", ".join(one["name"] for one in run.facts.get("covariates", ())):
        raise ValueError(
            f"{run.path}: its forecasts read columns beside the target ({beside}), which a file does not have as "
            "input; expected a run without them"
        )
    if length is not None and length != inputs.context:
        raise ValueError(f"length: the run forecasts from {inputs.context} rows; expected None, got {length}")
    if level is None:
        level = LEVELS if FILE in (run.result() or {}).get("files", ()) else ()
    intervals = Intervals(run, inputs, level)
    if not intervals.levels:
        return inputs.context, len(inputs.columns), run.settings.independent, None, ()
    widths, _ = intervals.half_widths(intervals.held_out.values[:0])
    return inputs.context, len(inputs.columns), run.settings.independent, torch.from_numpy(widths), intervals.levels


def _plain(name: str, content: bytes) -> Any:
    """A file of a run as plain values: the lines of a text, the content of JSON, arrays as lists."""
    if name.endswith(".npz"):
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {key: arrays[key].tolist() for key in arrays.files}
    text = content.decode()
    return json.loads(text) if name.endswith(".json") else text.splitlines()


def _described(graph: Graph, name: str, values: Tensor) -> dict[str, Any]:
    shape = [graph.axes[name].get(axis, size) for axis, size in enumerate(values.shape)]
    return {"shape": shape, "dtype": str(values.dtype).removeprefix("torch.")}
