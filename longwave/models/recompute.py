"""Gradient checkpointing: activations are dropped after the forward pass and recomputed in the backward pass."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from longwave.layers.block import MaskedBatchNorm


def recomputed(module: nn.Module) -> Callable[..., Any]:
    """Wrap a module as a function that saves only its inputs for the backward pass.

    Outputs and gradients are the same to the bit, also with dropout: the second pass draws the same random numbers.
    """

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), _kept_statistics(module)

    return functools.partial(checkpoint, module, use_reentrant=False, context_fn=contexts)


@contextlib.contextmanager
def _kept_statistics(module: nn.Module) -> Iterator[None]:
    """Freeze the running statistics of batch norms, since the first pass has counted this batch."""
    norms = {norm: norm.momentum for norm in module.modules() if isinstance(norm, MaskedBatchNorm)}
    try:
        for norm in norms:
            norm.momentum = 0.0
        yield
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
