"""Checks of a mixer's arguments: an error says which argument, what came, what was expected, what to do."""

import contextlib
import math
import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longwave.ops import checks

MOST_STATES = 1 << 13  # initialisations decompose a matrix of that size, which takes many minutes already


def check_count(name: str, value: Any, most: int | None = None) -> None:
    """Check a count: a whole number of at least 1, or a symbol while a graph is traced."""
    whole = isinstance(value, (int, torch.SymInt))  # torch 2.6 cannot trace a union of types
    if isinstance(value, bool) or not whole or value < 1:
        raise ValueError(f"{name}: expected a whole number, at least 1, got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name}: expected a whole number up to {most}, got {value}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check that a value is one of some names."""
    if value not in (known := list(choices)):
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def check_n_ssm(n_ssm: int | None, d_model: int) -> int:
    """Check the number of distinct systems, a divisor of d_model; None means d_model."""
    n_ssm = d_model if n_ssm is None else n_ssm
    check_count("n_ssm", n_ssm)
    if d_model % n_ssm:
        raise ValueError(f"n_ssm: expected a divisor of d_model = {d_model}, got {n_ssm}")
    return n_ssm


def check_dt_bounds(dt_min: float, dt_max: float) -> None:
    """Check the bounds of the initial step sizes."""
    if not 0 < dt_min <= dt_max < math.inf:
        raise ValueError(f"dt_min, dt_max: expected 0 < dt_min <= dt_max, both finite, got {dt_min} and {dt_max}")


def check_rate(rate: float) -> None:
    """Check a rate, for layers whose steps have a duration."""
    if not 0 < rate < math.inf:
        raise ValueError(f"rate: expected a finite number above 0 (2.0: sampled half as often), got {rate}")


def check_rate_is_one(rate: float, layer: str) -> None:
    """Check that the rate is 1, for layers that know only the order of steps."""
    if rate != 1.0:
        raise ValueError(
            f"rate: expected 1.0, because {layer} has no notion of the time between steps, got {rate}; "
            "resample the input, or use a state space (s4, s4d, lssl)"
        )


def check_input(u: Tensor, shape: tuple[str | int, ...], weight: Tensor, owner: nn.Module) -> None:
    """Check a non-empty floating-point tensor (batch, L, features) or (batch, features).

    It is where `weight` is, a parameter of the module `owner`.
    """
    if not isinstance(u, Tensor) or not u.is_floating_point() or u.ndim != len(shape) or u.shape[-1] != shape[-1]:
        names = ", ".join(str(size) for size in shape)
        raise ValueError(f"u: expected a floating-point tensor ({names}), got {describe(u)}{advice('u', u)}")
    if 0 in u.shape:
        raise ValueError(f"u: expected at least one row and one step, got {describe(u)}")
    if u.layout is not torch.strided or u.device != weight.device:
        check_strided("u", u)
        check_beside("u", u, weight, owner)


def check_strided(name: str, tensor: Tensor) -> None:
    """Check for a strided tensor: not sparse, nor in another library's layout."""
    if tensor.layout is not torch.strided:
        raise ValueError(f"{name}: expected a strided tensor, got {describe(tensor)}; call {name}.to_dense()")


def check_beside(name: str, tensor: Tensor, weight: object, owner: nn.Module) -> None:
    """Check that a tensor is on the device of `weight`, if `owner` has one.

    torch's own linear layer would give what it finds in fresh memory, if one of them is on the meta device.
    """
    # A module whose forward was exchanged may fetch its weights when it is called, as those do that are offloaded.
    if isinstance(weight, Tensor) and tensor.device != weight.device and "forward" not in vars(owner):
        check_device(name, tensor, weight.device)


def check_device(name: str, tensor: Tensor, device: torch.device) -> None:
    """Check that a tensor is on the device of the parameters."""
    if tensor.device != device:
        raise ValueError(
            f"{name}: expected a tensor on {device}, where the parameters are, got {tensor.dtype} "
            f"{tuple(tensor.shape)} on {tensor.device}; call {name}.to({str(device)!r}), or move the module"
        )


def without_autocast(u: Tensor) -> contextlib.AbstractContextManager[None]:
    """A context without autocast, which the meta device does not have."""
    if u.is_meta or not torch.is_autocast_enabled(u.device.type):  # to enter one takes a tenth of a step
        return _NOTHING
    return torch.autocast(u.device.type, enabled=False)


_NOTHING = contextlib.nullcontext()


def check_lengths(lengths: Tensor, u: Tensor) -> Tensor:
    """Check the lengths (batch,) of the rows of u; returns them as int64 on u's device."""
    batch, L = u.shape[:2]
    lengths = torch.as_tensor(lengths)
    if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths: expected {batch} whole numbers, one per row, got {describe(lengths)}")
    check_known("lengths", lengths, u)
    check_range("lengths", lengths, 0, L)
    return lengths.to(u.device).long()


def check_range(name: str, counts: Tensor, least: int, most: int, note: str = "") -> None:
    """Whole numbers from `least` to `most`, if they have values."""
    if not checks.has_values(counts) or torch.compiler.is_compiling() or not len(counts):
        return
    expected = f"{name}: expected numbers from {least} to {most}{note}"
    if counts.is_cuda:  # to read them would wait for the GPU: it looks at them itself, and ends the process
        torch._assert_async(((counts >= least) & (counts <= most)).all(), expected)
    elif int(counts.min()) < least or int(counts.max()) > most:
        raise ValueError(f"{expected}, got {int(counts.min())} to {int(counts.max())}")


def check_gaps(gaps: Tensor, u: Tensor, valid: Tensor | None) -> Tensor:
    """Check the gaps before the rows of u (batch, L, ...): finite and above 0; returns them with 0 for padding."""
    expected = tuple(u.shape[:2])
    if not isinstance(gaps, Tensor) or gaps.shape != expected or not gaps.is_floating_point():
        raise ValueError(
            f"gaps: expected a floating-point tensor {expected}, the time since the row before in units of the usual "
            f"step, got {describe(gaps)}{advice('gaps', gaps)}"
        )
    check_known("gaps", gaps, u)
    gaps = gaps.to(u.device)
    is_padding = torch.zeros_like(gaps, dtype=torch.bool) if valid is None else ~valid.squeeze(-1)
    fits = ((gaps > 0) & (gaps < math.inf)) | is_padding
    message = "gaps: expected finite numbers above 0"
    if checks.has_values(gaps) and not torch.compiler.is_compiling():
        if gaps.is_cuda:
            torch._assert_async(fits.all(), message)
        elif not fits.all():
            row, step = (~fits).nonzero()[0].tolist()
            raise ValueError(f"{message}, got {float(gaps[row, step]):g} at step {step} of row {row}")
    return torch.where(is_padding, 0, gaps)


def valid_steps(lengths: Tensor, x: Tensor) -> Tensor:
    """A mask (B, L, 1) of the steps of x (B, L, ...) that are not padding."""
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(-1)).unsqueeze(-1)


def check_known(name: str, values: Tensor, u: Tensor) -> None:
    """Refuse values on the meta device, unless u is there, too."""
    if values.is_meta and not u.is_meta:
        raise ValueError(f"{name}: expected numbers, got {describe(values)}, which has none")


def check_causal(what: str, bidirectional: bool) -> None:
    """Refuse states for a bidirectional layer."""
    if bidirectional:
        raise ValueError(
            f"{what}: a bidirectional layer has no state, because its output depends on the future; "
            "set bidirectional=False to stream or to resume from a state"
        )


def check_states(device: torch.device, **parts: tuple[object, tuple[int, ...], bool]) -> bool:
    """Whether all parts of a state are tensors of a shape, floating-point (True) or whole numbers.

    Those in another layout or on another device than that of u are refused.
    """
    for value, shape, is_real in parts.values():
        if not isinstance(value, Tensor) or tuple(value.shape) != shape or value.is_complex():
            return False
        if value.is_floating_point() != is_real or value.dtype == torch.bool:
            return False
    for name, (value, _, _) in parts.items():
        assert isinstance(value, Tensor)
        check_strided("state", value)
        if value.device != device:
            raise ValueError(
                f"state: expected tensors on {device}, where u and the parameters are, got {name} {value.dtype} "
                f"{tuple(value.shape)} on {value.device}; move all tensors of the state, or the module"
            )
    return True


def wrong_state(state: object, expected: str) -> ValueError:
    """The error for a wrong state of this layer."""
    return ValueError(
        f"state: expected {expected}, as returned by initial_state or an earlier call, got {describe(state)}"
    )


def describe(value: object) -> str:
    """Describe a value in short: a tensor by dtype, shape, and whatever is unusual about it."""
    if isinstance(value, Tensor):
        return checks.describe(value)
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(describe(item) for item in value)})"
    if isinstance(value, np.ndarray):
        return f"a numpy array {value.dtype} {value.shape}"
    return reprlib.repr(value)


def advice(name: str, value: object, as_float: bool = True) -> str:
    """How to convert a numpy array to a tensor, as the end of a message; empty for anything else."""
    if not isinstance(value, np.ndarray):
        return ""
    return f"; call torch.from_numpy({name}){'.float()' if as_float and value.dtype != np.float32 else ''}"
