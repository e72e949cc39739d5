"""The base of state space layers: H systems side by side, in the convolutional and the recurrent view.

A kind of layer (s4.py, s4d.py) says what its parameters are and how they become a kernel, A_bar and B_bar; both views
are here, and chunk.py has how a chunk goes on from a state. Parameters are real tensors (complex ones as pairs), which
every optimiser, FSDP and safetensors take.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from longwave import ops
from longwave.layers.checks import (
    check_causal,
    check_choice,
    check_count,
    check_dt_bounds,
    check_rate,
    without_autocast,
)
from longwave.layers.chunk import Chunks
from longwave.layers.discretised import Discretised, complex_dtype, initial_log_dt
from longwave.layers.packed import mix_packed
from longwave.layers.rates import Trainable, mark_ssm
from longwave.ops import fft_conv
from longwave.ssm import DiscreteDPLR, block_size, dplr_step
from longwave.ssm.algebra import as_complex
from longwave.ssm.precision import doubles

DtTransform = Literal["exp", "softplus"]
ReTransform = Literal["abs", "exp"]


class DPLR(NamedTuple):
    """x' = (diag(Lambda) - P P^*) x + B u, y = 2 Re(C x) + D u, with step dt: a layer's state spaces as they are now.

    Lambda, B (H, M); P (r, H, M); C (H, M), or (2, H, M) for a two-sided layer; D, dt (H,).
    """

    Lambda: Tensor
    P: Tensor
    B: Tensor
    C: Tensor
    D: Tensor
    dt: Tensor


class NonsymmetricDPLR(NamedTuple):
    """State spaces with A = diag(Lambda) - P Q^*: the same fields, then Q (r, H, M)."""

    Lambda: Tensor
    P: Tensor
    B: Tensor
    C: Tensor
    D: Tensor
    dt: Tensor
    Q: Tensor


class StepConstants(NamedTuple):
    """Constants of a step; `steps` is the backend's own function, for use without gradients."""

    discrete: DiscreteDPLR
    C: Tensor
    D: Tensor
    steps: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None


class ChunkConstants(NamedTuple):
    """Constants of chunks that resume from a state, for up to a number of steps."""

    chunks: Chunks
    K: Tensor  # the kernel of the longest chunk; that of a shorter one is its beginning
    rate: float

    def kernel(self, L: int, rate: float) -> Tensor:
        """The kernel of a chunk of L steps; what these constants were not made for is refused."""
        longest = self.K.shape[-1]
        if longest < L or rate != self.rate:
            made = f"up to {longest} steps and the rate {self.rate:g}"
            raise ValueError(
                f"constants: made for {made}, got {L} steps and the rate {rate:g}; call chunk_constants again"
            )
        return self.K[..., :L]


class StateSpaces(Discretised):
    """One state space x' = A x + B u, y = 2 Re(C x) + D u per feature, with A diagonal, or that plus low rank.

    A kind of layer hands its settings and (Lambda, P, B) of one system to `__init__`, registers its output maps, ends
    with `_finish`, and has the methods that are abstract here.
    """

    shown: tuple[str, ...] = (*Discretised.shown, "dt_transform", "re_transform")

    def __init__(
        self,
        system: tuple[Tensor, Tensor, Tensor],
        *,
        d_model: int,
        d_state: int,
        init: str,
        bidirectional: bool,
        n_ssm: int | None,
        dt_min: float,
        dt_max: float,
        dt_transform: DtTransform,
        re_transform: ReTransform = "abs",
        return_state: bool,
    ) -> None:
        super().__init__(
            d_model, d_state, init=init, bidirectional=bidirectional, n_ssm=n_ssm, return_state=return_state
        )
        check_dt_bounds(dt_min, dt_max)
        check_choice("dt_transform", dt_transform, get_args(DtTransform))
        check_choice("re_transform", re_transform, get_args(ReTransform))
        self.dt_transform, self.re_transform = dt_transform, re_transform
        Lambda, P, B = system
        n_ssm = self.n_ssm
        log_dt = initial_log_dt(d_model, dt_min, dt_max)
        if dt_transform == "exp":
            self.log_dt = new_parameter(log_dt)
        else:
            self.softplus_inverse_dt = new_parameter(log_dt.double().exp().expm1().log())
        if re_transform == "abs":
            self.Lambda_re = new_parameter((-Lambda.real).repeat(n_ssm, 1))
        else:
            if not (Lambda.real < 0).all():
                raise ValueError(
                    f"re_transform: expected abs with init {init!r}, as exp has no Re(Lambda) = 0, got exp"
                )
            self.log_Lambda_re = new_parameter((-Lambda.real).log().repeat(n_ssm, 1))
        self.Lambda_im = new_parameter(Lambda.imag.repeat(n_ssm, 1))
        if len(P):
            self.P = new_parameter(torch.view_as_real(P.unsqueeze(1).repeat(1, n_ssm, 1)))
        self.B = new_parameter(torch.view_as_real(B.repeat(n_ssm, 1)))

    def _random_output_map(self) -> Complex[Tensor, "*D H M"]:
        """The initial C; two-sided: one map for each direction."""
        sides = (2,) if self.bidirectional else ()
        return torch.randn(*sides, self.d_model, self.d_state // 2, dtype=torch.complex64)

    def _finish(self, output: str, trainable: Trainable) -> None:
        """Register D and the roles of parameters for optimisers; `output` names the parameter of C."""
        self.D = new_parameter(torch.randn(self.d_model))
        # Names say what a parameter holds, so they follow the settings.
        self.DT_PARAMETERS = ("log_dt" if self.dt_transform == "exp" else "softplus_inverse_dt",)
        matrices = [name for name in self._parameters if name not in (*self.DT_PARAMETERS, output, "D")]
        self.SSM_PARAMETERS = (*self.DT_PARAMETERS, *matrices)
        self.OUTPUT_PARAMETERS = (output,)
        mark_ssm(self, trainable)

    # What a kind of layer says of itself

    @abstractmethod
    def kernel(self, L: int, rate: float = 1.0) -> Float[Tensor, "*D H L"]:
        """The convolution kernel K (H, L); two-sided: (2, H, L), forward and backward."""

    @abstractmethod
    def _output_map(self) -> Complex[Tensor, "*D H M"]:
        """The true C, whatever the parameterisation."""

    @abstractmethod
    def _discrete(self, rate: float, *, wide: bool = False) -> DiscreteDPLR:
        """A_bar and B_bar, discretised in float64 (`wide`), or as the layer computes."""

    # The state spaces

    def ssm(self) -> DPLR | NonsymmetricDPLR:
        """The state spaces as they are now, with the true C whatever the parameterisation; differentiable."""
        Lambda, P, B, dt = self._system(self._dtype)
        return DPLR(Lambda, P, B, self._output_map(), self.D.to(dt.dtype), dt)

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return self.Lambda_im, self

    def _system(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Lambda, P, B, dt, one of each per feature."""
        Lambda = torch.complex(self._real_part(dtype), self.Lambda_im.to(dtype))
        P = as_complex(self.P.to(dtype)) if "P" in self._parameters else Lambda.new_empty(0, *Lambda.shape)
        Lambda, P, B = (self._shared_out(x) for x in (Lambda, P, as_complex(self.B.to(dtype))))
        return Lambda, P, B, self._dt(dtype)

    def _real_part(self, dtype: torch.dtype) -> Tensor:
        """Re Lambda <= 0."""
        if self.re_transform == "exp":
            return -self.log_Lambda_re.to(dtype).exp()
        re = self.Lambda_re.to(dtype)
        # -|x|, but with a slope at 0: LegT and LagT start there exactly, and -exp(x) could not.
        return torch.where(re >= 0, -re, re)

    def _shared_out(self, values: Tensor) -> Tensor:
        """(..., n_ssm, M) to (..., H, M): each system for the features that share it."""
        if self.n_ssm == self.d_model:
            return values
        return values.repeat_interleave(self.d_model // self.n_ssm, dim=-2)

    def _dt(self, dtype: torch.dtype) -> Tensor:
        if self.dt_transform == "exp":
            return self.log_dt.to(dtype).exp()
        return nn.functional.softplus(self.softplus_inverse_dt.to(dtype))

    # The convolutional view

    def _mix(
        self,
        u: Float[Tensor, "batch L H"],
        state: Complex[Tensor, "batch H M"] | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
        constants: ChunkConstants | None = None,
    ) -> tuple[Float[Tensor, "batch L H"], Complex[Tensor, "batch H M"] | None]:
        """Compute the outputs by convolution."""
        L = u.shape[1]
        with without_autocast(u):
            signal = u.to(self._dtype)
            K = self.kernel(L, rate) if constants is None else constants.kernel(L, rate)
            K, K_back = K if self.bidirectional else (K, None)
            y = fft_conv(signal, K, K_back, self.D.to(K.dtype))
            if state is not None or need_state:
                state = None if state is None else state.to(complex_dtype(self._dtype))
                if constants is None:
                    rank = len(self.P) if "P" in self._parameters else 0
                    T = block_size(u.shape[0], L, self.d_state, rank)
                    longest = L if isinstance(L, int) else 2 * T  # a symbol of an exported graph: what any length takes
                    chunks = self._chunks(T, longest, rate, from_state=state is not None, need_state=need_state)
                else:
                    chunks = constants.chunks
                y = y if state is None else y + chunks.response(state, L)
                state = chunks.state_after(signal, state, lengths) if need_state else None
        return y, state

    def _mix_packed(
        self, u: Float[Tensor, "1 total H"], lengths: Sequence[int], *, rate: float, need_state: bool
    ) -> tuple[Float[Tensor, "1 total H"], Complex[Tensor, "n H M"] | None]:
        """Convolve each group of similar lengths with the kernel of the longest sequence."""
        longest = max(lengths)
        with without_autocast(u):
            T = block_size(1, longest, self.d_state, 0)
            chunks = self._chunks(T, longest if need_state else 1, rate, from_state=False, need_state=need_state)
            constants = ChunkConstants(chunks, self.kernel(longest, rate), rate)

            def mix(rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor | None]:
                return self._mix(rows, None, lengths=counts, rate=rate, need_state=need_state, constants=constants)

            return mix_packed(mix, u.to(self._dtype), lengths, self._initial_state(1)[0])

    def chunk_constants(self, longest: int, rate: float = 1.0) -> ChunkConstants:
        """Constants for chunks of up to `longest` steps, valid while the parameters do not change.

        It takes far longer than a chunk of a few hundred steps, and H (longest + 2 N^2 + 4 T N) numbers of memory,
        for blocks of T steps, 64 or, if `longest` is no more than 256, up to 512.
        """
        check_causal("chunk_constants", self.bidirectional)
        check_count("longest", longest)
        check_rate(rate)
        chunks = self._chunks(block_size(1, longest, self.d_state, 0), longest, rate)
        return ChunkConstants(chunks, self.kernel(longest, rate), rate)

    def _chunks(self, T: int, L: int, rate: float, *, from_state: bool = True, need_state: bool = True) -> Chunks:
        """Tables for chunks of up to L steps, for outputs from a state and for the state after."""
        C = doubles(self._output_map())[0] if from_state else None
        return Chunks.of(self._discrete(rate, wide=True), C, T, L, need_state)

    def states(
        self,
        u: Float[Tensor, "batch L H"],
        state: Complex[Tensor, "batch H M"] | None = None,
        *,
        every: int = 1,
        lengths: Tensor | None = None,
        rate: float = 1.0,
        limit: int = 4 << 30,
    ) -> Complex[Tensor, "batch count H M"]:
        """The states after `every`, 2 `every`, ... steps: (B, L // every, H, M) complex; differentiable.

        The last is what `forward` gives where L is a multiple of `every`. They take B (L // every) H N numbers (8 bytes
        for a pair in single precision), their gradient as many again: more than `limit` bytes are refused beforehand.
        The gradient computes the states between two of them again, `every` N numbers (8 bytes) per thread.
        `state`, `lengths` and `rate` are those of `forward`; a row's state stays what it is after its length.
        """
        check_causal("states", self.bidirectional)
        check_count("every", every)
        u, lengths, _ = self._checked(u, state, lengths, rate)
        batch, L, _ = u.shape
        count, dtype = L // every, complex_dtype(self._dtype)
        needed = batch * count * self.d_model * self.d_state // 2 * dtype.itemsize
        if needed > limit:
            shape = (batch, count, self.d_model, self.d_state // 2)
            raise ValueError(
                f"limit: states {shape} take {needed:,} bytes, more than the limit of {limit:,}; "
                f"increase `every` (now {every}) or the limit"
            )
        with without_autocast(u):
            chunks = self._chunks(block_size(1, 1, self.d_state, 0), 1, rate, from_state=False, need_state=False)
            return chunks.states(u.to(self._dtype), None if state is None else state.to(dtype), lengths, every)

    # The recurrent view

    def _step(
        self, u: Float[Tensor, "batch H"], state: Complex[Tensor, "batch H M"], rate: float
    ) -> tuple[Float[Tensor, "batch H"], Complex[Tensor, "batch H M"]]:
        """In O(H N)."""
        with without_autocast(u):
            constants = self._kept_step_constants(rate)
            discrete, C, D = constants[:3]
            signal, state = u.to(self._dtype), state.to(C.dtype)
            wanted = torch.is_grad_enabled() and (u.requires_grad or state.requires_grad)
            if constants.steps is not None and not wanted and type(signal) is type(state) is Tensor:
                return constants.steps(signal, state)
            state = dplr_step(discrete, state, signal)
            return 2 * (C.real * state.real - C.imag * state.imag).sum(-1) + D * signal, state

    def _kept_step_constants(self, rate: float) -> StepConstants:
        """Constants of a step, cached until a parameter changes."""

        def with_steps() -> StepConstants:
            constants = self.step_constants(rate)
            return constants._replace(steps=ops.layer_steps(*constants[:3]))

        return self._kept(("step", rate), with_steps) or self.step_constants(rate)

    def step_constants(self, rate: float = 1.0) -> StepConstants:
        """Constants of a step from the current parameters; differentiable."""
        return StepConstants(self._discrete(rate), self._output_map(), self.D.to(self._dtype))


def new_parameter(values: Tensor) -> nn.Parameter:
    """A parameter of torch's default dtype."""
    return nn.Parameter(values.to(torch.get_default_dtype()))
