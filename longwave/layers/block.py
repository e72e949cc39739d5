"""One residual block of a deep model: norm, mixer, GELU, dropout, position-wise linear layer with GLU.

With `lengths`, padding has no effect anywhere: the mixer ignores it, and batch norm leaves it out of its statistics.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeGuard, get_args

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.layers.checks import check_beside, check_choice, check_lengths, valid_steps
from longwave.layers.mixer import Mixer

State = Any  # whatever the mixer's state is; None if it has none


class MaskedBatchNorm(nn.Module):
    """Batch norm over rows and steps, (B, L, H), that leaves padding out of its statistics."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d_model: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """`valid` (B, L, 1) says which steps count."""
        if valid is None:
            # The same numbers, by torch's own kernel.
            flat = x.flatten(0, -2)
            out = nn.functional.batch_norm(
                flat,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                self.training,
                self.momentum,
                self.eps,
            )
            return out.view_as(x)
        # Sums over a batch want float32, as torch's own kernel takes them; a product would not hide NaN in the padding.
        dtype, x = x.dtype, torch.where(valid, x, 0).to(torch.promote_types(x.dtype, torch.float32))
        mean, var = self.running_mean, self.running_var
        if self.training:
            count = valid.sum().clamp(min=1)
            mean = x.sum((0, 1)) / count
            var = torch.where(valid, x - mean, 0).square().sum((0, 1)) / count
            with torch.no_grad():
                unbiased = var * (count / (count - 1).clamp(min=1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        return ((x - mean) * (torch.rsqrt(var + self.eps) * self.weight) + self.bias).to(dtype)


class LayerNorm(nn.LayerNorm):
    """Layer norm, which needs no mask."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise the features of each step."""
        return super().forward(x)


class ScalarNorm(nn.Module):
    """weight (x - mean + shift) / std of the features of each step, with one weight and one shift for all features.

    The authors' code has it where sequences are (B, H, L), under the name of a layer norm. It is none: what the shift
    adds is divided too, and there is no epsilon. Features that are all equal, as in padding, are divided by 1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model < 2:
            raise ValueError(
                f"norm: scalar needs at least 2 features to take a standard deviation, got d_model {d_model}"
            )
        self.weight, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise the features of each step, which needs no mask."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
        scale = self.weight * torch.where(var > 0, var, 1).rsqrt()
        return ((wide - (mean - self.shift)) * scale).to(x.dtype)  # two passes over x, not three


NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": LayerNorm, "batch": MaskedBatchNorm, "scalar": ScalarNorm}


class Dropout(nn.Module):
    """Dropout; tied over length, one mask per row and feature serves all steps."""

    def __init__(self, p: float, tied: bool) -> None:
        super().__init__()
        self.p, self.tied = p, tied

    def forward(self, x: Tensor) -> Tensor:
        """Drop features with probability p, in training."""
        keep = self.mask(x)
        if keep is not None:
            return x * keep.unsqueeze(1)
        return nn.functional.dropout(x, self.p, self.training)

    @property
    def is_on(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.p > 0

    def mask(self, x: Tensor) -> Tensor | None:
        """A mask (B, H) of 0 or 1/(1-p), shared by all steps of x (B, L, H); None without dropout."""
        if not self.is_on or not self.tied:
            return None
        return nn.functional.dropout(x.new_ones(x.shape[0], x.shape[2]), self.p)


DropoutPlace = Literal["mixer", "activation", "linear"]
DROPOUT_PLACES: tuple[DropoutPlace, ...] = get_args(DropoutPlace)


class Block(nn.Module):
    """x + linear(dropout(GELU(mixer(norm(x))))), and likewise for an optional feed-forward sublayer.

    norm          "layer", "batch" or "scalar" (see NORMS)
    prenorm       the norm stands before the mixer, or (False) after the residual sum
    dropout_after where features are dropped: after the "mixer", the "activation" (GELU), the "linear" layer with its
                  GLU. A mixer that mixes the features itself has one place, its output, whatever is given here
    tie_dropout   one dropout mask for all steps
    glu           the position-wise linear layer ends in a gated linear unit
    feed_forward  width of the hidden layer of the feed-forward sublayer, 0 for none
    mix_features  GELU and linear layer behind the mixer; False for a mixer that mixes the features itself, as attention
    """

    def __init__(
        self,
        mixer: Mixer,
        d_model: int,
        *,
        norm: str = "layer",
        prenorm: bool = True,
        dropout: float = 0.0,
        dropout_after: Sequence[str] = ("activation",),
        tie_dropout: bool = False,
        glu: bool = True,
        feed_forward: int = 0,
        mix_features: bool = True,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, sorted(NORMS))
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected a probability in [0, 1), got {dropout}")
        check_places(dropout_after)
        if not mixer.return_state:
            raise ValueError(
                "mixer: expected one with return_state=True, got False; a block needs the output and the state"
            )
        self.mixer, self.prenorm, self.glu, self.dropout_after = mixer, prenorm, glu, tuple(dropout_after)
        self.norm = NORMS[norm](d_model)
        self.dropout = Dropout(dropout, tie_dropout)
        self.linear = nn.Linear(d_model, 2 * d_model if glu else d_model) if mix_features else None
        self.feed_forward = None
        if feed_forward:
            self.feed_forward_norm = NORMS[norm](d_model)
            self.feed_forward = nn.Sequential(
                nn.Linear(d_model, feed_forward),
                nn.GELU(),
                Dropout(dropout, tie_dropout),
                nn.Linear(feed_forward, d_model),
            )

    def forward(
        self,
        x: Tensor,
        state: State = None,
        *,
        lengths: Tensor | None = None,
        valid: Tensor | None = None,
        rate: float = 1.0,
        need_state: bool = True,
        constants: Any = None,
        cu_seqlens: Tensor | None = None,
        gaps: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """x (B, L, H) and the mixer's state after it; `constants`, `cu_seqlens` and `gaps` are the mixer's.

        `valid` (B, L, 1) is what `lengths` means, step by step. Without it the block works it out, and hides what
        stands in the padding; a model does both once for all its blocks.
        """
        self._check_device(x)
        if lengths is not None and valid is None:
            lengths = check_lengths(lengths, x)
            valid = valid_steps(lengths, x)
            x = torch.where(valid, x, 0)

        z = self._before(x, self.norm, valid)
        settings = {"rate": rate, "need_state": need_state, "constants": constants, "cu_seqlens": cu_seqlens}
        settings |= {} if gaps is None else {"gaps": gaps}
        z, state = self.mixer(z, state, lengths=lengths, **settings)
        return self._after(x, z, valid), state

    def step(
        self, x: Tensor, state: State = None, *, rate: float = 1.0, gap: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """One step of the recurrence: x (B, H); without a state, the first; `gap` (B,) is the mixer's."""
        self._check_device(x)
        x = x.unsqueeze(1)
        given = {} if gap is None else {"gap": gap}
        z, state = self.mixer.step(self._before(x, self.norm, None).squeeze(1), state, rate=rate, **given)
        return self._after(x, z.unsqueeze(1), None).squeeze(1), state

    def initial_state(self, batch: int) -> State:
        """The mixer's state before the first step."""
        return self.mixer.initial_state(batch)

    def chunk_constants(self, longest: int, rate: float = 1.0) -> Any:
        """Constants of the mixer for chunks of up to `longest` steps, derived from its parameters."""
        return self.mixer.chunk_constants(longest, rate)

    def _check_device(self, x: Tensor) -> None:
        check_beside("x", x, getattr(self.norm, "weight", None), self.norm)

    def _before(self, x: Tensor, norm: nn.Module, valid: Tensor | None) -> Tensor:
        """The input of a sublayer: x, normalised if the norm comes first."""
        return norm(x, valid) if self.prenorm else x

    def _after(self, x: Tensor, z: Tensor, valid: Tensor | None) -> Tensor:
        """The rest of the block, from the output z of the mixer."""
        x = self._mix_features(x, z)
        x = x if self.prenorm else self.norm(x, valid)
        if self.feed_forward is not None:
            x = x + self.dropout(self.feed_forward(self._before(x, self.feed_forward_norm, valid)))
            x = x if self.prenorm else self.feed_forward_norm(x, valid)
        return x

    def _mix_features(self, x: Tensor, z: Tensor) -> Tensor:
        """x + linear(GELU(z)), with dropout where it is wanted."""
        if self.linear is None:
            return x + self.dropout(z)
        if self._drops_after("mixer"):
            z = self.dropout(z)
        keep, untied = None, False  # one mask for all steps is a part of the op; others are not
        if self._drops_after("activation"):
            keep, untied = self.dropout.mask(z), not self.dropout.tied
        is_op = is_plain(self.linear) and not untied
        if is_op and self.glu and not self._drops_after("linear"):
            return ops.gated_mix(x, z, keep, self.linear.weight, self.linear.bias)
        if is_op:
            z = ops.mix(z, keep, self.linear.weight, self.linear.bias)
        else:
            z = ops.activate(z, keep)
            z = self.linear(self.dropout(z) if untied else z)
        z = nn.functional.glu(z, dim=-1) if self.glu else z
        return x + (self.dropout(z) if self._drops_after("linear") else z)

    def _drops_after(self, place: DropoutPlace) -> bool:
        return self.dropout.is_on and place in self.dropout_after


def check_places(dropout_after: Sequence[str]) -> None:
    """Refuse unknown places of dropout."""
    unknown = [place for place in dropout_after if place not in DROPOUT_PLACES]
    if isinstance(dropout_after, str) or unknown:
        expected = f"some of {', '.join(DROPOUT_PLACES)}, as a tuple"
        raise ValueError(f"dropout_after: expected {expected}, got {dropout_after!r}")


def is_plain(linear: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a linear layer is its weight and bias: not quantised, adapted, sharded or watched by a hook."""
    return type(linear) is nn.Linear and not (linear._forward_hooks or linear._forward_pre_hooks)
