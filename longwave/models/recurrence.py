"""A model's recurrence with fixed weights: what generation and streaming run on.

`model.step` may be called between two steps of an optimiser, so that it looks at its parameters each time, and it
leaves the state it was given as it was. Here both are settled once, and where the compiled library serves the model,
one call of it takes a step through all blocks and moves the states on in place.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from longwave.layers.checks import check_count, check_rate
from longwave.layers.compiled import compiled_steps, is_untouched
from longwave.layers.discretised import Known, fixed_parameters
from longwave.models.sequence import SequenceModel


class Recurrence:
    """y = steps(x) for one step after the other, without gradients; the weights of `model` have to stay as they are.

    batch   how many rows
    state   where an earlier call of the model left off, which is not changed; None: the state before the first step
    rate    as for `model.step`
    """

    def __init__(self, model: SequenceModel, batch: int, state: Any = None, *, rate: float = 1.0) -> None:
        check_count("batch", batch)
        check_rate(rate)
        if model.config.decoder == "forecast":
            raise ValueError("model: a forecast model takes a whole window; use forecast_by_steps to go step by step")
        self.model, self.batch, self.rate = model, batch, rate
        with torch.no_grad():
            states, self._decoder_state = model.initial_state(batch) if state is None else state
            # A model that was changed goes by its own step, whatever it is.
            ours = type(model).step is SequenceModel.step and is_untouched(model)
            self._blocks = compiled_steps(model.blocks, rate) if ours else None
            # A model that is no stack of blocks says itself how the library takes its steps.
            self._run: Any = model.compiled_run()
            self._known: Known = {}
            self.states = states

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled library takes the steps, and not `model.step`."""
        return self._blocks is not None or self._run is not None

    @property
    def state(self) -> Any:
        """The state as `model.step` takes it; the next step may change it in place."""
        return self._states, self._decoder_state

    @property
    def states(self) -> list[Any]:
        """The states of the blocks; the next step may change them in place."""
        return self._states

    @states.setter
    def states(self, states: Sequence[Any]) -> None:
        self._states = list(states)
        if self._blocks is not None:
            self._states = [_own(block, s, self.batch) for block, s in zip(self.model.blocks, states, strict=True)]
        if self._run is not None:
            self._states = map_tensors(_copied, list(states))

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """The output for x (B, input_size) or tokens (B,)."""
        if not self.is_compiled:
            with fixed_parameters(self._known):
                y, (self._states, self._decoder_state) = self.model.step(x, self.state, rate=self.rate)
            return y
        y, self._decoder_state = self.model.decoder.step(self.features(x), self._decoder_state)
        return y

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """What the decoder would see (B, d_model), for the same x; its own state stays as it is."""
        model = self.model
        if self._blocks is None:
            how = {} if self._run is None else {"run": self._run}
            with fixed_parameters(self._known):
                z, self._states = model.step_features(x, self._states, rate=self.rate, **how)
            return z
        z = model.encoder(x)
        if z.shape != (self.batch, model.config.d_model):
            expected = "tokens" if model.config.vocabulary else f"{model.config.input_size} numbers"
            raise ValueError(f"x: expected {self.batch} rows of {expected}, as the state has, got {tuple(x.shape)}")
        z = z.to(torch.float32, memory_format=torch.contiguous_format, copy=True)  # the steps work in place
        self._blocks(z, self._states)
        return z if model.norm is None else model.norm(z)


def _own(block: Any, state: Tensor, batch: int) -> Tensor:
    """A copy of a layer's state that the compiled step, which reads raw memory, may work on."""
    block.mixer.check_state(state, batch, next(block.parameters()).device)
    plain = state.to(torch.complex64).resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format)


def _copied(state: Tensor) -> Tensor:
    """A copy of a tensor that steps may work on."""
    return state.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def map_tensors(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state with a function of each of its tensors, however it is nested in lists, tuples and dicts."""
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, dict):
        return {key: map_tensors(function, part) for key, part in state.items()}
    if isinstance(state, list | tuple):
        parts = [map_tensors(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state
