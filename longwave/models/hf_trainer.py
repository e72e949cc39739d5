"""Compatibility with transformers' Trainer: a loss when labels are given, and a config that it may write to."""

from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from longwave.layers.checks import describe
from longwave.models.adaptive import NO_TOKEN

Config = TypeVar("Config", bound=type)


def takes_use_cache(config: Config) -> Config:
    """Allow the Trainer to set `use_cache` on frozen settings, without effect."""
    refuse: Any = config.__setattr__

    def set_use_cache(self: Any, name: str, value: Any) -> None:
        (object.__setattr__ if name == "use_cache" else refuse)(self, name, value)

    type.__setattr__(config, "__setattr__", set_use_cache)
    return config


def label_loss(output: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy for whole numbers, where -100 is no label, or the mean squared error.

    Whole numbers have the shape of the output without its last axis, others that of the output, or if its last axis is
    1 without it.
    """
    output = output.to(torch.promote_types(output.dtype, torch.float32))
    if labels.is_floating_point() and output.shape[-1] == 1 and labels.ndim == output.ndim - 1:
        labels = labels.unsqueeze(-1)
    expected = output.shape if labels.is_floating_point() else output.shape[:-1]
    if labels.shape != expected:
        shapes = f"{tuple(expected)} for the output {tuple(output.shape)}"
        raise ValueError(f"labels: expected {shapes}, got {describe(labels)}")
    if labels.is_floating_point():
        return F.mse_loss(output, labels.to(output))
    return F.cross_entropy(output.flatten(0, -2), labels.flatten().long(), ignore_index=NO_TOKEN)
