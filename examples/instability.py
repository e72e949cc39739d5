"""Three fast ways to the kernel of a HiPPO system, and where two of them break: docs/instability.md says why.

Run with `python examples/instability.py`. All in float64, LegS, against the powers of A_bar one by one.
"""

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from longwave.ssm import bilinear, dplr, dplr_kernel, hippo, power_kernel

L = 1024


def by_eigenvectors(A_bar: Tensor, B_bar: Tensor, C: Tensor, L: int) -> Tensor:
    """K_k = C V mu^k V^-1 B_bar: a sum of N exponentials, were V a matrix that can be worked with."""
    mu, V = torch.linalg.eig(A_bar)
    weights = (C.to(V.dtype) @ V) * torch.linalg.solve(V, B_bar.to(V.dtype))
    k = torch.arange(L, dtype=A_bar.dtype)
    return (weights.unsqueeze(-1) * mu.unsqueeze(-1) ** k).sum(0).real


def by_characteristic_polynomial(A_bar: Tensor, B_bar: Tensor, C: Tensor, L: int) -> tuple[Tensor, Tensor, Tensor]:
    """K = q / p mod x^L with p(x) = det(I - A_bar x), the idea of the "fast but unstable" algorithm; also p and 1 / p.

    Every step is given the best it could hope for: the eigenvalues mu of a triangular A_bar are on its diagonal, 1 / p
    is a product of geometric series, whose terms are positive (for dt N < 2), so that all its digits are right; the
    first N numbers of K, which decide q, come from the definition; and no FFT rounds the products. What breaks is the
    idea.
    """
    p, inverse = torch.ones(1, dtype=A_bar.dtype), torch.eye(L, 1, dtype=A_bar.dtype).squeeze(-1)
    lags = torch.arange(L).unsqueeze(-1) - torch.arange(L)
    for mu in torch.diagonal(A_bar):
        p = torch.nn.functional.pad(p, (0, 1)) - mu * torch.nn.functional.pad(p, (1, 0))  # times (1 - mu x)
        inverse = (mu ** lags.clamp(min=0)).tril() @ inverse  # times 1 + mu x + mu^2 x^2 + ...
    N = len(p) - 1
    q = _product(p, power_kernel(A_bar, B_bar, C, N), N)
    return _product(q, inverse, L), p, inverse


def _product(a: Tensor, b: Tensor, L: int) -> Tensor:
    """Coefficients of a(x) b(x) mod x^L, each as a plain sum."""
    a, b = (torch.nn.functional.pad(x, (0, max(0, L - len(x))))[:L] for x in (a, b))
    return torch.stack([(a[: k + 1] * b[: k + 1].flip(0)).sum() for k in range(L)])


def by_s4(N: int, C: Tensor, dt: float, L: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Algorithm 1 on the diagonal-plus-low-rank form, whose change of basis is unitary."""
    Lambda, P, B, V = dplr("legs", N)
    C_V = (C.to(V.dtype) @ V).unsqueeze(0)
    system = (Lambda.unsqueeze(0), P.unsqueeze(1), B.unsqueeze(0), C_V)
    K = dplr_kernel(*(x.to(dtype.to_complex()) for x in system), torch.tensor([dt], dtype=dtype), L)
    return K.squeeze(0)


def errors(N: int, dt: float, L: int = L, seed: int = 0) -> dict[str, float]:
    """The largest error of each way, relative to the largest number of the kernel; and the largest numbers met."""
    A, B = hippo("legs", N)
    C = torch.randn(N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    A_bar, B_bar = bilinear(A, B, dt)
    truth = power_kernel(A_bar, B_bar, C, L)
    by_polynomial, p, inverse = by_characteristic_polynomial(A_bar, B_bar, C, L)

    def off(K: Tensor) -> float:
        return ((K.double() - truth).abs().max() / truth.abs().max()).item()

    return {
        "max p": p.abs().max().item(),
        "max 1/p": inverse.abs().max().item(),
        "polynomial": off(by_polynomial),
        "eigenvectors": off(by_eigenvectors(A_bar, B_bar, C, L)),
        "S4": off(by_s4(N, C, dt, L)),
        "S4, float32": off(by_s4(N, C, dt, L, torch.float32)),
    }


def main() -> None:
    """Print a table for each step size."""
    console = Console()
    for dt in (0.01, 0.001):
        table = Table(title=f"Error of the kernel, LegS, dt = {dt}, L = {L}, float64", title_justify="left")
        rows = {N: errors(N, dt) for N in (4, 8, 12, 16, 24, 32, 64)}
        for name in ("N", *rows[4]):
            table.add_column(name, justify="right")
        for N, found in rows.items():
            table.add_row(str(N), *(f"{value:.1e}" for value in found.values()))
        console.print(table)


if __name__ == "__main__":
    main()
