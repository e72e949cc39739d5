"""Sequence layers with one interface: forward(u, state) -> (y, state), initial_state(batch), step(u_t, state)."""

from torch import nn

from longwave.layers.block import NORMS, Block
from longwave.layers.s4 import DPLR, S4

MIXERS: dict[str, type[nn.Module]] = {"s4": S4}

__all__ = ["DPLR", "MIXERS", "NORMS", "S4", "Block"]
