"""A forecast in two parts: a linear map of the window, solved before training, and a deep model that corrects it.

A linear map is hard to beat on many series, and training a deep model to equal it takes longer than solving it. Here
the map is given to begin with, and the deep model, whose last layer starts at zero, learns what it leaves over. So a
new model is the linear one. What it learns from one stretch of a series may not hold in the next, and the mean of the
trained model and its start is then safer than either.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from longwave.core.settings import check_least, set_by_task
from longwave.layers import MixerConfig, S4Config
from longwave.layers.checks import check_choice, without_autocast
from longwave.models.base import MODELS, ModelConfig, Spec, StartShift
from longwave.models.pretrained import Pretrained
from longwave.models.sequence import SequenceModel


@MODELS.register("Forecaster")
@dataclass(frozen=True)
class ForecasterConfig(ModelConfig):
    """A linear map from the window to the horizon, started from its closed form, and a deep model beside it."""

    shift: Literal["auto", "combined", "none", "last", "mean"] = "auto"
    """What is subtracted from each window: nothing, its last value or its mean; auto: start from the mean of several
    solutions; combined: start from a combination of simple forecasts, weighted on held-out rows."""
    reversion: float | None = None
    """Weight of the solution without a shift in the linear start; None: with shift auto chosen on the validation set,
    else 0."""
    trust: float | None = 1.0
    """Weight of the trained model in a forecast, the rest being the linear start; None: chosen on the validation set,
    0 where the deep model does not help."""
    d_model: int = 32
    """Features of every layer of the deep model."""
    n_layers: int = 2
    """Residual blocks of the deep model; 0 for the linear map alone."""
    mixer: MixerConfig = field(default_factory=S4Config)
    """The layer that mixes the steps in each block."""
    dropout: float = 0.2
    """Dropout probability."""
    tie_dropout: bool = True
    """Share one dropout mask among all steps of a row."""
    input_size: int = 1
    """Columns of the series (set by the task)."""
    time_size: int = 0
    """Time features beside the input (set by the task)."""
    context: int = 1
    """Known steps before the forecast (set by the task)."""
    horizon: int = 1
    """Steps to forecast (set by the task)."""
    is_regressed: bool = set_by_task(False)
    """Whether the linear start has weights for the features beside the input (set by the task)."""
    members: tuple[tuple[str, float], ...] = set_by_task(())
    """What a combined start consists of, with weights (set by the task)."""
    reason: str = set_by_task("")
    """Why it has these weights (set by the task)."""

    def build(self) -> "Forecaster":
        """A new model with these settings; its linear map forecasts the shift until `prepare` starts it."""
        return Forecaster(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides, and the reversion that its validation set suggests."""
        if not spec.horizon or spec.length is None or spec.input_size != spec.output_size:
            raise ValueError("model: a Forecaster needs a task that forecasts its input columns, in windows")
        if spec.stamps:
            raise ValueError("time_stamps: a Forecaster takes no time stamps; set time_stamps to False")
        reversion, members, reason = self.reversion, self.members, self.reason
        if spec.linear is not None and self.shift == "combined":
            solution = spec.linear("combined", None)
            members, reason = tuple(solution.members.items()), solution.reason
        if reversion is None:
            ask = spec.linear if self.shift == "auto" else None
            reversion = 0.0 if ask is None else ask("auto", None).reversion
        return replace(
            self.with_sizes(spec),
            reversion=reversion,
            members=members,
            reason=reason,
            mixer=self.mixer.for_length(spec.length),
            context=spec.length - spec.horizon,
        )

    def prepare(self, model: Any, spec: Spec) -> bool:
        """Start the linear map of a new model from the task's solution for the shift and the reversion."""
        if spec.linear is not None:
            solution = spec.linear(self.shift, None if self.shift == "combined" else self.reversion)
            model.linear.start(solution.weight, solution.bias)
            if solution.beside is not None:
                model.beside.copy_(solution.beside)
        return True

    @property
    def refuses_gaps(self) -> str | None:
        """As for the mixer; the linear map only counts rows."""
        return self.mixer.refuses_gaps

    @property
    def label(self) -> str:
        """Display name in tables."""
        start = "combination" if self.shift == "combined" else "linear"
        return f"{start} + {self.mixer.label}" if self.n_layers else start


class Forecaster(Pretrained, nn.Module):
    """y, None = model(x), from windows x (B, context + horizon, columns) to forecasts y (B, horizon, columns).

    Of x the context alone is read. Columns that are not forecast come as features of the time, and l then has weights
    for these, too.
    y = l + correction(context - s, l - s), where l is the linear forecast and s the shift of the window. The deep model
    sees the context and behind it l, both shifted, and so has the forecast that it is to correct in place. Out of
    training, y is the mean of this and of the linear start, in the shares trust and 1 - trust.
    """

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        check_choice("shift", config.shift, ("auto", "combined", "none", "last", "mean"))
        for name in ("reversion", "trust"):
            if not 0 <= (getattr(config, name) or 0) <= 1:
                raise ValueError(f"{name}: expected a share from 0 to 1, got {getattr(config, name)}")
        check_least(config, context=1, horizon=1)
        self.config = config
        self.linear = LinearMap(config.context, config.horizon)
        if config.is_regressed:
            self.register_buffer(
                "beside", torch.zeros(config.horizon, config.context + config.horizon, config.time_size)
            )
        self.correction: SequenceModel | None = None
        if config.n_layers:
            deep = replace(config.as_kind("SequenceModel"), decoder="forecast", output_size=config.input_size)
            self.correction = SequenceModel(deep)
            nn.init.zeros_(self.correction.decoder.linear.weight)
            nn.init.zeros_(self.correction.decoder.linear.bias)
        if config.trust is None:
            self.register_buffer("share", torch.zeros(()))

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        gaps: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """The forecast (B, horizon, columns)."""
        for name, value in (("state", state), ("lengths", lengths)):
            if value is not None:
                raise ValueError(f"{name}: a Forecaster takes whole windows of one length")
        start, learnt = self._start_and_learnt(x, time, gaps)
        trust = self.share if self.config.trust is None else self.config.trust
        return start + (learnt if self.training else trust * learnt), None

    def _start_and_learnt(self, x: Tensor, time: Tensor | None, gaps: Tensor | None) -> tuple[Tensor, Tensor]:
        """The linear start's forecast (B, horizon, columns), and what training adds to it."""
        config = self.config
        expected = (config.context + config.horizon, config.input_size)
        if x.ndim != 3 or x.shape[1:] != expected:
            raise ValueError(f"x: expected (B, {expected[0]}, {expected[1]}), got {tuple(x.shape)}")
        known = x[:, : config.context]
        shift = window_shift(known, config.shift)
        start, learnt = self.linear(known, shift)
        start = start + self.regression(time)
        if self.correction is not None:
            seen = torch.cat((known, (start + learnt).to(known.dtype)), dim=1) - shift
            learnt = learnt + self.correction(seen, time=time, gaps=gaps)[0]
        return start, learnt

    def corrected(
        self, x: Tensor, *, time: Tensor | None = None, lengths: None = None, gaps: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The forecast with all that training adds to the start."""
        start, learnt = self._start_and_learnt(x, time, gaps)
        return start + learnt, None

    def uncorrected(
        self, x: Tensor, *, time: Tensor | None = None, lengths: None = None, gaps: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The forecast of the start alone, which does not see the gaps."""
        known = x[:, : self.config.context]
        return self.linear(known, window_shift(known, self.config.shift))[0] + self.regression(time), None

    def regression(self, time: Tensor | None) -> Tensor | float:
        """The start's regression on features beside the input, (B, context + horizon, time_size) to (B, horizon, 1)."""
        if not self.config.is_regressed:
            return 0.0
        if time is None:
            raise ValueError("time: this model regresses on features beside the input, got none")
        with without_autocast(time):
            return (time.to(self.beside.dtype).flatten(1) @ self.beside.flatten(1).T)[..., None]

    @property
    def parts(self) -> dict[str, Any]:
        """The linear start alone and the full correction, to score separately if their share was chosen."""
        if self.config.trust is not None or self.correction is None:
            return {}
        deep = self.config.mixer.label
        return {f"without {deep}": self.uncorrected, f"{deep}'s correction in full": self.corrected}

    @property
    def summary(self) -> str | None:
        """Describe the composition of the forecast in a sentence."""
        if not self.config.members:
            return None
        shares = sorted(self.config.members, key=lambda member: -member[1])
        text = ", ".join(f"{share:.0%} {name}" for name, share in shares if share >= 0.005)
        share = float(self.share) if self.config.trust is None else self.config.trust
        correction = (
            f"{share:.0%} of the correction by {self.config.mixer.label}" if self.correction else "no correction"
        )
        why = f" ({self.config.reason})" if self.config.reason else ""
        return f"the forecast is {text}{why}, plus {correction}"

    share: Tensor
    beside: Tensor  # (horizon, context + horizon, time_size)


class LinearMap(nn.Module):
    """y = (W + change / context) (x - s) + level s + b + offset along the steps, s the shift of the window.

    W, level and b are where it started, the rest is trained. The level has the sums of the rows of W: so the start is
    y = W x + b, and a step that follows the shift has the level 1. Weight decay pulls the change to zero, and so the
    map to its start. As the change is divided by the context, a step of Adam with learning rate lr moves y by at most
    lr times the mean size of x - s; a map of hundreds of inputs would else be lost in the first steps.
    """

    def __init__(self, context: int, horizon: int) -> None:
        super().__init__()
        self.register_buffer("W", torch.zeros(horizon, context))
        self.register_buffer("level", torch.ones(horizon))
        self.register_buffer("b", torch.zeros(horizon))
        self.change = nn.Parameter(torch.zeros(horizon, context))
        self.offset = nn.Parameter(torch.zeros(horizon))

    def start(self, weight: Tensor, bias: Tensor) -> None:
        """Start from the map weight x + bias."""
        with torch.no_grad():
            self.W.copy_(weight)
            self.level.copy_(weight.sum(1))
            self.b.copy_(bias)
            self.change.zero_()
            self.offset.zero_()

    def forward(self, x: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, context, columns), shift (B, 1, columns) -> the start's forecast and what training adds to it.

        Both are (B, horizon, columns).
        """
        with without_autocast(x):  # half precision would lose more of the map than training gains
            shift = shift.to(self.W.dtype)
            x = x.to(self.W.dtype) - shift
            start = self.W @ x + self.level[:, None] * shift + self.b[:, None]
            return start, (self.change / x.shape[1]) @ x + self.offset[:, None]

    W: Tensor
    level: Tensor
    b: Tensor


def window_shift(known: Tensor, shift: StartShift) -> Tensor:
    """The shift (B, 1, columns) of windows whose known part is (B, context, columns); auto: the last value."""
    if shift == "mean":
        return known.mean(1, keepdim=True)
    last = known[:, -1:]
    return torch.zeros_like(last) if shift == "none" else last
