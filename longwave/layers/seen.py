"""Detect changes of parameters without synchronising their device."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from longwave import ops

_steps = 0  # of optimisers, once something off the CPU was seen


class Seen:
    """Parameters as they are now, to be recognised later.

    On the CPU by their numbers, which sees every change. On another device reading would wait for it: there by their
    memory, their version counters, and the steps that optimisers have taken, because fused ones leave the counters as
    they are. Writing to `p.data` in place changes none of these, and is not seen there.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._copies: list[Tensor] = []
        self._marks: list[Any] = []
        if _can_read(parameters):
            self._copies = [p.clone(memory_format=torch.contiguous_format) for p in parameters]
        else:
            _count_steps()
            self._memory = [p.detach() for p in parameters]  # so that no other tensor comes to have its address
            self._marks = _marks(parameters)

    def are(self, parameters: Sequence[Tensor]) -> bool:
        """Whether these are the parameters that were seen, unchanged."""
        if _can_read(parameters):
            return bool(self._copies) and ops.same(parameters, self._copies)
        return self._marks == _marks(parameters)


def _can_read(parameters: Sequence[Tensor]) -> bool:
    return all(p.is_cpu for p in parameters)


def _marks(parameters: Sequence[Tensor]) -> list[Any]:
    return [_steps, *((p.device, p.dtype, p.shape, p.stride(), p.data_ptr(), p._version) for p in parameters)]


@cache
def _count_steps() -> None:
    """Count the steps of all optimisers from now on."""

    def count(*_: Any) -> None:
        global _steps
        if not torch.compiler.is_compiling():  # a compiled step counts versions
            _steps += 1

    register_optimizer_step_post_hook(count)
