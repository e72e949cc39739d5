"""A convolutional network on waveforms like WaveGAN's discriminator, compared with S4 in tab:sc.

Donahue, McAuley and Puckette, "Adversarial Audio Synthesis" (2019): one-dimensional convolutions of 25 steps, each of
which shortens the signal by 4 and doubles the features, and leaky ReLUs. Two things differ, since it classifies and
judges no generator: batch norm behind each convolution, and no phase shuffle. The features are averaged over time, so
that clips may have any length; or, with `hidden`, a fully-connected layer reads those of all steps that are left, as in
the "improved version" of the paper, which takes clips of one length alone.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from longwave.core.settings import check_least, set_by_task
from longwave.layers import NORMS
from longwave.layers.checks import check_count, valid_steps
from longwave.models.base import MODELS, ModelConfig, Spec
from longwave.models.pretrained import Pretrained

KERNEL, STRIDE = 25, 4
SLOPE = 0.2  # of the leaky ReLU


@MODELS.register("WaveformCNN")
@dataclass(frozen=True)
class WaveformCNNConfig(ModelConfig):
    """A convolutional network on waveforms, like WaveGAN's discriminator."""

    width: int = 64
    """Features of the first layer; each of the next has twice as many."""
    n_layers: int = 5
    """Number of convolutions, each with stride 4."""
    hidden: int = 0
    """Width of a fully-connected layer over all steps that are left, for clips of one length; 0: their mean."""
    length: int | None = set_by_task(None)
    """Steps of every clip, if they are equally long (set by the task)."""
    input_size: int = set_by_task(1)
    """Channels of the input (set by the task)."""
    output_size: int = set_by_task(10)
    """Classes (set by the task)."""

    label = "CNN (WaveGAN-D)"

    @property
    def takes_any_length(self) -> bool:
        """Yes, if it takes the mean over the steps."""
        return not self.hidden

    def build(self) -> "WaveformCNN":
        """A new model with these settings."""
        return WaveformCNN(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides."""
        if spec.vocabulary or spec.horizon or (spec.decoders and "mean" not in spec.decoders):
            raise ValueError("model: a WaveformCNN classifies sequences of numbers, and this task has none")
        if self.hidden and spec.length is None:
            raise ValueError(
                f"hidden: expected 0, for the mean over the steps, got {self.hidden}; a fully-connected layer needs "
                "clips of one length, and those of this task differ"
            )
        return self.with_sizes(spec)


class WaveformCNN(Pretrained, nn.Module):
    """y, None = model(x) for x (B, L, input_size); padding after `lengths` has no effect. It can stream by windows."""

    def __init__(self, config: WaveformCNNConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = WaveformCNNConfig.by_keyword(config, **settings)
        check_count("width", config.width)
        check_count("n_layers", config.n_layers, 30)
        self.config = config
        widths = [config.input_size, *(config.width << k for k in range(config.n_layers))]
        self.convolutions = nn.ModuleList(_conv(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(NORMS["batch"](width) for width in widths[1:])
        check_least(config, hidden=0)
        if config.hidden and config.length is None:
            raise ValueError(
                f"length: expected the length of all clips, which a hidden layer of {config.hidden} needs, got none"
            )
        self.hidden = None
        if config.hidden:
            steps = math.ceil((config.length or 1) / STRIDE**config.n_layers)
            self.hidden = nn.Linear(steps * widths[-1], config.hidden)
        self.linear = nn.Linear(config.hidden or widths[-1], config.output_size)

    def forward(
        self, x: Tensor, state: Any = None, *, time: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The output (B, output_size), as of a sequence model."""
        for name, value in (("state", state), ("time", time)):
            if value is not None:
                raise ValueError(f"{name}: a WaveformCNN takes only whole sequences")
        if self.hidden is not None and x.shape[1] != self.config.length:
            raise ValueError(
                f"x: expected {self.config.length:,} steps, got {x.shape[1]:,}; a fully-connected layer reads all of "
                "them, and takes no other length or sampling rate"
            )
        left = None if lengths is None else lengths.to(x.device)
        valid = None if left is None else valid_steps(left, x)
        for conv, norm in zip(self.convolutions, self.norms, strict=True):
            x = x if valid is None else torch.where(valid, x, 0)
            x = conv(x.transpose(1, 2)).transpose(1, 2)
            if left is not None:
                left = -(-left // STRIDE)
                valid = valid_steps(left, x)
            x = nn.functional.leaky_relu(norm(x, valid), SLOPE)
        if self.hidden is not None:
            whole = x if valid is None else torch.where(valid, x, 0)
            return self.linear(nn.functional.leaky_relu(self.hidden(whole.flatten(1)), SLOPE)), None
        if left is None or valid is None:
            return self.linear(x.mean(1)), None
        return self.linear(torch.where(valid, x, 0).sum(1) / left.unsqueeze(1)), None


def _conv(before: int, width: int) -> nn.Conv1d:
    """A convolution of L steps to ceil(L / STRIDE)."""
    conv = nn.Conv1d(before, width, KERNEL, STRIDE, padding=KERNEL // 2, bias=False)
    nn.init.normal_(conv.weight, std=math.sqrt(2 / (KERNEL * before)))  # He's, by the size of what comes in
    return conv
