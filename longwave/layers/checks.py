"""Checks of what every mixer is given: an error says which argument, what came, what was expected, what to do."""

import math

import torch
from torch import Tensor


def check_count(name: str, value: object) -> None:
    """A whole number, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected a whole number, at least 1, got {value!r}")


def check_n_ssm(n_ssm: int | None, d_model: int) -> int:
    """How many distinct systems the features share: a divisor of d_model, and d_model for None."""
    n_ssm = d_model if n_ssm is None else n_ssm
    check_count("n_ssm", n_ssm)
    if d_model % n_ssm:
        raise ValueError(f"n_ssm: expected a divisor of d_model = {d_model}, got {n_ssm}")
    return n_ssm


def check_dt_bounds(dt_min: float, dt_max: float) -> None:
    """Bounds of the step sizes that a layer starts from."""
    if not 0 < dt_min <= dt_max < math.inf:
        raise ValueError(f"dt_min, dt_max: expected 0 < dt_min <= dt_max, both finite, got {dt_min} and {dt_max}")


def check_rate(rate: float) -> None:
    """A rate, for layers whose steps have a duration."""
    if not 0 < rate < math.inf:
        raise ValueError(f"rate: expected a finite number above 0 (2.0: sampled half as often), got {rate}")


def check_rate_is_one(rate: float, layer: str) -> None:
    """No rate, for layers that know the order of steps and not the time between them."""
    if rate != 1.0:
        raise ValueError(
            f"rate: expected 1.0, because {layer} knows no time between steps, got {rate}; "
            "resample the input, or take a state space (s4, lssl)"
        )


def check_input(u: Tensor, shape: tuple[str | int, ...]) -> None:
    """A floating-point tensor of this shape, (batch, L, features) or (batch, features), with something in it."""
    names = ", ".join(str(size) for size in shape)
    if not isinstance(u, Tensor) or not u.is_floating_point() or u.ndim != len(shape) or u.shape[-1] != shape[-1]:
        raise ValueError(f"u: expected a floating-point tensor ({names}), got {describe(u)}")
    if 0 in u.shape:
        raise ValueError(f"u: expected at least one row and one step, got {describe(u)}")


def check_lengths(lengths: Tensor, u: Tensor) -> Tensor:
    """How many steps of each row of u count, (batch,), as int64 where u is."""
    batch, L = u.shape[:2]
    lengths = torch.as_tensor(lengths)
    if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths: expected {batch} whole numbers, one a row, got {describe(lengths)}")
    if not torch.compiler.is_compiling() and (int(lengths.min()) < 0 or int(lengths.max()) > L):
        raise ValueError(f"lengths: expected numbers from 0 to {L}, got {int(lengths.min())} to {int(lengths.max())}")
    return lengths.to(u.device).long()


def check_causal(what: str, bidirectional: bool) -> None:
    """Refuse states to a layer that looks both ways."""
    if bidirectional:
        raise ValueError(
            f"{what}: a bidirectional layer has no state, because its output depends on the future; "
            "make the layer with bidirectional=False to stream or to go on from a state"
        )


def wrong_state(state: object, expected: str) -> ValueError:
    """The error for a state that no call of this layer gave."""
    return ValueError(
        f"state: expected {expected}, as initial_state or an earlier call gives it, got {describe(state)}"
    )


def describe(value: object) -> str:
    """What came, short: a tensor by its dtype and shape."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(describe(item) for item in value)})"
    return repr(value)
