"""Memory of the compiled steps: tensors one behind the other, in huge pages where there are any."""

import errno
import gc
import mmap

import pytest
import torch

from longwave.ops.cpu import memory
from longwave.ops.cpu.memory import LINE, PAGE, Arena


@pytest.fixture(params=["huge pages", "refused", "no such system"])
def system(request, monkeypatch):
    """What there may be of huge pages."""

    class Refusing(mmap.mmap):
        def madvise(self, *_):
            raise OSError(errno.EINVAL, "no huge pages")

    if request.param == "refused":
        monkeypatch.setattr(memory.mmap, "mmap", Refusing)
    elif request.param == "no such system":
        monkeypatch.delattr(memory.mmap, "MADV_HUGEPAGE", raising=False)


@pytest.mark.usefixtures("system")
def test_tensors_lie_apart_and_keep_their_values():
    arena, sizes = Arena(), [(3, 5), (PAGE // 4,), (7,), (0, 4), (2, memory.CHUNK // 4), (1, 1)]
    kinds = [torch.float32, torch.int8, torch.bfloat16, torch.float16, torch.float32, torch.int32]
    tensors = [arena.empty(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
    for k, (tensor, size, kind) in enumerate(zip(tensors, sizes, kinds, strict=True)):
        assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == (size, kind, True)
        tensor.fill_(k)
    del arena
    gc.collect()
    assert all(tensor.eq(k).all() for k, tensor in enumerate(tensors))
    assert all(tensor.data_ptr() % LINE == 0 for tensor in tensors if tensor.numel())


def test_large_weights_lie_in_order_from_the_start_of_a_page():
    arena = Arena()
    small, first, second = (arena.empty((count,), torch.float32) for count in (10, PAGE // 4, 100))
    assert (arena.empty((1,), torch.float32).data_ptr() - second.data_ptr(), small.numel()) == (448, 10)
    assert second.data_ptr() == first.data_ptr() + PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        assert first.data_ptr() % PAGE == 0


def test_a_small_model_takes_no_page(monkeypatch):
    monkeypatch.setattr(memory, "huge_pages", lambda size: pytest.fail("asked for"))
    arena = Arena()
    for _ in range(100):
        arena.empty((1000,), torch.float32)
