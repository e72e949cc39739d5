"""The base of S4, S4D and LSSL: systems x' = A x + B u with a step dt, for any form of A."""

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from longwave.layers.checks import (
    MOST_STATES,
    check_count,
    check_device,
    check_n_ssm,
    check_rate,
    check_strided,
    wrong_state,
)
from longwave.layers.mixer import Mixer
from longwave.layers.seen import Seen
from longwave.ops.checks import has_values, is_captured

Derived = TypeVar("Derived")
Known = dict[tuple["Discretised", Any], Any]  # what was derived from the parameters of layers, by layer and key
_fixed: ContextVar[Known | None] = ContextVar("fixed", default=None)


@contextlib.contextmanager
def fixed_parameters(known: Known) -> Iterator[None]:
    """Cache everything derived from parameters in `known`, while they do not change."""
    token = _fixed.set(known)
    try:
        yield
    finally:
        _fixed.reset(token)


class Discretised(Mixer):
    """A mixer of systems x' = A x + B u with a step dt: its sizes, its states, and what it derives from parameters."""

    state_is_complex = True  # M = N/2 complex numbers per feature, or N real ones
    shown: tuple[str, ...] = ("d_model", "d_state", "init", "bidirectional", "n_ssm", "return_state")
    most_kept = 8  # derived things that are kept, as those of several sampling rates

    def __init__(
        self, d_model: int, d_state: int, *, init: str, bidirectional: bool, n_ssm: int | None, return_state: bool
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state)
        self.d_state, self.init, self.n_ssm = d_state, init, check_n_ssm(n_ssm, d_model)
        self._derived: dict[Any, tuple[Seen, Any]] = {}  # by key: the parameters, and what was derived from them

    @property
    def _dtype(self) -> torch.dtype:
        """The SSM works in float64 if its parameters do, else in float32: half precision would not do."""
        return torch.float64 if self._placed()[0].dtype == torch.float64 else torch.float32

    def _check_rate(self, rate: float) -> None:
        check_rate(rate)

    def _initial_state(self, batch: int) -> Tensor:
        """A state of zeros."""
        dtype, size = (complex_dtype(self._dtype), 2) if self.state_is_complex else (self._dtype, 1)
        return torch.zeros(batch, self.d_model, self.d_state // size, dtype=dtype, device=self._placed()[0].device)

    def _check_state(self, state: Tensor, batch: int, device: torch.device) -> None:
        kind, size = ("complex", 2) if self.state_is_complex else ("real", 1)
        expected = (batch, self.d_model, self.d_state // size)
        fits = isinstance(state, Tensor) and (state.is_complex() if size == 2 else state.is_floating_point())
        if not fits or state.shape != expected:
            raise wrong_state(state, f"a {kind} tensor {expected}")
        if state.layout is not torch.strided or state.device != device:
            check_strided("state", state)
            check_device("state", state, device)

    # What is derived from the parameters

    def _kept(self, key: Any, derive: Callable[[], Derived]) -> Derived | None:
        """Derive constants from the parameters, cached until one of them changes.

        None if it cannot be kept: a gradient is wanted of it, or the parameters have no values that stay.
        """
        parameters: list[Tensor] = [p for p in self._parameters.values() if p is not None]
        if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
            return None
        if torch.compiler.is_compiling() or not has_values(torch.empty(0)):  # traced
            return None
        known_here = _fixed.get()
        if known_here is not None:
            return self._kept_in(known_here, key, derive)
        if is_captured(parameters[0].device):
            return None  # the graph derives it anew, whatever the parameters are when it runs
        if any(type(p) is FakeTensor or p.is_inference() for p in parameters):
            return None
        if key in self._derived:
            seen, kept = self._derived[key]
            if seen.are(parameters):
                found: Derived = kept
                return found
        if len(self._derived) >= self.most_kept:
            self._derived.clear()
        with torch.inference_mode(False), torch.no_grad():
            derived = derive()
            self._derived[key] = (Seen(parameters), derived)
        return derived

    def _kept_in(self, known: Known, key: Any, derive: Callable[[], Derived]) -> Derived:
        """Derive constants from fixed parameters, cached in `known`."""
        if (self, key) not in known:
            with torch.inference_mode(False), torch.no_grad():
                known[self, key] = derive()
        found: Derived = known[self, key]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_derived": {}}  # copies and pickles derive their own


def check_state_size(d_model: int, d_state: int) -> None:
    """Sizes that state spaces stored as conjugate pairs can have."""
    check_count("d_model", d_model)
    check_count("d_state", d_state, MOST_STATES)
    if d_state % 2:
        raise ValueError(f"d_state: expected an even number (modes come in conjugate pairs), got {d_state}")


def initial_log_dt(n: int, dt_min: float, dt_max: float) -> Tensor:
    """log dt (n,) for dt drawn log-uniformly between the bounds."""
    return math.log(dt_min) + torch.rand(n) * (math.log(dt_max) - math.log(dt_min))


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype of float32 or float64; `dtype.to_complex()` breaks compiled graphs."""
    return torch.complex128 if dtype == torch.float64 else torch.complex64
