"""What the spectrum takes feature by feature on a GPU, in Triton: the gradients, and which features are wide."""

import triton
import triton.language as tl


@triton.jit
def spectrum_gradients(
    partial,
    partial_half,
    Lambda,
    P,
    dt,
    flags,
    dLambda,
    dP,
    dB,
    dC,
    d_dt,
    begin,
    H,
    M,
    maps,
    blocks,
    RANK: tl.constexpr,
    WIDE: tl.constexpr,
    PAIRS: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    """The gradients of one feature from the sums of `spectrum_backward`, added up in float64."""
    h = begin + tl.program_id(0)
    if tl.load(flags + h) != WIDE:
        return
    half = tl.load(dt + h).to(tl.float64) * 0.5
    root = tl.sqrt(half)
    n, slots = tl.arange(0, PAIRS), 6 + 2 * RANK
    stride, is_pair = slots * M, n < M
    at = 2 * (h * M + n)
    here, by_half = (tl.program_id(0) * maps).to(tl.int64) * blocks, tl.zeros([TOGETHER], tl.float64)
    for k in range(0, maps * blocks, TOGETHER):
        rows = k + tl.arange(0, TOGETHER)
        by_half += tl.load(partial_half + here + rows, mask=rows < maps * blocks, other=0.0).to(tl.float64)
    through = tl.sum(by_half, 0)
    for part in tl.static_range(2):
        scaled = _total(partial + here * stride + part * M, maps * blocks, M, stride, PAIRS, TOGETHER)
        through += tl.sum(scaled * tl.load(Lambda + at + part, mask=is_pair, other=0.0).to(tl.float64), 0)
        tl.store(dLambda + at + part, (scaled * half).to(dLambda.dtype.element_ty), mask=is_pair)
        found = _total(partial + here * stride + (2 + part) * M, maps * blocks, M, stride, PAIRS, TOGETHER)
        tl.store(dB + at + part, found.to(dB.dtype.element_ty), mask=is_pair)
        for i in tl.static_range(RANK):
            place = partial + here * stride + (6 + 2 * i + part) * M
            found = _total(place, maps * blocks, M, stride, PAIRS, TOGETHER)
            value = tl.load(P + 2 * i * H * M + at + part, mask=is_pair, other=0.0).to(tl.float64)
            through += tl.sum(found * value, 0) / (2 * root)
            tl.store(dP + 2 * i * H * M + at + part, (found * root).to(dP.dtype.element_ty), mask=is_pair)
        for d in range(maps):
            place = partial + (here + d * blocks) * stride + (4 + part) * M
            found = _total(place, blocks, M, stride, PAIRS, TOGETHER)
            out = dC + 2 * (d * H).to(tl.int64) * M + at + part
            tl.store(out, found.to(dC.dtype.element_ty), mask=is_pair)
    tl.store(d_dt + h, (0.5 * through).to(d_dt.dtype.element_ty))


@triton.jit
def _total(partial, count, M, stride, PAIRS: tl.constexpr, TOGETHER: tl.constexpr):
    """The sum of `count` rows of M numbers, in float64 and always in the same order."""
    n, rows = tl.arange(0, PAIRS)[None, :], tl.arange(0, TOGETHER)[:, None]
    total = tl.zeros([TOGETHER, PAIRS], tl.float64)
    for k in range(0, count, TOGETHER):
        place = partial + (k + rows).to(tl.int64) * stride + n
        total += tl.load(place, mask=(k + rows < count) & (n < M), other=0.0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def needs_wide(
    Lambda,
    dt,
    flags,
    M,
    TWINS: tl.constexpr,
    DAMPED: tl.constexpr,
    SMALLEST: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """flags (H,): 1 for features that float32 would not do for, because two undamped poles are (nearly) one.

    And for those whose poles are so small or so large that the squares of squares leave float32's range.
    """
    h, n = tl.program_id(0), tl.arange(0, PAIRS)
    at, is_pair = 2 * (h * M + n), n < M
    half = tl.load(dt + h).to(tl.float64) * 0.5
    re = tl.load(Lambda + at, mask=is_pair, other=1.0).to(tl.float64) * half
    im = tl.abs(tl.load(Lambda + at + 1, mask=is_pair, other=1.0).to(tl.float64) * half)
    size = tl.sqrt(re * re + im * im)
    is_wide = is_pair & ((size < SMALLEST) | (size > 1 / SMALLEST))
    for m in range(M):
        place = 2 * (h * M + m)
        x = re - tl.load(Lambda + place).to(tl.float64) * half
        y = im - tl.abs(tl.load(Lambda + place + 1).to(tl.float64) * half)
        is_twin = (n != m) & (tl.sqrt(x * x + y * y) < TWINS * size) & (tl.abs(re) < DAMPED * size)
        is_wide |= is_pair & is_twin
    tl.store(flags + h, tl.max(is_wide.to(tl.int32), 0).to(tl.uint8))
