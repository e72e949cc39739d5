"""Random orders and bits are the same for ever."""

import numpy as np

from longwave.core.random import GOLDEN, mixed, shuffled


def test_shuffled_is_pinned():
    assert shuffled(10, 0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]
    assert shuffled(10, 1).tolist() == [9, 2, 4, 7, 5, 0, 8, 6, 3, 1]


def test_mixed_bits_are_those_of_splitmix64():
    """The first outputs of its reference implementation with seed 1234567."""
    states = np.uint64(1234567) + GOLDEN * np.arange(1, 4, dtype=np.uint64)
    assert mixed(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]
