"""The kernel alone, S4's and S4D's: the compiled backend, the reference backend and a plain FFT convolution.

And the two algorithms of the compiled backend, from all nodes and from few: over lengths, state sizes and systems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from longwave import ops
from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.measure import best_times, growth_of, in_fresh_process
from longwave.bench.numbers import milliseconds, over
from longwave.core.text_table import TextTable
from longwave.ssm import dplr
from longwave.ssm.nodes import Nodes

H, N = 256, 64
LENGTHS = (1024, 4096, 16384)
QUICK_LENGTHS = (1024, 4096)

# All nodes and few: with fewer features, so that a million steps fit into memory.
NODES_H = 64
NODES_LENGTHS = (1024, 4096, 8192, 16384, 65536, 262144, 1 << 20)
NODES_STATES = (4, 16, 256, 1024)
STATES_LENGTH, SYSTEMS_LENGTH = 65536, 16384
LITTLE = 0.01  # of the damping of LegS, and of its low-rank part
QUICK_CASES: tuple[dict[str, Any], ...] = ({"L": 4096}, {"L": 16384})


@BENCHES.register("kernel")
@dataclass(frozen=True)
class KernelBench(Bench):
    """Time the kernel, forward and backward, by each backend; and S4D's, and a plain FFT convolution.

    The kernel from few nodes is for the CPU.

    Example: longwave bench kernel --quick
    """

    def measure(self, progress: Progress) -> Result:
        """For each length: seconds of forward plus backward, and bytes."""
        rows, nodes = [], []
        chosen = ops.backend_name(torch.device(self.where).type)
        compiled = None if chosen == "reference" else chosen
        for L in QUICK_LENGTHS if self.quick else LENGTHS:
            progress(f"times at length {L:,}")
            repeats = 3 if self.quick else 7
            rows.append(in_fresh_process(time_row, L=L, compiled=compiled, repeats=repeats, device=self.where))
            if compiled and not self.quick:
                progress(f"memory at length {L:,}")
                rows[-1]["memory_bytes"] = in_fresh_process(memory, L=L, compiled=compiled, device=self.where)
                rows[-1]["memory_over_H_L_4"] = rows[-1]["memory_bytes"] / (H * L * 4)
        for case in (QUICK_CASES if self.quick else node_cases()) if compiled and self.where == "cpu" else ():
            progress("all nodes and few: " + ", ".join(f"{name} {value}" for name, value in case.items()))
            nodes.append(in_fresh_process(time_nodes, compiled=compiled, **case))
        return {"H": H, "N": N, "init": "legs", "rows": rows, "nodes": nodes, "nodes_H": NODES_H}

    def tables(self, result: Result) -> list[TextTable]:
        sizes = f"{result['H']} features, N = {result['N']}"
        tables = [table(f"Kernel, forward + backward: {sizes}, LegS", result["rows"], COLUMNS)]
        if result["nodes"]:
            title = f"From all nodes and from few, forward + backward: {result['nodes_H']} features"
            tables.append(table(title, result["nodes"], NODE_COLUMNS, text=("system",), sections="system"))
        return tables


def _seconds(name: str) -> Callable[[Result], str]:
    return lambda row: milliseconds(row["seconds"].get(name))


def _few_over_all(part: str) -> Callable[[Result], str]:
    return lambda row: f"{row['seconds'][f'{part}, few'] / row['seconds'][f'{part}, all']:.2f}"


def _memory(row: Result) -> str:
    return f"{row['memory_bytes'] / 1e6:.0f} MB = {row['memory_over_H_L_4']:.1f} H L" if "memory_bytes" in row else "-"


COLUMNS: dict[str, Callable[[Result], str]] = {
    "length": lambda row: f"{row['L']:,}",
    "compiled": _seconds("compiled"),
    "reference": _seconds("reference"),
    "FFT convolution": _seconds("conv"),
    "reference / compiled": lambda row: (
        f"{row['reference_over_compiled']:.0f}" if "reference_over_compiled" in row else "-"
    ),
    "compiled / convolution": lambda row: over(row["seconds"].get("compiled"), row["seconds"]["conv"]),
    "memory": _memory,
    "S4D, compiled": _seconds("s4d"),
}
NODE_COLUMNS: dict[str, Callable[[Result], str]] = {
    "system": lambda row: row["system"],
    "length": lambda row: f"{row['L']:,}",
    "N": lambda row: f"{row['N']:,}",
    "spectrum, all": _seconds("spectrum, all"),
    "few": _seconds("spectrum, few"),
    "few / all": _few_over_all("spectrum"),
    "kernel, all": _seconds("kernel, all"),
    "kernel, few": _seconds("kernel, few"),
    "kernel, few / all": _few_over_all("kernel"),
}


def node_cases() -> list[dict[str, Any]]:
    """Growth with the length and with the state, and other systems at one length."""
    cases: list[dict[str, Any]] = [{"L": L} for L in NODES_LENGTHS]
    cases += [{"L": STATES_LENGTH, "states": states} for states in NODES_STATES]
    cases += [{"L": SYSTEMS_LENGTH, "init": init} for init in ("legt", "lagt", "fout")]
    return [*cases, *({"L": L, "damping": LITTLE} for L in (8192, SYSTEMS_LENGTH))]


def time_nodes(
    L: int, compiled: str, states: int | None = None, init: str = "legs", damping: float = 1.0
) -> dict[str, Any]:
    """Seconds of the spectrum and of the kernel, from all nodes and from few."""
    states = N if states is None else states
    parameters = system(NODES_H, states, init, damping)
    grad, grad_K = torch.randn(1, NODES_H, L // 2 + 1, 2), torch.randn(NODES_H, L)
    Lambda, P, B, C, dt = leaves = [t.clone().requires_grad_() for t in parameters]
    view = torch.view_as_complex

    def spectrum(nodes: Nodes) -> None:
        op_pass(compiled, "spectrum", grad, *parameters, L, nodes)()

    def kernel(nodes: Nodes) -> None:
        K = ops.dplr_kernel(view(Lambda), view(P), view(B), view(C[0]), dt, L, C_is_truncated=True, nodes=nodes)
        torch.autograd.grad(K, leaves, grad_K)

    ways: tuple[Nodes, ...] = ("all", "few")
    measured = {f"{f.__name__}, {way}": partial(f, way) for f in (spectrum, kernel) for way in ways}
    seconds = best_times(measured, repeats=1 if L * states > 1 << 24 else 3)
    name = init if damping == 1 else f"{init}, {damping:g} of its damping"
    return {"system": name, "L": L, "N": states, "seconds": seconds}


def time_row(L: int, compiled: str | None, repeats: int, device: str = "cpu") -> dict[str, Any]:
    """Seconds of the kernel by each backend and of a plain convolution, at one length."""
    signal, kernel = (torch.randn(*size, L, device=device, requires_grad=True) for size in ((1, H), (H,)))
    fast: dict[str, Callable[[], object]] = {"conv": lambda: plain_convolution(signal, kernel)}
    if compiled:
        Lambda, _, *rest = system(H, N, "s4d-legs")
        s4d = op_pass(compiled, "power_sum", torch.randn(1, H, L), Lambda, *rest, L, "zoh", device=device)
        fast |= {"compiled": kernel_pass(compiled, L, device), "s4d": s4d}
    seconds = best_times(fast, repeats, device)
    seconds |= best_times({"reference": kernel_pass("reference", L, device)}, 1 if L > 4096 else 2, device)
    row: dict[str, Any] = {"L": L, "seconds": seconds}
    if compiled:
        row["reference_over_compiled"] = seconds["reference"] / seconds["compiled"]
        row["compiled_over_conv"] = seconds["compiled"] / seconds["conv"]
    return row


def op_pass(backend: str, op: str, grad: Tensor, *arguments: Any, device: str = "cpu") -> Callable[[], None]:
    """Forward and backward of an op by one backend, or by the reference if it does not have it; on a device."""
    functions = ops.BACKENDS[backend if op in ops.BACKENDS[backend].ops else "reference"].functions
    given = [value.to(device) if isinstance(value, Tensor) else value for value in (grad, *arguments)]

    def both_ways() -> None:
        functions[op](*given[1:])
        functions[f"{op}_backward"](*given)

    return both_ways


def kernel_pass(backend: str, L: int, device: str = "cpu") -> Callable[[], None]:
    """The spectrum of H kernels, LegS."""
    return op_pass(backend, "spectrum", torch.randn(1, H, L // 2 + 1, 2), *system(H, N, "legs"), L, device=device)


def system(features: int, states: int, init: str, damping: float = 1.0) -> list[Tensor]:
    """Lambda, P, B and C of some features as real pairs, and dt; with a share of the damping, if that is not 1."""
    generator = torch.Generator().manual_seed(0)
    Lambda, P, B, _ = dplr(init, states)
    Lambda, P = torch.complex(Lambda.real * damping, Lambda.imag), P * damping
    C = torch.randn(1, features, states // 2, dtype=torch.complex64, generator=generator)
    dt = torch.exp(torch.rand(features, generator=generator) * 4.6 - 6.9)
    wide = (Lambda.expand(features, -1), P.unsqueeze(1).expand(-1, features, -1), B.expand(features, -1), C)
    return [*(torch.view_as_real(t.to(torch.complex64).contiguous()) for t in wide), dt]


def plain_convolution(signal: Tensor, kernel: Tensor) -> None:
    """The unit of comparison: a straightforward FFT convolution, forward and backward by autograd."""
    n = 2 * signal.shape[-1]
    y = torch.fft.irfft(torch.fft.rfft(signal, n=n) * torch.fft.rfft(kernel, n=n), n=n)[..., : signal.shape[-1]]
    y.backward(signal.detach())
    signal.grad = kernel.grad = None


def memory(L: int, compiled: str, device: str = "cpu") -> int:
    """Bytes that the compiled kernel needs, forward and backward."""
    return growth_of(kernel_pass(compiled, 64, device), kernel_pass(compiled, L, device), device)
