"""Steps of a layer's recurrence by Triton, in one launch."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from longwave.ops.checks import describe_with_device, resolved
from longwave.ops.gpu.launch import Launch, next_power_of_two, run
from longwave.ssm import DiscreteDPLR

NUMBERS = 1 << 10  # complex numbers of states that a program holds
MOST_PAIRS = 1 << 12  # of one feature that a program can hold


class Constants(NamedTuple):
    """The constants of a layer, as the kernel reads them."""

    change: Tensor
    left: Tensor
    right: Tensor
    B_bar: Tensor
    C: Tensor
    D: Tensor


def layer_steps(
    discrete: DiscreteDPLR, C: Tensor, D: Tensor
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """A function of u (batch, H) and a state (batch, H, M) that gives y and the next state; None for huge states."""
    if C.shape[-1] > MOST_PAIRS:
        return None
    return functools.partial(step, Constants(*[resolved(t.detach()).contiguous() for t in (*discrete, C, D)]))


def step(constants: Constants, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """y (batch, H) and the next state (batch, H, M)."""
    (H, M), batch = constants.C.shape, len(u)
    _check("u", u, constants.D, (batch, H))
    _check("state", state, constants.C, (batch, H, M))
    u, state = u.contiguous(), resolved(state).contiguous()
    y, after = torch.empty_like(u), torch.empty_like(state)
    run([step_launch(constants, u, state, y, after)], u.device)
    return y, after


def step_launch(constants: Constants, u: Tensor, state: Tensor, y: Tensor, after: Tensor) -> Launch:
    """One launch for all rows and features."""
    (H, M), batch = constants.C.shape, len(u)
    pairs = next_power_of_two(M)
    rows = min(next_power_of_two(batch), max(1, NUMBERS // pairs))
    tensors = [torch.view_as_real(t) if t.is_complex() else t for t in (*constants, u, state, y, after)]
    known = {"RANK": len(constants.left), "ROWS": rows, "PAIRS": pairs}
    return Launch("step_kernel", "layer_step", (H, -(-batch // rows)), (*tensors, batch, H, M), known, 4)


def _check(name: str, tensor: Tensor, like: Tensor, shape: tuple[int, ...]) -> None:
    """The kernel reads that far without looking."""
    if tensor.dtype is not like.dtype or tensor.device != like.device or tensor.shape != shape:
        expected = f"{like.dtype} {shape} on {like.device}"
        raise ValueError(f"{name}: expected {expected}, got {describe_with_device(tensor)}")
