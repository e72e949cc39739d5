"""A step of a layer on a GPU, in Triton: one program per feature and some rows, which reads and writes a state once."""

import triton
import triton.language as tl


@triton.jit
def _parts(pointer, mask):
    """The real and imaginary parts of complex numbers in memory."""
    return tl.load(pointer, mask=mask, other=0.0), tl.load(pointer + 1, mask=mask, other=0.0)


@triton.jit
def layer_step(
    change,
    left,
    right,
    B_bar,
    C,
    D,
    u,
    state,
    y,
    after,
    batch,
    H,
    M,
    RANK: tl.constexpr,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """x' = x + change x - sum_i left_i Re(right_i . x) + B_bar u and y = 2 Re(C x') + D u.

    Complex: change, B_bar, C (H, M), left, right (RANK, H, M), state and after (batch, H, M); real: D (H,), u and y
    (batch, H).
    """
    h, n = tl.program_id(0), tl.arange(0, PAIRS)[None, :]
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    is_row, is_pair = row < batch, n < M
    at, mask = 2 * (h * M + n), is_row[:, None] & is_pair
    signal = tl.load(u + row.to(tl.int64) * H + h, mask=is_row, other=0.0)
    place = 2 * ((row.to(tl.int64)[:, None] * H + h) * M + n)
    re, im = _parts(state + place, mask)
    d, b, c = _parts(change + at, is_pair), _parts(B_bar + at, is_pair), _parts(C + at, is_pair)
    moved_re = d[0] * re - d[1] * im + b[0] * signal[:, None]
    moved_im = d[0] * im + d[1] * re + b[1] * signal[:, None]
    for i in tl.static_range(RANK):
        out, into = _parts(left + 2 * i * H * M + at, is_pair), _parts(right + 2 * i * H * M + at, is_pair)
        inner = tl.sum(into[0] * re - into[1] * im, 1)[:, None]
        moved_re -= out[0] * inner
        moved_im -= out[1] * inner
    re += moved_re
    im += moved_im
    tl.store(after + place, re, mask=mask)
    tl.store(after + place + 1, im, mask=mask)
    result = 2 * tl.sum(c[0] * re - c[1] * im, 1) + tl.load(D + h) * signal
    tl.store(y + row.to(tl.int64) * H + h, result, mask=is_row)
