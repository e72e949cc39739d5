"""Attention in linear time: exp(q . k) of the softmax becomes a product of features phi(q) . phi(k).

Then a query needs only the sums of phi(k) v and of phi(k) over the keys before it: they are the state, of a size that
does not grow. Two choices of phi: elu(x) + 1 ("linear Transformer"), and random features whose product is an unbiased
estimate of the softmax's exponential ("Performer", FAVOR+).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from longwave.layers.attention import AttentionConfig, Heads
from longwave.layers.checks import check_choice, check_count, check_states, valid_steps, without_autocast, wrong_state
from longwave.layers.mixer import MIXERS, Mixer

BLOCK = 128  # steps that see each other by a matrix of weights; what came before is seen through the sums
EPSILON = 1e-6  # added to every feature: none vanishes, so that no query is left without a key
NOTHING = -1e30  # the logarithm of the scale of an empty sum: finite, because infinities subtract to NaN


class EluFeatures(nn.Module):
    """phi(x) = elu(x) + 1."""

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Features of x (..., d), as many as x has; no scale apart."""
        # Not elu(x) + 1 as it stands: exp(x) - 1 + 1 has lost exp(x) at x = -17 in float32.
        return torch.where(x > 0, x + 1, x.clamp(max=0).exp()) + EPSILON, None


class RandomFeatures(nn.Module):
    """phi(x) = exp(w_i . x' - |x'|^2 / 2) / sqrt(m) with x' = x / d^(1/4): E phi(q) . phi(k) = exp(q . k / sqrt(d)).

    The m vectors w_i are Gaussian, orthogonal in groups of d, drawn once and kept with the weights.
    """

    directions: Tensor

    def __init__(self, d: int, m: int) -> None:
        super().__init__()
        check_count("features", m)
        groups = [_random_rotation(d) for _ in range(-(-m // d))]
        lengths = torch.randn(m, d, dtype=torch.float64).norm(dim=-1, keepdim=True)
        self.register_buffer("directions", (lengths * torch.cat(groups)[:m]).to(torch.get_default_dtype()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features of x (..., d) relative to the largest of them, and its logarithm: no exponential overflows.

        The factor 1 / sqrt(m) and a query's own scale cancel in the quotient of the two sums.
        """
        x = x * x.shape[-1] ** -0.25
        exponents = x @ self.directions.to(x.dtype).mT - x.square().sum(-1, keepdim=True) / 2
        scale = exponents.detach().amax(-1)
        return (exponents - scale.unsqueeze(-1)).exp() + EPSILON, scale


def _random_rotation(d: int) -> Tensor:
    """An orthogonal matrix whose rows point in every direction alike."""
    Q, R = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64))
    # The factorisation leaves signs open, and how routines choose them favours some directions: fix them by R > 0.
    return (Q * torch.diagonal(R).sign()).T


class Sums(NamedTuple):
    """The keys and values so far, summed up.

    sums   (B, heads, m, d + 1): phi(k) v, and in the last column phi(k), both times exp(-scale)
    scale  (B, heads, 1): logarithm of the largest feature so far (random features only)
    steps  (B,): how many steps went in, which is the position of the next
    """

    sums: Tensor
    scale: Tensor
    steps: Tensor


class LinearAttention(Mixer):
    """y, state = layer(u) for u (B, L, d_model); y_t, state = layer.step(u_t, state) in constant time.

    feature_map  "elu": as many features as a head has; "random": `features` of them, an estimate of softmax attention

    The other keywords are those of Attention. Positions are rotated into queries and keys before phi.
    """

    mixes_features = True
    shown = ("d_model", "bidirectional", "features", "return_state")

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        d_attention: int | None = None,
        rotary: bool = True,
        bidirectional: bool = False,
        feature_map: Literal["elu", "random"] = "elu",
        features: int = 256,
        return_state: bool = True,
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state)
        self.heads = Heads(d_model, heads, d_attention, rotary)
        check_choice("feature_map", feature_map, ("elu", "random"))
        d = self.heads.d_head
        self.features = d if feature_map == "elu" else features
        self.feature_map = EluFeatures() if feature_map == "elu" else RandomFeatures(d, features)

    def _mix(
        self,
        u: Float[Tensor, "batch L d_model"],
        state: Sums | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L d_model"], Sums]:
        """In O(L) time, and a step in O(features d_head) per head; the state is the sums so far."""
        valid = None if lengths is None else valid_steps(lengths, u)
        before = self._initial_state(len(u)) if state is None else state
        q, k, v = self.heads(u, 0 if state is None else state.steps)
        with without_autocast(u):
            total, after = self._sum(q, k, v, before, valid)
            weight = total[..., -1:]
            if valid is not None:
                weight = torch.where(valid.unsqueeze(1), weight, 1)
            y = (total[..., :-1] / weight).to(v.dtype)
        steps = u.shape[1] if lengths is None else lengths
        return self.heads.merge(y), after._replace(steps=after.steps + steps)

    def _initial_state(self, batch: int) -> Sums:
        """Empty sums."""
        heads, weight = self.heads.heads, self.heads.project.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        sums = torch.zeros(batch, heads, self.features, self.heads.d_head + 1, dtype=dtype, device=weight.device)
        return Sums(sums, sums.new_full((batch, heads, 1), NOTHING), sums.new_zeros(batch, dtype=torch.int64))

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return self.heads.project.weight, self.heads.project

    def _sum(self, q: Tensor, k: Tensor, v: Tensor, state: Sums, valid: Tensor | None) -> tuple[Tensor, Sums]:
        """Sums of phi(q) . phi(k) v, and in the last column of phi(q) . phi(k), over the keys that each query sees.

        Both carry the same factor, exp(-the largest scale among the keys seen). As a later key cannot change it, an
        output does not depend on the future even by rounding; and as every exponential is at most 1, none overflows.
        """
        q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
        (q, _), (k, scale) = self.feature_map(q), self.feature_map(k)
        v = nn.functional.pad(v, (0, 1), value=1.0)
        if valid is not None:
            k = torch.where(valid.unsqueeze(1), k, 0)
            scale = None if scale is None else torch.where(valid.mT, scale, NOTHING)
        if self.bidirectional:
            if scale is not None:
                k = k * (scale - scale.amax(-1, keepdim=True)).exp().unsqueeze(-1)
            return q @ (k.mT @ v), state
        sums, high, outputs = state.sums.to(q.dtype), state.scale.to(q.dtype), []
        scales = [None] * -(-q.shape[2] // BLOCK) if scale is None else scale.split(BLOCK, dim=2)
        blocks = (x.split(BLOCK, dim=2) for x in (q, k, v))
        for q_b, k_b, v_b, scale_b in zip(*blocks, scales, strict=True):
            weights = q_b @ k_b.mT
            if scale_b is None:
                outputs.append(weights.tril() @ v_b + q_b @ sums)
                sums = sums + k_b.mT @ v_b
                continue
            highest = torch.maximum(scale_b.cummax(-1).values, high)  # (B, heads, block): so far, at each step
            relative = scale_b.unsqueeze(-2) - highest.unsqueeze(-1)
            future = torch.ones(relative.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            weights = weights * relative.masked_fill(future, -math.inf).exp()
            outputs.append(weights @ v_b + (q_b * (high - highest).exp().unsqueeze(-1)) @ sums)
            last = highest[..., -1:]
            k_b = k_b * (scale_b - last).exp().unsqueeze(-1)
            sums = sums * (high - last).exp().unsqueeze(-1) + k_b.mT @ v_b
            high = last
        return torch.cat(outputs, dim=2), Sums(sums, high, state.steps)

    def _check_state(self, state: Sums, batch: int, device: torch.device) -> None:
        heads = self.heads.heads
        expected = (batch, heads, self.features, self.heads.d_head + 1)
        if not isinstance(state, Sums) or not check_states(
            device,
            sums=(state.sums, expected, True),
            scale=(state.scale, (batch, heads, 1), True),
            steps=(state.steps, (batch,), False),
        ):
            raise wrong_state(state, f"Sums of shape {expected}")


@MIXERS.register("linear-attention")
@dataclass(frozen=True)
class LinearAttentionConfig(AttentionConfig):
    """Attention in linear time, with the features elu(x) + 1."""

    layer: ClassVar[type[Mixer]] = LinearAttention


@MIXERS.register("performer")
@dataclass(frozen=True)
class PerformerConfig(LinearAttentionConfig):
    """Attention in linear time, with random features that estimate the softmax."""

    fixed: ClassVar[dict[str, Any]] = {"feature_map": "random"}
    features: int = 256
    """Random features of each head."""
