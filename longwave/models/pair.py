"""A model of pairs of sequences: one encoder for both, and a small network on their features."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from longwave.layers.checks import describe
from longwave.models.base import MODELS, Spec
from longwave.models.heads import Decoder
from longwave.models.hf_trainer import takes_use_cache
from longwave.models.sequence import SequenceConfig, SequenceModel


@MODELS.register("PairModel")
@takes_use_cache
@dataclass(frozen=True)
class PairConfig(SequenceConfig):
    """A sequence model that encodes both sequences of a pair with the same weights, and compares them."""

    streams = False  # the two are compared when both are complete

    def build(self) -> "PairModel":
        """A new model with these settings."""
        return PairModel(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides."""
        if "pair" not in spec.decoders:
            raise ValueError("model: a PairModel needs a task on pairs of sequences")
        return super().resolve(replace(spec, decoders=("mean", "last")))


class PairModel(SequenceModel):
    """y, None = model(x): x (B, 2, L, input_size) or tokens (B, 2, L), lengths (B, 2), to y (B, output_size)."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__(config)
        self.decoder = PairDecoder(config)

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        rate: float = 1.0,
        gaps: Tensor | None = None,
        need_state: bool = False,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The output for both sequences, which are encoded as 2 B rows: the first ones, then the second ones."""
        if state is not None or need_state:
            raise ValueError("state: a PairModel takes whole sequences, and has no state")
        dimensions = 3 if self.config.vocabulary else 4
        if not isinstance(x, Tensor) or x.ndim != dimensions or x.shape[1] != 2:
            raise ValueError(
                f"x: expected pairs, (batch, 2, length{', channels' * (dimensions == 4)}), got {describe(x)}"
            )
        time, lengths, gaps = (None if given is None else _rows(given) for given in (time, lengths, gaps))
        given: dict[str, Any] = {"time": time, "lengths": lengths, "cu_seqlens": cu_seqlens, "rate": rate, "gaps": gaps}
        return super().forward(_rows(x), labels=labels, **given)

    def step(self, x: Tensor, state: Any = None, **_: Any) -> tuple[Tensor, Any]:
        """Raise an error: pairs have no single steps."""
        raise ValueError("step: a PairModel takes whole sequences, not single steps")


class PairDecoder(Decoder):
    """Features (2 B, L, d_model) of the first sequences, then of the second ones, to (B, output_size).

    Each sequence is pooled (a mean, or the last step); a hidden layer then sees both, their difference and product.
    """

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.linear = nn.Identity()  # type: ignore[assignment]
        self.compare = nn.Sequential(
            nn.Linear(4 * config.d_model, config.d_model), nn.GELU(), nn.Linear(config.d_model, config.output_size)
        )

    def forward(
        self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None, valid: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The output; there is no state."""
        first, second = super().forward(x, lengths=lengths, valid=valid)[0].unflatten(0, (2, -1)).unbind(0)
        return self.compare(torch.cat((first, second, first - second, first * second), -1)), None


def _rows(pairs: Tensor) -> Tensor:
    """Reshape (B, 2, ...) to (2 B, ...), the first of all pairs before the second of all."""
    return pairs.transpose(0, 1).flatten(0, 1)
