"""What `block_steps` is given of each residual block."""

from typing import NamedTuple

from torch import Tensor

from longwave.ssm import DiscreteDPLR


class Affine(NamedTuple):
    """A norm: scale and shift (H,), of a row standardised with `eps`, or of the row as it is if that is None.

    `offset` is added to a row that is standardised before it is divided by its deviation.
    """

    scale: Tensor
    shift: Tensor
    eps: float | None
    offset: float = 0.0


class BlockWeights(NamedTuple):
    """The weights of a residual block of an S4 layer, as torch has them; see layers.block.Block."""

    discrete: DiscreteDPLR
    C: Tensor
    D: Tensor
    prenorm: bool
    norm: Affine
    linear: tuple[Tensor, Tensor]  # weight (H or 2H, H) and bias
    feed_forward: tuple[Affine, tuple[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None  # norm, widen, narrow
