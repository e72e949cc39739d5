"""What the C library does with memory that tensors free."""

import ctypes
import sys


def keep_memory() -> None:
    """Have the C library keep the memory that tensors free, for the next step of a training run to use again.

    By default glibc gives large blocks back to the system, which hands out, page by page, zeroed ones a moment later: a
    tenth to a fifth of a step. Nothing happens where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_threshold, 2**30)
