"""Softmax attention as a mixer, with the matrix of weights stored or not, and a cache of keys and values to stream.

Queries and keys are rotated by their position (rotary embedding), so that a weight depends on the distance of two
steps: there is no table of positions to run out of, and a step needs nothing but its own position.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from longwave.layers.checks import check_count, check_states, valid_steps, wrong_state
from longwave.layers.mixer import MIXERS, Mixer, MixerConfig
from longwave.ssm.precision import doubles

ROTARY_BASE = 10_000.0  # the slowest pair of features turns once in about 2 pi times as many steps
LEAST_CAPACITY = 64  # steps that a fresh cache has room for; it doubles when it is full


class Heads(nn.Module):
    """Queries, keys and values, (B, heads, L, d) each, of u (B, L, d_model), and `merge`, the way back."""

    def __init__(self, d_model: int, heads: int, d_attention: int | None, rotary: bool) -> None:
        super().__init__()
        check_count("heads", heads)
        width = d_model if d_attention is None else d_attention
        check_count("d_attention", width)
        if width % heads:
            raise ValueError(f"heads: expected a divisor of the attention's width {width}, got {heads}")
        self.heads, self.d_head, self.rotary = heads, width // heads, rotary
        if rotary and self.d_head % 2:
            raise ValueError(
                f"heads: rotary positions turn pairs of features, so a head needs an even number of them, got {width} "
                f"features in {heads} heads; change heads or d_attention, or set rotary=False"
            )
        self.project = nn.Linear(d_model, 3 * width)
        self.output = nn.Linear(width, d_model)

    def forward(self, u: Tensor, start: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v for u whose first step has position `start`, a number or one for each row (B,)."""
        q, k, v = self.project(u.to(self.project.weight.dtype)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if not self.rotary:
            return q, k, v
        angles = self._angles(positions(start, u.shape[1], u.device))
        cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)
        return _rotate(q, cos, sin), _rotate(k, cos, sin), v

    def merge(self, y: Tensor) -> Tensor:
        """(B, heads, L, d) to (B, L, d_model)."""
        merged: Tensor = self.output(y.transpose(1, 2).flatten(-2))
        return merged

    def _angles(self, steps: Tensor) -> Tensor:
        # In float64: a position of 10^5 times a frequency has too few digits behind the point in float32.
        (steps,) = doubles(steps)
        pair = torch.arange(self.d_head // 2, dtype=steps.dtype, device=steps.device)
        return steps.unsqueeze(-1) * ROTARY_BASE ** (-2 * pair / self.d_head)


def positions(start: int | Tensor, length: int, device: torch.device) -> Tensor:
    """Positions of `length` steps from `start` on: (L,), or (B, 1, L) if each row has its own start."""
    steps = torch.arange(length, device=device)
    return steps + (start if isinstance(start, int) else start.to(device)[:, None, None])


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Cache(NamedTuple):
    """The keys and values so far: an immutable state to its holder, extended in constant time.

    keys, values  (B, heads, capacity, d), 0 after a row's last step
    steps         steps of the longest row
    row_steps     steps of each row (B,), or None if all have `steps`
    written       [steps of all rows together that were ever written into these buffers], shared by all their holders.
                  Only the holder of them all writes in place, behind what any other holder sees; another one copies
    """

    keys: Tensor
    values: Tensor
    steps: int
    row_steps: Tensor | None
    written: list[int]

    @property
    def start(self) -> int | Tensor:
        """The position of the next step, one for each row if they differ."""
        return self.steps if self.row_steps is None else self.row_steps

    def extended(self, keys: Tensor, values: Tensor, lengths: Tensor | None = None) -> "Cache":
        """Append keys and values (B, heads, L, d), or the first `lengths` steps of each row."""
        batch, _, L, _ = keys.shape
        if lengths is None and self.row_steps is None:
            steps, row_steps, total = self.steps + L, None, batch * (self.steps + L)
        else:
            before = torch.as_tensor(self.start, device=keys.device).expand(batch)
            row_steps = before + (L if lengths is None else lengths)
            steps, total = int(row_steps.max()), int(row_steps.sum())
        kept = self if self._may_write(steps, keys) else self._copy(steps)
        if row_steps is None:
            kept.keys[:, :, self.steps : steps] = keys
            kept.values[:, :, self.steps : steps] = values
        else:
            row, step = (torch.arange(L, device=keys.device) < (row_steps - before).unsqueeze(-1)).nonzero().unbind(-1)
            kept.keys[row, :, before[row] + step] = keys[row, :, step].to(kept.keys.dtype)
            kept.values[row, :, before[row] + step] = values[row, :, step].to(kept.values.dtype)
        kept.written[0] = total
        return Cache(kept.keys, kept.values, steps, row_steps, kept.written)

    def _may_write(self, steps: int, new: Tensor) -> bool:
        total = len(self.keys) * self.steps if self.row_steps is None else int(self.row_steps.sum())
        differentiable = self.keys.requires_grad or (torch.is_grad_enabled() and new.requires_grad)
        frozen = self.keys.is_inference() and not torch.is_inference_mode_enabled()
        return total == self.written[0] and steps <= self.keys.shape[2] and not differentiable and not frozen

    def _copy(self, steps: int) -> "Cache":
        """Copy the cache into its own buffers, with room for `steps`."""
        capacity = max(LEAST_CAPACITY, 1 << (steps - 1).bit_length())
        keys, values = self.keys[:, :, : self.steps], self.values[:, :, : self.steps]
        if self.row_steps is not None:  # another holder may have written behind the end of a row
            mine = (torch.arange(self.steps, device=keys.device) < self.row_steps.unsqueeze(-1))[:, None, :, None]
            keys, values = torch.where(mine, keys, 0), torch.where(mine, values, 0)
        room = (0, 0, 0, capacity - self.steps)
        return self._replace(
            keys=nn.functional.pad(keys, room), values=nn.functional.pad(values, room), written=list(self.written)
        )


class Attention(Mixer):
    """y, state = layer(u) for u (B, L, d_model); y_t, state = layer.step(u_t, state) with the keys and values so far.

    heads          number of heads
    d_attention    width of queries, keys and values, over all heads; None: d_model
    rotary         positions by rotation of queries and keys; without, steps differ by what they hold alone
    bidirectional  every step sees every other; then there is no state and no step
    stored         the (L, L) matrix of weights is stored, as in the paper's Transformer; else torch's
                   scaled_dot_product_attention, which computes it in tiles
    return_state   False: forward returns y alone, as nn.Sequential expects; `step` returns (y_t, state) all the same
    """

    mixes_features = True
    shown = ("d_model", "bidirectional", "stored", "return_state")

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        d_attention: int | None = None,
        rotary: bool = True,
        bidirectional: bool = False,
        stored: bool = False,
        return_state: bool = True,
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state)
        self.heads = Heads(d_model, heads, d_attention, rotary)
        self.stored = stored

    def _mix(
        self,
        u: Float[Tensor, "batch L d_model"],
        state: Cache | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L d_model"], Cache | None]:
        """In O(L^2) time; with a state, a boolean mask (L, steps so far) is stored.

        A step, in O(steps so far), is appended to the cache in place, or to a copy if gradients are wanted.
        """
        q, k, v = self.heads(u, 0 if state is None else state.start)
        if self.bidirectional:
            # A row of no steps sees its first one: a softmax over nothing is not a number.
            mask = None if lengths is None else valid_steps(lengths.clamp(min=1), u).squeeze(-1)[:, None, None]
            y = self._attend(q, k, v, mask)
        elif state is None:  # padding stands behind all steps that count, and is not seen from there
            y = self._attend(q, k, v, None, causal=True)
            state = self._initial_state(len(u)).extended(k, v, lengths) if need_state else None
        else:
            y, state = self._attend_from(state, q, k, v, lengths)
        return self.heads.merge(y), state

    def _initial_state(self, batch: int) -> Cache:
        """An empty cache."""
        weight = self.heads.project.weight
        empty = weight.new_zeros(batch, self.heads.heads, LEAST_CAPACITY, self.heads.d_head)
        return Cache(empty, empty.clone(), 0, None, [0])

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return self.heads.project.weight, self.heads.project

    def _attend_from(
        self, state: Cache, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Cache]:
        """Append to the cache, then attend; a step's place in the cache is its position."""
        after = state.extended(k, v, lengths)
        mask = None
        if q.shape[2] > 1 or after.row_steps is not None:
            places = torch.arange(after.steps, device=q.device)
            mask = places <= positions(state.start, q.shape[2], q.device).unsqueeze(-1)
        keys, values = (x[:, :, : after.steps].to(q.dtype) for x in (after.keys, after.values))
        return self._attend(q, keys, values, mask), after

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        if not self.stored:
            return nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1) @ v

    def _check_state(self, state: Cache, batch: int, device: torch.device) -> None:
        heads, d = self.heads.heads, self.heads.d_head
        fits = isinstance(state, Cache) and isinstance(state.keys, Tensor) and state.keys.ndim == 4
        if fits:
            shape = batch, heads, state.keys.shape[2], d
            parts: dict[str, tuple[object, tuple[int, ...], bool]]
            parts = {"keys": (state.keys, shape, True), "values": (state.values, shape, True)}
            if state.row_steps is not None:
                parts["row_steps"] = state.row_steps, (batch,), False
            fits = check_states(device, **parts)
        if not fits:
            raise wrong_state(state, f"a Cache of {batch} rows, {heads} heads and {d} features each")


@MIXERS.register("attention")
@dataclass(frozen=True)
class AttentionConfig(MixerConfig):
    """Softmax attention; with a feed-forward sublayer in each block the model is a Transformer."""

    layer: ClassVar[type[Mixer]] = Attention
    has_fixed_state = False  # the keys and values of every step are kept
    heads: int = 4
    """Attention heads."""
    d_attention: int | None = None
    """Width of queries, keys and values, over all heads; None: d_model."""
    rotary: bool = True
    """Rotary positions of queries and keys."""
    bidirectional: bool = False
    """Bidirectional; can stream only with a sliding window."""


@MIXERS.register("attention-stored")
@dataclass(frozen=True)
class StoredAttentionConfig(AttentionConfig):
    """Softmax attention that stores the matrix of weights, as most code did when the paper was written."""

    fixed: ClassVar[dict[str, Any]] = {"stored": True}
