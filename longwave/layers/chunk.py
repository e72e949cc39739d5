"""Chunks of a sequence: what a state adds to the outputs of a chunk, and the state after it.

longwave.ssm.states has the functions, and longwave.ops the ops that compute them.
"""

from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from longwave import ops
from longwave.ops.checks import resolved
from longwave.ssm import DiscreteDPLR, moved_row
from longwave.ssm.algebra import as_complex, as_pairs


class Chunks(NamedTuple):
    """Tables of a discrete system for chunks in blocks of T steps, each None if nothing asked for it; all float64.

    change, left, right, B_bar   the system, as real pairs; states are N = 2M numbers
    rows                         C A_bar^(j+1) for j < T, (H, T, N): what a state adds to the outputs after it
    columns                      A_bar^j B_bar for j < T, (H, T, N)
    E                            A_bar^T - I, (H, N, N), or its diagonal, (H, 1, N)
    """

    change: Tensor
    left: Tensor
    right: Tensor
    B_bar: Tensor
    T: int
    rows: Tensor | None = None
    columns: Tensor | None = None
    E: Tensor | None = None

    @classmethod
    def of(cls, discrete: DiscreteDPLR, C: Complex[Tensor, "H M"] | None, T: int, longest: int, sums: bool) -> "Chunks":
        """Tables for chunks of up to `longest` steps: `C` for outputs from a state, `sums` for the state after."""
        change, left, right, B_bar = (as_pairs(t) for t in discrete)
        rows = columns = E = None
        if C is not None:
            row = moved_row(discrete, C)
            real = torch.stack((2 * row.real, -2 * row.imag), dim=-1).flatten(-2)
            rows = ops.krylov(change, left, right, real, T, transposed=True)
        B_bar = B_bar.flatten(-2)
        if sums and longest >= T:
            columns = ops.krylov(change, left, right, B_bar, T)
        if longest >= (2 * T if C is None else T):
            E = ops.power(change, left, right, T)
        return cls(change, left, right, B_bar, T, rows, columns, E)

    def response(self, state: Complex[Tensor, "batch H M"], L: int) -> Float[Tensor, "batch L H"]:
        """The response to a state: its contribution to the next L outputs."""
        assert self.rows is not None
        E = self.E if isinstance(L, torch.SymInt) or L > self.T else None
        return ops.spread(self.rows, E, _numbers(state), L)

    def state_after(
        self, u: Float[Tensor, "batch L H"], state: Complex[Tensor, "batch H M"] | None, lengths: Tensor | None
    ) -> Complex[Tensor, "batch H M"]:
        """The state after each row's `lengths` steps of u (default: all), from `state` before them.

        Whole blocks at once, and the steps that remain one by one. In an exported graph, where L is a symbol, there
        may be any number of either.
        """
        (batch, L, _), T = u.shape, self.T
        x = None if state is None else _numbers(state)
        steps = torch.full((batch,), L, device=u.device) if lengths is None else lengths.to(u.device, torch.int64)
        is_symbol = isinstance(L, torch.SymInt)
        if is_symbol or L >= T:
            assert self.columns is not None
            E = None if not is_symbol and x is None and L < 2 * T else self.E
            x = ops.collect(self.columns, E, u, x, steps)
        differ = is_symbol or lengths is not None
        remain = (T - 1 if is_symbol else min(L, T - 1)) if differ else L % T
        if remain:
            rest = _last_steps(u, steps, T, remain) if differ else u[:, L - remain :]
            x = u.new_zeros(batch, *self.B_bar.shape) if x is None else x
            x = self.scan(rest, x, steps % T, remain).squeeze(1)
        assert x is not None
        return _complex(x)

    def scan(
        self, u: Float[Tensor, "batch L H"], x: Float[Tensor, "batch H N"], lengths: Tensor, every: int
    ) -> Float[Tensor, "batch count H N"]:
        """The states after every `every` steps from x, one step at a time; a row stays as it is after its `lengths`."""
        return ops.scan(self.change, self.left, self.right, self.B_bar, u, x, lengths, every)

    def states(
        self,
        u: Float[Tensor, "batch L H"],
        state: Complex[Tensor, "batch H M"] | None,
        lengths: Tensor | None,
        every: int,
    ) -> Complex[Tensor, "batch count H M"]:
        """The states after every `every` steps of u."""
        batch, L, _ = u.shape
        x = u.new_zeros(batch, *self.B_bar.shape) if state is None else _numbers(state)
        steps = torch.full((batch,), L, device=u.device) if lengths is None else lengths.to(u.device, torch.int64)
        return _complex(self.scan(u, x, steps, every))


def _last_steps(u: Tensor, lengths: Tensor, T: int, remain: int) -> Tensor:
    """The `remain` steps after the last whole block of each row; what follows its end does not matter."""
    steps = (lengths // T * T).unsqueeze(-1) + torch.arange(remain, device=u.device)
    return torch.gather(u, 1, steps.clamp(max=u.shape[1] - 1).unsqueeze(-1).expand(-1, -1, u.shape[2]))


def _numbers(state: Tensor) -> Tensor:
    return torch.view_as_real(resolved(state)).flatten(-2)


def _complex(numbers: Tensor) -> Tensor:
    return as_complex(numbers.unflatten(-1, (-1, 2)))  # not a view, which no compiled graph takes as an input
