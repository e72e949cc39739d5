"""The inputs that a file is checked with: examples of a run, or random ones, and the outputs of its model."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.exporting.graphs import Forecast, Graph, example, outputs_of
from longwave.models.pair import PairModel
from longwave.tasks.base import Batch, lengths_of
from longwave.tasks.forecast.task import forecast

ROWS = ((0, 1), (1, 5))  # first and last of the batches: of one row, and of several
STREAMED = 512  # steps that the forms with a state are checked on
Inputs = dict[str, NDArray[Any]]


class Examples(NamedTuple):
    """Batches, the longest sequence of the data if it is known, and what they are, in words."""

    batches: list[Batch]
    longest: int | None
    what: str


def of(run: Any, model: Any) -> Examples:
    """Examples of a run's test or validation set; random ones if its data is unavailable."""
    if run is not None:
        try:
            task = run.build_task()
        except (OSError, ValueError):  # a published run, one in memory, or data that was moved
            return _random(model, run.facts.get("inputs", {}).get("length"), "random inputs (no data of the run)")
        split, name = (task.test, "test") if len(task.test) else (task.valid, "validation")
        batches = [split.batch(range(first, min(last, len(split)))) for first, last in ROWS if first < len(split)]
        lengths = lengths_of(task.train)
        longest = _length(model, batches[-1]["x"]) if lengths is None else int(lengths.max())
        rows = sum(len(batch["x"]) for batch in batches)
        return Examples(batches, longest, f"{rows} examples of the {name} set")
    return _random(model, None, "random inputs")


def _random(model: Any, longest: int | None, what: str) -> Examples:
    config = model.config
    longest = longest or getattr(getattr(config, "mixer", None), "length", None)
    length = longest or 2 * STREAMED // 3
    if horizon := getattr(config, "horizon", 0):
        length = getattr(config, "context", 2 * horizon) + horizon
    shape = (2, length) if isinstance(model, PairModel) else (length,)
    batches = [{"x": example(config, (last - first, *shape))} for first, last in ROWS]
    if getattr(config, "time_size", 0):
        for batch in batches:
            batch["time"] = torch.rand(len(batch["x"]), length, config.time_size) - 0.5
    return Examples(batches, longest, what)


def _length(model: Any, x: Tensor) -> int:
    return int(x.shape[-1 if model.config.vocabulary else -2])


@torch.no_grad()
def of_whole(model: Any, batch: Batch, graph: Graph) -> tuple[Inputs, NDArray[Any]]:
    """The inputs of a whole graph, and the outputs of the model."""
    module = graph.module
    if isinstance(module, Forecast):
        inputs = {"x": batch["x"][:, : -module.horizon]} | {key: batch[key] for key in graph.inputs if key != "x"}
        plain: Batch = {key: batch[key] for key in ("x", "time") if key in batch}
        return _numpy(inputs), forecast(model, plain, module.independent, module.horizon).numpy()
    x, lengths = batch["x"], batch.get("lengths")
    longest = _length(model, graph.inputs["x"])
    size = min(longest, _length(model, x)) if graph.most else longest
    if "lengths" not in graph.inputs and lengths is not None:
        size, lengths = min(size, int(lengths.min())), None
    if missing := max(0, size - _length(model, x)):  # only of a graph of one length
        x = torch.nn.functional.pad(x, (0, missing) if model.config.vocabulary else (0, 0, 0, missing))
    x = x[..., :size] if model.config.vocabulary else x[..., :size, :]
    inputs = {"x": x}
    if "lengths" in graph.inputs:
        full = torch.full(x.shape[: 2 if isinstance(model, PairModel) else 1], size)
        inputs["lengths"] = full if lengths is None else lengths.clamp(max=size)
    return _numpy(inputs), model(**inputs)[0].numpy()


@torch.no_grad()
def of_steps(model: Any, batch: Batch, T: int) -> tuple[Inputs, NDArray[Any]]:
    """Inputs for two blocks of T steps at least, and the outputs of the model if a sequence ended at each step."""
    x = batch["x"]
    x = x[:, : int(batch["lengths"].min()) if "lengths" in batch else STREAMED][:, : max(STREAMED, 2 * T)]
    x = torch.cat([x] * -(-2 * T // x.shape[1]), dim=1)  # a short one is run through again
    z, _ = model.features(x, need_state=False)
    if model.config.decoder == "mean":
        counts = torch.arange(1, z.shape[1] + 1, dtype=torch.float64)
        z = (z.double().cumsum(1) / counts.unsqueeze(-1)).to(z.dtype)
    return _numpy({"x": x}), outputs_of(model, z).numpy()


def _numpy(inputs: dict[str, Tensor]) -> Inputs:
    return {name: np.ascontiguousarray(values.numpy()) for name, values in inputs.items()}
