"""Launches of Triton kernels, as data: what is launched can be counted and compiled where there is no GPU.

Triton is imported when a kernel first runs: that takes a quarter of a second.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

OLDEST = (3, 3)  # Triton that runs the kernels
OLDEST_CAPABILITY = (7, 5)  # of a GPU by NVIDIA


class Launch(NamedTuple):
    """One launch: a kernel by its module and name, its grid, its arguments, and what is known when it is compiled."""

    module: str
    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[Tensor | int, ...]
    constants: Mapping[str, int | float | bool]
    warps: int


def run(launches: Sequence[Launch], device: torch.device) -> None:
    """Run launches one after the other, on the device of their tensors whatever the current one is."""
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        for launch in launches:
            kernel = getattr(kernels(launch.module), launch.kernel)[launch.grid]
            kernel(*launch.arguments, **launch.constants, num_warps=launch.warps, enable_fp_fusion=True)


@functools.cache
def kernels(module: str) -> Any:
    """A module of kernels."""
    return importlib.import_module(f"longwave.ops.gpu.{module}")


def next_power_of_two(count: int) -> int:
    """The least power of two that is no less."""
    return 1 << (count - 1).bit_length()


def is_interpreted() -> bool:
    """Whether Triton runs kernels in Python, on tensors of the CPU: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def unavailable() -> str | None:
    """Why the kernels cannot run here, or None."""
    if importlib.util.find_spec("triton") is None:
        return "no Triton found: install a torch for CUDA or ROCm, which brings it (on Windows: triton-windows)"
    version = importlib.metadata.version("triton")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"Triton {version} is too old: install {oldest} or later, which comes with torch 2.7 and later"
    if is_interpreted():
        return None
    if not torch.cuda.is_available():
        return "no GPU (CUDA or ROCm) that this torch can use"
    if torch.version.hip is None and torch.cuda.get_device_capability() < OLDEST_CAPABILITY:
        found, oldest = (".".join(map(str, c)) for c in (torch.cuda.get_device_capability(), OLDEST_CAPABILITY))
        return f"the GPU has compute capability {found}: Triton needs {oldest} or later"
    return None


def description() -> str:
    """Which Triton, and on what."""
    version = importlib.metadata.version("triton")
    if is_interpreted():
        return f"Triton {version}, interpreted (TRITON_INTERPRET=1): for tests"
    return f"Triton {version} on {torch.cuda.get_device_name()}"
