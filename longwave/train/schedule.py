"""The schedule of a run: learning rate, validations and end."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from longwave.experiments.base import LoopConfig, OptimConfig

PROBE = 10  # steps before the others are fitted to the minutes
START = 2  # of them that are not timed: memory and caches are cold


@dataclass
class Position:
    """The position of a run, as a checkpoint stores it."""

    epoch: int = 0
    batch: int = 0  # within the epoch
    step: int = 0
    best: float = math.inf  # of the goal, lower is better
    best_loss: float = math.inf  # the validation loss beside it, which decides between equal scores
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)  # of the best weights on the validation set
    stale: int = 0  # validations since the best
    plateau: int = 0  # validations since the best or since the rate fell
    rate: float = 1.0  # the factor that plateaus have left of the learning rate
    seconds: float = 0.0  # of training, without validations
    validating: float = 0.0  # seconds of validations
    trained: dict[str, list[float]] = field(default_factory=dict)  # sums and counts of scores since a validation
    steps: int | None = None  # of the whole run, as they were fitted to its minutes
    timed_step: int = 0  # the step, and
    timed_seconds: float = 0.0  # the seconds of training, from which on steps are timed to fit them
    refit_step: int | None = None  # where they were fitted for the second time
    loss: float = 0.0  # of the last step before it
    is_validating: bool = False  # a validation was begun, and has to be done before the next step
    finished: bool = False

    def trained_sums(self) -> Tensor:
        """The sums and counts of training scores, (1, scores, 2)."""
        return torch.tensor(list(self.trained.values()), dtype=torch.float64).reshape(1, -1, 2)


@dataclass(frozen=True)
class Schedule:
    """Steps of a run, and the events at each."""

    optim: OptimConfig
    loop: LoopConfig
    epochs: int
    batches: int

    @property
    def all_steps(self) -> int:
        """Steps of all epochs."""
        return self.batches * self.epochs

    def steps(self, at: Position) -> int:
        """Optimiser steps of the whole run."""
        return at.steps or self.all_steps

    def factor(self, at: Position) -> float:
        """The factor of the base learning rates at this step."""
        optim, step, warmup = self.optim, at.step, self.optim.warmup
        fitted = at.steps is not None  # to the minutes, and the schedule with them
        if fitted and self.steps(at) < self.all_steps:  # in few minutes the warm-up would else never end
            warmup = min(warmup, self.steps(at) // 10 if at.refit_step is None else at.refit_step)
        warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
        if optim.schedule == "cosine":
            steps = self.steps(at) if fitted or optim.decay_steps is None else optim.decay_steps
            progress = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
            return warm * 0.5 * (1 + math.cos(math.pi * progress))
        return warm * (at.rate if optim.schedule == "plateau" else 1.0)

    def validation_is_due(self, at: Position) -> bool:
        """Whether a validation follows this batch: `validations` per epoch, the last at its end."""
        n, often = self.batches, self._validations
        if at.step >= self.steps(at):
            return True
        if often < 1:
            return at.batch == n and round((at.epoch + 1) * often, 9) // 1 > round(at.epoch * often, 9) // 1
        return any(at.batch == math.ceil(n * i / often) for i in range(1, int(often) + 1))

    def timing_begins(self, at: Position) -> bool:
        """Whether the steps that follow are the first to be timed."""
        return self.loop.minutes is not None and at.steps is None and at.timed_step == 0 and at.step >= START

    def fit_is_due(self, at: Position) -> bool:
        """Whether it is time to decide how many steps fit the minutes: after ten, and once more after a tenth.

        The first ten may meet a machine that is busy for a moment, or batches that are short. After a tenth the warm-up
        of a fitted run is over and the learning rate at its height, so that it does not jump.
        """
        if self.loop.minutes is None:
            return False
        if at.steps is None:
            return at.step >= PROBE
        return at.refit_step is None and at.step == at.steps // 10 >= 2 * PROBE

    def fitting_steps(self, at: Position, valid_rows: int) -> int:
        """The total number of steps that fit into the minutes."""
        assert self.loop.minutes is not None
        step = (at.seconds - at.timed_seconds) / (at.step - at.timed_step)
        validation = step / 3 * valid_rows / self.loop.batch_size  # a guess, if there was none yet
        if at.validating:
            validation = at.validating / max(1, (at.step - 1) / self.batches * self._validations // 1)
        epoch = step * self.batches + validation * self._validations  # in seconds
        # Of validations what the steps so far account for, also of the next: one may be due right after this.
        left = 60 * self.loop.minutes - at.seconds - validation * self._validations * at.step / self.batches
        return min(max(at.step + int(left / epoch * self.batches), at.step), self.all_steps)

    @property
    def _validations(self) -> float:
        """Validations per epoch: at most one per batch."""
        return min(self.loop.validations, self.batches)
