"""Batches of a run: which examples in which order, and the share of each process."""

import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from longwave.core.random import shuffled
from longwave.experiments.base import LoopConfig
from longwave.tasks.base import Batch, Split, Task, lengths_of, part_of_batch
from longwave.train import signals


class Loading:
    """The batches of a task as the settings of a run and its processes divide them."""

    def __init__(self, task: Task, config: LoopConfig, accelerator: Any) -> None:
        self.task, self.config, self.accelerator = task, config, accelerator
        self.workers = min(config.workers, _cores())  # more would compete for the cores
        for split in (task.train, task.valid, task.test):
            self._lengths(split)  # which refuses a bucket where there are none
        rows, processes = task.carried_rows, accelerator.num_processes
        if rows and (config.batch_size != rows or processes > 1):  # rows would not be those of the batch before
            raise ValueError(
                f"carry_state: expected batches of all {rows} rows (--loop.batch-size {rows}) in one process, got "
                f"{config.batch_size} in {processes}"
            )

    def order(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch, which follow from seed and epoch alone; in order, if a state is carried on."""
        config, train = self.config, self.task.train
        if self.task.carried_rows:
            return evaluation_batches(len(train), config.batch_size)
        lengths = self._lengths(train)
        return epoch_batches(len(train), config.batch_size, config.seed, epoch, lengths, config.bucket)

    def train_batches(self, epoch: int, first: int = 0) -> Iterator[tuple[Batch, bool]]:
        """The batches of an epoch from the `first` on, as `load` gives them."""
        return self.load(self.task.train_at(epoch, self.config.seed), self.order(epoch), first)

    def evaluation_batches(self, split: Split) -> Iterator[tuple[Batch, bool]]:
        """A whole split, each example once, as `load` gives it."""
        return self.load(split, self._evaluation_order(split))

    def in_order(self, split: Split, outputs: list[Tensor]) -> Tensor | None:
        """Reorder results of `evaluation_batches` to the order of the split; None if this process lacks some."""
        if self.accelerator.num_processes > 1 or not outputs:
            return None
        found = torch.cat(outputs)
        rows = torch.tensor([row for batch in self._evaluation_order(split) for row in batch])
        return torch.empty_like(found).index_copy_(0, rows, found)

    def _evaluation_order(self, split: Split) -> list[list[int]]:
        return evaluation_batches(len(split), self.config.eval_batch_size, self._lengths(split))

    def load(self, split: Split, batches: list[list[int]], first: int = 0) -> Iterator[tuple[Batch, bool]]:
        """This process' rows of each batch from the `first` on, on the device, and whether they are its own.

        Where there are fewer rows than processes, those that have none take the first, which is not theirs: every
        process must take part in every forward and backward pass.
        """
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        mine = [(own[rank::world] or own[:1], own, k / len(batches)) for k, own in enumerate(batches)][first:]
        loader: DataLoader[Batch] = DataLoader(
            mine,  # type: ignore[arg-type]
            batch_size=None,
            collate_fn=partial(_fetch, split),  # in the workers
            num_workers=self.workers,
            generator=torch.Generator().manual_seed(self.config.seed),  # else it would draw from the global one
            worker_init_fn=signals.leave_to_the_main_process,
            persistent_workers=False,
        )
        with signals.held_back():
            loaded = iter(loader)
        for batch, whole in zip(loaded, batches[first:], strict=True):
            yield self._on_device(batch), rank < len(whole)

    def some_of(self, split: Split, most: int) -> Iterator[Batch]:
        """Batches of a split, the same in all processes; of a large one, of some rows that are drawn once for all."""
        rows = np.sort(shuffled(len(split), 0)[:most]).tolist()
        size = self.config.eval_batch_size
        for start in range(0, len(rows), size):
            yield self._on_device(split.batch(rows[start : start + size]))

    def _on_device(self, batch: Batch) -> Batch:
        return {name: values.to(self.accelerator.device) for name, values in batch.items()}

    def _lengths(self, split: Split) -> list[int] | None:
        """The lengths of a split's examples, if batches are sorted by length."""
        if not self.config.bucket:
            return None
        lengths = lengths_of(split)
        if lengths is None:
            raise ValueError(
                f"loop.bucket: the examples of {self.task.name} have no lengths of their own; expected 0, got "
                f"{self.config.bucket}"
            )
        return [int(length) for length in lengths]


def epoch_batches(
    count: int, size: int, seed: int, epoch: int, lengths: Sequence[int] | None = None, bucket: int = 0
) -> list[list[int]]:
    """Every example once, in batches of `size`; the last may be smaller. The order follows from seed and epoch alone.

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


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fetch(split: Split, part: tuple[list[int], list[int], float]) -> Batch:
    return part_of_batch(split, *part)
