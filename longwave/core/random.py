"""Random orders and bits that do not depend on the versions of numpy and torch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of SplitMix64


def shuffled(count: int, seed: int) -> NDArray[np.int64]:
    """A random permutation of 0 to count - 1.

    numpy guarantees the raw output of PCG64 across versions, but not the result of its `permutation`.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")


def random_bits(seed: int, epoch: int, index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 random bits for each index: the output function of SplitMix64, applied to seed, epoch and index in turn."""
    state = np.zeros(len(index), np.uint64)
    for part in (np.uint64(seed % 2**64), np.uint64(epoch), index.astype(np.uint64)):
        state = mixed(state + part + GOLDEN)  # wraps, as it should
    return state


def numbered_bits(seed: int, numbers: NDArray[Any], *roles: int) -> NDArray[np.uint64]:
    """64 random bits for each number, from the seed and the number alone; others in another role."""
    first = mixed(np.array([seed % 2**64], np.uint64) + GOLDEN)
    for role in roles:
        first = mixed(first + np.uint64(role) + GOLDEN)
    return mixed(first + GOLDEN * (numbers.astype(np.uint64) + np.uint64(1)))


def mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits for each state: the output function of SplitMix64, in integers."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # wraps, as it should
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
