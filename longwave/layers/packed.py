"""Packed batches: sequences of different lengths laid end to end in one row, (1, total, H), without padding.

One convolution over the row would leak from a sequence into the next. So sequences of similar lengths are padded to
groups, each of which is a batch of its own; all groups together are at most SLACK times the row.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from longwave.layers.checks import describe

SLACK = 1.25  # steps of a group with its padding, over those without, at most

Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]  # rows (n, L, H) and their lengths to outputs and states


def check_packed(cu_seqlens: Tensor, u: Tensor, **others: object) -> list[int]:
    """The lengths of the sequences in u (1, total, H): cu_seqlens (n + 1,) says where each begins, and where all end.

    `others` are arguments that only a padded batch has.
    """
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"{name}: expected None beside cu_seqlens, since every packed sequence starts from a zero state and "
                f"has no padding, got {describe(value)}; give one of the two"
            )
    if len(u) != 1:
        raise ValueError(f"u: expected one row (1, total, features) beside cu_seqlens, got {describe(u)}")
    bounds, total = torch.as_tensor(cu_seqlens), u.shape[1]
    is_whole = not (bounds.is_floating_point() or bounds.is_complex() or bounds.dtype == torch.bool)
    if bounds.ndim != 1 or len(bounds) < 2 or not is_whole or bounds.is_meta:
        expected = "whole numbers (n + 1,): where each of n sequences begins, and where the last ends"
        raise ValueError(f"cu_seqlens: expected {expected}, got {describe(bounds)}")
    first, *_, last = steps = bounds.tolist()
    lengths = [after - before for before, after in pairwise(steps)]
    if first != 0 or last != total or min(lengths) < 0:
        raise ValueError(
            f"cu_seqlens: expected numbers that begin with 0, never fall, and end with {total}, the steps of u, got "
            f"{describe(steps)}"
        )
    return lengths


def groups(lengths: Sequence[int]) -> list[list[int]]:
    """Which sequences are padded together, the longest first; empty ones are in no group."""
    found: list[list[int]] = []
    steps = 0  # of the last group, without padding
    for k in sorted((k for k, length in enumerate(lengths) if length), key=lambda k: -lengths[k]):
        padded = (len(found[-1]) + 1) * lengths[found[-1][0]] if found else 0
        if not found or padded > SLACK * (steps + lengths[k]):
            found.append([])
            steps = 0
        found[-1].append(k)
        steps += lengths[k]
    return found


def mix_packed(mix: Mix, u: Tensor, lengths: Sequence[int], initial: Tensor) -> tuple[Tensor, Tensor | None]:
    """The outputs (1, total, H) of packed sequences, and the states after each (n, ...) if `mix` gives any.

    `initial` (...) is the state of an empty sequence.
    """
    sequences = u[0].split(list(lengths))
    outputs, states, has_state = list(sequences), [initial] * len(lengths), True
    for group in groups(lengths):
        longest, padding = lengths[group[0]], u.new_zeros(lengths[group[0]], u.shape[2])
        pieces = [piece for k in group for piece in (sequences[k], padding[lengths[k] :])]
        rows = torch.cat(pieces).view(len(group), longest, -1)
        y, after = mix(rows, torch.tensor([lengths[k] for k in group], device=u.device))
        has_state = after is not None
        # Split and unbind, not slices: the gradient of a slice is as large as what it is a slice of.
        kept = y.flatten(0, 1).split([len(piece) for piece in pieces])[::2]
        for j, k in enumerate(group):
            outputs[k] = kept[j]
        if after is not None:
            for k, state in zip(group, after.unbind(), strict=True):
                states[k] = state
    return torch.cat(outputs).unsqueeze(0), torch.stack(states) if has_state else None
