"""What an op takes, and the one check of it: dtypes, devices, layouts, and sizes that fit together.

A tensor is stated by its axes, one word each. A word has the same size wherever it occurs in an op; those of DERIVED
follow from other sizes, those of LIMITS are restricted. An option is a size too, under its own name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, get_args

import torch
from torch import Tensor

from longwave.ops.checks import describe, describe_with_device
from longwave.ssm.diagonal import Rule
from longwave.ssm.nodes import Nodes

Sizes = dict[str, Any]  # by axis, and options by name

DERIVED: dict[str, Callable[[Sizes], int]] = {
    "2H": lambda sizes: 2 * sizes["H"],
    "2M": lambda sizes: 2 * sizes["M"],
    "2M|1": lambda sizes: 2 * sizes["M"] if sizes["r"] else 1,  # rows of a power, or of its diagonal
    "N|1": lambda sizes: 1 if sizes.get("N|1") == 1 else sizes["N"],  # either of them
    "L//2+1": lambda sizes: sizes["L"] // 2 + 1,
    "L//T": lambda sizes: sizes["L"] // sizes["T"] if sizes.get("keep", True) else 0,
    "ceil(L/T)": lambda sizes: -(-sizes["L"] // sizes["T"]) if sizes.get("keep", True) else 0,
    "L//every": lambda sizes: sizes["L"] // sizes["every"],
}

LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "r": (lambda r: r <= 2, "a low-rank part of rank 0, 1 or 2"),
    "D": (lambda D: D in (1, 2), "1 or 2 along its first axis, one per direction"),
    "M": (lambda M: M >= 1, "at least one state per feature"),
    "N": (lambda N: N >= 2 and N % 2 == 0, "at least one state per feature, as pairs of numbers"),
    "T": (lambda T: T >= 1 and T & (T - 1) == 0, "a power of two steps per block"),
    "count": (lambda count: count >= 1, "a number of vectors of at least 1"),
    "every": (lambda every: every >= 1, "a number of steps of at least 1"),
    "nodes": (frozenset(get_args(Nodes)).__contains__, f"one of {', '.join(get_args(Nodes))}"),
    "rule": (frozenset(get_args(Rule)).__contains__, f"one of {', '.join(get_args(Rule))}"),
}
LENGTH = (lambda L: L >= 1, "a length of at least 1")  # where it is an option; a signal may be empty

FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIGNALS = (torch.float32, torch.float64)
SINGLE, DOUBLE = (torch.float32,), (torch.float64,)

# What is derived from the parameters is float64 whatever the signals are; the other tensors of an op share one dtype.
FIXED = dict.fromkeys(("change", "left", "right", "B_bar", "columns", "rows", "E"), torch.float64)
FIXED["lengths"] = torch.int64

_STRIDED = torch.strided
Limit = tuple[str, str, Callable[[Any], bool], str]  # who has it, the axis, whether a size is allowed, and what is
# A tensor: its place, its axes, its dtype if that is fixed, and its shape by sizes.
_Stated = tuple[int, tuple[str, ...], torch.dtype | None, Callable[[Sizes], tuple[int, ...]]]


@dataclass(frozen=True, eq=False)
class Signature:
    """What an op takes: tensors, then options.

    tensors       axes by name; a name that ends in "?" may be None
    options       as torch's schemas have them
    dtypes        those of tensors that are not in FIXED
    needs_power   whether E has to be given, by sizes and tensors
    limits        those of the op whose backward pass it is, or none for its own
    """

    tensors: Mapping[str, str]
    options: Sequence[str] = ()
    dtypes: Sequence[torch.dtype] = FLOATING
    needs_power: Callable[[Sizes, Mapping[str, Any]], bool] | None = None
    limits: Sequence[Limit] = ()
    names: tuple[str, ...] = field(init=False)  # of all arguments
    lead: int = field(init=False)  # the first tensor whose dtype is not fixed: that of what comes out
    _options: Sequence[tuple[int, str]] = field(init=False)
    _stated: Sequence[_Stated] = field(init=False)
    _backwards: Sequence[_Stated] = field(init=False)
    _derived: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        stated = [(name.rstrip("?"), tuple(axes.split())) for name, axes in self.tensors.items()]
        options = [option.split("=")[0].split()[1] for option in self.options]
        free = [i for i, (name, _) in enumerate(stated) if name not in FIXED]
        each = [(i, axes, FIXED.get(name), _getter(axes)) for i, (name, axes) in enumerate(stated)]
        values = {
            "names": (*(name for name, _ in stated), *options),
            "lead": free[0] if free else 0,
            "limits": self.limits or _limits(stated, options),
            "_options": list(enumerate(options, len(stated))),
            "_stated": each,
            "_backwards": each[::-1],
            "_derived": sorted({axis for _, axes in stated for axis in axes if axis in DERIVED}),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> str:
        """The arguments as torch's schemas have them."""
        tensors = [f"Tensor{'?' if name.endswith('?') else ''} {name.rstrip('?')}" for name in self.tensors]
        return ", ".join([*tensors, *self.options])

    def check(self, *given: Any) -> Sizes:
        """All sizes; or refuse tensors that do not fit together, and sizes and options that are out of range."""
        sizes: Sizes = {}
        device, dtype = given[0].device, given[self.lead].dtype
        if dtype not in self.dtypes:
            raise self._misfit(self.lead, None, sizes, given)
        for i, axes, fixed, _ in self._backwards:  # so that the first tensor with an axis says what its size is
            tensor = given[i]
            if tensor is None:
                continue
            shape = tensor.shape
            if tensor.dtype is not (fixed or dtype) or len(shape) != len(axes) or tensor.device != device:
                raise self._misfit(i, fixed or dtype, sizes, given)
            if tensor.layout is not _STRIDED:
                raise self._misfit(i, fixed or dtype, sizes, given)
            sizes.update(zip(axes, shape))  # noqa: B905  (as many as the axes: see above; `strict` would take as long)
        sizes["2"] = 2
        for i, name in self._options:
            sizes[name] = given[i]
        for owner, axis, is_allowed, allowed in self.limits:
            if not is_allowed(sizes[axis]):
                tensor = dict(zip(self.names, given, strict=True)).get(owner)
                came = describe(tensor) if isinstance(tensor, Tensor) else repr(sizes[axis])
                raise ValueError(f"{owner}: expected {allowed}, got {came}")
        for axis in self._derived:
            sizes[axis] = DERIVED[axis](sizes)
        for i, _, fixed, shape_of in self._stated:
            tensor = given[i]
            if tensor is not None and shape_of(sizes) != tensor.shape:
                raise self._misfit(i, fixed or dtype, sizes, given)
        if self.needs_power is not None:
            self._check_power(sizes, dict(zip(self.names, given, strict=True)))
        return sizes

    def _check_power(self, sizes: Sizes, given: Mapping[str, Any]) -> None:
        assert self.needs_power is not None
        if given["E"] is None and self.needs_power(sizes, given):
            power = f"A^{sizes['T']} - I, which moves states from block to block"
            raise ValueError(f"E: expected {power}, got None")

    def _misfit(self, i: int, dtype: torch.dtype | None, sizes: Sizes, given: Sequence[Any]) -> ValueError:
        """Of a tensor that does not fit the others; axes whose sizes they do not tell go by their names."""
        name, axes = self.names[i], self._stated[i][1]
        tensor: Tensor = given[i]
        first: Tensor = given[0]
        kinds = "floating-point numbers" if self.dtypes is FLOATING else " or ".join(map(str, self.dtypes))
        text = f"{dtype or kinds} ({', '.join(str(sizes.get(axis, axis)) for axis in axes)})"
        if tensor is not first:
            text += f" on {first.device} beside {self.names[0]} {tuple(first.shape)}"
        moved = tensor.device != first.device
        came = describe_with_device(tensor) if moved else describe(tensor)
        if tensor.layout is not _STRIDED:
            came += f"; call {name}.to_dense()"
        elif moved:
            came += f"; call {name}.to({str(first.device)!r})"
        return ValueError(f"{name}: expected {text}, got {came}")


def _getter(axes: Sequence[str]) -> Callable[[Sizes], tuple[int, ...]]:
    """A function of sizes that gives those of the axes; one key alone would come without its tuple."""
    return itemgetter(*axes) if len(axes) > 1 else lambda sizes: (sizes[axes[0]],)


def _limits(stated: Sequence[tuple[str, tuple[str, ...]]], options: Sequence[str]) -> list[Limit]:
    """The limits of an op's options, and of each axis, which the first tensor with it is named for."""
    found = [(name, name, *(LENGTH if name == "L" else LIMITS[name])) for name in options if name in {"L", *LIMITS}]
    owners = {axis: name for name, axes in reversed(stated) for axis in axes if axis in LIMITS and axis not in options}
    return [(owner, axis, *LIMITS[axis]) for axis, owner in owners.items()] + found
