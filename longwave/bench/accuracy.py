"""Errors of kernels and gradients against their definitions in float64, from the same (rounded) parameters."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter

import torch
from torch import Tensor

from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.check import DenseSystem
from longwave.core.text_table import TextTable
from longwave.ops import diagonal_kernel, dplr_kernel
from longwave.ssm import INITS, Rule, dplr, nplr

N = 64
LENGTHS = ((101, 200), (1024, 200), (1025, 200), (16384, 40))  # length, number of random dt
QUICK_LENGTHS = ((101, 50), (1024, 50))
BILINEAR: Rule = "bilinear"
RULES: tuple[Rule, ...] = (BILINEAR, "zoh")
DTYPES = (torch.float64, torch.float32)
LETTERS = ("Lambda", "B", "C", "dt")


@BENCHES.register("accuracy")
@dataclass(frozen=True)
class AccuracyBench(Bench):
    """Measure the error of the kernel against its definition, by initialisation, rule, dtype and length.

    Also of the gradients of S4D's kernel.

    Example: longwave bench accuracy --quick
    """

    cpu_only = "longwave doctor --gpu measures the errors on GPUs"

    def measure(self, progress: Progress) -> Result:
        """For each init, rule, dtype and length: median, 99th percentile and worst of max |K - truth| / max |truth|."""
        rows, gradients = [], []
        for init in INITS:
            diagonal = not len(nplr(init, 2).P)
            for rule in RULES if diagonal else (BILINEAR,):
                for (L, count), dtype in product(QUICK_LENGTHS if self.quick else LENGTHS, DTYPES):
                    progress(f"{init}, {rule}, length {L:,}, {dtype}")
                    name = str(dtype).removeprefix("torch.")
                    row = {"init": init, "rule": rule, "dtype": name, "L": L, "count": count}
                    errors = kernel_errors(init, dtype, L, count, torch.Generator().manual_seed(L), rule)
                    worst = {"median": errors.median(), "p99": errors.quantile(0.99), "worst": errors.max()}
                    rows.append(row | {field: float(value) for field, value in worst.items()})
                    if diagonal:
                        found = gradient_errors(init, dtype, L, count, torch.Generator().manual_seed(L), rule)
                        percentiles = (float(errors.quantile(0.99)) for errors in found)
                        gradients.append(row | dict(zip(LETTERS, percentiles, strict=True)))
        return {"N": N, "rows": rows, "gradients": gradients}

    def tables(self, result: Result) -> list[TextTable]:
        steps = f"random dt in [0.001, 0.1]: N = {result['N']}"
        return [
            _table(
                f"Error of the kernel over its largest value, {steps}",
                result["rows"],
                {"median": "median", "99th percentile": "p99", "worst": "worst"},
            ),
            _table(
                f"Gradients of S4D's kernel, 99th percentile of the error over the largest value, {steps}",
                result["gradients"],
                {letter: letter for letter in LETTERS},
            ),
        ]


def _table(title: str, rows: list[Result], fields: dict[str, str]) -> TextTable:
    columns: dict[str, Callable[[Result], str]] = {name: itemgetter(name) for name in ("init", "rule", "dtype")}
    columns |= {"length": lambda row: f"{row['L']:,}", "kernels": lambda row: str(row["count"])}
    for name, field in fields.items():
        columns[name] = lambda row, field=field: f"{row[field]:.1e}"  # type: ignore[misc]
    return table(title, rows, columns, text=("init", "rule", "dtype"))


def random_systems(
    init: str, dtype: torch.dtype, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Lambda, P, B, C and dt of `count` features, rounded to `dtype`; dt is log-uniform in [0.001, 0.1]."""
    complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
    dt = (10 ** (-3 + 2 * torch.rand(count, dtype=torch.float64, generator=generator))).to(dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # for the init that is random
        Lambda, P, B, _ = dplr(init, N)
    C = torch.randn(count, N // 2, dtype=torch.complex128, generator=generator)
    parts = (Lambda.expand(count, -1), P.unsqueeze(1).expand(-1, count, -1), B.expand(count, -1), C)
    Lambda, P, B, C = (t.to(complex_dtype) for t in parts)
    return Lambda, P, B, C, dt


def kernel_errors(
    init: str, dtype: torch.dtype, L: int, count: int, generator: torch.Generator, rule: Rule = BILINEAR
) -> Tensor:
    """The error of `count` kernels with random dt; diagonal systems by the kernel of S4D."""
    Lambda, P, B, C, dt = random_systems(init, dtype, count, generator)
    K = diagonal_kernel(Lambda, B, C, dt, L, rule) if not len(P) else dplr_kernel(Lambda, P, B, C, dt, L)
    if rule == BILINEAR:  # the rule of dense systems, which know nothing of S4D's sums
        systems = [DenseSystem.of(Lambda[h], P[:, h], B[h], C[h], float(dt[h])) for h in range(count)]
        truth = torch.stack([system.kernel(L) for system in systems])
    else:
        truth = diagonal_definition(Lambda, B, C, dt, L, rule)
    return (K - truth).abs().amax(-1) / truth.abs().amax(-1)


def gradient_errors(
    init: str, dtype: torch.dtype, L: int, count: int, generator: torch.Generator, rule: Rule
) -> list[Tensor]:
    """The errors of the gradients of `count` kernels of S4D by Lambda, B, C and dt, for a random gradient of K."""
    Lambda, _, B, C, dt = random_systems(init, dtype, count, generator)
    grad = torch.randn(count, L, dtype=torch.float64, generator=generator).to(dtype)
    leaves = (Lambda, B, C, dt)
    exact = (*(t.to(torch.complex128) for t in (Lambda, B, C)), dt.double())
    found = _gradients(partial(diagonal_kernel, L=L, rule=rule), leaves, grad)
    truth = _gradients(partial(diagonal_definition, L=L, rule=rule), exact, grad.double())
    errors = []
    for g, true in zip(found, truth, strict=True):
        g, true = g.reshape(count, -1), true.reshape(count, -1)
        errors.append((g - true).abs().amax(-1) / true.abs().amax(-1))
    return errors


def _gradients(kernel: Callable[..., Tensor], values: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    leaves = [t.detach().clone().requires_grad_() for t in values]
    return torch.autograd.grad(kernel(*leaves), leaves, grad)


def diagonal_definition(Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: Rule) -> Tensor:
    """K_l = 2 Re(sum_n C_n B_bar_n A_bar_n^l) in float64, by exponentials; differentiable.

    Lambda, B, C (H, M), dt (H,). With l = T k + j the powers are exponentials of T k and of j, to save memory.
    """
    Lambda, B, C = (t.to(torch.complex128) for t in (Lambda, B, C))
    x = Lambda * dt.double().unsqueeze(-1)
    if rule == "zoh":
        log_A_bar, B_bar = x, torch.expm1(x) / Lambda * B
    else:
        log_A_bar = torch.log((1 + x / 2) / (1 - x / 2))
        B_bar = dt.double().unsqueeze(-1) * B / (1 - x / 2)
    T = math.isqrt(L - 1) + 1
    steps = torch.arange(T, dtype=torch.float64)
    inner, outer = (torch.exp(log_A_bar.unsqueeze(-1) * (scale * steps)) for scale in (1, T))
    K = 2 * ((C * B_bar).unsqueeze(-1) * outer).mT @ inner
    return K.real.flatten(1)[:, :L]
