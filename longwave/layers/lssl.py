"""The LSSL layer (linear state space layer): S4's predecessor, with a dense state matrix; a baseline.

Paper: eq. (3) to (5), with nothing known about A. The kernel is C times the Krylov matrix of A_bar and B_bar, which is
computed in full: O(N^3 log L + N^2 L) work and O(N L) memory for each system, against S4's O(N + L). Nothing keeps a
trained A stable.

The paper's ablation of initialisations ("Unconstrained SSMs") has the same layer with a random A, dense or diagonal.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from longwave.layers.checks import check_choice, check_count, check_dt_bounds, check_rate, without_autocast
from longwave.layers.discretised import Discretised, check_state_size, initial_log_dt
from longwave.layers.mixer import MIXERS, Mixer, StateSpaceConfig
from longwave.layers.rates import Trainable, mark_ssm
from longwave.ops import fft_conv
from longwave.ssm import INITS, Powers, hippo, response, state_after
from longwave.ssm.precision import doubles

Structure = Literal["dense", "diagonal"]
GAUSSIAN = "gaussian"  # the initialisation that is drawn at random


def krylov(E: Float[Tensor, "S N *N"], B_bar: Float[Tensor, "S N"], L: int) -> Float[Tensor, "S N L"]:
    """The columns B_bar, A_bar B_bar, ... A_bar^(L-1) B_bar with A_bar = I + E, by doubling; a diagonal E is (S, N).

    m columns times A_bar^m are the next m, and (I + E)^2 = I + (2 E + E^2): small E keep the digits of slow modes.
    """
    columns = B_bar.unsqueeze(-1)
    while True:
        known = columns[..., : L - columns.shape[-1]]
        if known.shape[-1] == 0:
            return columns
        more = E @ known if E.ndim > B_bar.ndim else E.unsqueeze(-1) * known
        columns = torch.cat((columns, known + more), dim=-1)
        if columns.shape[-1] < L:
            E = 2 * E + (E @ E if E.ndim > B_bar.ndim else E * E)


def gaussian(N: int, structure: Structure, sigma: float) -> tuple[Tensor, Tensor]:
    """A random system: A = sigma / sqrt(N) G or, as its diagonal (N,), sigma g; B (N,); all entries are normal.

    The eigenvalues of such a dense A fill a disc of radius sigma, so that half of its modes grow, the kernel with them
    by about exp(sigma dt L); those of a diagonal one grow as fast or faster.
    """
    A = sigma / math.sqrt(N) * torch.randn(N, N) if structure == "dense" else sigma * torch.randn(N)
    return A, torch.randn(N)


class LSSL(Discretised):
    """y, state = layer(u) for u (B, L, H) of any length L; y_t, state = layer.step(u_t, state) for one step.

    init           any of longwave.ssm.INITS, as a dense matrix; "gaussian": a random A and B of its own in each system
    structure      "dense" or "diagonal": of A; a diagonal one is real, and starts at random
    sigma          size of a random A (see `gaussian`)
    n_ssm          S, number of distinct (A, B, dt), each shared by H / S neighbouring features; None: H.
                   A has S N^2 numbers; training holds log2(L) powers of that size, and S N L numbers more
    dt_per_feature each feature has a dt of its own, whatever shares A and B; then training holds H in place of S

    The other keywords are those of S4.
    """

    DT_PARAMETERS = ("log_dt",)
    SSM_PARAMETERS = (*DT_PARAMETERS, "A", "B")
    OUTPUT_PARAMETERS = ("C",)
    shown = (*Discretised.shown, "structure", "dt_per_feature")
    state_is_complex = False
    most_kept = 1  # which is as large as the layer

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
        trainable: Trainable = True,
        structure: Structure = "dense",
        sigma: float = 0.125,
        dt_per_feature: bool = False,
        return_state: bool = True,
    ) -> None:
        check_state_size(d_model, d_state)
        super().__init__(
            d_model, d_state, init=init, bidirectional=bidirectional, n_ssm=n_ssm, return_state=return_state
        )
        check_dt_bounds(dt_min, dt_max)
        _check_structure(structure, init, sigma)
        n_ssm = self.n_ssm
        self.systems = d_model if dt_per_feature else n_ssm  # discrete ones
        self.share = d_model // self.systems  # features of one discrete system
        self.structure, self.dt_per_feature = structure, dt_per_feature

        found = [
            gaussian(d_state, structure, sigma) if init == GAUSSIAN else hippo(init, d_state) for _ in range(n_ssm)
        ]
        dtype = torch.get_default_dtype()
        self.log_dt = nn.Parameter(initial_log_dt(self.systems, dt_min, dt_max))
        self.A = nn.Parameter(torch.stack([A for A, _ in found]).to(dtype))
        self.B = nn.Parameter(torch.stack([B for _, B in found]).to(dtype))
        mark_ssm(self, trainable)
        self.C = nn.Parameter(torch.randn(*((2,) if bidirectional else ()), d_model, d_state))
        self.D = nn.Parameter(torch.randn(d_model))

    # The convolutional view

    def kernel(self, L: int, rate: float = 1.0) -> Float[Tensor, "*D H L"]:
        """The convolution kernel K (H, L); two-sided: (2, H, L), forward and backward."""
        check_count("L", L)
        check_rate(rate)
        return self._kernel(*self._discrete(rate), L)

    def _mix(
        self,
        u: Float[Tensor, "batch L H"],
        state: Float[Tensor, "batch H N"] | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L H"], Float[Tensor, "batch H N"] | None]:
        """Compute the outputs by convolution."""
        with without_autocast(u):
            signal = u.to(self._dtype)
            E, B_bar = self._discrete(rate)
            K = self._kernel(E, B_bar, u.shape[1])
            K, K_back = K if self.bidirectional else (K, None)
            y = fft_conv(signal, K, K_back, self.D.to(K.dtype))
            if state is not None or need_state:
                powers = Powers(doubles(self._matrix(E))[0], E.dtype)
                if state is not None:
                    y = y + self._response(powers, state.to(E.dtype), u.shape[1])
                if need_state:
                    state = self._state_after(powers, B_bar, signal.mT, state, lengths)
        return y, state

    def _discrete(self, rate: float) -> tuple[Tensor, Tensor]:
        """E = A_bar - I = (I - dt/2 A)^-1 dt A and B_bar = (I - dt/2 A)^-1 dt B of each system; E diagonal if A is."""
        A, B = (x.to(self._dtype).repeat_interleave(self.systems // self.n_ssm, dim=0) for x in (self.A, self.B))
        dt = self.log_dt.to(self._dtype).exp() * rate
        if self.structure == "diagonal":
            dt = dt.unsqueeze(-1)
            return dt * A / (1 - dt / 2 * A), dt * B / (1 - dt / 2 * A)
        identity = torch.eye(self.d_state, dtype=A.dtype, device=A.device)
        # One solve per system: batched solves of large systems deadlock in some builds of the linear-algebra library.
        solved = [
            torch.linalg.solve(identity - dt_s / 2 * A_s, dt_s * torch.cat((A_s, B_s.unsqueeze(-1)), dim=-1))
            for A_s, B_s, dt_s in zip(A.unbind(), B.unbind(), dt.unbind(), strict=True)
        ]
        return torch.stack([s[:, :-1] for s in solved]), torch.stack([s[:, -1] for s in solved])

    def _matrix(self, E: Tensor) -> Tensor:
        """A_bar - I as a matrix of each system, (S, N, N)."""
        return torch.diag_embed(E) if self.structure == "diagonal" else E

    def _kernel(self, E: Tensor, B_bar: Tensor, L: int) -> Tensor:
        C = self.C.to(E.dtype).unflatten(-2, (self.systems, self.share))
        return (C @ krylov(E, B_bar, L)).flatten(-3, -2)

    def _response(self, powers: Powers, state: Tensor, L: int) -> Tensor:
        """The response to `state`, (B, L, H), one feature of each system after the other, since each has its own C."""
        C = self.C.to(state.dtype).unflatten(0, (self.systems, self.share)).unbind(1)
        states = state.unflatten(1, (self.systems, self.share)).unbind(2)
        parts = [response(powers, C_i, x_i, L) for C_i, x_i in zip(C, states, strict=True)]
        return torch.stack(parts, dim=2).flatten(1, 2).mT

    def _state_after(
        self, powers: Powers, B_bar: Tensor, u: Tensor, state: Tensor | None, lengths: Tensor | None
    ) -> Tensor:
        """The state after u (B, H, L): the features of one system are rows of one batch to it."""

        def rows(x: Tensor) -> Tensor:
            return x.unflatten(1, (self.systems, self.share)).movedim(2, 0).flatten(0, 1)

        before = None if state is None else rows(state.to(u.dtype))
        x = state_after(powers, B_bar, rows(u), before, None if lengths is None else lengths.repeat(self.share))
        return x.unflatten(0, (self.share, len(u))).movedim(0, 2).flatten(1, 2)

    # The recurrent view

    def _step(
        self, u: Float[Tensor, "batch H"], state: Float[Tensor, "batch H N"], rate: float
    ) -> tuple[Float[Tensor, "batch H"], Float[Tensor, "batch H N"]]:
        """In O(H N^2)."""
        with without_autocast(u):
            E, B_bar = self._step_constants(rate)
            E = self._matrix(E)
            signal = u.to(E.dtype)
            x = state.to(E.dtype).unflatten(1, (self.systems, self.share))
            driven = B_bar.unsqueeze(1) * signal.unflatten(1, (self.systems, self.share)).unsqueeze(-1)
            x = (x + torch.einsum("bsin,smn->bsim", x, E) + driven).flatten(1, 2)
            return (self.C.to(E.dtype) * x).sum(-1) + self.D.to(E.dtype) * signal, x

    def _step_constants(self, rate: float) -> tuple[Tensor, Tensor]:
        """A_bar - I and B_bar."""
        return self._kept(rate, lambda: self._discrete(rate)) or self._discrete(rate)

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return self.log_dt, self


@MIXERS.register("lssl")
@dataclass(frozen=True)
class LSSLConfig(StateSpaceConfig):
    """LSSL: S4 with a dense state matrix."""

    layer: ClassVar[type[Mixer]] = LSSL
    structure: Structure = "dense"
    """Form of the state matrix; a diagonal one is real, and starts at random (init gaussian)."""
    sigma: float = 0.125
    """Scale of a random state matrix; the larger, the faster half of its modes grow."""
    dt_per_feature: bool = False
    """One step size per feature, even where features share a state space (n_ssm)."""


def _check_structure(structure: str, init: str, sigma: float) -> None:
    check_choice("structure", structure, get_args(Structure))
    check_choice("init", init, sorted([*INITS, GAUSSIAN]))
    if structure == "diagonal" and init != GAUSSIAN:
        raise ValueError(f"init: expected {GAUSSIAN} for a diagonal A, since HiPPO's is dense, got {init!r}")
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma: expected a number above 0, got {sigma}")
