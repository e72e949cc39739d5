"""Pathfinder and Path-X: do two marked ends belong to one snake of dashes? Images of two classes, drawn or published.

settings.py   what an image of each set consists of
tables.py     lookup tables that images are composed from, as integers
snakes.py     images from these, in numpy
compiled.py   the same images from the compiled library
layout.py     the files of the Long Range Arena: written and read
"""

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from longwave.core.native import Unavailable, load
from longwave.core.random import numbered_bits
from longwave.tasks.pathfinder import compiled, snakes
from longwave.tasks.pathfinder.settings import LEVELS, SETTINGS, Setting
from longwave.tasks.pathfinder.snakes import Drawn, Paddle
from longwave.tasks.pathfinder.tables import tables_of

__all__ = ["LEVELS", "SETTINGS", "Drawn", "Paddle", "Setting", "draw", "keys"]


def keys(seed: int, numbers: Iterable[int]) -> NDArray[np.uint64]:
    """The key of each image of a set, from the seed of the set and the number of the image."""
    return numbered_bits(seed, np.array(list(numbers), np.uint64))


def draw(setting: Setting, keys: NDArray[np.uint64], together: int = 50) -> Iterator[Drawn]:
    """The images of some keys, by the compiled library, or else by numpy: identical, many times slower."""
    try:
        load()
    except Unavailable as reason:
        warnings.warn(f"longwave draws its images with numpy, slowly: {reason}", RuntimeWarning, stacklevel=2)
        yield from (snakes.draw(tables_of(setting), int(key)) for key in keys)
        return
    for k in range(0, len(keys), together):
        yield from compiled.draw(setting, keys[k : k + together])
