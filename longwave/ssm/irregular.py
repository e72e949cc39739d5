"""Diagonal systems at irregular times: each row comes after a gap of its own, which multiplies dt.

x_k = A_k x_(k-1) + (A_k - 1) / Lambda B u_k with A_k = exp(Lambda dt g_k): the zero-order hold, exact for any gap g_k.
With a varying step there is no kernel. Rows are taken in turn, element by element, and what does not depend on the
state is computed for a chunk of rows at once. Nothing grows, because Re(Lambda) <= 0, and nothing is divided by what
has decayed.

Where all gaps are whole multiples of a unit, as of a series with missing rows, u_k holds for as many even steps: then
there is a kernel, and `even_steps` says how many steps.
"""

import torch
from jaxtyping import Complex, Complex128, Float, Float64, Int64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from longwave.ssm.precision import doubles

ROWS = 32  # of a chunk; for the gradient the states within a chunk are computed again
MOST_STEPS = 16  # even steps per row: a convolution over more of them is no faster than the recurrence over the rows
ROUNDING = 1e-6  # of a gap, relative: the quotient of two times in float32
SLOW = 1e-5  # below, (A_k - 1) / Lambda would cancel, and three terms of its series are enough


def irregular(
    Lambda: Complex[Tensor, "H M"],
    B: Complex[Tensor, "H M"],
    C: Complex[Tensor, "H M"],
    dt: Float[Tensor, "H"],
    u: Float[Tensor, "batch L H"],
    gaps: Float[Tensor, "batch L"],
    state: Complex[Tensor, "batch H M"] | None = None,
) -> tuple[Float64[Tensor, "batch L H"], Complex128[Tensor, "batch H M"]]:
    """y = 2 Re(C x) after each row, and the last state x; a row with a gap of 0 leaves the state as it is.

    Always in float64, as the kernel is: the phase Im(Lambda) dt g of a long gap has many digits before its point.
    """
    Lambda, B, C, dt = doubles(Lambda, B, C, dt)
    none = u.new_zeros(len(u), *Lambda.shape, dtype=torch.complex128)
    x = none if state is None else state.to(torch.complex128)
    chunks = list(zip(u.double().split(ROWS, dim=1), gaps.double().split(ROWS, dim=1), strict=True))
    outputs = []
    for chunk in chunks:
        if torch.is_grad_enabled() and len(chunks) > 1:
            y, x = checkpoint(_chunk, Lambda, B, C, dt, *chunk, x, use_reentrant=False, preserve_rng_state=False)
        else:
            y, x = _chunk(Lambda, B, C, dt, *chunk, x)
        outputs.append(y)
    return torch.cat(outputs, dim=1), x


def even_steps(gaps: Float[Tensor, "batch L"]) -> tuple[float, Int64[Tensor, "batch L"]] | None:
    """A unit, and how many of it each gap is; None: there is none, or most sequences have too many steps of it.

    A gap of 0 has no step. The unit is the greatest common divisor, by Euclid's algorithm with the remainders nearest
    to 0.
    """
    (gaps,) = doubles(gaps)
    values = gaps.unique()
    values = rest = values[values > 0]
    if not len(values):
        return None
    unit, usual = 0.0, float(gaps.sum(1).median())
    while len(rest):
        unit = float(rest.min())
        if usual > unit * MOST_STEPS * gaps.shape[1]:
            return None
        rest = (values - (values / unit).round() * unit).abs()
        rest = rest[rest > ROUNDING * values]
    return unit, (gaps / unit).round().long()


def _chunk(
    Lambda: Complex128[Tensor, "H M"],
    B: Complex128[Tensor, "H M"],
    C: Complex128[Tensor, "H M"],
    dt: Float64[Tensor, "H"],
    u: Float64[Tensor, "batch L H"],
    gaps: Float64[Tensor, "batch L"],
    state: Complex128[Tensor, "batch H M"],
) -> tuple[Float64[Tensor, "batch L H"], Complex128[Tensor, "batch H M"]]:
    """The outputs of a few rows, and the state after them."""
    step = (gaps.unsqueeze(-1) * dt).unsqueeze(-1)  # (batch, L, H, 1)
    x = Lambda * step
    A_bar = torch.exp(x)
    is_slow = Lambda.abs() < SLOW
    added = (A_bar - 1) * (B / torch.where(is_slow, 1, Lambda) * u.unsqueeze(-1))
    # On other devices than the CPU always: to ask would wait for them.
    if not is_slow.is_cpu or bool(is_slow.any()):
        added = torch.where(is_slow, step * (1 + x / 2 + x * x / 6) * (B * u.unsqueeze(-1)), added)
    states = []
    for A_k, added_k in zip(A_bar.unbind(1), added.unbind(1), strict=True):
        state = torch.addcmul(added_k, A_k, state)
        states.append(state)
    pairs = torch.view_as_real(torch.stack(states, dim=1))
    return 2 * (pairs * torch.stack((C.real, -C.imag), dim=-1)).sum((-2, -1)), state
