"""An exponential moving average of a model's weights, which is validated and saved in their place."""

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
        self._weights = {name: p for name, p in model.named_parameters() if p.requires_grad and decay}
        self.start()

    def start(self) -> None:
        """Begin with the weights as they are."""
        self.values = {name: weight.detach().clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the weights after a step, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, weight in self._weights.items():
            self.values[name].lerp_(weight, 1 - decay)

    @contextlib.contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Use the averaged weights within the block; afterwards the model's own are restored bit by bit."""
        own = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._put(self.values)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(values[name])

    def state_dict(self) -> dict[str, Tensor]:
        """The average by name."""
        return self.values

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state_dict`; a run that began without an average begins one with its weights."""
        if state.keys() != self._weights.keys():
            self.start()
        else:
            self.values = {name: state[name].to(weight) for name, weight in self._weights.items()}
