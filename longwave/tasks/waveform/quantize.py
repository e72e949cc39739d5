"""Audio samples as 256 codes and back: by the mu law, which is finer for quiet sounds, or in equal steps.

The codes are those of S4's authors for their audio models. A code decodes to the middle of its interval, so that it is
encoded as the same code again.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Code = Literal["mu-law", "linear"]
CODES = 256
SILENCE = 128  # the code of 0
EDGE = 0.01  # of a code, kept free at both ends of the range

Samples = NDArray[np.floating]


class Encoding(NamedTuple):
    """Samples in [-1, 1] to codes in equal steps of the compressed sample, and back."""

    compress: Callable[[Any], Any]
    expand: Callable[[Any], Any]

    def encode(self, samples: Samples) -> NDArray[np.uint8]:
        share = (self.compress(np.asarray(samples, np.float64)) + 1) / 2
        return np.floor(share * (CODES - EDGE) + EDGE / 2).astype(np.uint8)

    def decode(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        level = (np.asarray(codes, np.float64) + 0.5) / SILENCE - 1
        return np.asarray(self.expand(level), np.float32)


def scaled(samples: Samples, low: float, high: float) -> NDArray[np.float64]:
    """Samples of a clip, with its lowest and highest, scaled to -1 ... 1; silence stays 0."""
    if not high > low:
        return np.zeros(samples.shape)
    return np.clip((np.asarray(samples, np.float64) - low) * (2 / (high - low)) - 1, -1, 1)


ENCODINGS = {
    "mu-law": Encoding(  # sign(a) ln(1 + 255 |a|) / ln 256
        lambda a: np.sign(a) * np.log1p((CODES - 1) * np.abs(a)) / np.log(CODES),
        lambda b: np.sign(b) * np.expm1(np.abs(b) * np.log(CODES)) / (CODES - 1),
    ),
    "linear": Encoding(np.asarray, np.asarray),
}
