"""LAMB, as the paper's authors ran it: Adam whose step is scaled, tensor by tensor, to the size of the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LARGEST_NORM = 10.0  # of weights that a step is in proportion to


class Lamb(torch.optim.Optimizer):
    """w <- w - lr min(|w|, 10) / |step| step, for step = m / (sqrt(v) + eps) + weight_decay w.

    m and v are the running means of the gradient and of its square, as Adam's, without a correction of their start.
    Where a norm is 0 the step is not scaled. (You et al. 2020, Large Batch Optimization for Deep Learning.)
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group)
        return loss

    def _move(self, weight: Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[weight], group["betas"]
        if not state:
            state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["mean"].lerp_(weight.grad, 1 - first)
        state["square"].mul_(second).addcmul_(weight.grad, weight.grad, value=1 - second)
        step = state["mean"] / (state["square"].sqrt() + group["eps"]) + group["weight_decay"] * weight
        size, length = weight.norm().clamp(max=LARGEST_NORM), step.norm()
        ratio = torch.where((size > 0) & (length > 0), size / (length + group["eps"]), 1.0)
        weight.sub_(group["lr"] * ratio * step)
