"""Memory for weights that every step reads from beginning to end, in huge pages where the system has them.

A processor reads ahead within a page only. In pages of 4 KB it starts anew, and looks up an address, every 64 lines; a
step of a model that is larger than the caches then takes a third longer than the memory would allow.
"""

import contextlib
import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

PAGE = 2 << 20  # bytes of a huge page
CHUNK = 32 << 20  # that are asked for at once; those that nothing is written to take no memory
LINE = 64


class Arena:
    """Uninitialised tensors one behind the other, each of which starts on a cache line.

    A model of less than a huge page fits into the caches, and has no use for one.
    """

    def __init__(self) -> None:
        self._given = 0
        self._free = torch.empty(0, dtype=torch.uint8)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor on the CPU."""
        size = math.prod(shape) * dtype.itemsize
        self._given += size
        if self._given < PAGE:
            return torch.empty(shape, dtype=dtype, device="cpu")
        room = -(-size // LINE) * LINE
        if room > len(self._free):
            self._free = huge_pages(max(room, CHUNK))
        found, self._free = self._free[:size], self._free[room:]
        return found.view(dtype).view(shape)


def huge_pages(size: int) -> Tensor:
    """At least `size` bytes that begin with a huge page; of ordinary ones where there are no others."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # only Linux lets a process ask
        return torch.empty(size, dtype=torch.uint8, device="cpu")
    memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    return whole[-whole.data_ptr() % PAGE :]
