"""Sequence layers with one interface: forward(u, state) -> (y, state), initial_state(batch), step(u_t, state)."""

from longwave.layers.s4 import DPLR, S4

__all__ = ["DPLR", "S4"]
