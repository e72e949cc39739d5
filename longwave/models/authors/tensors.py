"""Tensors of a file by name, each taken once."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor


def all_alike(what: str, values: Iterable[Any]) -> Any:
    """The single value that all of them share."""
    found = list(dict.fromkeys(values))
    if len(found) != 1:
        raise ValueError(f"expected the same {what} everywhere, got {', '.join(map(str, found)) or 'none'}")
    return found[0]


class Tensors:
    """Tensors by name, of which each is taken once, so that unknown ones can be reported."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if not tensor.numel() or tensor.is_complex() or tensor.dtype == torch.bool:
                raise ValueError(f"{name}: expected real numbers, got {tensor.dtype} {tuple(tensor.shape)}")
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def has(self, prefix: str) -> bool:
        """Whether any remaining name begins with the prefix."""
        return any(name.startswith(prefix) for name in self._left)

    def some(self, most: int = 5) -> str:
        """The first few remaining names; "" if there are none."""
        names = sorted(self._left)
        more = f" and {len(names) - most} more" if len(names) > most else ""
        return ", ".join(names[:most]) + more

    def take(self, name: str, *shape: int | None) -> Tensor:
        """The tensor of a name, which has to be there; None in `shape` stands for any size, no shape for any."""
        if name not in self._left:
            raise ValueError(f"{name}: expected a tensor of this name, got none")
        tensor = self._left.pop(name).detach()
        fits = len(shape) == tensor.ndim and all(
            want in (None, size) for want, size in zip(shape, tensor.shape, strict=True)
        )
        if shape and not fits:
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"{name}: expected a tensor ({expected}), got {tuple(tensor.shape)}")
        return tensor

    def take_linear(self, prefix: str) -> dict[str, Tensor]:
        """Weight and bias of a linear layer; a bias may be a column, (outputs, 1)."""
        return {"weight": self.take(f"{prefix}weight", None, None), "bias": self.take(f"{prefix}bias").flatten()}

    def count(self, prefix: str) -> int:
        """The number of consecutive indices after the prefix, from 0."""
        rests = (name.removeprefix(prefix) for name in self._left if name.startswith(prefix))
        numbers = {int(first) for rest in rests if (first := rest.partition(".")[0]).isdecimal()}
        if missing := set(range(len(numbers))) - numbers:
            raise ValueError(
                f"{prefix}{min(missing)}: expected tensors of this name, as there are later ones, got none"
            )
        return len(numbers)

    def drop_copies(self, prefix: str, original: str) -> None:
        """Drop known copies of tensors; one that differs from its original is refused."""
        for name in [name for name in self._left if name.startswith(prefix)]:
            other = original + name.removeprefix(prefix)
            if other not in self._left:
                continue  # it is named among those that nobody knows
            if not torch.equal(self._left[name], self._left[other]):
                raise ValueError(f"{name}: expected a copy of {other}, got other numbers")
            del self._left[name]
