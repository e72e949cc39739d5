"""Random orders are the same for ever."""

from longwave.data.random import shuffled


def test_shuffled_is_pinned():
    assert shuffled(10, 0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]
    assert shuffled(10, 1).tolist() == [9, 2, 4, 7, 5, 0, 8, 6, 3, 1]
