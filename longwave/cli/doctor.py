"""`longwave doctor`: what this installation has, and whether it computes the right thing."""

from __future__ import annotations

from typing import Any

# Largest error over the largest number of the kernel that passes, for float32 results against float64 definitions.
BOUND = 1e-5


def main(arguments: list[str]) -> int:
    """Run `longwave doctor`."""
    import tyro

    return tyro.cli(doctor, prog="longwave doctor", args=arguments)


def doctor() -> int:
    """Show versions, CPU and kernel backends, and run each backend against the definition.

    Exit code 1 if a backend that is there gives wrong numbers or fails.

    Example: longwave doctor
    """
    import platform

    import numpy
    import torch
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    import longwave
    from longwave.bench.measure import cpu_name

    console = Console()
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_row("longwave", longwave.__version__)
    facts.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    facts.add_row("torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    facts.add_row("numpy", numpy.__version__)
    facts.add_row("CPU", f"{cpu_name()} ({', '.join(_cpu_features()) or 'no vector features known'})")
    facts.add_row("GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none (not needed)")
    console.print(facts)
    console.print()

    from longwave import kernels

    table = Table("backend", "op", "error", "bound", "time", "verdict", title="Kernel backends", title_justify="left")
    broken = False
    for name in kernels.BACKENDS:
        if name == "native":
            try:
                bits = kernels.native.vector_bits()
            except kernels.native.Unavailable as reason:
                table.add_row("native", "-", "-", "-", "-", f"[yellow]not there:[/] {escape(str(reason))}")
                continue
            console.print(f"compiled kernel: {bits}-bit vectors, {torch.get_num_threads()} threads")
        for op, error, seconds in _trials(name):
            good = error is not None and error <= BOUND
            broken |= not good
            shown = "failed" if error is None else f"{error:.1e}"
            verdict = "[green]good[/]" if good else "[red]broken[/]"
            table.add_row(name, op, shown, f"{BOUND:.0e}", f"{seconds * 1e3:.1f} ms", verdict)
    console.print(table)
    try:
        console.print(f"CPU tensors are served by: {kernels.backend()}")
    except (ValueError, RuntimeError) as error:
        broken = True
        console.print(f"[red]{escape(str(error))}[/]")
    return 1 if broken else 0


def _trials(name: str) -> list[tuple[str, float | None, float]]:
    """(op, error over the largest number of the truth, seconds) for each op of a backend; error None: it raised."""
    import time

    import torch

    from longwave import kernels
    from longwave.kernels import reference
    from longwave.ssm import dplr

    generator = torch.Generator().manual_seed(0)
    H, N, L = 4, 64, 1000
    Lambda, P, B, _ = dplr("legs", N)
    C = torch.randn(1, H, N // 2, dtype=torch.complex128, generator=generator)
    dt = torch.tensor([1e-3, 5e-3, 2e-2, 1e-1])
    parts = (Lambda.expand(H, -1), P.unsqueeze(1).expand(-1, H, -1), B.expand(H, -1), C)
    Lambda, P, B, C = (torch.view_as_real(t.to(torch.complex64).contiguous()) for t in parts)
    # With the few features of the system the compiled convolution would leave the work to torch.
    u = torch.randn(2, L, 6 * H, generator=generator)

    # The truth: powers of the dense A_bar in float64, and the convolution as a sum.
    wide = [t.double() for t in (Lambda, P, B, C, dt)]
    K = _definition(wide, L)
    K_hat = torch.view_as_real(torch.fft.rfft(K))
    A_bar = torch.eye(N, dtype=torch.float64) + reference.minus_identity(wide[0], wide[1], wide[4])
    row = reference.to_row(wide[3])
    C_tilde = reference.from_row(row - row @ torch.stack([torch.linalg.matrix_power(A, L) for A in A_bar]))
    kernels_of_u = K.repeat(1, 6, 1)
    y = torch.stack([(kernels_of_u[0, :, : k + 1].flip(-1) * u[:, : k + 1].mT).sum(-1) for k in range(50)], dim=1)

    module = kernels.BACKENDS[name]
    runs = {
        "truncate": (lambda: module.truncate(Lambda, P, C, dt, L), C_tilde),
        "spectrum": (lambda: module.spectrum(Lambda, P, B, C_tilde.float(), dt, L), K_hat),
        "convolve": (lambda: module.convolve(u, kernels_of_u.float(), torch.zeros(6 * H))[:, :50], y),
    }
    results: list[tuple[str, float | None, float]] = []
    for op, (run, truth) in runs.items():
        try:
            run()
            start = time.perf_counter()
            got = run()
            seconds = time.perf_counter() - start
            results.append((op, float((got.double() - truth).abs().max() / truth.abs().max()), seconds))
        except Exception as error:  # whatever it is, the doctor's business is to report it
            print(f"{name} {op}: {type(error).__name__}: {error}")
            results.append((op, None, 0.0))
    return results


def _definition(parameters: list[Any], L: int) -> Any:
    """K (1, H, L) by the definition: a dense recurrence in float64."""
    import torch

    from longwave.ssm import bilinear, power_kernel

    *pairs, dt = parameters
    full = [torch.cat((z, z.conj()), dim=-1) for z in map(torch.view_as_complex, pairs)]
    kernels = []
    for h, step in enumerate(dt.tolist()):
        A = torch.diag(full[0][h]) - full[1][:, h].T @ full[1][:, h].conj()
        kernels.append(power_kernel(*bilinear(A, full[2][h], step), full[3][0, h], L).real)
    return torch.stack(kernels).unsqueeze(0)


def _cpu_features() -> list[str]:
    """The vector features that matter to the compiled kernel, as Linux lists them."""
    from pathlib import Path

    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [
        feature for feature in ("sse2", "avx", "avx2", "fma", "avx512f", "avx512dq", "asimd", "sve") if feature in words
    ]
