"""A model on the last steps of a sequence that never ends, run anew at every hop.

For models that need whole sequences: those that see both ways, and those whose state would grow.
"""

from itertools import groupby
from typing import Any

import torch
from torch import Tensor

TOGETHER = 1 << 12  # steps of the windows that go through the model at once


class SlidingWindow:
    """The outputs of a model for the last `window` steps, at every hop; while there are fewer, for those.

    Where the model has an output for each step, it is that of the last. The state is the steps themselves.
    """

    constants: Any = None  # that copies share: none

    def __init__(self, model: Any, *, hop: int, window: int, batch: int, rate: float) -> None:
        self.model, self.hop, self.window = model, hop, window
        self.weight = next(p for p in model.parameters() if p.is_floating_point())
        self._settings = {} if rate == 1 else {"rate": rate}
        is_token = model.config.reads_tokens
        shape = (batch, window) if is_token else (batch, window, model.config.input_size)
        inputs = torch.zeros(shape, dtype=torch.long if is_token else self.weight.dtype, device=self.weight.device)
        self.state = {"inputs": inputs}

    def __call__(self, x: Tensor, before: int) -> Tensor:
        """What the steps x (B, L, ...) that follow `before` others make due: (B, n, output_size)."""
        seen = self._keep(x)
        ends = range((before // self.hop + 1) * self.hop, before + x.shape[1] + 1, self.hop)
        outputs = [self.weight.new_zeros(len(x), 0, self.model.config.output_size)]
        together = max(1, TOGETHER // (self.window * len(x)))
        for length, group in groupby(ends, lambda end: min(end, self.window)):
            stops = [self.window + end - before for end in group]
            for k in range(0, len(stops), together):
                windows = torch.stack([seen[:, stop - length : stop] for stop in stops[k : k + together]], dim=1)
                y, _ = self.model(windows.flatten(0, 1), **self._settings)
                outputs.append((y[:, -1] if y.ndim == 3 else y).unflatten(0, windows.shape[:2]))
        return torch.cat(outputs, dim=1)

    def skip(self, x: Tensor, before: int) -> None:
        """Take steps whose outputs are not wanted."""
        self._keep(x)

    def _keep(self, x: Tensor) -> Tensor:
        """Keep the last steps; those kept before, and x behind them."""
        inputs = self.state["inputs"]
        seen = torch.cat((inputs, x.to(inputs.dtype)), dim=1)
        self.state = {"inputs": seen[:, -self.window :].clone()}
        return seen
