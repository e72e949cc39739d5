"""Recurrences that are computed step by step in torch: h_t = cell(u_t, h_(t-1)), with y_t = h_t."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from longwave.layers.checks import check_states, without_autocast, wrong_state
from longwave.layers.mixer import Mixer


class Cell(nn.Module):
    """One recurrence of as many hidden units as features; `input` says what u adds to each step."""

    def __init__(self, d_model: int, bias: bool) -> None:
        super().__init__()
        self.input = nn.Linear(d_model, d_model, bias=bias)

    @abstractmethod
    def update(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The function from a step's input and h (B, d_model) to the next h; what it derives from weights is kept."""


class Stepwise(Mixer):
    """y, state = layer(u) for u (B, L, d_model); y_t, state = layer.step(u_t, state). The state is h, (B, d_model).

    bidirectional  a second recurrence runs backwards, and the two outputs are added; then there is no state and no step
    return_state   False: forward returns y alone, as nn.Sequential expects; `step` returns (y_t, state) all the same
    settings       of the cell
    """

    mixes_features = True
    cell: ClassVar[Callable[..., Cell]]

    def __init__(
        self, d_model: int, *, bidirectional: bool = False, return_state: bool = True, **settings: Any
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional, return_state=return_state)
        self.cells = nn.ModuleList(self.cell(d_model, **settings) for _ in range(1 + bidirectional))

    def _mix(
        self,
        u: Float[Tensor, "batch L d_model"],
        state: Float[Tensor, "batch d_model"] | None,
        *,
        lengths: Tensor | None,
        rate: float,
        need_state: bool,
    ) -> tuple[Float[Tensor, "batch L d_model"], Float[Tensor, "batch d_model"]]:
        """Run the recurrence step by step, in O(L d_model^2)."""
        with without_autocast(u):
            z = u.to(self._placed()[0].dtype)
            h = self._initial_state(len(z)) if state is None else state.to(z)
            y, after = _run(self.cells[0], z, h, lengths)
            if self.bidirectional:
                order = _reversed_steps(z, lengths)
                y = y + _run(self.cells[1], z.gather(1, order), h, lengths)[0].gather(1, order)
        return y, after

    def _initial_state(self, batch: int) -> Tensor:
        """A state of zeros."""
        return self._placed()[0].new_zeros(batch, self.d_model)

    def _check_state(self, state: Tensor, batch: int, device: torch.device) -> None:
        shape = (batch, self.d_model)
        if not check_states(device, state=(state, shape, True)):
            raise wrong_state(state, f"a tensor {shape}")


def _run(cell: Any, u: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h after every step, and after the last one that counts."""
    update, outputs = cell.update(), []
    for t, z in enumerate(cell.input(u).unbind(1)):
        after = update(z, h)
        h = after if lengths is None else torch.where((t < lengths).unsqueeze(-1), after, h)
        outputs.append(after)
    return torch.stack(outputs, dim=1), h


def _reversed_steps(z: Tensor, lengths: Tensor | None) -> Tensor:
    """For each step of z (B, L, d_model) that counts, the one that it changes places with; padding stays in place."""
    steps = torch.arange(z.shape[1], device=z.device)
    ends = steps.new_tensor([z.shape[1]]) if lengths is None else lengths.to(z.device)
    other = ends.unsqueeze(-1) - 1 - steps
    return torch.where(other >= 0, other, steps).unsqueeze(-1).expand(z.shape)
