"""The S4D layer: H state spaces side by side whose A is diagonal.

After "On the Parameterization and Initialization of Diagonal State Space Models" (Gu, Gupta, Goel and Ré, 2022).
Without the low-rank part of S4 every state goes its own way: the kernel is a sum of powers, and what S4 does with N x N
matrices is done element by element. state_space.py has the convolutional and the recurrent view.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from jaxtyping import Complex, Float, Int64
from torch import Tensor

from longwave.layers.checks import check_choice, check_count, check_rate, without_autocast
from longwave.layers.discretised import check_state_size, complex_dtype
from longwave.layers.mixer import MIXERS, Mixer, StateSpaceConfig
from longwave.layers.rates import Trainable
from longwave.layers.state_space import DtTransform, StateSpaces, new_parameter
from longwave.ops import diagonal_kernel
from longwave.ops.checks import has_values, is_captured
from longwave.ssm import INITS, DiscreteDPLR, Rule, diagonal_discrete, dplr, even_steps, irregular, nplr
from longwave.ssm.algebra import as_complex
from longwave.ssm.irregular import MOST_STEPS
from longwave.ssm.precision import doubles

FEWEST_HELD = 64  # rows of a batch from which on a convolution of even steps pays


class S4D(StateSpaces):
    """y, state = layer(u) for u (B, L, H) of any length L; y_t, state = layer.step(u_t, state) for one step.

    init  "legs" or "s4d-legs", the diagonal of LegS; "s4d-lin", "s4d-inv" (longwave.ssm.INITS)
    rule  "zoh": the input holds its value for a step, exactly; "bilinear": the rule of S4

    The other keywords are those of S4.
    """

    shown = (*StateSpaces.shown, "rule")

    def __init__(
        self,
        d_model: int,
        d_state: int = 64,
        *,
        init: str = "legs",
        bidirectional: bool = False,
        n_ssm: int | None = None,
        dt_min: float = 1e-3,
        dt_max: float = 1e-1,
        dt_transform: DtTransform = "exp",
        rule: Rule = "zoh",
        trainable: Trainable = True,
        return_state: bool = True,
    ) -> None:
        check_state_size(d_model, d_state)
        check_choice("rule", rule, get_args(Rule))
        init = "s4d-legs" if init == "legs" else init  # of the NPLR ones the only one that is damped without its P
        Lambda, P, B, _ = dplr(init, d_state)
        if len(P):
            diagonal = [name for name in INITS if not len(nplr(name, 2).P)]
            raise ValueError(
                f"init: expected one that is diagonal ({', '.join(diagonal)}, or legs for its diagonal), got {init!r}, "
                "which has a low-rank part; use S4 (s4)"
            )
        super().__init__(
            (Lambda, P, B),
            d_model=d_model,
            d_state=d_state,
            init=init,
            bidirectional=bidirectional,
            n_ssm=n_ssm,
            dt_min=dt_min,
            dt_max=dt_max,
            dt_transform=dt_transform,
            return_state=return_state,
        )
        self.rule = rule
        self.C = new_parameter(torch.view_as_real(self._random_output_map()))
        self._finish("C", trainable)

    def kernel(self, L: int, rate: float = 1.0) -> Float[Tensor, "*D H L"]:
        """The convolution kernel K (H, L); two-sided: (2, H, L), forward and backward."""
        check_count("L", L)
        check_rate(rate)
        Lambda, _, B, dt = self._system(self._dtype)
        return diagonal_kernel(Lambda, B, self._output_map(), dt * rate, L, self.rule)

    def _output_map(self) -> Complex[Tensor, "*D H M"]:
        return as_complex(self.C.to(self._dtype))

    def _discrete(self, rate: float, *, wide: bool = False) -> DiscreteDPLR:
        """Discretise by the layer's rule."""
        Lambda, _, B, dt = self._system(self._dtype)
        dt = dt * rate
        Lambda, B, dt = doubles(Lambda, B, dt) if wide else (Lambda, B, dt)
        return diagonal_discrete(Lambda, B, dt, self.rule)

    def _mix_irregular(
        self,
        u: Float[Tensor, "batch L H"],
        gaps: Float[Tensor, "batch L"],
        state: Complex[Tensor, "batch H M"] | None,
        *,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L H"], Complex[Tensor, "batch H M"] | None]:
        """Discretise each gap by the exact exponential; the bilinear rule would hardly decay over long ones.

        Sequences whose gaps have few steps of a unit are convolved, the others go row by row.
        """
        if refused := refusal_of_gaps(self.rule, self.bidirectional):
            raise ValueError(f"gaps: {refused}")
        is_traced = not has_values(gaps) or torch.compiler.is_compiling() or is_captured(gaps.device)
        can_ask = not (is_traced or gaps.requires_grad)
        found = even_steps(gaps) if can_ask and gaps.numel() >= FEWEST_HELD else None
        if found is None:
            return self._mix_in_turn(u, gaps, state, rate=rate)
        unit, steps = found
        is_long = steps.sum(1) > MOST_STEPS * u.shape[1]
        if not is_long.any():
            return self._mix_held(u, unit, steps, state, rate=rate, need_state=need_state)
        held, in_turn = (~is_long).nonzero()[:, 0], is_long.nonzero()[:, 0]
        before = (None, None) if state is None else (state[held], state[in_turn])
        y, after = self._mix_held(u[held], unit, steps[held], before[0], rate=rate, need_state=need_state)
        y_long, after_long = self._mix_in_turn(u[in_turn], gaps[in_turn], before[1], rate=rate)
        places = torch.cat((held, in_turn)).argsort()
        return torch.cat((y, y_long))[places], None if after is None else torch.cat((after, after_long))[places]

    def _mix_in_turn(
        self,
        u: Float[Tensor, "batch L H"],
        gaps: Float[Tensor, "batch L"],
        state: Complex[Tensor, "batch H M"] | None,
        *,
        rate: float,
    ) -> tuple[Float[Tensor, "batch L H"], Complex[Tensor, "batch H M"]]:
        """Step row by row, for any gaps."""
        with without_autocast(u):
            signal = u.to(self._dtype)
            Lambda, _, B, dt = self._system(self._dtype)
            y, after = irregular(Lambda, B, self._output_map(), dt * rate, signal, gaps, state)
            return y.to(self._dtype) + self.D.to(self._dtype) * signal, after.to(complex_dtype(self._dtype))

    def _mix_held(
        self,
        u: Float[Tensor, "batch L H"],
        unit: float,
        steps: Int64[Tensor, "batch L"],
        state: Complex[Tensor, "batch H M"] | None,
        *,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L H"], Complex[Tensor, "batch H M"] | None]:
        """Convolve rows whose gaps are multiples of a unit: each is held for its gap and read at the end."""
        ends = steps.cumsum(1)
        every = torch.arange(int(ends.max()), device=u.device).expand(len(u), -1)
        row = torch.searchsorted(ends, every.contiguous(), right=True)
        is_held = (row < u.shape[1]).unsqueeze(-1)
        held = torch.where(is_held, _rows_of(u, row.clamp(max=u.shape[1] - 1)), 0)
        y, after = self._mix(held, state, lengths=ends[:, -1], rate=rate * unit, need_state=need_state)
        return _rows_of(y, (ends - 1).clamp(min=0)), after


def _rows_of(u: Float[Tensor, "batch L H"], rows: Int64[Tensor, "batch n"]) -> Float[Tensor, "batch n H"]:
    return u.gather(1, rows.unsqueeze(-1).expand(-1, -1, u.shape[2]))


def refusal_of_gaps(rule: Rule, bidirectional: bool) -> str | None:
    """Why a layer with these settings does not take rows at irregular times; None: it does."""
    if bidirectional:
        return "expected a causal layer, got bidirectional=True; set it to False"
    if rule != "zoh":
        return f"expected rule 'zoh', which is exact over any gap, got {rule!r}, which does not decay over long ones"
    return None


@MIXERS.register("s4d")
@dataclass(frozen=True)
class S4DConfig(StateSpaceConfig):
    """S4D: one state space per feature, with a diagonal A."""

    layer: ClassVar[type[Mixer]] = S4D
    dt_transform: DtTransform = "exp"
    """How dt is kept positive: the exponential or the softplus of its parameter."""
    rule: Rule = "zoh"
    """Discretisation: zero-order hold, or the bilinear rule, as for S4."""

    @property
    def refuses_gaps(self) -> str | None:
        """None with the zero-order hold, which is exact over any gap."""
        return refusal_of_gaps(self.rule, self.bidirectional)
