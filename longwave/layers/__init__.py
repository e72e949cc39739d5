"""Sequence layers with one interface: forward(u, state) -> (y, state), initial_state(batch), step(u_t, state)."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from longwave.layers.attention import Attention
from longwave.layers.block import NORMS, Block
from longwave.layers.linear_attention import LinearAttention
from longwave.layers.lssl import LSSL
from longwave.layers.recurrent import Recurrent
from longwave.layers.s4 import DPLR, S4

MIXERS: dict[str, Callable[..., nn.Module]] = {
    "s4": S4,
    "lssl": LSSL,
    "attention": Attention,
    "attention-stored": partial(Attention, stored=True),
    "linear-attention": LinearAttention,
    "performer": partial(LinearAttention, feature_map="random"),
    "lstm": partial(Recurrent, kind="lstm"),
    "gru": partial(Recurrent, kind="gru"),
}

__all__ = [
    "DPLR",
    "LSSL",
    "MIXERS",
    "NORMS",
    "S4",
    "Attention",
    "Block",
    "LinearAttention",
    "Recurrent",
    "make_mixer",
]


def make_mixer(name: str, d_model: int, settings: Mapping[str, Any]) -> nn.Module:
    """The mixer `name`, with those of the settings that its constructor takes: heads say nothing to an LSTM."""
    if name not in MIXERS:
        raise ValueError(f"mixer: expected one of {', '.join(MIXERS)}, got {name!r}")
    understood = inspect.signature(MIXERS[name]).parameters.keys() & settings.keys() - {"d_model"}
    return MIXERS[name](d_model, **{key: settings[key] for key in understood})
