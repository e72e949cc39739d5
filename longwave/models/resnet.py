"""ResNet-18 for small images, the paper's 2-D comparison, which reshapes the pixel sequence to an image.

He et al., "Deep Residual Learning for Image Recognition" (2016), in its form for images of 32 x 32: a first convolution
of 3 x 3 without stride or pooling, then four stages of two blocks, each but the first halving the image and doubling
the features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from torch import Tensor, nn

from longwave.core.settings import set_by_task
from longwave.layers.checks import check_choice, check_count
from longwave.models.base import MODELS, ModelConfig, Spec
from longwave.models.pretrained import Pretrained

STAGES = 4


@MODELS.register("ResNet")
@dataclass(frozen=True)
class ResNetConfig(ModelConfig):
    """ResNet-18 for small images, the 2-D comparison."""

    width: int = 64
    """Features of the first stage; each of the next three has twice as many."""
    norm: Literal["batch", "layer"] = "batch"
    """Norm after each convolution; "layer" is over all features and pixels of an image."""
    input_size: int = set_by_task(3)
    """Channels of the input (set by the task)."""
    height: int = set_by_task(32)
    """Rows of the image (set by the task)."""
    image_width: int = set_by_task(32)
    """Columns of the image (set by the task)."""
    output_size: int = set_by_task(10)
    """Classes (set by the task)."""

    label = "ResNet-18"

    def build(self) -> "ResNet":
        """A new model with these settings."""
        return ResNet(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes of the task's images."""
        if spec.image_size is None:
            raise ValueError("model: a ResNet needs images of one size, which this task does not have")
        height, width = spec.image_size
        return replace(self.with_sizes(spec), height=height, image_width=width)


class ResNet(Pretrained, nn.Module):
    """y, None = model(x), where x (B, height * width, input_size) is an image row by row. It cannot stream."""

    def __init__(self, config: ResNetConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = ResNetConfig.by_keyword(config, **settings)
        check_choice("norm", config.norm, NORMS)
        check_count("width", config.width)
        self.config = config
        widths = [config.width << stage for stage in range(STAGES)]
        self.stem = nn.Sequential(_conv(config.input_size, widths[0]), NORMS[config.norm](widths[0]), nn.ReLU())
        blocks: list[nn.Module] = []
        before = widths[0]
        for stage, width in enumerate(widths):
            blocks.append(ResidualBlock(before, width, 1 if stage == 0 else 2, config.norm))
            blocks.append(ResidualBlock(width, width, 1, config.norm))
            before = width
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(widths[-1], config.output_size)

    def forward(
        self, x: Tensor, state: Any = None, *, time: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The output (B, output_size), as of a sequence model."""
        for name, value in (("state", state), ("time", time), ("lengths", lengths)):
            if value is not None:
                raise ValueError(f"{name}: a ResNet takes only whole images of one size")
        height, width = self.config.height, self.config.image_width
        if x.ndim != 3 or x.shape[1] != height * width:
            raise ValueError(f"x: expected (B, {height} * {width}, channels), got {tuple(x.shape)}")
        # In the plain order: with channels last, oneDNN's gradients write past their memory at some sizes (torch 2.13).
        image = x.transpose(1, 2).unflatten(2, (height, width)).contiguous()
        features = self.blocks(self.stem(image))
        return self.linear(features.mean((2, 3))), None


class ResidualBlock(nn.Module):
    """ReLU(x + norm(conv(ReLU(norm(conv(x)))))); where the size changes, x goes through a 1 x 1 convolution."""

    def __init__(self, before: int, width: int, stride: int, norm: str) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _conv(before, width, stride), NORMS[norm](width), nn.ReLU(), _conv(width, width), NORMS[norm](width)
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), NORMS[norm](width))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, before, height, width)."""
        return nn.functional.relu(self.branch(x) + self.shortcut(x))


# Layer norm of an image is group norm with one group: over features and pixels, with a scale and shift a feature.
NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "layer": lambda width: nn.GroupNorm(1, width)}


def _conv(before: int, width: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
    nn.init.normal_(conv.weight, std=math.sqrt(2 / (9 * width)))  # He's, by the size of what goes out
    return conv
