"""Backends that compute the ops, and the choice between them.

A backend registers itself under a name in BACKENDS, and says for which kinds of devices it is chosen by default. A call
goes by the device of its tensors: on the CPU to `native` (compiled), elsewhere to `reference` (plain torch), which also
stands in, with one warning, for a backend that cannot run here. Of several for one kind of device the last that was
registered comes first, so that an installed package can add one; what it does not have goes to the next. The variable
LONGWAVE_KERNEL forces one for all devices; what that does not have goes to the reference, which has every op for every
tensor.
"""

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from longwave.core.native import Unavailable
from longwave.core.registry import Registry
from longwave.ops.table import OPS

VARIABLE, FALLBACK = "LONGWAVE_KERNEL", "reference"

# What a backend may have; those with a gradient come with a function `<op>_backward`. table.py has the signatures.
WITH_GRADIENT = frozenset(OPS)
WITHOUT_GRADIENT = frozenset({"layer_steps", "block_steps", "unet_steps", "linear_steps", "same"})


@dataclass(frozen=True, eq=False)
class Backend:
    """A way to compute some of the ops, or all of them.

    functions     by the name of their op, and `<op>_backward`; they are called with arguments that were checked, and
                  not at all for empty results or their gradients
    description   what `longwave doctor` says of it: the width of vectors, the device
    unavailable   the reason why it cannot run here, or None
    devices       the kinds of devices for which it is chosen by default, by torch's names (cpu, cuda ...)
    serves        whether it takes tensors on such a kind of device and of this dtype
    """

    name: str
    functions: Mapping[str, Callable[..., Any]]
    description: Callable[[], str]
    unavailable: Callable[[], str | None] = lambda: None
    devices: tuple[str, ...] = ()
    serves: Callable[[str, torch.dtype], bool] = lambda device, dtype: True
    ops: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        ops = frozenset(name for name in self.functions if not name.endswith("_backward"))
        expected = ops | {f"{op}_backward" for op in ops & WITH_GRADIENT}
        if ops - WITH_GRADIENT - WITHOUT_GRADIENT or expected != set(self.functions):
            known = ", ".join(sorted(WITH_GRADIENT | WITHOUT_GRADIENT))
            raise ValueError(
                f"backend {self.name!r}: expected functions of the ops {known}, with <op>_backward for "
                f"{', '.join(sorted(WITH_GRADIENT))}, got {', '.join(sorted(self.functions))}"
            )
        object.__setattr__(self, "ops", ops)


def functions_of(*namespaces: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions that are named for an op, or for its backward pass."""
    ops = WITH_GRADIENT | WITHOUT_GRADIENT
    return {name: f for names in namespaces for name, f in names.items() if name.removesuffix("_backward") in ops}


BACKENDS: Registry[Backend] = Registry("backend", "longwave.ops")


def backend_name(device: str = "cpu") -> str:
    """The name of the backend that is chosen for a kind of device."""
    return candidates(device)[0].name


def candidates(device: str) -> tuple[Backend, ...]:
    """The backends for a kind of device: the first that has an op computes it, and the last has them all."""
    forced = os.environ.get(VARIABLE, "")
    if not forced:
        return _by_default(device, BACKENDS.version)
    if forced not in BACKENDS:
        raise ValueError(f"{VARIABLE}: expected one of {', '.join(sorted(BACKENDS))}, got {forced!r}")
    reason = BACKENDS[forced].unavailable()
    if reason is not None:  # asked for: its absence is an error, not a reason to fall back
        raise Unavailable(reason)
    return BACKENDS[forced], BACKENDS[FALLBACK]


@functools.cache
def _by_default(device: str, version: int) -> tuple[Backend, ...]:
    """Available backends, cached until the registry changes."""
    found, missing = [], []
    for backend in reversed(list(BACKENDS.values())):
        if device in backend.devices:
            reason = backend.unavailable()
            found += [backend] if reason is None else []
            missing += [] if reason is None else [reason]
    if missing and not found:
        where = "" if device == "cpu" else f" on {device}"
        text = f"longwave is running its slow reference ops{where}: {'; '.join(missing)}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return *found, BACKENDS[FALLBACK]


def find(op: str, device: str, dtype: torch.dtype) -> Backend | None:
    """The first candidate that has the op and serves such tensors; None for an op that the reference lacks, too."""
    for backend in candidates(device):
        if op in backend.ops and backend.serves(device, dtype):
            return backend
    return None


def is_accelerated(op: str, device: str) -> bool:
    """Whether a backend other than the reference is chosen that has the op and serves float32 on a kind of device.

    To a compiled graph it is a constant: the graph has the ops of the backend that was chosen when it was made.
    """
    found = find(op, device, torch.float32)
    return found is not None and found.name != FALLBACK


# What torch.compiler.assume_constant_result does, which imports the compiler: 1.5 seconds at every start.
is_accelerated._dynamo_marked_constant = True  # type: ignore[attr-defined]


def function(name: str, tensor: Tensor) -> Callable[..., Any]:
    """The function of an op (or `<op>_backward`) for such a tensor."""
    found = find(name.removesuffix("_backward"), tensor.device.type, tensor.dtype)
    assert found is not None  # the reference has every op with a gradient
    return found.functions[name]
