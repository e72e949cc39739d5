"""The compiled library (ops/cpu/native.cpp), opened with ctypes; without torch, so that data is made without it, too.

`load()` gives the library or raises `Unavailable` with the reason. Where torch was imported first, both share one
OpenMP.
"""

import ctypes
import functools
import os
from pathlib import Path

ABI = 10  # of native.cpp
FOLDER = Path(__file__).parents[1] / "ops" / "cpu"
LIBRARY = "_native.so"  # as setup.py names it, on every platform
VECTOR_BITS = (128, 256, 512)


class Unavailable(RuntimeError):
    """Something compiled was asked for that cannot run here."""


@functools.cache
def load() -> ctypes.CDLL:
    """The shared library that setup.py built, held to LONGWAVE_VECTOR_BITS."""
    limit = _vector_limit()
    path = FOLDER / LIBRARY
    if not path.exists():
        raise Unavailable(
            f"no compiled library in {path.parent}: longwave was installed without a C++ compiler. "
            "Install one (for example g++) and install longwave again"
        )
    try:
        library = ctypes.CDLL(str(path))
        abi = library.longwave_abi()
    except (OSError, AttributeError) as error:
        raise Unavailable(f"{path} does not load: {error}") from error
    if abi != ABI:
        raise Unavailable(f"{path} was built from another version of longwave: install longwave again")
    library.longwave_limit_vectors(limit)
    return library


def _vector_limit() -> int:
    """The widest vectors that the library may use, whatever the CPU has."""
    asked = os.environ.get("LONGWAVE_VECTOR_BITS", "")
    widths = {str(bits): bits for bits in VECTOR_BITS}
    if asked and asked not in widths:
        raise ValueError(f"LONGWAVE_VECTOR_BITS: expected one of {', '.join(widths)}, got {asked!r}")
    return widths.get(asked, max(VECTOR_BITS))
