"""The compiled library (ops/cpu/native.cpp), opened with ctypes; without torch, which generating data does not need.

`load()` returns the library or raises `Unavailable` with the reason. If torch was imported first, they share OpenMP.
"""

import ctypes
import functools
import os
from pathlib import Path

ABI = 11  # of native.cpp
FOLDER = Path(__file__).parents[1] / "ops" / "cpu"
LIBRARY = "_native.so"  # as setup.py names it, on every platform
VECTOR_BITS = (128, 256, 512)


class Unavailable(RuntimeError):
    """The compiled library cannot run here."""


@functools.cache
def load() -> ctypes.CDLL:
    """The shared library that setup.py built, limited to LONGWAVE_VECTOR_BITS."""
    widest, widths = os.environ.get("LONGWAVE_VECTOR_BITS", ""), [str(bits) for bits in VECTOR_BITS]
    if widest and widest not in widths:
        raise ValueError(f"LONGWAVE_VECTOR_BITS: expected one of {', '.join(widths)}, got {widest!r}")
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
    library.longwave_limit_vectors(int(widest or max(VECTOR_BITS)))
    return library
