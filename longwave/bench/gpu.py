"""`longwave doctor --gpu`: every op on GPUs against the reference on the CPU, a captured graph, and times.

It runs on a user's machine what tests cannot run without a GPU. The devices are arguments: on the CPU it is only slow.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from longwave import ops
from longwave.bench.measure import best_times
from longwave.layers import S4
from longwave.ops.backend import VARIABLE
from longwave.ops.table import OPS, Op
from longwave.ssm import dplr, dplr_bilinear, dplr_step
from longwave.ssm.algebra import as_pairs

INITS = ("legs", "legt", "lagt", "fout")
# Errors that pass, over the largest number: of values and of gradients, in float32 and float64. That of dt is a sum of
# both signs and may happen to be small.
BOUNDS = {torch.float32: (1e-5, 1e-4), torch.float64: (1e-9, 1e-7)}


class Sizes(NamedTuple):
    """Features, states of each, steps and rows of a check or of a timing."""

    H: int = 8
    N: int = 64
    L: int = 1001
    batch: int = 4


class GPUTrial(NamedTuple):
    """One thing that was compared: its worst error over its bound, or why it failed."""

    device: str
    what: str
    dtype: str
    error: float | None
    bound: float
    reason: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it ran and is right; NaN is not."""
        return self.error is not None and self.error <= self.bound


def find_gpus() -> list[torch.device]:
    """The GPUs of this machine, at most two."""
    if not torch.cuda.is_available():
        raise ValueError(
            "gpu: expected a GPU by NVIDIA or AMD that torch can use, got none; check nvidia-smi (or rocminfo), and "
            f"that this torch, {torch.__version__}, was built for it"
        )
    return [torch.device("cuda", index) for index in range(min(2, torch.cuda.device_count()))]


def describe(devices: Sequence[torch.device]) -> dict[str, str]:
    """Describe the GPUs and their drivers for a report."""
    found = {"backend": "; ".join(f"{kind}: {ops.backend_name(kind)}" for kind in sorted({d.type for d in devices}))}
    reason = ops.BACKENDS["triton"].unavailable()
    found["triton"] = reason or ops.BACKENDS["triton"].description()
    for device in devices:
        if device.type == "cuda":
            gpu = torch.cuda.get_device_properties(device)
            found[str(device)] = f"{gpu.name}, capability {gpu.major}.{gpu.minor}, {gpu.total_memory / 2**30:.0f} GiB"
    if torch.cuda.is_available():
        made = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
        found["GPU"] = f"{made}, {torch.cuda.device_count()} in all"
    return found


def check_gpus(
    devices: Sequence[torch.device], progress: Callable[[str], None], sizes: Sizes | None = None
) -> Iterator[GPUTrial]:
    """Every op and its gradients, kernels of four systems, a step, and captured graphs, on each device."""
    sizes = sizes or Sizes()
    for device in devices:
        for name in OPS:
            progress(f"{name} on {device}")
            for dtype in OPS[name].dtypes:
                if dtype in BOUNDS:
                    yield from _trial(device, name, dtype, partial(_op_errors, OPS[name], dtype, device, sizes))
        for dtype in BOUNDS:
            progress(f"kernels and steps on {device}, {dtype}")
            for init in INITS:
                yield from _trial(device, f"kernel {init}", dtype, partial(_kernel_errors, init, dtype, device, sizes))
            yield from _trial(device, "step", dtype, partial(_step_errors, dtype, device, sizes))
        if device.type == "cuda":
            progress(f"captured graphs on {device}")
            yield from _trial(device, "graph", torch.float32, partial(_graph_errors, device, sizes))
            yield from _trial(device, "graph of a step", torch.float32, partial(_step_graph_errors, device, sizes))


def _trial(
    device: torch.device, what: str, dtype: torch.dtype, errors: Callable[[], tuple[float, ...]]
) -> Iterator[GPUTrial]:
    """The error of values and that of gradients, each beside its bound."""
    kind = str(dtype).removeprefix("torch.")
    try:
        for name, error, bound in zip((what, f"{what} gradients"), errors(), BOUNDS[dtype], strict=False):
            yield GPUTrial(str(device), name, kind, error, bound)
    except Exception as error:  # whatever it is, it has to be reported
        yield GPUTrial(str(device), what, kind, None, BOUNDS[dtype][0], f"{type(error).__name__}: {error}"[:300])


@contextlib.contextmanager
def _on_the_reference() -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "reference"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


@torch.no_grad()
def _error(values: Sequence[Tensor], truth: Sequence[Tensor]) -> float:
    """The largest error of each tensor over its largest number, the worst of all; NaN if there is one."""
    worst = torch.zeros((), dtype=torch.float64)
    for value, true in zip(values, truth, strict=True):
        if true.numel():
            scale = true.abs().max().double().clamp(min=1e-30)
            worst = torch.maximum(worst, (value.cpu() - true).abs().max().double() / scale)
    return float(worst)


def _op_errors(op: Op, dtype: torch.dtype, device: torch.device, sizes: Sizes) -> tuple[float, float]:
    """An op on a device against the reference on the CPU, in float64 from the same numbers if it has that."""
    arguments = _arguments(sizes)[op.name]
    rounded = [t.to(_dtype_of(op, i, dtype)) if isinstance(t, Tensor) else t for i, t in enumerate(arguments)]
    wide = torch.float64 if torch.float64 in op.dtypes else dtype
    exact = [t.to(_dtype_of(op, i, wide)) if isinstance(t, Tensor) else t for i, t in enumerate(rounded)]
    with _on_the_reference():
        truth = _values_and_gradients(op, exact)
    found = _values_and_gradients(op, [t.to(device) if isinstance(t, Tensor) else t for t in rounded])
    return _error(found[0], truth[0]), _error(found[1], truth[1])


def _dtype_of(op: Op, place: int, dtype: torch.dtype) -> torch.dtype:
    return op.forward.dtype_of(place) or dtype


def _values_and_gradients(op: Op, arguments: Sequence[Any]) -> tuple[list[Tensor], list[Tensor]]:
    names = op.forward.names
    given = [
        a.detach().requires_grad_() if isinstance(a, Tensor) and name in op.gradients else a
        for name, a in zip(names, arguments, strict=True)
    ]
    result = getattr(torch.ops.longwave, op.name)(*given)
    first: Tensor = result[0] if isinstance(result, tuple) else result
    weights = torch.linspace(-1, 1, first.numel(), dtype=first.dtype).cos().to(first.device)
    leaves = [a for a in given if isinstance(a, Tensor) and a.requires_grad]
    return [first], list(torch.autograd.grad(first, leaves, weights.view_as(first)))


def _system(init: str, sizes: Sizes) -> list[Tensor]:
    """Lambda, P, B, C and dt of some features in float64; C has an axis of one output map."""
    generator, H = torch.Generator().manual_seed(0), sizes.H
    Lambda, P, B, _ = dplr(init, sizes.N)
    C = torch.randn(1, H, sizes.N // 2, dtype=torch.complex128, generator=generator)
    dt = torch.exp(torch.rand(H, dtype=torch.float64, generator=generator) * 4.6 - 6.9)
    return [Lambda.expand(H, -1), P.unsqueeze(1).expand(-1, H, -1), B.expand(H, -1), C, dt]


def _arguments(sizes: Sizes) -> dict[str, list[Any]]:
    """Arguments of every op, in float64 on the CPU."""
    H, N, L, batch = sizes
    generator = torch.Generator().manual_seed(1)
    system = _system("legs", sizes)
    Lambda, P, B, C = (as_pairs(t).contiguous() for t in system[:4])
    dt = system[4]
    discrete = dplr_bilinear(system[0], system[1], system[2], dt)
    change, left, right, B_bar = (as_pairs(t).contiguous() for t in discrete)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    T = 64
    B_bar, C_row = B_bar.flatten(-2), C[0].flatten(-2)
    columns, E = ops.krylov(change, left, right, B_bar, T), ops.power(change, left, right, T)
    rows = ops.krylov(change, left, right, C_row, T, transposed=True)
    u, x, z, keep = randn(batch, L, H), randn(batch, H, N), randn(batch, L, H), torch.ones(batch, H)
    lengths = torch.full((batch,), L)
    lengths[0] = L // 2
    return {
        "spectrum": [Lambda, P, B, C, dt, L, "all"],
        "truncate": [Lambda, P, C, dt, L],
        "power_sum": [Lambda, B, C, dt, L, "zoh"],
        "irfft": [randn(1, H, L // 2 + 1, 2), L],
        "convolve": [u, randn(1, H, L) / L, randn(H)],
        "krylov": [change, left, right, B_bar, T, False],
        "power": [change, left, right, T],
        "collect": [columns, E, u, x, lengths, True],
        "spread": [rows, E, x, L, True],
        "scan": [change, left, right, B_bar, u[:, :T], x, lengths.clamp(max=T), 8],
        "activate": [z, keep],
        "mix": [z, keep, randn(H, H), randn(H)],
        "gate": [u, randn(batch, L, 2 * H), randn(2 * H)],
        "gated_mix": [u, z, keep, randn(2 * H, H), randn(2 * H)],
    }


def _kernel_errors(init: str, dtype: torch.dtype, device: torch.device, sizes: Sizes) -> tuple[float, float]:
    """The kernel of random steps, and its gradients, against the reference in float64 from the same numbers."""
    narrow = [t.to(dtype.to_complex() if t.is_complex() else dtype) for t in _system(init, sizes)]
    found = _kernel_and_gradients([t.to(device) for t in narrow], sizes.L)
    with _on_the_reference():
        wide = [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in narrow]
        truth = _kernel_and_gradients(wide, sizes.L)
    return _error(found[:1], truth[:1]), _error(found[1:], truth[1:])


def _kernel_and_gradients(system: Sequence[Tensor], L: int) -> list[Tensor]:
    Lambda, P, B, C, dt = leaves = [t.detach().requires_grad_() for t in system]
    K = ops.dplr_kernel(Lambda, P, B, C, dt, L)
    weights = torch.linspace(0, 30, L, dtype=torch.float64).cos().to(K.device, K.dtype)
    return [K, *torch.autograd.grad((K * weights).sum(), leaves)]


def _step_errors(dtype: torch.dtype, device: torch.device, sizes: Sizes) -> tuple[float]:
    """A step of a layer, from a state, for an odd number of rows."""
    layer = S4(sizes.H, sizes.N).to(device, dtype)
    batch = 2 * sizes.batch + 1
    with torch.no_grad():
        u = torch.randn(batch, sizes.H, dtype=dtype, device=device)
        state = torch.randn(batch, sizes.H, sizes.N // 2, dtype=dtype.to_complex(), device=device)
        y, after = layer.step(u, state)
        discrete, C, D, _ = layer.step_constants()
        truth = dplr_step(discrete, state, u)
        expected = 2 * (C.real * truth.real - C.imag * truth.imag).sum(-1) + D * u
    return (_error([y, torch.view_as_real(after)], [expected.cpu(), torch.view_as_real(truth).cpu()]),)


def _graph_errors(device: torch.device, sizes: Sizes) -> tuple[float, float]:
    """A training step of a layer as a CUDA graph, replayed on another signal, against the same without a graph."""
    layer = S4(sizes.H, sizes.N).to(device)
    u, other = (torch.randn(sizes.batch, sizes.L, sizes.H, device=device) for _ in range(2))

    def training_step() -> list[Tensor]:
        y, _ = layer(u)
        return [y.detach(), *torch.autograd.grad(y.square().mean(), list(layer.parameters()))]

    found, truth = _replayed(training_step, [u], [other])
    return _error(found[:1], truth[:1]), _error(found[1:], truth[1:])


def _step_graph_errors(device: torch.device, sizes: Sizes) -> tuple[float]:
    """A step of a layer as a CUDA graph, replayed from another state."""
    layer = S4(sizes.H, sizes.N).to(device)
    u, other_u = (torch.randn(sizes.batch, sizes.H, device=device) for _ in range(2))
    state, other_state = (torch.randn_like(layer.initial_state(sizes.batch)) for _ in range(2))

    @torch.no_grad()
    def step() -> list[Tensor]:
        y, after = layer.step(u, state)
        return [y, torch.view_as_real(after)]

    return (_error(*_replayed(step, [u, state], [other_u, other_state])),)


def _replayed(
    run: Callable[[], list[Tensor]], inputs: Sequence[Tensor], others: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """What a CUDA graph of `run` gives once its inputs hold other numbers, and what `run` gives then."""
    with torch.cuda.device(inputs[0].device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = run()
        for tensor, other in zip(inputs, others, strict=True):
            tensor.copy_(other)
        graph.replay()
        found = [t.clone().cpu() for t in captured]
        return found, [t.cpu() for t in run()]


# Times


def time_gpu(device: torch.device, sizes: Sizes, repeats: int = 10) -> dict[str, float]:
    """Seconds of the spectrum, of convolutions and of a layer, forward and backward; and of a step."""
    H, N, L, batch = sizes
    system = [as_pairs(t).contiguous() if t.is_complex() else t for t in _system("legs", sizes)]
    leaves = [t.to(device, torch.float32).requires_grad_() for t in system]
    grad = torch.randn(1, H, L // 2 + 1, 2, device=device)
    u = torch.randn(batch, L, H, device=device, requires_grad=True)
    K = torch.randn(1, H, L, device=device, requires_grad=True)
    layer = S4(H, N).to(device)
    x, state = u.detach()[:, 0], layer.initial_state(batch)

    def spectrum() -> None:
        torch.autograd.grad(ops.spectrum(*leaves, L), leaves, grad)

    def by_reference() -> None:
        with _on_the_reference():
            spectrum()

    def convolution() -> None:
        torch.autograd.grad(ops.convolve(u, K), (u, K), u.detach())

    def plain_convolution() -> None:
        n, signal = 2 * L, pad(u.mT, (0, L))
        y = torch.fft.irfft(torch.fft.rfft(signal) * torch.fft.rfft(K[0], n=n), n=n)[..., :L]
        torch.autograd.grad(y, (u, K), y.detach())

    def training_step() -> None:
        y, _ = layer(u, need_state=False)
        torch.autograd.grad(y, [u, *layer.parameters()], y.detach())

    @torch.no_grad()
    def step() -> None:
        layer.step(x, state)

    measured: dict[str, Callable[[], object]] = {
        "spectrum": spectrum,
        "convolution": convolution,
        "plain FFT convolution": plain_convolution,
        "layer": training_step,
        "step": step,
    }
    seconds = best_times(measured, repeats, str(device))
    return seconds | best_times({"spectrum, plain torch": by_reference}, max(1, repeats // 5), str(device))
