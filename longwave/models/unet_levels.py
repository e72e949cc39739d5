"""The levels of a U-Net: layers, pools between sampling rates, and their states."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from longwave.layers import NORMS, Block
from longwave.layers.block import Dropout

if TYPE_CHECKING:
    from longwave.models.unet import UNetConfig

# How a layer takes steps z (B, L, width) from its state on: by convolution, or by its recurrence.
Run = Callable[[Any, Tensor, Any], tuple[Tensor, Any]]


class LevelState(NamedTuple):
    """The state of a level and of those below it."""

    down: tuple[Any, ...]  # of the layers
    begun: Tensor  # (B, pooling - 1, width) steps of the group that is not complete, then whatever
    below: Any  # of the next level; of the centre, a tuple of those of its layers
    waiting: Tensor  # (B, pooling, width) what the last complete group left for the steps of this one
    up: tuple[Any, ...]


class FeedForward(nn.Module):
    """x + linear(dropout(GELU(linear(norm(x))))), with the interface of a block; there is no state."""

    def __init__(self, d_model: int, hidden: int, norm: str, dropout: float, tie_dropout: bool) -> None:
        super().__init__()
        self.norm = NORMS[norm](d_model)
        self.widen, self.narrow = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)
        self.dropout = Dropout(dropout, tie_dropout)

    def forward(self, x: Tensor, state: tuple[()] | None = None, **_: Any) -> tuple[Tensor, tuple[()]]:
        """x (B, L, d_model)."""
        return x + self.narrow(self.dropout(nn.functional.gelu(self.widen(self.norm(x))))), ()

    def step(self, x: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """One step: x (B, d_model)."""
        y, _ = self(x.unsqueeze(1))
        return y.squeeze(1), ()

    def initial_state(self, batch: int) -> tuple[()]:
        """Nothing."""
        return ()

    def chunk_constants(self, longest: int) -> None:
        """Nothing."""


class DownPool(nn.Module):
    """Pool groups of `size` neighbouring steps into one each; an incomplete group waits for its remaining steps."""

    def __init__(self, size: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.size = size
        self.linear = weight_norm(nn.Linear(inputs * size, outputs))

    def forward(self, z: Tensor, begun: Tensor | None, fill: int) -> tuple[Tensor | None, Tensor]:
        """The groups (B, n, outputs) that z (B, L, inputs) completes, None for n = 0, and what has begun after them.

        `fill` steps of `begun` count.
        """
        if begun is not None and fill:
            z = torch.cat((begun[:, :fill].to(z), z), dim=1)
        groups = z.shape[1] // self.size
        whole, left = z.split((groups * self.size, z.shape[1] % self.size), dim=1)
        left = nn.functional.pad(left, (0, 0, 0, self.size - 1 - left.shape[1]))
        if not groups:
            return None, left
        # Feature by feature, the steps of the group.
        return self.linear(whole.unflatten(1, (groups, self.size)).mT.flatten(2)), left


class UpPool(nn.Module):
    """Expand a step into the `size` steps of the next group."""

    def __init__(self, size: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.size = size
        self.linear = weight_norm(nn.Linear(inputs, outputs * size))

    def forward(self, low: Tensor | None, waiting: Tensor, fill: int, length: int) -> tuple[Tensor, Tensor]:
        """(B, length, outputs) for the steps after the first `fill` of a group, and what waits for those after them.

        `waiting` (B, size, outputs) is for the group that has begun, and low (B, n, inputs) for the n after it.
        """
        z = waiting
        if low is not None:
            z = torch.cat((z.to(low), self.linear(low).unflatten(2, (-1, self.size)).mT.flatten(1, 2)), dim=1)
        return z[:, fill : fill + length], z[:, -self.size :]


class Centre(nn.Module):
    """The lowest level: mixers, with a skip around all of them."""

    def __init__(self, config: "UNetConfig", depth: int) -> None:
        super().__init__()
        wants_all = config.skips == "stages" or config.centre_feed_forward
        self.layers: Any = nn.ModuleList(_layers(config, depth, with_feed_forward=wants_all))

    def forward(self, z: Tensor, state: Any, position: int, run: Run) -> tuple[Tensor, Any]:
        """z (B, L, width), and the states of the layers."""
        skip = z
        states = []
        for layer, before in zip(self.layers, state or [None] * len(self.layers), strict=True):
            z, after = run(layer, z, before)
            states.append(after)
        return z + skip, tuple(states)

    def initial_state(self, batch: int) -> Any:
        """The states before the first step."""
        return tuple(layer.initial_state(batch) for layer in self.layers)

    def chunk_constants(self, longest: int) -> dict[nn.Module, Any]:
        """Constants of each layer for chunks of up to `longest` steps, derived from its parameters."""
        return {layer: layer.chunk_constants(longest) for layer in self.layers}


class Level(nn.Module):
    """Layers on the way down, what lies below at a lower rate, layers on the way up."""

    def __init__(self, config: "UNetConfig", depth: int) -> None:
        super().__init__()
        size, (width, _), (wider, _) = config.poolings[depth], config.at(depth), config.at(depth + 1)
        is_last = depth + 1 == len(config.poolings)
        self.width = width
        self.down: Any = nn.ModuleList(_layers(config, depth) if config.skips == "layers" else [])
        self.pool = DownPool(size, width, wider)
        self.below = Centre(config, depth + 1) if is_last else Level(config, depth + 1)
        self.unpool = UpPool(size, wider, width)
        self.up: Any = nn.ModuleList(_layers(config, depth))

    def forward(self, z: Tensor, state: LevelState | None, position: int, run: Run) -> tuple[Tensor, LevelState]:
        """z (B, L, width) at the steps of this level from `position` on, and the state after them."""
        length, fill = z.shape[1], position % self.pool.size
        skips, down, up = [], [], []
        for k, layer in enumerate(self.down):
            skips.append(z)
            z, after = run(layer, z, None if state is None else state.down[k])
            down.append(after)
        low, begun = self.pool(z, None if state is None else state.begun, fill)
        below = None if state is None else state.below
        if low is not None:
            low, below = self.below(low, below, position // self.pool.size, run)
        elif below is None:
            below = self.below.initial_state(z.shape[0])
        waiting = self._nothing(z.shape[0], self.pool.size) if state is None else state.waiting
        skip = z
        z, waiting = self.unpool(low, waiting, fill, length)
        z = z + skip
        around = None if skips else z
        for k, layer in enumerate(self.up):
            z, after = run(layer, z, None if state is None else state.up[k])
            z = z + skips.pop() if skips else z
            up.append(after)
        z = z if around is None else z + around
        return z, LevelState(tuple(down), begun, below, waiting, tuple(up))

    def initial_state(self, batch: int) -> LevelState:
        """The state before the first step."""
        down, up = (tuple(layer.initial_state(batch) for layer in layers) for layers in (self.down, self.up))
        size = self.pool.size
        begun, waiting = self._nothing(batch, size - 1), self._nothing(batch, size)
        return LevelState(down, begun, self.below.initial_state(batch), waiting, up)

    def chunk_constants(self, longest: int) -> dict[nn.Module, Any]:
        """Constants of each layer, also of lower levels, for chunks of up to `longest` steps."""
        own = {layer: layer.chunk_constants(longest) for layer in (*self.down, *self.up)}
        return own | self.below.chunk_constants(longest // self.pool.size + 1)

    def _nothing(self, batch: int, steps: int) -> Tensor:
        return self.pool.linear.bias.new_zeros(batch, steps, self.width)


def _layers(config: "UNetConfig", depth: int, with_feed_forward: bool = True) -> list[nn.Module]:
    """The layers of a level, one way: mixers, each followed by a feed-forward if there is one."""
    width, settings = config.at(depth)
    shared: dict[str, Any] = {"norm": config.norm, "dropout": config.dropout, "tie_dropout": config.tie_dropout}
    found: list[nn.Module] = []
    for _ in range(config.n_layers):
        mixer = settings.build(width)
        found.append(Block(mixer, width, glu=config.glu, mix_features=not mixer.mixes_features, **shared))
        if config.feed_forward and with_feed_forward:
            found.append(FeedForward(width, config.feed_forward * width, **shared))
    return found
