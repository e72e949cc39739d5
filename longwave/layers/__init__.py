"""Sequence layers with one interface: forward(u, state) -> (y, state), initial_state(batch), step(u_t, state)."""

from longwave.layers.attention import Attention
from longwave.layers.block import NORMS, Block
from longwave.layers.linear_attention import LinearAttention
from longwave.layers.lssl import LSSL
from longwave.layers.mixer import MIXERS, Mixer, MixerConfig, make_mixer
from longwave.layers.recurrent import Recurrent
from longwave.layers.s4 import S4, S4Config
from longwave.layers.s4d import S4D, S4DConfig
from longwave.layers.state_space import DPLR

__all__ = [
    "DPLR",
    "LSSL",
    "MIXERS",
    "NORMS",
    "S4",
    "S4D",
    "Attention",
    "Block",
    "LinearAttention",
    "Mixer",
    "MixerConfig",
    "Recurrent",
    "S4Config",
    "S4DConfig",
    "make_mixer",
]
