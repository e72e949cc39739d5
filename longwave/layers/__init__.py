"""Sequence layers with one interface: forward(u, state) -> (y, state), initial_state(batch), step(u_t, state)."""

from longwave.layers.attention import Attention
from longwave.layers.block import NORMS, Block
from longwave.layers.linear_attention import LinearAttention
from longwave.layers.lssl import LSSL
from longwave.layers.mixer import MIXERS, Mixer, MixerConfig, make_mixer
from longwave.layers.recurrent import Recurrent
from longwave.layers.s4 import DPLR, S4, S4Config

__all__ = [
    "DPLR",
    "LSSL",
    "MIXERS",
    "NORMS",
    "S4",
    "Attention",
    "Block",
    "LinearAttention",
    "Mixer",
    "MixerConfig",
    "Recurrent",
    "S4Config",
    "make_mixer",
]
