"""How far the kernel is from its definition: a dense recurrence in float64, from the same (rounded) parameters."""

from dataclasses import dataclass

import torch
from torch import Tensor

from longwave.bench.base import BENCHES, Bench, Progress, Result
from longwave.bench.check import DenseSystem
from longwave.bench.measure import machine
from longwave.bench.tables import Table
from longwave.ops import diagonal_kernel, dplr_kernel
from longwave.ssm import INITS, dplr

N = 64
LENGTHS = ((101, 200), (1024, 200), (1025, 200), (16384, 40))  # length, number of random dt
QUICK_LENGTHS = ((101, 50), (1024, 50))


@BENCHES.register("accuracy")
@dataclass(frozen=True)
class AccuracyBench(Bench):
    """Measure the error of the kernel against its definition, by initialisation, dtype and length.

    Example: longwave bench accuracy --quick
    """

    def run(self, progress: Progress) -> Result:
        """For each init, dtype and length: median, 99th percentile and worst of max |K - truth| / max |truth|."""
        rows = []
        for init in INITS:
            for L, count in QUICK_LENGTHS if self.quick else LENGTHS:
                for dtype in (torch.float64, torch.float32):
                    progress(f"{init}, length {L:,}, {dtype}")
                    errors = kernel_errors(init, dtype, L, count, torch.Generator().manual_seed(L))
                    row = {"init": init, "dtype": str(dtype).removeprefix("torch."), "L": L, "count": count}
                    row |= {"median": float(errors.median()), "p99": float(errors.quantile(0.99))}
                    rows.append(row | {"worst": float(errors.max())})
        return {"bench": "accuracy", "N": N, "machine": machine(), "rows": rows}

    def tables(self, result: Result) -> list[Table]:
        """One row for each init, dtype and length."""
        title = f"Error of the kernel over its largest value, random dt in [0.001, 0.1]: N = {result['N']}"
        columns = ("init", "dtype", "length", "kernels", "median", "99 % below", "worst")
        rows = []
        for row in result["rows"]:
            errors = (f"{row[name]:.1e}" for name in ("median", "p99", "worst"))
            rows.append((row["init"], row["dtype"], f"{row['L']:,}", str(row["count"]), *errors))
        return [Table(title, columns, rows, text=("init", "dtype"))]


def kernel_errors(init: str, dtype: torch.dtype, L: int, count: int, generator: torch.Generator) -> Tensor:
    """The error of `count` kernels with dt drawn log-uniformly from [0.001, 0.1]."""
    complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
    dt = (10 ** (-3 + 2 * torch.rand(count, dtype=torch.float64, generator=generator))).to(dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # for the init that is random
        Lambda, P, B, _ = dplr(init, N)
    C = torch.randn(count, N // 2, dtype=torch.complex128, generator=generator)
    parts = (Lambda.expand(count, -1), P.unsqueeze(1).expand(-1, count, -1), B.expand(count, -1), C)
    Lambda, P, B, C = (t.to(complex_dtype) for t in parts)
    # A diagonal system by the kernel of S4D, and by the rule that the dense one knows.
    K = dplr_kernel(Lambda, P, B, C, dt, L) if len(P) else diagonal_kernel(Lambda, B, C, dt, L, "bilinear")
    systems = [DenseSystem.of(Lambda[h], P[:, h], B[h], C[h], float(dt[h])) for h in range(count)]
    truth = torch.stack([system.kernel(L) for system in systems])
    return (K - truth).abs().amax(-1) / truth.abs().amax(-1)
