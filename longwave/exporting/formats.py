"""Export formats: how to write each, and the runtime that checks it."""

import contextlib
import importlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.export import Dim, ExportedProgram

from longwave import ops
from longwave.core import extras
from longwave.exporting.graphs import Graph

OPSET = 20  # the first with GELU and the DFT of a given axis
METADATA = "longwave"  # the key of the metadata in a file
Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Arrays], list[NDArray[Any]]]  # inputs by name to outputs in their order


class Format(NamedTuple):
    """A file format."""

    packages: tuple[str, ...]  # beside torch
    write: Callable[[Graph, Mapping[str, Any]], bytes]  # with metadata
    load: Callable[..., Run]  # of a file's content and its graph; `threads` of the runtime, by default its own choice
    runtime: str


def check_packages(name: str) -> None:
    """Refuse a format whose packages are not installed."""
    with extras.named():
        for package in FORMATS[name].packages:
            importlib.import_module(package)


def _traced(graph: Graph) -> tuple[ExportedProgram, Any]:
    """Trace a graph with torch.export, with its dynamic shapes."""
    names = dict.fromkeys(name for axes in graph.axes.values() for name in axes.values())
    sizes = {name: Dim(name, min=1, max=graph.most.get(name)) for name in names}
    shapes = {name: {axis: sizes[size] for axis, size in graph.axes[name].items()} for name in graph.inputs}
    with torch.no_grad(), ops.unfused(), _quiet():
        try:
            return torch.export.export(graph.module, (), dict(graph.inputs), dynamic_shapes=shapes), shapes
        except RuntimeError as error:  # of a model that branches on sizes or values
            first, *_ = str(error).strip().splitlines()
            raise ValueError(f"model: expected one that torch.export can trace, got {first}") from error


def _write_onnx(graph: Graph, metadata: Mapping[str, Any]) -> bytes:
    traced, shapes = _traced(graph)
    with _quiet():
        program: Any = torch.onnx.export(
            traced,
            dynamo=True,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=shapes,
            opset_version=OPSET,
            verbose=False,
        )
    program.model.metadata_props[METADATA] = json.dumps(metadata)
    content: bytes = program.model_proto.SerializeToString()
    return content


def _load_onnx(content: bytes, graph: Graph, threads: int = 0) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(list(graph.outputs), dict(inputs))


def _write_pt2(graph: Graph, metadata: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    traced, _ = _traced(graph)
    with _quiet():
        torch.export.save(traced, file, extra_files={f"{METADATA}.json": json.dumps(metadata)})
    return file.getvalue()


def _load_pt2(content: bytes, graph: Graph, threads: int = 0) -> Run:
    with _quiet():
        module = torch.export.load(io.BytesIO(content)).module()

    def run(inputs: Arrays) -> list[NDArray[Any]]:
        with torch.no_grad():
            found = module(**{name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in inputs.items()})
        return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]

    return run


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's remarks on itself and on packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


FORMATS = {
    "onnx": Format(("onnx", "onnxscript", "onnxruntime"), _write_onnx, _load_onnx, "onnxruntime"),
    "pt2": Format((), _write_pt2, _load_pt2, "torch.export"),
}
