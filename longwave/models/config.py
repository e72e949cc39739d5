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
    mixer: Literal["s4", "lssl", "attention", "attention-stored", "linear-attention", "performer", "lstm", "gru"] = "s4"
    """What mixes the steps of a sequence in each block; a Transformer is attention with a feed-forward sublayer."""
    d_state: int = 64
    """States of each feature's SSM (s4, lssl; as all settings up to `trainable` but `bidirectional`)."""
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
    heads: int = 4
    """Heads of attention (all four kinds, as the next two)."""
    d_attention: int | None = None
    """Width of queries, keys and values, over all heads; None: d_model."""
    rotary: bool = True
    """Positions, by rotation of queries and keys."""
    features: int = 256
    """Random features of each head (performer)."""
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


@dataclass(frozen=True)
class ResNetConfig:
    """ResNet-18 for small images, the 2-D comparison."""

    width: int = 64
    """Features of the first stage; each of the next three has twice as many."""
    norm: Literal["batch", "layer"] = "batch"
    """Norm behind each convolution; "layer" is over all features and pixels of an image."""
    input_size: int = 3
    """Channels of the input (set by the task)."""
    height: int = 32
    """Rows of the image (set by the task)."""
    image_width: int = 32
    """Columns of the image (set by the task)."""
    output_size: int = 10
    """Classes (set by the task)."""
