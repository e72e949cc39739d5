"""How far the kernel is from its definition: a dense recurrence in float64, from the same (rounded) parameters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from longwave.bench.measure import machine
from longwave.ssm import INITS, bilinear, dplr, dplr_kernel

N = 64
LENGTHS = ((101, 200), (1024, 200), (1025, 200), (16384, 40))  # length, how many random dt
QUICK_LENGTHS = ((101, 50), (1024, 50))


def run(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """For each init, dtype and length: median, 99th percentile and worst of max |K - truth| / max |truth|."""
    rows = []
    for init in INITS:
        for L, count in QUICK_LENGTHS if quick else LENGTHS:
            for dtype in (torch.float64, torch.float32):
                progress(f"{init}, length {L:,}, {dtype}")
                generator = torch.Generator().manual_seed(L)
                errors = kernel_errors(init, dtype, L, count, generator)
                rows.append(
                    {
                        "init": init,
                        "dtype": str(dtype).removeprefix("torch."),
                        "L": L,
                        "count": count,
                        "median": float(errors.median()),
                        "p99": float(errors.quantile(0.99)),
                        "worst": float(errors.max()),
                    }
                )
    return {"bench": "accuracy", "N": N, "machine": machine(), "rows": rows}


def kernel_errors(init: str, dtype: torch.dtype, L: int, count: int, generator: torch.Generator) -> Tensor:
    """The error of `count` kernels with dt drawn log-uniformly from [0.001, 0.1]."""
    complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
    dt = (10 ** (-3 + 2 * torch.rand(count, dtype=torch.float64, generator=generator))).to(dtype)
    Lambda, P, B, _ = dplr(init, N)
    C = torch.randn(count, N // 2, dtype=torch.complex128, generator=generator)
    parts = (Lambda.expand(count, -1), P.unsqueeze(1).expand(-1, count, -1), B.expand(count, -1), C)
    Lambda, P, B, C = (t.to(complex_dtype) for t in parts)
    K = dplr_kernel(Lambda, P, B, C, dt, L)
    truth = torch.stack([dense_kernel(Lambda[h], P[:, h], B[h], C[h], float(dt[h]), L) for h in range(count)])
    return (K - truth).abs().amax(-1) / truth.abs().amax(-1)


def dense_kernel(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: float, L: int) -> Tensor:
    """C A_bar^k B_bar in complex128, the block of powers doubled until it is long enough."""
    Lambda, P, B, C = (torch.cat((t, t.conj()), dim=-1).to(torch.complex128) for t in (Lambda, P, B, C))
    A_bar, B_bar = bilinear(torch.diag(Lambda) - P.T @ P.conj(), B, dt)
    columns = B_bar.unsqueeze(-1)
    while columns.shape[-1] < L:
        columns = torch.cat((columns, A_bar @ columns), dim=-1)
        A_bar = A_bar @ A_bar
    return (C @ columns[:, :L]).real
