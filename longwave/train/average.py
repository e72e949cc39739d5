"""An exponential moving average of a model's weights, which is validated and kept in their place."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Average:
    """average <- decay average + (1 - decay) weights after each step, and less of it at the beginning.

    In step t the decay is (1 + t) / (10 + t) at most, so that the weights of the first steps are soon forgotten. A
    decay of 0 keeps no average: then the weights stand for themselves.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = [p for p in model.parameters() if p.requires_grad] if decay else []
        self._names = [name for name, p in model.named_parameters() if p.requires_grad] if decay else []
        self.values = [p.detach().clone() for p in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for value, weight in zip(self.values, self._weights, strict=True):
            value.lerp_(weight, 1 - decay)

    @contextlib.contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """The model with the averaged weights; afterwards it has its own back, bit by bit."""
        own = [weight.detach().clone() for weight in self._weights]
        self._put(self.values)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for weight, value in zip(self._weights, values, strict=True):
            weight.copy_(value)

    def start(self) -> None:
        """Begin with the weights as they are, which were set after the model was built."""
        self.values = [weight.detach().clone() for weight in self._weights]

    def state_dict(self) -> dict[str, Tensor]:
        """The average by the names of the weights."""
        return dict(zip(self._names, self.values, strict=True))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state_dict`; a run that began without an average begins one with its weights."""
        if state.keys() != set(self._names):
            self.start()
            return
        self.values = [state[name].to(weight) for name, weight in zip(self._names, self._weights, strict=True)]
