"""A model's recurrence with fixed weights, for generation and streaming.

`model.step` may be called between two steps of an optimiser, so that it looks at its parameters each time, and it
leaves the state it was given as it was. Here both are settled once, and where the compiled library serves the model,
one call of it takes a step through all blocks and moves the states on in place.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.layers.checks import check_choice, check_count, check_rate
from longwave.layers.discretised import Known, fixed_parameters

WeightType = ops.WeightType


class Recurrence:
    """y = steps(x), one step per call, without gradients; the weights of `model` must not change meanwhile.

    batch    how many rows
    state    where an earlier call of the model left off, which is not changed; None: the state before the first step
    rate     as for `model.step`
    weights  how the compiled steps keep the weights of linear layers: in float32, bfloat16, float16 or int8, which take
             less time to read. The model itself stays as it is. All but float32 need the compiled library
    """

    def __init__(
        self, model: Any, batch: int, state: Any = None, *, rate: float = 1.0, weights: WeightType = "float32"
    ) -> None:
        check_count("batch", batch)
        check_rate(rate)
        check_choice("weights", weights, ops.WEIGHT_TYPES)
        if model.config.decoder == "forecast":
            raise ValueError("model: a forecast model takes a whole window; use forecast_by_steps to go step by step")
        self.model, self.batch, self.rate = model, batch, rate
        with torch.no_grad():
            states, self._decoder_state = model.initial_state(batch) if state is None else state
            self._known: Known = {}
            self._steps = model.compiled_steps(rate, weights)
            self._decode = None if weights == "float32" else _decoder(model, weights, self._steps)
            self.states = states

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled library takes the steps, and not `model.step`."""
        return self._steps is not None

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
        if self._steps is not None:
            self.model.check_states(states, self.batch)
            self._states = map_tensors(_copied, self._states)

    def modules(self) -> Iterator[nn.Module]:
        """The modules that a step calls; compiled steps have read the blocks already."""
        if self._steps is None:
            yield from self.model.modules()
            return
        for part in (self.model.encoder, self.model.norm, self.model.decoder):
            if part is not None:
                yield from part.modules()

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """The output for x (B, input_size) or tokens (B,)."""
        if self._steps is None:
            with fixed_parameters(self._known):
                y, (self._states, self._decoder_state) = self.model.step(x, self.state, rate=self.rate)
            return y
        z = self._compiled_features(x)
        if self._decode is not None:
            return self._decode(z)
        y, self._decoder_state = self.model.decoder.step(z, self._decoder_state)
        return y

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """The decoder's input (B, d_model) for the next x, without advancing the decoder's state."""
        if self._steps is None:
            with fixed_parameters(self._known):
                z, self._states = self.model.step_features(x, self._states, rate=self.rate)
            return z
        return self._compiled_features(x)

    def _compiled_features(self, x: Tensor) -> Tensor:
        model = self.model
        z = model.encoder(x)
        if z.shape != (self.batch, model.config.d_model):
            expected = "tokens" if model.config.vocabulary else f"{model.config.input_size} numbers"
            raise ValueError(f"x: expected {self.batch} rows of {expected}, as the state has, got {tuple(x.shape)}")
        z = z.to(torch.float32, memory_format=torch.contiguous_format, copy=True)  # the steps work in place
        self._steps(z, self._states)
        return z if model.norm is None else model.norm(z)


def _decoder(model: Any, weights: WeightType, steps: Any) -> Callable[[Tensor], Tensor]:
    """The decoder's step with its weights in fewer bytes."""
    if steps is None:
        raise ValueError(
            f"weights: {weights} needs the compiled steps, which do not support this model here: they take S4 and S4D "
            "layers in float32 on the CPU, with widths that are multiples of 16; expected float32"
        )

    def product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        found = ops.linear_steps(weight, bias, weights)
        if found is None:
            raise ValueError(f"weights: {weights} is for float32 models on the CPU; expected float32")
        return found

    decode: Callable[[Tensor], Tensor] = model.decoder.by_products(product)
    return decode


def _copied(state: Tensor) -> Tensor:
    """A contiguous copy of a tensor, since compiled steps read raw memory."""
    kind = torch.complex64 if state.is_complex() else torch.float32 if state.is_floating_point() else state.dtype
    return state.detach().to(kind).resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def map_tensors(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    """Apply a function to every tensor of a state, nested in lists, tuples and dicts."""
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, dict):
        return {key: map_tensors(function, part) for key, part in state.items()}
    if isinstance(state, list | tuple):
        parts = [map_tensors(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state
