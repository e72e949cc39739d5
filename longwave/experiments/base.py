"""Experiments: named settings of a task, a model, an optimiser and a training loop."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from longwave.core.registry import Registry
from longwave.core.settings import Settings, at_least
from longwave.models import ModelConfig, SequenceConfig
from longwave.tasks.base import FEW_EXAMPLES, TaskConfig

MOST_VALIDATIONS = 10  # of a run on a small set
MOST_WORKERS = 256


@dataclass(frozen=True)
class OptimConfig(Settings):
    """Settings of the optimiser and its schedule."""

    method: Literal["adamw", "lamb"] = "adamw"
    """AdamW, or LAMB, which scales steps by the norm of each tensor."""
    lr: float = 0.01
    """Learning rate of all parameters except those of the SSMs."""
    ssm_lr: float = 0.001
    """Learning rate of dt, Lambda, P and B."""
    dt_lr: float | None = None
    """Learning rate of dt; None: ssm_lr."""
    c_lr: float | None = None
    """Learning rate of C; None: lr. C has weight decay either way."""
    weight_decay: float = 0.0
    """Weight decay (never on dt, Lambda, P and B)."""
    decay_norms: bool = True
    """Weight decay also on norms, and on the biases of the blocks."""
    schedule: Literal["cosine", "plateau", "constant"] = "cosine"
    """Cosine decay to 0, decay when the validation score stops improving (plateau), or a constant rate."""
    decay_steps: int | None = at_least(1, None)
    """Length of the cosine decay, including warm-up, after which the rate stays 0; None: all steps of the run."""
    warmup: int = at_least(0, 0)
    """Steps of linear warm-up."""
    plateau_patience: int = at_least(0, 5)
    """Validations without a better score before the rate falls (schedule plateau)."""
    plateau_factor: float = 0.2
    """Factor on the rate when it falls (schedule plateau)."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights, which is validated and kept instead; 0: none."""
    clip: float = at_least(0, 0.0)
    """Maximum gradient norm (clipping); 0: no clipping."""
    accumulate: int = at_least(1, 1)
    """Micro-batches per batch (gradient accumulation), to save memory."""
    precision: Literal["no", "bf16", "fp16"] = "no"
    """Mixed precision; the SSMs stay in float32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema: expected a number from 0 (none) to below 1, such as 0.9995, got {self.ema}")
        if not 0 < self.plateau_factor <= 1:
            raise ValueError(f"plateau_factor: expected a number above 0 and up to 1, got {self.plateau_factor}")


@dataclass(frozen=True)
class LoopConfig(Settings):
    """Settings of the training loop."""

    epochs: int | None = at_least(1, 10)
    """Passes over the training set; None: enough for min_steps, at least 10."""
    batch_size: int = at_least(1, 50)
    """Examples per step, over all processes."""
    eval_batch_size: int = at_least(1, 200)
    """Batch size in evaluation; it does not change the scores."""
    bucket: int = at_least(0, 0)
    """Number of batches whose examples are sorted by length together, to reduce padding; 0: no sorting."""
    min_steps: int = at_least(0, 0)
    """Minimum number of optimiser steps if epochs is not set; small training sets get more epochs."""
    minutes: float | None = None
    """Time limit of training in minutes, excluding the final evaluation; the schedule is fitted to it."""
    validations: float = 1
    """Validations per epoch, evenly spaced; 0.1: one every ten epochs."""
    checkpoint_minutes: float = 15
    """Maximum number of minutes between checkpoints; each validation also writes one."""
    patience: int = at_least(0, 0)
    """Validations without a better score before the run ends (early stopping); 0: never."""
    keep: Literal["best", "last", "auto"] = "best"
    """Weights to keep: the best on the validation set, or the last; auto: the last if that set is small."""
    workers: int = at_least(0, 0)
    """Processes that load data, at most one per core; 0: none. It does not change the results."""
    seed: int = at_least(0, 0)
    """Seed of weights, order and dropout."""
    tracker: str | None = None
    """Also log to tensorboard, wandb, mlflow or another tracker that accelerate supports."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers > MOST_WORKERS:
            raise ValueError(f"workers: expected a number from 0 to {MOST_WORKERS}, got {self.workers}")
        for name in ("validations", "minutes", "checkpoint_minutes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}: expected a number above 0, got {value}")
        if self.validations > 1 and self.validations != int(self.validations):
            raise ValueError(f"validations: expected a whole number, or less than 1, got {self.validations}")
        if self.seed >= 2**32:
            raise ValueError(f"seed: expected a number below 2^32, got {self.seed}")

    def fitted(self, examples: int, validated: int) -> "LoopConfig":
        """Fit the settings to training and validation sets of that many examples.

        Where no epochs are given, a small set is passed over more often. A batch is then at most a quarter of it, since
        a full-batch gradient has no noise, and smaller still if the last one would otherwise be tiny. There are at most
        MOST_VALIDATIONS, since on a tiny set they take longer than the steps between them.
        """
        if self.keep == "auto":
            return replace(self, keep="last" if validated < FEW_EXAMPLES else "best").fitted(examples, validated)
        if self.epochs is not None:
            return self
        batch_size = min(self.batch_size, max(4, math.ceil(examples / 4)))
        batches = max(1, math.ceil(examples / batch_size))
        batch_size = min(batch_size, max(1, math.ceil(examples / batches)))
        epochs = max(10, math.ceil(self.min_steps / batches))
        fewer = self.validations if epochs * self.validations <= MOST_VALIDATIONS else MOST_VALIDATIONS / epochs
        return replace(self, batch_size=batch_size, epochs=epochs, validations=fewer if fewer < 1 else int(fewer))


@dataclass(frozen=True)
class Experiment(Settings):
    """Everything that defines a run."""

    name: str
    task: TaskConfig
    model: ModelConfig = field(default_factory=SequenceConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def check_supports_rate(self, option: str) -> None:
        """Refuse a model that does not support other sampling rates."""
        if not self.model.supports_rate:
            raise ValueError(
                f"{option}: the model of {self.name} ({self.model.label}) has no notion of the time between "
                "steps, so that it supports no other sampling rate; a SequenceModel of state spaces does "
                "(--model.kind SequenceModel, --model.mixer.kind s4)"
            )

    def check_takes_gaps(self, option: str) -> None:
        """Refuse a model that does not take steps at irregular times."""
        if refused := self.model.refuses_gaps:
            raise ValueError(f"{option}: {refused} (--model.mixer.kind s4d)")

    def fitted(self, examples: int, validated: int) -> "Experiment":
        """Fit loop and warm-up to training and validation sets of that many examples."""
        loop = self.loop.fitted(examples, validated)
        assert loop.epochs is not None
        steps = self.optim.decay_steps or loop.epochs * math.ceil(examples / loop.batch_size)
        optim = replace(self.optim, warmup=min(self.optim.warmup, steps // 10))
        return replace(self, loop=loop, optim=optim)

    @property
    def takes_custom_data(self) -> bool:
        """Whether this is the experiment for custom data of its kind of task, which has the same name."""
        return self.name == self.task.kind

    @property
    def run_name(self) -> str:
        """The default name of a run; for custom data, with that of the file, so that two files do not collide."""
        files = self.task.files if self.takes_custom_data else []
        names = [Path(file.absolute().name.removesuffix(".gz")).stem for file in files]  # of ".", too
        return "-".join([self.name, *names])

    @property
    def title(self) -> str:
        """Its title in tables and reports; for custom data, with the names of the files."""
        files = self.task.files if self.takes_custom_data else []
        names = ", ".join(file.absolute().name for file in files).encode(errors="replace").decode()
        return f"{self.name}: {names}" if names else self.name


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "longwave.experiments")


def register(*experiments: Experiment) -> None:
    """Register experiments under their names."""
    for experiment in experiments:
        EXPERIMENTS.register(experiment.name)(experiment)
