"""Devices: from a user's name to a torch device, and accelerate on it."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin

VARIABLE = "ACCELERATE_TORCH_DEVICE"  # accelerate reads the device from it, as it has no argument for it
READ = re.compile(  # what else it reads when it starts
    r"(ACCELERATE|OMPI|PMI|MPI|MV2)_\w+|((LOCAL|CROSS)_)?RANK|(LOCAL_)?WORLD_SIZE|FORK_LAUNCHED|MASTER_(ADDR|PORT)"
)


def find_device(name: str, option: str = "device") -> torch.device:
    """The device called cpu, cuda, cuda:1, mps ...; auto is the first GPU, otherwise the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        count = 1 if device.type == "cpu" else torch.get_device_module(device.type).device_count()
    except (AttributeError, RuntimeError):  # no such name, or nothing that one could compute on
        count = 0
    if count == 0 or (device.index or 0) >= count:
        why = _why_no_cuda() if count == 0 and name.startswith("cuda") else ""
        raise ValueError(f"{option}: {name!r} is not available; expected one of auto, {', '.join(_present())}{why}")
    return device


def _why_no_cuda() -> str:
    """The end of a message: whether torch or the machine lacks a GPU, and what to do."""
    if torch.version.cuda is None:
        return (
            f"; this torch, {torch.__version__}, was built without CUDA: install a build that has it "
            "(https://pytorch.org/get-started/locally)"
        )
    return f"; this torch was built for CUDA {torch.version.cuda} and finds no GPU: check with nvidia-smi"


def _present() -> list[str]:
    """The devices of this machine, by name."""
    found = ["cpu"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator()
        found += [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]
    return found


def make_accelerator(name: str, precision: str, **options: Any) -> Accelerator:
    """accelerate on a device. Where several processes were launched, each has a device of its own by its rank.

    accelerate keeps one state for the whole process: an earlier run may have had another device or precision.
    """
    device = find_device(name)
    if "LOCAL_RANK" in os.environ and device.index is not None:
        raise ValueError(
            f"device: expected auto or {device.type}, as each of several processes has a device of its own, "
            f"got {name!r}"
        )
    if AcceleratorState._shared_state:
        state = AcceleratorState()
        is_same_index = state.device.index == device.index or None in (state.device.index, device.index)
        if state.device.type != device.type or not is_same_index:  # `cuda` may be any of its kind
            AcceleratorState._reset_state(reset_partial_state=True)
        elif state.mixed_precision != precision:
            AcceleratorState._reset_state()
    if name == "auto" and os.environ.get(VARIABLE):
        find_device(os.environ[VARIABLE], VARIABLE)  # which refuses one that is not there
    try:
        with _telling_accelerate(name, device):
            return Accelerator(
                mixed_precision=precision,
                cpu=device.type == "cpu",
                gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),  # whatever the environment says
                **options,
            )
    except (ValueError, RuntimeError) as error:
        found = ", ".join(f"{key}={value!r:.80}" for key, value in sorted(os.environ.items()) if READ.fullmatch(key))
        if not found:
            raise
        raise ValueError(
            f"accelerate does not start with these environment variables: {found} ({error}); correct or unset the "
            "wrong one"
        ) from error


@contextlib.contextmanager
def _telling_accelerate(name: str, device: torch.device) -> Iterator[None]:
    """Name the device to accelerate while it starts. `auto` leaves the choice to the variable, if it is set."""
    before = os.environ.get(VARIABLE)
    if "LOCAL_RANK" not in os.environ and not (name == "auto" and before):
        os.environ[VARIABLE] = str(device)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
