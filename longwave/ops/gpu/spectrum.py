"""The spectrum of the kernel by Triton: what is launched, and how the work is cut up. docs/gpu.md derives it."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from longwave.ops.checks import is_captured
from longwave.ops.gpu.launch import Launch, next_power_of_two, run
from longwave.ssm.nodes import Nodes
from longwave.ssm.spectrum import nodes as node_tables

BY_NODES, BY_FEATURES = "spectrum_kernels", "feature_kernels"
NODES = 128  # of a program
# A feature is computed in float64 if two of its poles are nearer than TWINS of their size and damped by less than
# DAMPED of it: float32 has few digits of the distance of a node to the second. And if |Lambda| dt/2 is below SMALLEST,
# where the kernel hardly depends on dt.
TWINS, DAMPED, SMALLEST = 2e-2, 1e-3, 5e-7
PARTIAL_BYTES = 1 << 28  # of sums over blocks of nodes that a backward pass holds at one time
TOGETHER = 8  # of these sums that are read at one time


class Width(NamedTuple):
    """An instance of the kernels: in float32 or float64, and on how many warps of 32 threads."""

    wide: bool
    warps: int

    @property
    def dtype(self) -> torch.dtype:
        """Of what it computes."""
        return torch.float64 if self.wide else torch.float32


NARROW, WIDE = Width(False, 1), Width(True, 4)


class System(NamedTuple):
    """What all launches of a call share."""

    Lambda: Tensor
    P: Tensor
    B: Tensor
    C: Tensor
    dt: Tensor
    sigma: Tensor
    kappa: Tensor
    flags: Tensor  # of features that are computed in float64

    @classmethod
    def of(cls, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int) -> "System":
        """With room for the flags."""
        Lambda, P, B, C, dt = (t.contiguous() for t in (Lambda, P, B, C, dt))
        flags = torch.ones(len(dt), dtype=torch.uint8, device=dt.device)
        return cls(Lambda, P, B, C, dt, *_tables(L, Lambda.device), flags)

    @property
    def widths(self) -> tuple[Width, ...]:
        """Which instances run: in float32 both, each for its features."""
        return (WIDE,) if self.Lambda.dtype == torch.float64 else (NARROW, WIDE)

    def flagging(self) -> list[Launch]:
        """What sets the flags; in float64 they are all 1."""
        if len(self.widths) == 1:
            return []
        H, M, _ = self.Lambda.shape
        constants = {"TWINS": TWINS, "DAMPED": DAMPED, "SMALLEST": SMALLEST, "PAIRS": next_power_of_two(M)}
        return [Launch(BY_FEATURES, "needs_wide", (H,), (self.Lambda, self.dt, self.flags, M), constants, 1)]


def spectrum(Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto") -> Tensor:
    """K_hat (D, H, L//2+1, 2), from all nodes whatever is asked for: they cost less than the convolution."""
    K_hat = C.new_empty(*C.shape[:2], L // 2 + 1, 2)
    run(forward_launches(System.of(Lambda, P, B, C, dt, L), K_hat), K_hat.device)
    return K_hat


def spectrum_backward(
    grad: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, nodes: Nodes = "auto"
) -> list[Tensor]:
    """Gradients with respect to Lambda, P, B, C and dt; the spectrum is computed again."""
    gradients = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (Lambda, P, B, C, dt)]
    for launches in backward_launches(System.of(Lambda, P, B, C, dt, L), grad.contiguous(), gradients):
        run(launches, grad.device)
    return gradients


def forward_launches(system: System, K_hat: Tensor) -> list[Launch]:
    """Flags, and the spectrum of the features of each width."""
    D, H, count, _ = K_hat.shape
    grid, launches = (H, D, -(-count // NODES)), system.flagging()
    for width in system.widths:
        arguments = (*system, K_hat, system.Lambda.shape[1], count)
        launches.append(Launch(BY_NODES, "spectrum_forward", grid, arguments, _constants(system, width), width.warps))
    return launches


def backward_launches(system: System, grad: Tensor, gradients: list[Tensor]) -> Iterator[list[Launch]]:
    """Flags, sums over the nodes of each program, and the sums of these; some features at a time."""
    (D, H, count, _), M, rank = grad.shape, system.Lambda.shape[1], len(system.P)
    blocks, sums = -(-count // NODES), (6 + 2 * rank) * M + 1
    each = system.widths[-1].dtype.itemsize * D * blocks * sums
    together = max(1, min(H, PARTIAL_BYTES // each))
    yield system.flagging()
    for begin in range(0, H, together):
        some, launches = min(together, H - begin), []
        for width in system.widths:
            partial = grad.new_empty(some, D, blocks, sums - 1, dtype=width.dtype)
            partial_half = grad.new_empty(some, D, blocks, dtype=width.dtype)
            constants, grid = _constants(system, width), (some, D, blocks)
            by_nodes = (grad, *system, partial, partial_half, begin, H, M, count)
            launches.append(Launch(BY_NODES, "spectrum_backward", grid, by_nodes, constants, width.warps))
            inputs = (partial, partial_half, system.Lambda, system.P, system.dt, system.flags)
            by_features: tuple[Tensor | int, ...] = (*inputs, *gradients, begin, H, M, D, blocks)
            constants = {"RANK": rank, "WIDE": int(width.wide), "PAIRS": next_power_of_two(M), "TOGETHER": TOGETHER}
            launches.append(Launch(BY_FEATURES, "spectrum_gradients", (some,), by_features, constants, 4))
        yield launches


def _constants(system: System, width: Width) -> dict[str, int]:
    return {"RANK": len(system.P), "WIDE": int(width.wide), "NODES": NODES}


def _tables(L: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """sin and cos of theta/2 at all nodes, in float64; kept, unless they would be a part of a captured graph."""
    if is_captured(device):
        return _new_tables(L, device)
    return _kept_tables(L, device)


def _new_tables(L: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return node_tables(L, torch.empty(0, dtype=torch.float64, device=device))


_kept_tables = functools.lru_cache(maxsize=16)(_new_tables)
