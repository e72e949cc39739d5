"""The truth that fast code is compared with: dense complex matrices in float64, built from the stored half.

A feature's full system has N = 2M states: the stored half, then its conjugate. A = diag(Lambda) - P Q^* is N x N,
discretised by a linear solve, and the kernel is C A_bar^k B_bar. Every function is differentiable. Nothing here is
shared with the library.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from longwave.ssm import INITS, dplr, nplr

ROOT = Path(__file__).resolve().parent.parent
# What an S4 layer can start from, and that is the same each time.
LOW_RANK_INITS = [name for name in INITS if len(nplr(name, 2).P) and "random" not in name]
# For opcheck: what does not trace. Dynamic shapes take longest, and one case of an op shows whether it has them.
WITHOUT_DYNAMIC_SHAPES = ("test_schema", "test_autograd_registration", "test_faketensor")


class System(NamedTuple):
    """H features as the library takes them: Lambda, B (H, M); P (r, H, M); C (H, M) or (maps, H, M); dt (H,)."""

    Lambda: Tensor
    P: Tensor
    B: Tensor
    C: Tensor
    dt: Tensor

    def to(self, dtype: torch.dtype) -> "System":
        """Rounded to float32 or float64 (and complex64 or complex128)."""
        return System(*(t.to(dtype.to_complex() if t.is_complex() else dtype) for t in self))

    def leaves(self) -> "System":
        """Fresh copies that collect gradients."""
        return System(*(t.detach().clone().requires_grad_() for t in self))


def hippo_system(init: str, N: int, dt: float | Sequence[float] | Tensor, maps: int = 1, seed: int = 0) -> System:
    """One feature for each dt with the initialisation `init` and a random C, in float64; `maps` output maps."""
    dt = torch.atleast_1d(torch.as_tensor(dt, dtype=torch.float64))
    Lambda, P, B, _ = dplr(init, N)
    H, M = len(dt), N // 2
    C = _randn(seed, *((H, M) if maps == 1 else (maps, H, M)))
    return System(Lambda.repeat(H, 1), P.unsqueeze(1).repeat(1, H, 1), B.repeat(H, 1), C, dt)


def random_system(H: int, M: int, rank: int, maps: int = 1, seed: int = 0) -> System:
    """A damped system that is no initialisation's: everything random, rank 0, 1 or 2, in float64."""
    generator = torch.Generator().manual_seed(seed + 1)
    re, im, dt = (torch.rand(*shape, generator=generator, dtype=torch.float64) for shape in ((H, M), (H, M), (H,)))
    Lambda = torch.complex(-0.1 - re, 6 * im - 1)
    P, B = _randn(seed + 2, rank, H, M), _randn(seed + 3, H, M)
    C = _randn(seed + 4, *((H, M) if maps == 1 else (maps, H, M)))
    return System(Lambda, P, B, C, 0.02 + 0.3 * dt)


def log_uniform(count: int, low: float = 1e-3, high: float = 1e-1, seed: int = 0) -> Tensor:
    """Random step sizes, no round values among them."""
    x = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return low * (high / low) ** x


def dense_matrix(Lambda: Tensor, P: Tensor, Q: Tensor | None = None) -> Tensor:
    """A = diag(Lambda) - P Q^* of one feature with both halves: (M,), (r, M) -> (N, N) complex128."""
    P, Q = full(P), full(P if Q is None else Q)
    return torch.diag(full(Lambda)) - P.mT @ Q.conj()


def dense_bilinear(A: Tensor, B: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """A_bar = (I - dt/2 A)^-1 (I + dt/2 A) and B_bar = (I - dt/2 A)^-1 dt B."""
    identity = torch.eye(len(A), dtype=A.dtype)
    solved = torch.linalg.solve(identity - dt / 2 * A, torch.cat((identity + dt / 2 * A, dt * B[:, None]), dim=1))
    return solved[:, :-1], solved[:, -1]


def discrete(system: System, Q: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    """A_bar (N, N) and B_bar (N,) of each feature."""
    dt = system.dt.double()
    return [
        dense_bilinear(
            dense_matrix(system.Lambda[h], system.P[:, h], None if Q is None else Q[:, h]), full(system.B[h]), dt[h]
        )
        for h in range(len(dt))
    ]


def dense_kernel(system: System, L: int, Q: Tensor | None = None) -> Tensor:
    """K_k = C A_bar^k B_bar as float64 (H, L), or (maps, H, L): columns A_bar^t B_bar against rows C A_bar^(jT)."""
    T = 1 << ((L - 1).bit_length() + 1) // 2
    C = full(system.C).reshape(-1, *full(system.Lambda).shape)
    kernels = []
    for h, (power, B_bar) in enumerate(discrete(system, Q)):
        columns, rows = B_bar.unsqueeze(-1), C[:, h].unsqueeze(1)
        while columns.shape[-1] < T:
            columns = torch.cat((columns, power @ columns), dim=-1)
            power = power @ power
        while rows.shape[1] * T < L:
            rows = torch.cat((rows, rows @ power), dim=1)
            power = power @ power
        kernels.append((rows @ columns).real.flatten(1)[:, :L])
    K = torch.stack(kernels, dim=1)
    return K.reshape(*system.C.shape[:-1], L)


def diagonal_definition(system: System, L: int, rule: str) -> Tensor:
    """2 Re(C A_bar^l B_bar) of a diagonal system by exponentials and powers of numbers, in float64: (..., H, L)."""
    Lambda, B, C = (t.to(torch.complex128) for t in (system.Lambda, system.B, system.C))
    dt = system.dt.double().unsqueeze(-1)
    if rule == "zoh":
        A_bar, B_bar = torch.exp(Lambda * dt), torch.expm1(Lambda * dt) / Lambda * B
    else:
        A_bar, B_bar = (1 + Lambda * dt / 2) / (1 - Lambda * dt / 2), dt * B / (1 - Lambda * dt / 2)
    return 2 * ((C * B_bar).unsqueeze(-1) * A_bar.unsqueeze(-1) ** torch.arange(L)).real.sum(-2)


def dense_recurrence(system: System, u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """y (B, L, H) without the D u term and the last state (B, H, M), one step after the other, for u (B, L, H)."""
    outputs, states = [], []
    for h, (A_bar, B_bar) in enumerate(discrete(system)):
        x = torch.zeros(len(u), len(B_bar), dtype=B_bar.dtype) if state is None else full(state[:, h])
        C, y = full(system.C[h]), []
        for u_k in u[..., h].to(x.dtype).unbind(1):
            x = x @ A_bar.mT + u_k.unsqueeze(-1) * B_bar
            y.append((x @ C).real)
        outputs.append(torch.stack(y, dim=1))
        states.append(x[:, : len(C) // 2])
    return torch.stack(outputs, dim=-1), torch.stack(states, dim=1)


def direct_convolution(u: Tensor, K: Tensor, K_back: Tensor | None = None) -> Tensor:
    """y_k = sum_(j<=k) K[k-j] u_j + sum_(j>k) K_back[j-k-1] u_j for u (B, L, H), K (H, L), by the definition."""
    L, y = u.shape[1], []
    for k in range(L):
        y_k = (u[:, : k + 1] * K[:, : k + 1].flip(-1).mT).sum(1)
        if K_back is not None:
            y_k = y_k + (u[:, k + 1 :] * K_back[:, : L - 1 - k].mT).sum(1)
        y.append(y_k)
    return torch.stack(y, dim=1)


def full(half: Tensor) -> Tensor:
    """The stored half and then its conjugate, in complex128."""
    half = half.to(torch.complex128)
    return torch.cat((half, half.conj()), dim=-1)


def error(value: Tensor, truth: Tensor) -> float:
    """max |value - truth| / max |truth|: the error of a kernel (or a gradient) relative to its largest number."""
    if truth.numel() == 0:
        assert value.shape == truth.shape
        return 0.0
    assert torch.isfinite(torch.view_as_real(value) if value.is_complex() else value).all()
    return ((value.to(truth.dtype) - truth).abs().max() / truth.abs().max()).item()


def worst_error(K: Tensor, truth: Tensor) -> float:
    """The largest `error` of any single kernel: (..., L) each against its own largest number."""
    assert torch.isfinite(K).all()
    return ((K.double() - truth).abs().amax(-1) / truth.abs().amax(-1)).max().item()


def gradients(K: Tensor, leaves: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """The gradients of a fixed random weighting of K; the same weights for the same shape and seed."""
    weights = torch.randn(K.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return list(torch.autograd.grad((K * weights.to(K.dtype)).sum(), leaves, materialize_grads=True))


def run_python(
    code: str, *, timeout: float = 120, threads: int = 1, cwd: Path = ROOT, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run code in a fresh interpreter, without pytest's shape checks and with an end in sight."""
    dropped = {k for k in os.environ if k.startswith("LONGWAVE_")} - {"LONGWAVE_VECTOR_BITS"} | {"PYTHONWARNINGS"}
    inherited = {k: v for k, v in os.environ.items() if k not in dropped}
    # Threads that wait without spinning: other tests run beside this one.
    openmp = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=inherited | openmp | environment,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


def run_after_torch(*codes: str, cwd: Path) -> "list[subprocess.CompletedProcess[str]]":
    """Run each code in a process of its own: forks of one that has imported torch, which takes longer than most codes.

    What they print goes through files in the folder `cwd`.
    """
    forks = f"""
import os, sys, torch
for k, code in enumerate({codes!r}):
    if os.fork() == 0:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{{k}}.{{name}}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        exec(code, {{"__name__": "__main__"}})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    found = run_python(forks, cwd=cwd, timeout=280)
    exit_codes = map(int, found.stdout.split())
    return [
        subprocess.CompletedProcess(code, exit_code, *((cwd / f"{k}.{name}").read_text() for name in ("out", "err")))
        for k, (code, exit_code) in enumerate(zip(codes, exit_codes, strict=True))
    ]


def _randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128)
