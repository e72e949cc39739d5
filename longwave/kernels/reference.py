"""The kernels in plain torch: they run on every device and define the truth that compiled backends are tested against.

Complex numbers are real pairs throughout (a last axis of two), as in the op: `Lambda`, `B` (H, M, 2), `P` (r, H, M, 2),
`C` (D, H, M, 2), `dt` (H,). The spectrum is computed block by block of nodes, so that no array of size H M L exists;
the backward pass computes each block again. Conjugates are physical: a lazy one is not resolved inside an op that a
compiled graph calls. docs/kernel.md derives the formulas.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

BLOCK_NUMBERS = 1 << 20  # a block of nodes holds at most about this many (feature, pair, node) numbers

Pair = tuple[Tensor, Tensor]  # a complex tensor as its real and imaginary part


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, Q: Tensor | None = None) -> Tensor:
    """K_hat (D, H, L//2+1, 2): the spectrum of the kernel whose truncated output map is C (Algorithm 1, pole-free).

    Q stands for the original paper's A = diag(Lambda) - P Q^*; without it Q = P.
    """
    dtype = Lambda.dtype
    Lambda, P, B, C, dt, Q = _widen(Lambda, P, B, C, dt, P if Q is None else Q)
    sigma, kappa = nodes(L, Lambda)
    blocks = [_spectrum_block(Lambda, P, B, C, dt, Q, sigma[k], kappa[k]) for k in _blocks(Lambda, L)]
    return torch.cat(blocks, dim=-2).to(dtype)


def spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt, each block of nodes computed again."""
    dtype = Lambda.dtype
    parameters = [p.detach() for p in _widen(Lambda, P, B, C, dt)]
    sigma, kappa = nodes(L, parameters[0])
    total = [torch.zeros_like(p) for p in parameters]
    for k in _blocks(Lambda, L):

        def block(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, k: slice = k) -> Tensor:
            return _spectrum_block(Lambda, P, B, C, dt, P, sigma[k], kappa[k])

        for sum_, part in zip(total, _pull_back(block, parameters, grad[..., k, :].to(sigma.dtype)), strict=True):
            sum_ += part
    return [t.to(dtype) for t in total]


def truncate(Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, Q: Tensor | None = None) -> Tensor:
    """C~ = C (I - A_bar^L), (D, H, M, 2), by repeated squaring of E = A_bar^m - I; E_2m = 2 E_m + E_m^2.

    E is small where A_bar^m is close to I, so slow modes keep their digits, and tends to -I, not to 0: no denormals.
    Always in float64: in float32 the squarings would cost the kernel a digit or two.
    """
    dtype = C.dtype
    Lambda, P, C, dt = (t.double() for t in (Lambda, P, C, dt))
    E, row = minus_identity(Lambda, P, dt, None if Q is None else Q.double()), to_row(C)
    change = torch.zeros_like(row)  # row A_bar^m - row for the bits of L seen so far
    while L:
        if L & 1:
            change = change + (row + change) @ E
        L >>= 1
        if L:
            E = 2 * E + E @ E
    return from_row(-change).to(dtype)


def truncate_backward(grad: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int) -> list[Tensor]:
    """Gradients with respect to Lambda, P, C and dt; the powers are computed again."""
    parameters = [p.detach() for p in (Lambda, P, C, dt)]
    return _pull_back(lambda Lambda, P, C, dt: truncate(Lambda, P, C, dt, L), parameters, grad)


def convolve(u: Tensor, K: Tensor, D: Tensor) -> Tensor:
    """y (batch, L, H) from u (batch, L, H), K (sides, H, L) and D (H,): causal, or two-sided.

    y_k = D u_k + sum_(j<=k) K[0, k-j] u_j + sum_(j>k) K[1, j-k-1] u_j
    """
    L = u.shape[1]
    n = _fft_length(2 * L - 1)
    y = torch.fft.irfft(torch.fft.rfft(u.mT, n=n) * _kernel_spectrum(K, D, n), n=n)[..., :L]
    return y.mT.contiguous()


def convolve_backward(dy: Tensor, u: Tensor, K: Tensor, D: Tensor) -> list[Tensor]:
    """Gradients with respect to u, K and D.

    Autograd differentiates rfft by a complex transform of the full length; written out, real transforms are enough.
    """
    L = u.shape[1]
    n = _fft_length(2 * L - 1)
    dy_f, u_f, K_f = torch.fft.rfft(dy.mT, n=n), torch.fft.rfft(u.mT, n=n), _kernel_spectrum(K, D, n)
    circle = torch.fft.irfft((u_f.conj_physical() * dy_f).sum(0), n=n)
    dK = torch.zeros_like(K)
    dK[0] = circle[:, :L]
    if len(K) == 2:
        dK[1, :, : L - 1] = circle[:, n - L + 1 :].flip(-1)  # the last one, at lag -L, reaches no step
    du = torch.fft.irfft(dy_f * K_f.conj_physical(), n=n)[..., :L]
    return [du.mT.contiguous(), dK, dK[0, :, 0].clone()]


def _kernel_spectrum(K: Tensor, D: Tensor, n: int) -> Tensor:
    """rfft of K (sides, H, L) laid on a circle of n >= 2L - 1 points; a backward kernel stands reversed at its end."""
    L = K.shape[-1]
    circle = K.new_zeros(K.shape[1], n)
    circle[:, :L] = K[0]
    circle[:, 0] += D
    if len(K) == 2:
        circle[:, n - L + 1 :] = K[1, :, : L - 1].flip(-1)  # K[1, :, i] acts at lag -(i+1)
    return torch.fft.rfft(circle)


def _fft_length(minimum: int) -> int:
    """The smallest even n >= minimum with no prime factor above 5: lengths that FFT libraries are fast at."""
    n = minimum + minimum % 2
    while True:
        rest = n
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 2


def nodes(L: int, like: Tensor) -> Pair:
    """sin and cos of theta_k / 2 = pi k / L for k = 0 ... L//2, in float64, rounded once to the dtype of `like`."""
    k = torch.arange(L // 2 + 1, dtype=torch.float64, device=like.device)
    sigma = torch.sin(math.pi * k / L)
    kappa = torch.sin(math.pi * (L - 2 * k) / (2 * L))  # = cos(pi k / L), exactly 0 at k = L/2
    return sigma.to(like.dtype), kappa.to(like.dtype)


def minus_identity(Lambda: Tensor, P: Tensor, dt: Tensor, Q: Tensor | None = None) -> Tensor:
    """E = A_bar - I as a real (H, N, N) matrix on (re, im) of each stored pair, in closed form by Woodbury.

    With lambda = Lambda dt/2, p = sqrt(dt) (Re P, Im P), likewise q from Q (or P), and D = 1/(1 - lambda):
    E = 2 lambda D - 2 (D p) (I + q^T D p)^-1 (D^T q)^T.
    """
    lambda_ = as_complex(Lambda) * (dt / 2).unsqueeze(-1)
    d = 1 / (1 - lambda_)
    p, q = (as_complex(x) * dt.sqrt().unsqueeze(-1) for x in (P, P if Q is None else Q))
    columns, rows, q = (torch.view_as_real(x).flatten(-2).movedim(0, 1) for x in (d * p, d.conj_physical() * q, q))
    gram = columns @ q.mT  # (H, r, r): gram[j, i] = q_i^T D p_j
    mu = lambda_ * d
    blocks = torch.stack((torch.stack((mu.real, -mu.imag), -1), torch.stack((mu.imag, mu.real), -1)), -2)
    H, M = mu.shape
    dense = torch.zeros(H, M, 2, M, 2, dtype=blocks.dtype, device=blocks.device)
    dense = torch.diagonal_scatter(dense, blocks.permute(0, 2, 3, 1), dim1=1, dim2=3).reshape(H, 2 * M, 2 * M)
    return 2 * dense - 2 * columns.mT @ inverse_plus_identity(gram).mT @ rows


def power_minus_identity(E: Tensor, L: int) -> Tensor:
    """E_L = A_bar^L - I from E = A_bar - I: (I + E_a)(I + E_b) - I = E_a + E_b + E_a E_b."""
    total = None
    while L:
        if L & 1:
            total = E if total is None else total + E + total @ E
        L >>= 1
        if L:
            E = 2 * E + E @ E
    assert total is not None
    return total


def to_row(C: Tensor) -> Tensor:
    """The output map y = 2 Re(C x) as real rows (H, D, N) on (re, im) of each pair."""
    return torch.stack((2 * C[..., 0], -2 * C[..., 1]), dim=-1).flatten(-2).movedim(0, 1)


def from_row(rows: Tensor) -> Tensor:
    """The inverse of `to_row`: (H, D, N) -> (D, H, M, 2)."""
    return torch.stack((rows[..., 0::2] / 2, rows[..., 1::2] / -2), dim=-1).movedim(0, 1)


def _spectrum_block(
    Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, Q: Tensor, sigma: Tensor, kappa: Tensor
) -> Tensor:
    """K_hat at the nodes of one block, (D, H, nodes, 2)."""
    half = dt[:, None] / 2
    lambda_ = (Lambda[..., 0] * half, Lambda[..., 1] * half)
    p, q = ((x[..., 0] * half.sqrt(), x[..., 1] * half.sqrt()) for x in (P, Q))
    norm = lambda_[0] ** 2 + lambda_[1] ** 2
    sigma_n = sigma.expand(*norm.shape, -1)  # (H, M, nodes)
    a = norm.unsqueeze(-1) * kappa**2 - sigma**2
    if a.dtype == torch.float64:
        # A node that hits an undamped pole: move it away from that pair by a little. What the move costs grows with
        # it, what the cancellation in Woodbury's identity costs falls: at 1e-9 both are small (docs/kernel.md).
        scale = norm.sqrt() + (p[0] ** 2 + p[1] ** 2).sum(0)
        shift = (1e-9 * (sigma + kappa * scale.unsqueeze(-1)) + 1e-30).detach()
        near = shift * (sigma + 0.5 * shift)
        hit = (a.abs() < near) & ((2 * lambda_[0].unsqueeze(-1) * (sigma * kappa)).abs() < near)
        sigma_n = torch.where(hit, sigma + shift, sigma)
        a = torch.where(hit, norm.unsqueeze(-1) * kappa**2 - sigma_n**2, a)
    b = 2 * lambda_[0].unsqueeze(-1) * (sigma_n * kappa)
    over = 1 / (a * a + b * b)
    X, Y = a * over, b * over
    kappa_X, kappa_Y, sigma_X, sigma_Y = kappa * X, kappa * Y, sigma_n * X, sigma_n * Y

    def k(left: Pair, right: Pair) -> Pair:
        """The sum over conjugate pairs of left right / (i sigma - kappa lambda)."""
        w = _times(left, right)
        c0 = -2 * (w[0] * lambda_[0] + w[1] * lambda_[1]).unsqueeze(-2)
        c1 = 2 * w[0].unsqueeze(-2)
        return (c0 @ kappa_X - c1 @ sigma_Y).squeeze(-2), (c0 @ kappa_Y + c1 @ sigma_X).squeeze(-2)

    b_, c_ = (B[..., 0], B[..., 1]), (C[..., 0], C[..., 1])
    ps = [(p[0][i], p[1][i]) for i in range(P.shape[0])]
    conj_qs = [(q[0][i], -q[1][i]) for i in range(P.shape[0])]
    k11 = [[k(conj_q, p_j) for p_j in ps] for conj_q in conj_qs]
    out = _woodbury(k(c_, b_), [k(c_, p_j) for p_j in ps], [k(conj_q, b_) for conj_q in conj_qs], k11, kappa)
    return torch.stack(_times(out, (half * kappa, half * sigma)), dim=-1)  # dt/2 exp(i theta/2)


def _woodbury(k00: Pair, k01: list[Pair], k10: list[Pair], k11: list[list[Pair]], kappa: Tensor) -> Pair:
    """k00 - kappa k01 (I + kappa k11)^-1 k10 for rank 0, 1 and 2."""
    rank = len(k01)
    if rank == 0:
        return k00
    m = [[(kappa * k11[i][j][0] + (i == j), kappa * k11[i][j][1]) for j in range(rank)] for i in range(rank)]
    first = _over(k01[0], m[0][0])
    out = _minus(k00, _scaled(kappa, _times(first, k10[0])))
    if rank == 1:
        return out
    # Elimination, one column of P after the other: near an undamped pole a determinant would cancel twice over.
    factor = _over(m[1][0], m[0][0])
    left = _minus(k01[1], _times(first, m[0][1]))
    right = _minus(k10[1], _times(factor, k10[0]))
    pivot = _minus(m[1][1], _times(factor, m[0][1]))
    return _minus(out, _scaled(kappa, _over(_times(left, right), pivot)))


def inverse_plus_identity(Q: Tensor) -> Tensor:
    """(I + Q)^-1 for a batch of 0x0, 1x1 or 2x2 matrices, without a batched solver."""
    if Q.shape[-1] == 0:
        return Q
    if Q.shape[-1] == 1:
        return 1 / (1 + Q)
    a, b, c, d = 1 + Q[..., 0, 0], Q[..., 0, 1], Q[..., 1, 0], 1 + Q[..., 1, 1]
    adjugate = torch.stack((torch.stack((d, -b), -1), torch.stack((-c, a), -1)), -2)
    return adjugate / (a * d - b * c)[..., None, None]


def _times(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _over(x: Pair, y: Pair) -> Pair:
    q = 1 / (y[0] ** 2 + y[1] ** 2)
    return (x[0] * y[0] + x[1] * y[1]) * q, (x[1] * y[0] - x[0] * y[1]) * q


def _scaled(factor: Tensor, x: Pair) -> Pair:
    return factor * x[0], factor * x[1]


def _minus(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]


def as_complex(pairs: Tensor) -> Tensor:
    """Complex numbers from pairs of any layout: view_as_complex refuses odd offsets, as flattened parameters have."""
    return torch.complex(pairs[..., 0], pairs[..., 1])


def _widen(Lambda: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """All in float64, when float32 would not do for one of the features."""
    convert: Callable[[Tensor], Tensor] = (
        Tensor.double if bool(needs_float64(Lambda, others[3]).any()) else Tensor.contiguous
    )
    return tuple(convert(p) for p in (Lambda, *others))


def needs_float64(Lambda: Tensor, dt: Tensor) -> Tensor:
    """Which features (H,) are evaluated in float64 whatever their dtype, as 0 or 1.

    Those with a pole that only P P^* damps, because terms of Woodbury's identity cancel where a node comes close to it,
    and those with steps so small that their squares leave float32's range. LegS with N = 64 has a damping of
    4e-4 |Lambda|, LegT and LagT have none; docs/results/accuracy.md has the errors in between.
    """
    damping, size = Lambda[..., 0].abs(), torch.linalg.vector_norm(Lambda, dim=-1)
    return ((damping < 3e-5 * size) | (size * dt.unsqueeze(-1) < 1e-6)).any(-1).to(torch.uint8)


def _pull_back(function: Callable[..., Tensor], inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The gradient of function(*inputs), also inside an op.

    An op's implementation runs below autograd, where no graph is built and a lazy conjugate is not resolved: both keys
    of torch's dispatcher are let in again. (torch.func would build a graph too, but under no dispatch mode.)
    """
    key = torch._C.DispatchKey
    with (
        torch._C._SetExcludeDispatchKeyGuard(key.AutogradFunctionality, False),
        torch._C._SetExcludeDispatchKeyGuard(key.Conjugate, False),
        torch.enable_grad(),
    ):
        leaves = [t.detach().requires_grad_() for t in inputs]
        output = function(*leaves)
        return list(torch.autograd.grad(output, leaves, grad, materialize_grads=True))


def _blocks(Lambda: Tensor, L: int) -> list[slice]:
    count = L // 2 + 1
    size = max(16, BLOCK_NUMBERS // max(1, Lambda.shape[0] * Lambda.shape[1]))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
