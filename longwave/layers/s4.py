"""The S4 layer: H state spaces side by side whose A is diagonal plus low rank.

Paper: section 3.4 (sec:s4-architecture), with A = Lambda - P P^*. One SSM per feature; the block mixes the
features. state_space.py has the convolutional and the recurrent view.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from longwave.core.settings import set_by_task
from longwave.layers.checks import check_choice, check_count, check_rate
from longwave.layers.discretised import check_state_size
from longwave.layers.mixer import MIXERS, Mixer, StateSpaceConfig
from longwave.layers.rates import Trainable
from longwave.layers.state_space import (
    DPLR,
    DtTransform,
    NonsymmetricDPLR,
    ReTransform,
    StateSpaces,
    new_parameter,
)
from longwave.ops import dplr_kernel, truncated_output_map
from longwave.ssm import DiscreteDPLR, dplr, dplr_bilinear, output_map
from longwave.ssm.algebra import as_complex
from longwave.ssm.precision import doubles

LowRank = Literal["pp", "pq"]
Sharing = Literal["neighbours", "turns"]


class S4(StateSpaces):
    """y, state = layer(u) for u (B, L, H) of any length L; y_t, state = layer.step(u_t, state) for one step.

    d_model        H, the number of features
    d_state        N, the size of each feature's state (even)
    init           "legs", "legs-clipped", "legt", "lagt", "fout" or "random-nplr" (those of longwave.ssm.INITS with a
                   low-rank part)
    alpha, beta    order and tilt of the generalised Laguerre polynomials, for "lagt"; None: 0
    bidirectional  two kernels, one for each direction; then there is no state and no step
    length         None: C is the parameter, and every length costs a truncation C~ = C (I - A_bar^L).
                   A number: C~ of that length is the parameter, as in the paper; other lengths go through C, exactly
    low_rank       "pp": A = Lambda - P P^*, which is stable whatever is learned; "pq": A = Lambda - P Q^*, the paper's
                   first form, which is not. Its kernel is in plain torch
    n_ssm          number of distinct (Lambda, P, B), each shared by H / n_ssm features; None: H
    sharing        by which: "neighbours", or "turns", every n_ssm-th feature, as in the authors' code
    dt_min, dt_max bounds of the log-uniform distribution that dt starts from
    dt_transform   "exp": dt = exp(log_dt); "softplus": dt = softplus(softplus_inverse_dt). Small steps move alike under
                   both; under softplus those above 1 grow by less
    re_transform   "abs": Re Lambda = -|Lambda_re|; "exp": Re Lambda = -exp(log_Lambda_re), which is never 0
    trainable      False freezes dt, A (Lambda and P) and B; names, such as ("B", "dt"), freeze the others of these
    return_state   False: forward returns y alone, as nn.Sequential expects; `step` returns (y_t, state) all the same
    """

    shown = (*StateSpaces.shown, "length", "low_rank", "sharing", "alpha", "beta")
    refuses_gaps = (
        "S4 steps by the bilinear rule, which does not decay over long gaps, and where the step varies there is no "
        "kernel to convolve with; use S4D (s4d), whose steps are exact over any gap"
    )

    def __init__(
        self,
        d_model: int,
        d_state: int = 64,
        *,
        init: str = "legs",
        alpha: float | None = None,
        beta: float | None = None,
        bidirectional: bool = False,
        length: int | None = None,
        low_rank: LowRank = "pp",
        n_ssm: int | None = None,
        sharing: Sharing = "neighbours",
        dt_min: float = 1e-3,
        dt_max: float = 1e-1,
        dt_transform: DtTransform = "exp",
        re_transform: ReTransform = "abs",
        trainable: Trainable = True,
        return_state: bool = True,
    ) -> None:
        check_state_size(d_model, d_state)
        if length is not None:
            check_count("length", length)
        check_choice("low_rank", low_rank, get_args(LowRank))
        check_choice("sharing", sharing, get_args(Sharing))
        laguerre = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
        Lambda, P, B, _ = dplr(init, d_state, **laguerre)
        if not len(P):
            raise ValueError(f"init: expected one with a low-rank part, got {init!r}, which is diagonal; use S4D (s4d)")
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
            re_transform=re_transform,
            return_state=return_state,
        )
        self.length, self.low_rank, self.sharing = length, low_rank, sharing
        self.alpha, self.beta = alpha, beta
        if low_rank == "pq":
            self.Q = new_parameter(self.P.detach().clone())  # memory of its own: both are updated in place
        C = self._random_output_map()
        if length is None:
            self.C = new_parameter(torch.view_as_real(C))
        else:
            with torch.no_grad():
                Lambda, P, _, dt = self._system(torch.float64)
                C_tilde = truncated_output_map(Lambda, P, C.to(Lambda.dtype), dt, length, Q=self._Q(torch.float64))
            self.C_tilde = new_parameter(torch.view_as_real(C_tilde))
        self._finish("C" if length is None else "C_tilde", trainable)

    def kernel(self, L: int, rate: float = 1.0) -> Float[Tensor, "*D H L"]:
        """The convolution kernel K (H, L); two-sided: (2, H, L), forward and backward."""
        check_count("L", L)
        check_rate(rate)
        Lambda, P, B, dt = self._system(self._dtype)
        Q = self._Q(self._dtype)
        if isinstance(L, int) and self.length == L and rate == 1.0:  # an exported graph is for every length
            C_tilde = as_complex(self.C_tilde.to(dt.dtype))
            return dplr_kernel(Lambda, P, B, C_tilde, dt, L, C_is_truncated=True, Q=Q)
        return dplr_kernel(Lambda, P, B, self._output_map(), dt * rate, L, Q=Q)

    def ssm(self) -> DPLR | NonsymmetricDPLR:
        """The state spaces as they are now, with the true C whatever the parameterisation; differentiable."""
        system, Q = super().ssm(), self._Q(self._dtype)
        return system if Q is None else NonsymmetricDPLR(*system[:6], Q)

    def _Q(self, dtype: torch.dtype) -> Complex[Tensor, "r H M"] | None:
        """Q of A = Lambda - P Q^*; None: it is P."""
        return None if self.low_rank == "pp" else self._shared_out(as_complex(self.Q.to(dtype)))

    def _shared_out(self, values: Tensor) -> Tensor:
        if self.sharing == "turns":
            return values.repeat(*(1 for _ in values.shape[:-2]), self.d_model // self.n_ssm, 1)
        return super()._shared_out(values)

    def _output_map(self) -> Complex[Tensor, "*D H M"]:
        """C, derived from C~ if that is the parameter."""
        if self.length is None:
            return as_complex(self.C.to(self._dtype))
        # A solve for each feature, which chunks, steps and kernels of other lengths all want.
        kept = self._kept("C", self._solved_output_map)
        return self._solved_output_map() if kept is None else kept.clone()  # the caller's own

    def _solved_output_map(self) -> Complex[Tensor, "*D H M"]:
        """C from C~."""
        assert self.length is not None
        Lambda, P, _, dt = self._system(self._dtype)
        return output_map(Lambda, P, as_complex(self.C_tilde.to(dt.dtype)), dt, self.length, Q=self._Q(dt.dtype))

    def _discrete(self, rate: float, *, wide: bool = False) -> DiscreteDPLR:
        """Discretise by the bilinear rule."""
        Lambda, P, B, dt = self._system(self._dtype)
        Q = self._Q(dt.dtype)
        system: tuple[Tensor, ...] = Lambda, P, B, dt * rate, P if Q is None else Q
        return dplr_bilinear(*(doubles(*system) if wide else system))


@MIXERS.register("s4")
@dataclass(frozen=True)
class S4Config(StateSpaceConfig):
    """S4: one state space per feature."""

    layer: ClassVar[type[Mixer]] = S4
    length: int | None = set_by_task(None)
    """The length of all training sequences, if they share one: then C~ is the parameter (set by the task)."""
    low_rank: LowRank = "pp"
    """A = Lambda - P P^*, always stable, or Lambda - P Q^*, the paper's first form (slower, in plain torch)."""
    sharing: Sharing = "neighbours"
    """Which features share one of n_ssm state spaces: neighbours, or every n_ssm-th (turns, the authors' way)."""
    dt_transform: DtTransform = "exp"
    """How dt is kept positive: the exponential or the softplus of its parameter."""
    re_transform: ReTransform = "abs"
    """How the real parts of Lambda are kept negative: the absolute value or the exponential of their parameter."""
    alpha: float | None = None
    """Order of the generalised Laguerre polynomials, above -1; for the initialisation lagt."""
    beta: float | None = None
    """Tilt of the generalised Laguerre polynomials, at least 0; for the initialisation lagt."""

    def for_length(self, length: int | None) -> "S4Config":
        """The settings with C~ for that length as the parameter."""
        return replace(self, length=length)
