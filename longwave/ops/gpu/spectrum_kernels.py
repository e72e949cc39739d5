"""The spectrum of the kernel and its gradients on a GPU, in Triton: one program per feature, output map and some nodes.

Algorithm 1 with the pole nearest to each node left out of the sums and put back after Woodbury's identity, so that
nothing cancels where a node comes close to an undamped pole, and float32 is enough for all but one subtraction per
node. docs/gpu.md derives it. Complex numbers are pairs (re, im) of real tensors. Each program writes its own memory.
"""

import triton
import triton.language as tl


@triton.jit
def _times(x, y):
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


@triton.jit
def _over(x, y):
    q = 1 / (y[0] * y[0] + y[1] * y[1])
    return (x[0] * y[0] + x[1] * y[1]) * q, (x[1] * y[0] - x[0] * y[1]) * q


@triton.jit
def _conj(x):
    return x[0], -x[1]


@triton.jit
def _plus(x, y):
    return x[0] + y[0], x[1] + y[1]


@triton.jit
def _minus(x, y):
    return x[0] - y[0], x[1] - y[1]


@triton.jit
def _scaled(factor, x):
    return factor * x[0], factor * x[1]


@triton.jit
def _number(pointer, sign, T: tl.constexpr):
    """A complex number of one pair, or of one pair per node; conjugated where the sign is -1."""
    return tl.load(pointer).to(T), tl.load(pointer + 1).to(T) * sign


@triton.jit
def _pole(Lambda, at, half, T: tl.constexpr):
    """lambda = Lambda dt/2 of the pair at a place, above the real axis, and the sign by which its pair is turned."""
    re, im = tl.load(Lambda + 2 * at).to(T) * half, tl.load(Lambda + 2 * at + 1).to(T) * half
    sign = tl.where(im < 0, -1.0, 1.0).to(T)
    return (re, im * sign), sign


@triton.jit
def _nearest(Lambda, first, M, half, sigma, kappa, T: tl.constexpr):
    """Which pair has the pole nearest to each node: |i sigma - kappa lambda|^2 without sigma^2, over kappa."""
    best, found = tl.full(sigma.shape, float("inf"), T), tl.zeros(sigma.shape, tl.int32)
    for n in range(M):
        pole, _ = _pole(Lambda, first + n, half, T)
        distance = kappa * (pole[0] * pole[0] + pole[1] * pole[1]) - sigma * (2 * pole[1])
        found = tl.where(distance < best, n, found)
        best = tl.minimum(distance, best)
    return found


@triton.jit
def _inverses(pole, sigma, kappa, is_near, shift, T: tl.constexpr):
    """1 / (i sigma - kappa lambda), 0 for the nearest pole, and the same of its conjugate.

    In float64 a node on a pole is moved off it by a little: two poles may be one.
    """
    re, im, im_far = -kappa * pole[0], sigma - kappa * pole[1], sigma + kappa * pole[1]
    if T == tl.float64:  # noqa: SIM300
        im = tl.where(re * re + im * im < shift * shift, shift, im)
        im_far = tl.where(re * re + im_far * im_far < shift * shift, shift, im_far)
    size = tl.where(is_near, 1.0, re * re + im * im)
    size_far = re * re + im_far * im_far
    q = 1 / (size * size_far)
    near, far = tl.where(is_near, 0.0, size_far * q), size * q
    return (re * near, -im * near), (re * far, -im_far * far)


@triton.jit
def _added(total, weight, inverse, inverse_far):
    """total + w / (i sigma - kappa lambda) + conj(w) / (i sigma - kappa conj(lambda))."""
    plus, minus = _plus(inverse, inverse_far), _minus(inverse, inverse_far)
    return (
        total[0] + weight[0] * plus[0] - weight[1] * minus[1],
        total[1] + weight[0] * plus[1] + weight[1] * minus[0],
    )


@triton.jit
def _sums(
    Lambda,
    P,
    B,
    C,
    first,
    first_C,
    stride_P,
    M,
    half,
    root,
    sigma,
    kappa,
    found,
    shift,
    RANK: tl.constexpr,
    T: tl.constexpr,
):
    """R00 = sum c b / (i sigma - kappa lambda), R01 with p for b, R10 with conj(p) for c, R11 with both.

    Without the nearest poles. Those of a rank that is not there are 0.
    """
    nothing = tl.zeros(sigma.shape, T)
    R00, R01_0, R01_1, R10_0, R10_1 = (
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
    )
    R11_00, R11_01, R11_10, R11_11 = (nothing, nothing), (nothing, nothing), (nothing, nothing), (nothing, nothing)
    for n in range(M):
        pole, sign = _pole(Lambda, first + n, half, T)
        inverse, far = _inverses(pole, sigma, kappa, found == n, shift, T)
        b, c = _number(B + 2 * (first + n), sign, T), _number(C + 2 * (first_C + n), sign, T)
        R00 = _added(R00, _times(c, b), inverse, far)
        if RANK > 0:
            p = _scaled(root, _number(P + 2 * (first + n), sign, T))
            R01_0 = _added(R01_0, _times(c, p), inverse, far)
            R10_0 = _added(R10_0, _times(_conj(p), b), inverse, far)
            R11_00 = _plus(R11_00, _scaled(p[0] * p[0] + p[1] * p[1], _plus(inverse, far)))
        if RANK > 1:
            o = _scaled(root, _number(P + stride_P + 2 * (first + n), sign, T))
            R01_1 = _added(R01_1, _times(c, o), inverse, far)
            R10_1 = _added(R10_1, _times(_conj(o), b), inverse, far)
            R11_01 = _added(R11_01, _times(_conj(p), o), inverse, far)
            R11_10 = _added(R11_10, _times(_conj(o), p), inverse, far)
            R11_11 = _plus(R11_11, _scaled(o[0] * o[0] + o[1] * o[1], _plus(inverse, far)))
    return R00, R01_0, R01_1, R10_0, R10_1, R11_00, R11_01, R11_10, R11_11


@triton.jit
def _solved(m00, m01, m10, m11, r0, r1, RANK: tl.constexpr):
    """m^-1 r for a 1 x 1 or 2 x 2 matrix: elimination, one row after the other."""
    if RANK == 1:
        return _over(r0, m00), r1
    factor = _over(m10, m00)
    second = _over(_minus(r1, _times(factor, r0)), _minus(m11, _times(factor, m01)))
    return _over(_minus(r0, _times(m01, second)), m00), second


@triton.jit
def _solution(
    Lambda,
    P,
    B,
    C,
    dt,
    sigma_table,
    kappa_table,
    h,
    first,
    first_C,
    stride_P,
    M,
    at,
    is_node,
    RANK: tl.constexpr,
    T: tl.constexpr,
):
    """Z = c^T x at each node, for x that solves (i sigma - kappa Lambda + kappa p p^*) x = b, and what gradients take.

    That is sigma, kappa, which pair is nearest, x and y there, z = p^* x and w = p^T y, where y solves the transpose.
    """
    sigma_wide = tl.load(sigma_table + at, mask=is_node, other=1.0)
    kappa_wide = tl.load(kappa_table + at, mask=is_node, other=0.0)
    sigma, kappa = sigma_wide.to(T), kappa_wide.to(T)
    half = tl.load(dt + h).to(T) * 0.5
    root = tl.sqrt(half)
    found = _nearest(Lambda, first, M, half, sigma, kappa, T)
    here = first + found
    pole, sign = _pole(Lambda, here, tl.load(dt + h).to(tl.float64) * 0.5, tl.float64)
    sign = sign.to(T)
    # The one difference that cancels. A node on a pole that nothing damps is moved off it by a little.
    shift = 1e-9 * (sigma + kappa * tl.sqrt(pole[0] * pole[0] + pole[1] * pole[1]).to(T)) + 1e-30
    delta = (-kappa_wide * pole[0]).to(T), (sigma_wide - kappa_wide * pole[1]).to(T)
    R00, R01_0, R01_1, R10_0, R10_1, R11_00, R11_01, R11_10, R11_11 = _sums(
        Lambda, P, B, C, first, first_C, stride_P, M, half, root, sigma, kappa, found, shift, RANK, T
    )
    b, c = _number(B + 2 * here, sign, T), _number(C + 2 * (first_C + found), sign, T)
    nothing = tl.zeros(sigma.shape, T)
    one = nothing + 1
    s0, s1, t0, t1, p, o = (
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
        (nothing, nothing),
    )
    w0, w1, v0, v1 = (nothing, nothing), (nothing, nothing), (nothing, nothing), (nothing, nothing)
    numerator, denominator, numerator_y = b, delta, c
    if RANK > 0:
        p = _scaled(root, _number(P + 2 * here, sign, T))
        if RANK > 1:
            o = _scaled(root, _number(P + stride_P + 2 * here, sign, T))
        m00, m11 = _plus((one, nothing), _scaled(kappa, R11_00)), _plus((one, nothing), _scaled(kappa, R11_11))
        m01, m10 = _scaled(kappa, R11_01), _scaled(kappa, R11_10)
        s0, s1 = _solved(m00, m01, m10, m11, R10_0, R10_1, RANK)
        t0, t1 = _solved(m00, m01, m10, m11, _conj(p), _conj(o), RANK)
        w0, w1 = _solved(m00, m10, m01, m11, R01_0, R01_1, RANK)
        v0, v1 = _solved(m00, m10, m01, m11, p, o, RANK)
        numerator = _minus(b, _scaled(kappa, _times(p, s0)))
        denominator = _plus(delta, _scaled(kappa, _times(p, t0)))
        numerator_y = _minus(c, _scaled(kappa, _times(_conj(p), w0)))
        if RANK > 1:
            numerator = _minus(numerator, _scaled(kappa, _times(o, s1)))
            denominator = _plus(denominator, _scaled(kappa, _times(o, t1)))
            numerator_y = _minus(numerator_y, _scaled(kappa, _times(_conj(o), w1)))
    is_hit = denominator[0] * denominator[0] + denominator[1] * denominator[1] < shift * shift
    denominator = denominator[0], tl.where(is_hit, shift, denominator[1])
    x, y = _over(numerator, denominator), _over(numerator_y, denominator)
    Z = _plus(R00, _times(c, x))
    if RANK > 0:
        s0, w0 = _plus(s0, _times(t0, x)), _plus(w0, _times(v0, y))
        Z = _minus(Z, _scaled(kappa, _times(R01_0, s0)))
    if RANK > 1:
        s1, w1 = _plus(s1, _times(t1, x)), _plus(w1, _times(v1, y))
        Z = _minus(Z, _scaled(kappa, _times(R01_1, s1)))
    return Z, sigma, kappa, found, shift, x, y, s0, s1, w0, w1


@triton.jit
def spectrum_forward(
    Lambda,
    P,
    B,
    C,
    dt,
    sigma_table,
    kappa_table,
    flags,
    K_hat,
    M,
    nodes,
    RANK: tl.constexpr,
    WIDE: tl.constexpr,
    NODES: tl.constexpr,
):
    """K_hat (D, H, nodes, 2) = dt/2 exp(i theta/2) Z, for the features whose flag is WIDE."""
    h, d, H = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    if tl.load(flags + h) != WIDE:
        return
    T: tl.constexpr = tl.float64 if WIDE else tl.float32
    at = tl.program_id(2) * NODES + tl.arange(0, NODES)
    is_node = at < nodes
    first_C = (d * H + h).to(tl.int64)
    Z, sigma, kappa, _, _, _, _, _, _, _, _ = _solution(
        Lambda, P, B, C, dt, sigma_table, kappa_table, h, h * M, first_C * M, 2 * H * M, M, at, is_node, RANK, T
    )
    value = _scaled(tl.load(dt + h).to(T) * 0.5, _times(Z, (kappa, sigma)))
    out = K_hat + 2 * (first_C * nodes + at)
    tl.store(out, value[0].to(K_hat.dtype.element_ty), mask=is_node)
    tl.store(out + 1, value[1].to(K_hat.dtype.element_ty), mask=is_node)


@triton.jit
def spectrum_backward(
    grad,
    Lambda,
    P,
    B,
    C,
    dt,
    sigma_table,
    kappa_table,
    flags,
    partial,
    partial_half,
    begin,
    H,
    M,
    nodes,
    RANK: tl.constexpr,
    WIDE: tl.constexpr,
    NODES: tl.constexpr,
):
    """Sums over the nodes of a program: partial (., D, blocks, 6 + 2 RANK, M) by lambda, b, c, p; partial_half by dt/2.

    Of the features from `begin` on, of H.
    """
    h, d, k = begin + tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if tl.load(flags + h) != WIDE:
        return
    T: tl.constexpr = tl.float64 if WIDE else tl.float32
    at = k * NODES + tl.arange(0, NODES)
    is_node = at < nodes
    first, first_C, stride_P = h * M, (d * H + h).to(tl.int64) * M, 2 * H * M
    Z, sigma, kappa, found, shift, x_near, y_near, z0, z1, w0, w1 = _solution(
        Lambda, P, B, C, dt, sigma_table, kappa_table, h, first, first_C, stride_P, M, at, is_node, RANK, T
    )
    place = grad + 2 * ((d * H + h).to(tl.int64) * nodes + at)
    g = tl.load(place, mask=is_node, other=0.0).to(T), -tl.load(place + 1, mask=is_node, other=0.0).to(T)
    g = _times(g, (kappa, sigma))  # so that the change of the loss by Z is Re(g dZ), but for dt/2
    here = (tl.program_id(0) * tl.num_programs(1) + d).to(tl.int64) * tl.num_programs(2) + k
    tl.store(partial_half + here, tl.sum(g[0] * Z[0] - g[1] * Z[1], 0))
    half = tl.load(dt + h).to(T) * 0.5
    g, root = _scaled(half, g), tl.sqrt(half)
    z0, z1, w0, w1 = _scaled(-kappa, z0), _scaled(-kappa, z1), _scaled(-kappa, w0), _scaled(-kappa, w1)
    out = partial + here * (6 + 2 * RANK) * M
    for n in range(M):
        pole, sign = _pole(Lambda, first + n, half, T)
        is_near = found == n
        inverse, inverse_far = _inverses(pole, sigma, kappa, is_near, shift, T)
        b, c = _number(B + 2 * (first + n), sign, T), _number(C + 2 * (first_C + n), sign, T)
        x, x_far, y, y_far = b, _conj(b), c, _conj(c)
        if RANK > 0:
            p = _scaled(root, _number(P + 2 * (first + n), sign, T))
            x, x_far = _plus(x, _times(p, z0)), _plus(x_far, _times(_conj(p), z0))
            y, y_far = _plus(y, _times(_conj(p), w0)), _plus(y_far, _times(p, w0))
        if RANK > 1:
            o = _scaled(root, _number(P + stride_P + 2 * (first + n), sign, T))
            x, x_far = _plus(x, _times(o, z1)), _plus(x_far, _times(_conj(o), z1))
            y, y_far = _plus(y, _times(_conj(o), w1)), _plus(y_far, _times(o, w1))
        x, y = _times(x, inverse), _times(y, inverse)
        x = tl.where(is_near, x_near[0], x[0]), tl.where(is_near, x_near[1], x[1])
        y = tl.where(is_near, y_near[0], y[0]), tl.where(is_near, y_near[1], y[1])
        x_far, y_far = _times(x_far, inverse_far), _times(y_far, inverse_far)
        gx, gx_far, gy, gy_far = _times(g, x), _times(g, x_far), _times(g, y), _times(g, y_far)
        # The loss changes by Re(alpha dv + beta conj(dv)) with a parameter v: by Re(alpha + beta) and Im(beta - alpha).
        sum_x, change_x, sum_y, change_y = _plus(gx, gx_far), _minus(gx_far, gx), _plus(gy, gy_far), _minus(gy_far, gy)
        by_pole, by_pole_far = _times(gy, x), _times(gy_far, x_far)
        _store(out + n, M, sign, kappa * (by_pole[0] + by_pole_far[0]), kappa * (by_pole_far[1] - by_pole[1]))
        _store(out + 2 * M + n, M, sign, sum_y[0], change_y[1])
        _store(out + 4 * M + n, M, sign, sum_x[0], change_x[1])
        if RANK > 0:
            _store_low_rank(out + 6 * M + n, M, sign, sum_x, change_x, sum_y, change_y, z0, w0)
        if RANK > 1:
            _store_low_rank(out + 8 * M + n, M, sign, sum_x, change_x, sum_y, change_y, z1, w1)


@triton.jit
def _store(out, M, sign, re, im):
    """The sums over nodes, for the real and the imaginary part of a parameter."""
    tl.store(out, tl.sum(re, 0))
    tl.store(out + M, tl.sum(im, 0) * sign)


@triton.jit
def _store_low_rank(out, M, sign, sum_x, change_x, sum_y, change_y, z, w):
    """Those of an entry of P: alpha = y z + w conj(x) and beta = conj(y) z + w x, where conj is that of the pair."""
    re = sum_y[0] * z[0] - sum_y[1] * z[1] + w[0] * sum_x[0] - w[1] * sum_x[1]
    im = change_y[0] * z[1] + change_y[1] * z[0] - w[0] * change_x[1] - w[1] * change_x[0]
    _store(out, M, sign, re, im)
