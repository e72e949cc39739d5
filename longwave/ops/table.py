"""The ops, each stated once: what it takes, what it returns, and what its backward pass takes.

registration.py makes torch's operators of this table. longwave/ops/__init__.py says what each op computes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from longwave.ops.signature import DERIVED, DOUBLE, FLOATING, SIGNALS, SINGLE, Signature, Sizes


@dataclass(frozen=True, eq=False)
class Op:
    """An op and its backward pass.

    name, tensors, options, dtypes, needs_power: what it takes (see Signature).
    results      axes by name; the first is differentiable, others are kept for the backward pass
    gradients    the tensors whose gradients `<name>_backward` returns, in this order and if they were given
    saved        the tensors that `<name>_backward` takes after the gradient of the result; None: all of the op's
    flags        its options, by tensor: whether that was given if it is optional, else whether its gradient is needed.
                 None: the op's own options
    follows      gradients that are computed from that of the result alone
    """

    name: str
    tensors: Mapping[str, str]
    results: Mapping[str, str]
    gradients: Sequence[str]
    options: Sequence[str] = ()
    dtypes: Sequence[torch.dtype] = FLOATING
    needs_power: Callable[[Sizes, Mapping[str, Any]], bool] | None = None
    saved: Sequence[str] | None = None
    flags: Mapping[str, str] | None = None
    follows: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)

    @cached_property
    def forward(self) -> Signature:
        """The signature of the op."""
        return Signature(self.tensors, self.options, self.dtypes, self.needs_power)

    @cached_property
    def backward(self) -> Signature:
        """The signature of its backward pass."""
        names = {name.rstrip("?"): name for name in self.tensors}
        saved = names.values() if self.saved is None else [names.get(name, name) for name in self.saved]
        grad, *_ = self.results.values()
        options = self.options if self.flags is None else [f"bool {flag}" for flag in self.flags.values()]
        known = {**self.tensors, **self.results}
        tensors = {"grad": grad} | {name: known[name] for name in saved}
        return Signature(tensors, options, self.dtypes, self.needs_power, self.forward.limits)

    @cached_property
    def kept(self) -> list[str]:
        """The tensors that autograd saves: inputs of the backward pass, and arguments for recomputation."""
        tensors = [name.rstrip("?") for name in self.tensors]
        again = tensors if len(self.results) > 1 else []
        return [name for name in (*tensors, *self.results) if name in {*self.backward.names, *again}]

    @cached_property
    def kept_at(self) -> list[int]:
        """The places of `kept` among arguments and results."""
        return [(*self.forward.names, *self.results).index(name) for name in self.kept]

    def wanted(self, given: Mapping[str, Any]) -> list[str]:
        """The tensors whose gradients the backward pass returns."""
        flags = self.flags or {}
        return [
            name
            for name in self.gradients
            if (given[flags[name]] if name in flags else given.get(name, "not saved") is not None)
        ]

    def empty_results(self, sizes: Sizes, like: Tensor) -> list[Tensor]:
        """Uninitialised results."""
        return [self._empty(axes, sizes, like) for axes in self.results.values()]

    def empty_gradients(self, sizes: Sizes, given: Mapping[str, Any]) -> list[Tensor]:
        """Uninitialised results of the backward pass."""
        return [
            given[name].new_empty(given[name].shape)
            if name in given
            else self._empty((self.tensors.get(name) or self.tensors[f"{name}?"]), sizes, given["grad"])
            for name in self.wanted(given)
        ]

    def _empty(self, axes: str, sizes: Sizes, like: Tensor) -> Tensor:
        return like.new_empty([DERIVED[axis](sizes) if axis in DERIVED else sizes[axis] for axis in axes.split()])


_SYSTEM = {"Lambda": "H M 2", "P": "r H M 2", "B": "H M 2", "C": "D H M 2", "dt": "H"}
_STEP = {"change": "H M 2", "left": "r H M 2", "right": "r H M 2"}
_ACTIVATION = {"z": "batch L H", "keep": "batch H"}


def _without(tensors: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: axes for key, axes in tensors.items() if key != name}


_ALL = (
    Op(
        "spectrum",
        _SYSTEM,
        {"K_hat": "D H L//2+1 2"},
        gradients=("Lambda", "P", "B", "C", "dt"),
        options=("SymInt L", 'str nodes="auto"'),
    ),
    Op(
        "irfft",
        {"K_hat": "D H L//2+1 2"},
        {"K": "D H L"},
        gradients=("K_hat",),
        options=("SymInt L",),
        dtypes=SIGNALS,
        saved=(),
    ),
    Op(
        "truncate",
        _without(_SYSTEM, "B"),
        {"C_tilde": "D H M 2"},
        gradients=("Lambda", "P", "C", "dt"),
        options=("SymInt L",),
    ),
    Op(
        "power_sum",
        _without(_SYSTEM, "P"),
        {"K": "D H L"},
        gradients=("Lambda", "B", "C", "dt"),
        options=("SymInt L", 'str rule="zoh"'),
    ),
    Op(
        "convolve",
        {"u": "batch L H", "K": "D H L", "D": "H"},
        {"y": "batch L H"},
        gradients=("u", "K", "D"),
        dtypes=SIGNALS,  # there is no FFT in half precision
    ),
    Op(
        "krylov",
        {**_STEP, "start": "H 2M"},
        {"vectors": "H count 2M"},
        gradients=("change", "left", "right", "start"),
        options=("SymInt count", "bool transposed=False"),
        dtypes=DOUBLE,
    ),
    Op("power", _STEP, {"E": "H 2M|1 2M"}, gradients=("change", "left", "right"), options=("SymInt T",), dtypes=DOUBLE),
    Op(
        "collect",
        {"columns": "H T N", "E?": "H N|1 N", "u": "batch L H", "start?": "batch H N", "lengths": "batch"},
        {"state": "batch H N", "kept": "batch H L//T N"},
        gradients=("columns", "E", "u", "start"),
        options=("bool keep",),
        dtypes=SIGNALS,
        needs_power=lambda sizes, given: sizes["L"] >= 2 * sizes["T"] or given.get("start") is not None,
        saved=("columns", "E", "u", "lengths", "kept"),
        flags={"start": "started"},
    ),
    Op(
        "spread",
        {"rows": "H T N", "E?": "H N|1 N", "start": "batch H N"},
        {"y": "batch L H", "kept": "batch H ceil(L/T) N"},
        gradients=("rows", "E", "start"),
        options=("SymInt L", "bool keep"),
        dtypes=SIGNALS,
        needs_power=lambda sizes, given: bool(sizes["L"] > sizes["T"]),
        saved=("rows", "E", "kept"),
        flags={},
    ),
    Op(
        "scan",
        {**_STEP, "B_bar": "H 2M", "u": "batch L H", "start": "batch H 2M", "lengths": "batch"},
        {"out": "batch L//every H 2M"},
        gradients=("change", "left", "right", "B_bar", "u", "start"),
        options=("SymInt every",),
        dtypes=SIGNALS,
        saved=("change", "left", "right", "B_bar", "u", "start", "lengths", "out"),
    ),
    Op("activate", _ACTIVATION, {"y": "batch L H"}, gradients=("z",), dtypes=SINGLE),
    Op(
        "mix",
        {**_ACTIVATION, "weight": "out H", "bias?": "out"},
        {"y": "batch L out"},
        gradients=("z", "weight"),
        dtypes=SINGLE,
        saved=("z", "keep", "weight"),
        flags={"weight": "need_weight"},
        follows={"bias": lambda grad: grad.sum((0, 1))},
    ),
    Op(
        "gate",
        {"x": "batch L H", "z": "batch L 2H", "bias": "2H"},
        {"y": "batch L H"},
        gradients=("z", "bias"),
        dtypes=SINGLE,
        saved=("z", "bias"),
        follows={"x": lambda grad: grad},
    ),
    Op(
        "gated_mix",
        {"x": "batch L H", **_ACTIVATION, "weight": "2H H", "bias": "2H"},
        {"y": "batch L H"},
        gradients=("z", "weight", "bias"),
        dtypes=SINGLE,
        saved=("z", "keep", "weight", "bias"),
        follows={"x": lambda grad: grad},
    ),
)

OPS = {op.name: op for op in _ALL}
