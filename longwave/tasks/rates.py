"""Sequences at another sampling rate: resampled splits, and training sets at several rates.

A batch then has `rate` (B,), the same for all rows, which multiplies dt: 2 is half the sampling frequency.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longwave.core.random import random_bits
from longwave.tasks.base import Batch, ChangedSplit, Split, part_of_batch

MOST = 64  # the largest factor between sampling rates
FINEST = 1000  # the largest denominator of a rate


def check_rates(rates: Sequence[float], name: str = "rate") -> None:
    """Refuse factors out of range."""
    for rate in rates:
        if not 1 / MOST <= rate <= MOST:
            raise ValueError(f"{name}: expected a number from 1/{MOST} to {MOST} (2: half as many samples), got {rate}")


def ratio(rate: float) -> Fraction:
    """The rate as a fraction, for resampling."""
    return Fraction(rate).limit_denominator(FINEST)


def sampled(x: Tensor, lengths: Tensor | None, rate: Fraction, antialias: bool = False) -> tuple[Tensor, Tensor | None]:
    """x (B, L, channels) and its lengths (B,) at 1/rate of the sampling frequency: ceil(length / rate) steps.

    For an integer rate every rate-th sample is kept, as in the paper, with aliasing. With `antialias`, and for other
    rates, a polyphase filter resamples.
    """
    if rate == 1:
        return x, lengths
    short = None if lengths is None else -(-lengths * rate.denominator // rate.numerator)
    if rate.denominator == 1 and not antialias:
        return x[:, :: rate.numerator].contiguous(), short
    if lengths is None or short is None:
        return torch.from_numpy(_polyphase(x.numpy(), rate)), None
    # Row by row: padding is not part of the signal.
    out = np.zeros((len(x), int(short.max()), x.shape[2]), np.float32)
    for row, own, length, new in zip(out, x.numpy(), lengths.tolist(), short.tolist(), strict=True):
        row[:new] = _polyphase(own[None, :length], rate)[0]
    return torch.from_numpy(out), short


def _polyphase(x: Any, rate: Fraction) -> Any:
    """(B, L, channels), relative to the line from first to last sample, which avoids steps at the ends."""
    from scipy.signal import resample_poly  # slow to import, and seldom needed

    if x.shape[1] == 1:  # one point defines no line
        return np.repeat(x, math.ceil(1 / rate), axis=1)
    found = resample_poly(x, rate.denominator, rate.numerator, axis=1, padtype="line")
    return np.ascontiguousarray(found, dtype=np.float32)


def with_rate(batch: Batch, rate: Fraction, antialias: bool = False) -> Batch:
    """A batch at another rate."""
    x, lengths = sampled(batch["x"], batch.get("lengths"), rate, antialias)
    changed = {"x": x, "rate": torch.full((len(x),), float(rate))}
    return batch | changed | ({} if lengths is None else {"lengths": lengths})


@dataclass(frozen=True, eq=False)
class AtRate(ChangedSplit):
    """A split at another sampling rate."""

    rate: Fraction
    antialias: bool = False

    def batch(self, indices: Sequence[int]) -> Batch:
        return with_rate(self.split.batch(indices), self.rate, self.antialias)


@dataclass(frozen=True, eq=False)
class AtDrawnRates(ChangedSplit):
    """A training set of one epoch, each batch at a rate drawn by seed, epoch and the first example of the batch."""

    rates: tuple[float, ...]
    epoch: int
    seed: int
    antialias: bool = False

    def rate(self, whole: Sequence[int]) -> Fraction:
        draw = int(random_bits(self.seed, self.epoch, np.array(whole[:1]))[0])
        return ratio(self.rates[draw % len(self.rates)])

    def batch(self, indices: Sequence[int]) -> Batch:
        return self.batch_within(indices, indices)

    def batch_within(self, indices: Sequence[int], whole: Sequence[int], place: float = 0.0) -> Batch:
        """The examples at `indices`, at the rate of the batch `whole` that they are a part of."""
        return with_rate(part_of_batch(self.split, indices, whole, place), self.rate(whole), self.antialias)


def drawn(split: Split, rates: tuple[float, ...], epoch: int, seed: int, antialias: bool = False) -> Split:
    """The training set of an epoch at these rates; none: unchanged."""
    return AtDrawnRates(split, rates, epoch, seed, antialias) if rates else split
