"""Pooling for streams: at every hop the decoder gets the step itself, or a mean over the past or a window.

A pooling is called with the features (B, L, d_model) of the next steps and with how many steps came before, and gives
what becomes due: (B, n, d_model). Its state has the same size after any number of steps.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from longwave.ops.checks import has_float64


class EachHop:
    """The features of every `hop`-th step, without a state, for the decoders "last" and "sequence"."""

    def __init__(self, hop: int, window: int | None, shape: tuple[int, int], like: Tensor) -> None:
        if window is not None:
            raise ValueError(f"window: expected None, because this model does not average over steps, got {window}")
        self.hop = hop
        self.state: dict[str, Tensor] = {}

    def __call__(self, z: Tensor, before: int) -> Tensor:
        return z[:, -(before + 1) % self.hop :: self.hop]


class MeanOfAll:
    """The mean over the whole past, from a running sum."""

    def __init__(self, hop: int, window: int | None, shape: tuple[int, int], like: Tensor) -> None:
        self.hop = hop
        self.state = {"sum": _wide_zeros(shape, like)}

    def __call__(self, z: Tensor, before: int) -> Tensor:
        sums = self.state["sum"].unsqueeze(1) + z.to(self.state["sum"]).cumsum(1)
        self.state = {"sum": sums[:, -1].clone()}
        ends = _ends(before, z.shape[1], self.hop, sums)
        return (sums[:, ends - before - 1] / ends.unsqueeze(-1)).to(z)


class MeanOfWindow:
    """The mean over the last `window` steps, exact at every hop.

    Both are whole numbers of blocks of gcd(window, hop) steps. Kept are the sums of the blocks in the window, in a ring
    where block k stands at k modulo their number, the sum of the block that has begun, and the sum over the ring, which
    is taken anew each time that the ring has gone round: so rounding cannot add up over a long stream.
    """

    def __init__(self, hop: int, window: int, shape: tuple[int, int], like: Tensor) -> None:
        self.hop, self.window, self.block = hop, window, math.gcd(hop, window)
        self.blocks = window // self.block
        self.state = {
            "ring": _wide_zeros((self.blocks, *shape), like),
            "sum": _wide_zeros(shape, like),
            "begun": _wide_zeros(shape, like),
        }

    def __call__(self, z: Tensor, before: int) -> Tensor:
        sums = self._sums_of_blocks(z.to(self.state["begun"]), before)  # (blocks that are complete now, B, d_model)
        first, over = before // self.block, [self.state["sum"].unsqueeze(0)[:0]]
        for start in range(0, len(sums), self.blocks):
            over.append(self._go_round(sums[start : start + self.blocks], first + start))
        totals = torch.cat(over)
        ends = _ends(before, z.shape[1], self.hop, totals)
        due = totals[ends // self.block - 1 - first]
        return (due / ends.clamp(max=self.window)[:, None, None]).movedim(0, 1).to(z)

    def _sums_of_blocks(self, z: Tensor, before: int) -> Tensor:
        """The sums of the blocks that end within z; what is left over has begun the next."""
        ends = _ends(before, z.shape[1], self.block, z) - before
        begun, pieces = self.state["begun"], z.tensor_split(ends.tolist(), dim=1) if len(ends) else (z,)
        complete = [z.new_zeros(0, *begun.shape)]
        if len(ends):
            first = begun + pieces[0].sum(1)
            inner = z[:, ends[0] : ends[-1]].unflatten(1, (-1, self.block)).sum(2) if len(ends) > 1 else None
            complete += [first.unsqueeze(0)] if inner is None else [first.unsqueeze(0), inner.movedim(1, 0)]
            begun = torch.zeros_like(begun)
        self.state["begun"] = begun + pieces[-1].sum(1)
        return torch.cat(complete)

    def _go_round(self, sums: Tensor, first: int) -> Tensor:
        """The sum over the window at the end of each of these blocks, at most as many as the ring has places."""
        ring = self.state["ring"]
        places = (first + torch.arange(len(sums), device=sums.device)) % self.blocks
        totals = self.state["sum"] + (sums - ring[places]).cumsum(0)
        ring[places] = sums
        has_gone_round = (first + len(sums)) // self.blocks > first // self.blocks
        self.state["sum"] = ring.sum(0) if has_gone_round else totals[-1].clone()
        return totals


def _mean(hop: int, window: int | None, shape: tuple[int, int], like: Tensor) -> Any:
    if window is None:
        return MeanOfAll(hop, window, shape, like)
    return MeanOfWindow(hop, window, shape, like)


POOLINGS: dict[str, Callable[..., Any]] = {"mean": _mean, "last": EachHop, "sequence": EachHop}  # by the decoder


def _ends(before: int, length: int, every: int, like: Tensor) -> Tensor:
    """The steps that are multiples of `every` among the `length` after `before`, counted from 1."""
    return torch.arange(before // every + 1, (before + length) // every + 1, device=like.device) * every


def _wide_zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros in float64, since step counts and sums outgrow float32 within minutes of audio."""
    return torch.zeros(shape, dtype=torch.float64, device=like.device if has_float64(like.device) else "cpu")
