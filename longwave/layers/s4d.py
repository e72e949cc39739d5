"""The S4D layer: H state spaces side by side whose A is diagonal.

After "On the Parameterization and Initialization of Diagonal State Space Models" (Gu, Gupta, Goel and Ré, 2022).
Without the low-rank part of S4 every state goes its own way: the kernel is a sum of powers, and what S4 does with N x N
matrices is done element by element. state_space.py has the convolutional and the recurrent view.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from longwave.layers.checks import check_choice, check_count, check_rate, without_autocast
from longwave.layers.discretised import check_state_size, complex_dtype
from longwave.layers.mixer import MIXERS, Mixer, StateSpaceConfig
from longwave.layers.rates import Trainable
from longwave.layers.state_space import DtTransform, StateSpaces, new_parameter, widened
from longwave.ops import diagonal_kernel
from longwave.ssm import INITS, DiscreteDPLR, Rule, diagonal_discrete, dplr, irregular, nplr
from longwave.ssm.algebra import as_complex


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

    def _discrete(self, rate: float, dtype: torch.dtype | None = None) -> DiscreteDPLR:
        """By the layer's rule."""
        Lambda, _, B, dt = self._system(self._dtype)
        Lambda, B, dt = widened(dtype, Lambda, B, dt * rate)
        return diagonal_discrete(Lambda, B, dt, self.rule)

    def _mix_irregular(
        self,
        u: Float[Tensor, "batch L H"],
        gaps: Float[Tensor, "batch L"],
        state: Complex[Tensor, "batch H M"] | None,
        *,
        rate: float,
    ) -> tuple[Float[Tensor, "batch L H"], Complex[Tensor, "batch H M"]]:
        """By the exact exponential of each gap; the bilinear rule would hardly decay over a long one."""
        if self.bidirectional:
            raise ValueError("gaps: expected a layer that looks back alone, got bidirectional=True; set it to False")
        if self.rule != "zoh":
            raise ValueError(
                f"gaps: expected rule 'zoh', which is exact over any gap, got {self.rule!r}, which does not decay over "
                "long ones"
            )
        with without_autocast(u):
            signal = u.to(self._dtype)
            Lambda, _, B, dt = self._system(self._dtype)
            y, after = irregular(Lambda, B, self._output_map(), dt * rate, signal, gaps, state)
            return y.to(self._dtype) + self.D.to(self._dtype) * signal, after.to(complex_dtype(self._dtype))


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
    def supports_gaps(self) -> bool:
        """By the zero-order hold, which is exact over any gap."""
        return self.rule == "zoh" and not self.bidirectional
