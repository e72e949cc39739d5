"""Find the cause of a non-finite loss: weights, data or gradients."""

from typing import Any

import torch
from torch import Tensor

from longwave.tasks.base import Batch


def first_bad(model: Any, batch: Batch) -> str:
    """The first cause of a loss that is not finite.

    Weights come first: once one of them is bad, so is every gradient. Then the data, which spoils them all, too.
    """
    parameters = list(model.named_parameters())
    for name, p in parameters:
        if not _is_finite(p):
            return str(name)
    for name, values in batch.items():
        if not _is_finite(values):
            row, *rest = (~torch.isfinite(values)).nonzero()[0].tolist()
            where = f"row {row}" + (f", step {rest[0]}" if rest else "")
            return f"{name} of the batch, {where}, so look at the data"
    gradients = [f"the gradient of {name}" for name, p in parameters if p.grad is not None and not _is_finite(p.grad)]
    size, largest = max((float(p.detach().abs().max()), name) for name, p in parameters)
    return f"{(gradients or ['none'])[0]}, and the largest weight is {size:.2g} in {largest}"


def _is_finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())
