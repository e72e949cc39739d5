"""Checks of the backends for `longwave doctor`, against the definitions: dense matrices in float64, and sums.

They use none of the backends' fast formulas, so that an error in those cannot hide.
"""

import functools
import platform
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

import longwave
from longwave import ops
from longwave.bench.measure import cpu_features, cpu_name
from longwave.ssm import bilinear, dplr

# The largest error that passes: of float32 against the definition in float64, over the largest value of that.
BOUND = 1e-5
H, N, L = 4, 64, 1000
COPIES = 6  # of each kernel in the convolution, which the compiled backend leaves to torch for few features
SUMMED = 50  # steps of the convolution that are compared


class Trial(NamedTuple):
    """One op of a backend, compared with its definition."""

    op: str
    error: float | None  # None: it raised
    seconds: float
    reason: str = ""  # what it raised

    @property
    def is_good(self) -> bool:
        return self.error is not None and self.error <= BOUND


class BackendReport(NamedTuple):
    """The result of checking a backend."""

    name: str
    trials: list[Trial]
    detail: str = ""  # how it runs on this machine
    unavailable: str = ""  # why it cannot run here

    @property
    def is_good(self) -> bool:
        """Whether every op is right; a backend that is unavailable is no error."""
        return all(trial.is_good for trial in self.trials)


class Health(NamedTuple):
    """The report of `longwave doctor`."""

    installation: dict[str, str]
    backends: list[BackendReport]
    active: dict[str, str]  # by kind of device, the backend that its tensors use
    problem: str = ""  # why there is none

    @property
    def is_good(self) -> bool:
        """Whether there is a backend to use, and all that are available are right."""
        return bool(self.active) and all(report.is_good for report in self.backends)


def examine() -> Health:
    """Versions, CPU, and each backend checked against the definitions."""
    reports = [check_backend(name) for name in ops.BACKENDS]
    try:
        return Health(installation(), reports, {kind: ops.backend_name(kind) for kind in device_kinds()})
    except (ValueError, RuntimeError) as error:
        return Health(installation(), reports, {}, str(error))


def device_kinds() -> list[str]:
    """The kinds of devices of this machine, by torch's names: cpu, and that of the GPU or other accelerator."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ["cpu"] if found is None else ["cpu", found.type]


def installation() -> dict[str, str]:
    """Versions and hardware."""
    return {
        "longwave": longwave.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "numpy": numpy.__version__,
        "CPU": f"{cpu_name()} ({', '.join(cpu_features()) or 'no vector features known'})",
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else "none (not needed)",
    }


class Case(NamedTuple):
    """The arguments of an op, the part of the output to compare, and the truth."""

    arguments: tuple[Tensor | int, ...]
    truth: Tensor
    part: Callable[[Tensor], Tensor] = lambda output: output


def check_backend(name: str) -> BackendReport:
    """Run each op that a backend supports against its definition."""
    chosen = ops.BACKENDS[name]
    reason = chosen.unavailable()
    if reason is not None:
        return BackendReport(name, [], unavailable=reason)
    device = "cpu" if chosen.serves("cpu", torch.float32) else chosen.devices[0]
    trials = [_trial(op, chosen.functions[op], case, device) for op, case in _cases().items() if op in chosen.ops]
    return BackendReport(name, trials, f"{chosen.description()}; supports {', '.join(sorted(chosen.ops))}")


def _trial(op: str, function: Callable[..., Tensor], case: Case, device: str) -> Trial:
    try:
        arguments = [value.to(device) if isinstance(value, Tensor) else value for value in case.arguments]
        function(*arguments)
        start = time.perf_counter()
        output = function(*arguments).cpu()
        seconds = time.perf_counter() - start
        difference = (case.part(output).double() - case.truth).abs().max()
    except Exception as error:  # whatever it is, it has to be reported
        return Trial(op, None, 0.0, f"{type(error).__name__}: {error}")
    return Trial(op, float(difference / case.truth.abs().max()), seconds)


@functools.cache
def _cases() -> dict[str, Case]:
    """Float32 arguments of each op for LegS systems with different dt, and the truth from the rounded arguments."""
    generator = torch.Generator().manual_seed(0)
    Lambda, P, B, _ = dplr("legs", N)
    C = torch.randn(H, N // 2, dtype=torch.complex128, generator=generator)
    dt = torch.tensor([1e-3, 5e-3, 2e-2, 1e-1])
    stored = (Lambda.expand(H, -1), P.unsqueeze(1).expand(-1, H, -1), B.expand(H, -1), C)
    Lambda, P, B, C = (t.to(torch.complex64).contiguous() for t in stored)
    systems = [DenseSystem.of(Lambda[h], P[:, h], B[h], C[h], float(dt[h])) for h in range(H)]
    K = torch.stack([system.kernel(L) for system in systems])
    C_tilde = torch.view_as_real(torch.stack([system.truncated_output_map(L) for system in systems])).unsqueeze(0)
    K_hat = torch.view_as_real(torch.fft.rfft(K)).unsqueeze(0)

    u, K = torch.randn(2, L, COPIES * H, generator=generator), K.repeat(COPIES, 1)
    y = torch.stack([(K[:, : k + 1].flip(-1) * u[:, : k + 1].mT).sum(-1) for k in range(SUMMED)], dim=1)
    D = torch.zeros(COPIES * H)
    Lambda, P, B, C = (torch.view_as_real(t) for t in (Lambda, P, B, C.unsqueeze(0)))
    return {
        "truncate": Case((Lambda, P, C, dt, L), C_tilde),
        "spectrum": Case((Lambda, P, B, C_tilde.float(), dt, L), K_hat),
        "convolve": Case((u, K.float().unsqueeze(0), D), y, lambda output: output[:, :SUMMED]),
    }


class DenseSystem(NamedTuple):
    """One feature by dense matrices in complex128, with all N states: A_bar (N, N), B_bar (N,), C (N,)."""

    A_bar: Tensor
    B_bar: Tensor
    C: Tensor

    @classmethod
    def of(cls, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: float) -> "DenseSystem":
        """From the stored half of the states: Lambda, B, C (M,), P (r, M)."""
        Lambda, P, B, C = (torch.cat((t, t.conj()), dim=-1).to(torch.complex128) for t in (Lambda, P, B, C))
        return cls(*bilinear(torch.diag(Lambda) - P.T @ P.conj(), B, dt), C)

    def kernel(self, L: int) -> Tensor:
        """K_k = C A_bar^k B_bar (L,); the number of columns A_bar^k B_bar is doubled until there are enough."""
        columns, power = self.B_bar.unsqueeze(-1), self.A_bar
        while columns.shape[-1] < L:
            columns = torch.cat((columns, power @ columns), dim=-1)
            power = power @ power
        return (self.C @ columns[:, :L]).real

    def truncated_output_map(self, L: int) -> Tensor:
        """C~ = C (I - A_bar^L), the stored half (M,)."""
        return (self.C - self.C @ torch.linalg.matrix_power(self.A_bar, L))[: len(self.C) // 2]
