"""The order of the examples: it follows from seed and epoch alone, so that a resumed run sees the same batches."""

import math
from collections.abc import Sequence

import torch


def epoch_batches(
    count: int, size: int, seed: int, epoch: int, lengths: Sequence[int] | None = None, bucket: int = 0
) -> list[list[int]]:
    """Every example once, in batches of `size`; the last may be smaller.

    With `bucket`, those of so many batches at a time are sorted by length before they are cut into batches, which then
    come in a random order: the rows of a batch are of similar length, and little of it is padding.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(count, generator=generator).tolist()
    if not bucket:
        return _cut(order, size)
    assert lengths is not None
    batches = []
    for chunk in _cut(order, bucket * size):
        batches += _cut(sorted(chunk, key=lambda k: lengths[k]), size)
    return [batches[k] for k in torch.randperm(math.ceil(count / size), generator=generator).tolist()]


def evaluation_batches(count: int, size: int, lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Every example once, in batches of `size`: in order, or, with lengths, the shortest first."""
    order = list(range(count))
    return _cut(order if lengths is None else sorted(order, key=lambda k: lengths[k]), size)


def _cut(order: list[int], size: int) -> list[list[int]]:
    return [order[start : start + size] for start in range(0, len(order), size)]
