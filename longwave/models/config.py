"""The settings of a model: everything that config.json must hold to build it again."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelConfig:
    """A model from input to output; the defaults are the paper's common settings (S4, LegS, 64 states, GELU, GLU)."""

    d_model: int = 128
    """Features of every layer."""
    n_layers: int = 2
    """Residual blocks."""
    mixer: Literal["s4"] = "s4"
    """What mixes the steps of a sequence in each block."""
    d_state: int = 64
    """States of each feature's SSM."""
    init: Literal["legs", "legt", "lagt"] = "legs"
    """Initialisation of the SSMs."""
    bidirectional: bool = False
    """Look both ways; such a model cannot stream."""
    length: int | None = None
    """The one length of training, where there is one: then C~ is the parameter (docs: which mode when)."""
    n_ssm: int | None = None
    """Number of distinct (Lambda, P, B) that the features share."""
    dt_min: float = 0.001
    """Lower bound of the initial dt."""
    dt_max: float = 0.1
    """Upper bound of the initial dt."""
    trainable: bool = True
    """Train dt, Lambda, P and B."""
    norm: Literal["layer", "batch"] = "layer"
    """Norm of each block."""
    prenorm: bool = True
    """The norm stands before the mixer, not after the residual sum."""
    dropout: float = 0.0
    """Dropout probability."""
    tie_dropout: bool = False
    """One dropout mask for all steps of a row."""
    glu: bool = True
    """Gated linear unit behind the position-wise linear layer."""
    feed_forward: int = 0
    """Width of a feed-forward sublayer in each block, 0 for none."""
    decoder: Literal["mean", "last", "sequence", "forecast"] = "mean"
    """Mean over the steps, the last step, every step, or the last `horizon` steps."""
    window: Literal["none", "last", "standard"] = "none"
    """Forecasts only: shift each window by its last known value, or standardise it by its known part."""
    input_size: int = 1
    """Channels of the input (set by the task)."""
    vocabulary: int = 0
    """Number of tokens, if the input is tokens (set by the task)."""
    time_size: int = 0
    """Features of time beside the input (set by the task)."""
    output_size: int = 1
    """Numbers that the model puts out, for the whole sequence or for each step (set by the task)."""
    horizon: int = 0
    """Steps to forecast (set by the task)."""
