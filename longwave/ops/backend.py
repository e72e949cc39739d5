"""Backends: what computes the ops, and how one is chosen.

A backend registers itself under a name in BACKENDS. On the CPU `native` (compiled) runs where it was built, else
`reference` (plain torch), with one warning; the environment variable LONGWAVE_KERNEL names another. What the chosen
backend does not have, and tensors that it does not serve, go to the reference, which has every op for every tensor.
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

VARIABLE = "LONGWAVE_KERNEL"
PREFERRED, FALLBACK = "native", "reference"

# What a backend may have; those with a gradient come with a function `<op>_backward`. table.py has the signatures.
WITH_GRADIENT = frozenset(OPS)
WITHOUT_GRADIENT = frozenset({"layer_steps", "block_steps", "same"})


@dataclass(frozen=True, eq=False)
class Backend:
    """A way to compute some of the ops, or all of them.

    functions     by the name of their op, and `<op>_backward`; they are called with arguments that were checked, and
                  not at all for empty results or their gradients
    description   what `longwave doctor` says of it: the width of vectors, the device
    unavailable   the reason why it cannot run here, or None
    serves        whether it takes tensors such as this one: of this device and dtype
    """

    name: str
    functions: Mapping[str, Callable[..., Any]]
    description: Callable[[], str]
    unavailable: Callable[[], str | None] = lambda: None
    serves: Callable[[Tensor], bool] = lambda tensor: True
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


def backend_name() -> str:
    """The name of the backend that is chosen."""
    forced = os.environ.get(VARIABLE, "")
    if not forced:
        return _default_backend()
    if forced not in BACKENDS:
        raise ValueError(f"{VARIABLE}: expected one of {', '.join(sorted(BACKENDS))}, got {forced!r}")
    reason = BACKENDS[forced].unavailable()
    if reason is not None:  # asked for: its absence is an error, not a reason to fall back
        raise Unavailable(reason)
    return forced


@functools.cache
def _default_backend() -> str:
    reason = BACKENDS[PREFERRED].unavailable()
    if reason is None:
        return PREFERRED
    warnings.warn(f"longwave is running its slow reference ops: {reason}", RuntimeWarning, stacklevel=2)
    return FALLBACK


def find(op: str, tensor: Tensor) -> Backend | None:
    """The chosen backend, if it has the op and serves the tensor."""
    chosen = BACKENDS[backend_name()]
    return chosen if op in chosen.ops and chosen.serves(tensor) else None


def is_accelerated(op: str, device: str) -> bool:
    """Whether a backend other than the reference is chosen that has the op and serves float32 on a kind of device.

    To a compiled graph it is a constant: the graph has the ops of the backend that was chosen when it was made.
    """
    found = find(op, torch.empty(0, dtype=torch.float32, device=device))
    return found is not None and found.name != FALLBACK


# What torch.compiler.assume_constant_result does, which imports the compiler: 1.5 seconds at every start.
is_accelerated._dynamo_marked_constant = True  # type: ignore[attr-defined]


def function(name: str, tensor: Tensor) -> Callable[..., Any]:
    """The function of an op (or `<op>_backward`), by the reference where the chosen backend does not serve."""
    found = find(name.removesuffix("_backward"), tensor) or BACKENDS[FALLBACK]
    return found.functions[name]
