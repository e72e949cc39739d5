"""Signatures of ops, and the check of arguments: dtype, device, layout and matching sizes.

A tensor is stated by its axes, one word per axis: "batch L H". A word has one size throughout an op. Those in DERIVED
follow from other sizes, those in LIMITS are restricted. Options count as sizes under their own names.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, get_args

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
Limit = tuple[str, str, Callable[[Any], bool], str]  # argument, axis, whether a size is allowed, what is expected


class _Stated(NamedTuple):
    place: int
    axes: tuple[str, ...]
    dtype: torch.dtype | None  # None: that of the op's signals
    shape: Callable[[Sizes], tuple[int, ...]]


class Signature:
    """The arguments of an op: tensors, then options.

    names    of all arguments
    schema   the arguments in torch's notation
    limits   what is checked of sizes and options
    lead     the place of the first tensor whose dtype is not in FIXED, which is the dtype of the results
    """

    def __init__(
        self,
        tensors: Mapping[str, str],
        options: Sequence[str],
        dtypes: Sequence[torch.dtype],
        needs_power: Callable[[Sizes, Mapping[str, Any]], bool] | None = None,
        limits: Sequence[Limit] | None = None,
    ) -> None:
        """Axes by name, where a name that ends in "?" may be None, and options in torch's notation.

        `dtypes` are those of tensors that are not in FIXED; `needs_power` says if E is required. A backward pass has
        the `limits` of its op.
        """
        axes_of = {name.rstrip("?"): tuple(axes.split()) for name, axes in tensors.items()}
        option_names = [option.split("=")[0].split()[1] for option in options]
        kinds = {name: "Tensor?" if name.endswith("?") else "Tensor" for name in tensors}
        self.names = (*axes_of, *option_names)
        self.schema = ", ".join([*(f"{kind} {name.rstrip('?')}" for name, kind in kinds.items()), *options])
        self.limits = _limits(axes_of, option_names) if limits is None else limits
        self.lead = next((i for i, name in enumerate(axes_of) if name not in FIXED), 0)
        self._dtypes, self._needs_power = dtypes, needs_power
        self._stated = [
            _Stated(i, axes, FIXED.get(name), _shape(axes)) for i, (name, axes) in enumerate(axes_of.items())
        ]
        self._last_to_first = self._stated[::-1]
        self._derived = sorted({axis for axes in axes_of.values() for axis in axes if axis in DERIVED})
        self._options = list(enumerate(option_names, len(tensors)))

    def check(self, *given: Any) -> Sizes:
        """Return all sizes; refuse tensors that do not fit together, and sizes and options that are not allowed."""
        sizes: Sizes = {}
        device, dtype = given[0].device, given[self.lead].dtype
        if dtype not in self._dtypes:
            raise self._misfit(self.lead, None, sizes, given)
        for i, axes, fixed, _ in self._last_to_first:  # the size of an axis is that of the first tensor that has it
            tensor = given[i]
            if tensor is None:
                continue
            shape = tensor.shape
            is_other = tensor.dtype is not (fixed or dtype) or tensor.device != device or tensor.layout is not _STRIDED
            if is_other or len(shape) != len(axes):
                raise self._misfit(i, fixed or dtype, sizes, given)
            sizes.update(zip(axes, shape))  # noqa: B905  (`strict` would double the time; see above)
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
        if self._needs_power is not None:
            named = dict(zip(self.names, given, strict=True))
            if named["E"] is None and self._needs_power(sizes, named):
                raise ValueError(f"E: expected A^{sizes['T']} - I, which moves states from block to block, got None")
        return sizes

    def dtype_of(self, place: int) -> torch.dtype | None:
        """The one dtype of an argument, or None for a signal, whose dtype is that of the call, and for an option."""
        return self._stated[place].dtype if place < len(self._stated) else None

    def _misfit(self, i: int, dtype: torch.dtype | None, sizes: Sizes, given: Sequence[Any]) -> ValueError:
        """The error for a tensor that does not fit the others; an axis of unknown size is shown by its name."""
        name, axes = self.names[i], self._stated[i].axes
        tensor: Tensor = given[i]
        first: Tensor = given[0]
        kinds = "floating-point numbers" if self._dtypes is FLOATING else " or ".join(map(str, self._dtypes))
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


def _shape(axes: Sequence[str]) -> Callable[[Sizes], tuple[int, ...]]:
    """A function that picks the sizes of the axes; itemgetter returns a tuple for two keys or more."""
    return itemgetter(*axes) if len(axes) > 1 else lambda sizes: (sizes[axes[0]],)


def _limits(axes_of: dict[str, tuple[str, ...]], options: Sequence[str]) -> list[Limit]:
    """The limits of each axis, reported for the first tensor that has it, and those of options."""
    owners = {axis: name for name, axes in reversed(axes_of.items()) for axis in axes}
    of_tensors = [(owner, axis, *LIMITS[axis]) for axis, owner in owners.items() if axis in LIMITS]
    of_options = [
        (name, name, *(LENGTH if name == "L" else LIMITS[name])) for name in options if name in {"L", *LIMITS}
    ]
    return [limit for limit in of_tensors if limit[1] not in options] + of_options
