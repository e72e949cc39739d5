"""Random orders that stay the same whatever the versions of numpy and torch."""

import numpy as np
from numpy.typing import NDArray


def shuffled(count: int, seed: int) -> NDArray[np.int64]:
    """The numbers 0 to count - 1 in a random order that is the same for every version of numpy and torch.

    numpy guarantees the raw output of PCG64, but not the result of its `permutation`.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")
