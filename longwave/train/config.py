"""The settings of a run, as frozen dataclasses: what `longwave show` prints and every `--name value` overrides."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from longwave.models.config import ModelConfig, ResNetConfig


@dataclass(frozen=True)
class ForecastConfig:
    """A forecasting task: a named set, or one's own series."""

    data: str = "etth1"
    """etth1, etth2, ettm1, weather or ecl; own if `csv` is given."""
    multivariate: bool = False
    """All columns in, all columns out; else the target column alone."""
    horizon: int = 720
    """Steps to forecast."""
    context: int = 336
    """Known steps before the forecast."""
    time_features: bool = True
    """Add features of the time (hour, day of the week ...) to the input."""
    csv: Path | None = None
    """A series of one's own: a CSV file with a header, one row a step."""
    target: str | None = None
    """The column to forecast (with csv)."""
    time: str | None = None
    """The column with the time stamps (with csv)."""
    fill: Literal["linear"] | None = None
    """Interpolate missing values of one's own series; without it they are refused."""


@dataclass(frozen=True)
class ImageConfig:
    """A task of images read pixel by pixel."""

    data: Literal["smnist", "pmnist", "scifar"] = "smnist"
    """Digits, digits in one fixed random order of their pixels, or colour images."""
    augment: bool = False
    """Mild augmentation: crops with symmetric padding, and flips where a mirrored image means the same."""
    split_seed: int = 0
    """Seed of the choice of one training image in ten for validation."""

    def __post_init__(self) -> None:
        _check_least(self, split_seed=0)


@dataclass(frozen=True)
class ClassifyConfig:
    """A classification task: one's own labelled sequences."""

    npz: Path | None = None
    """An .npz file with x (n, length, channels) or (n, length), and y (n,) labels; docs: classification."""
    csv: Path | None = None
    """Or a CSV file with a header, one row a sequence."""
    label: str = "label"
    """The column with the labels (with csv)."""
    part: str | None = None
    """The column that says train, valid or test (with csv); without it the parts are drawn, 80/10/10 of each class."""
    balance: bool = False
    """Have all classes count alike, however many examples they have: in the loss, and when weights are chosen."""
    split_seed: int = 0
    """Seed of the parts, if they are drawn."""

    def __post_init__(self) -> None:
        _check_least(self, split_seed=0)


@dataclass(frozen=True)
class TextConfig:
    """A text to be told byte by byte or word by word."""

    data: Literal["own", "wikitext2"] = "own"
    """One's own, in `file`, or a published text."""
    file: Path | None = None
    """A text of one's own: the first 90 % of its bytes to train, then 5 % to validate and 5 % to test."""
    level: Literal["bytes", "words"] = "bytes"
    """What is told one after the other; a text of one's own by its bytes only."""
    length: int = 512
    """Bytes or words of a window, in training and in the scores."""


@dataclass(frozen=True)
class DensityConfig:
    """Images to be told pixel by pixel."""

    data: Literal["mnist"] = "mnist"
    """Which images."""
    split_seed: int = 0
    """Seed of the choice of one training image in ten for validation."""

    def __post_init__(self) -> None:
        _check_least(self, split_seed=0)


TaskConfig = ForecastConfig | ImageConfig | ClassifyConfig | TextConfig | DensityConfig


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with the right parameter groups, a schedule, and when to stop."""

    lr: float = 0.01
    """Learning rate of everything but the SSM parameters."""
    ssm_lr: float = 0.001
    """Learning rate of dt, Lambda, P and B."""
    dt_lr: float | None = None
    """Learning rate of dt, if it differs."""
    weight_decay: float = 0.0
    """Weight decay (never on dt, Lambda, P and B)."""
    schedule: Literal["cosine", "plateau", "constant"] = "cosine"
    """Cosine decay to 0 over all steps, decay when the validation score stands still, or neither."""
    warmup: int = 0
    """Steps of linear warm-up."""
    plateau_patience: int = 5
    """Validations without a better score before the rate falls (schedule plateau)."""
    plateau_factor: float = 0.2
    """By which the rate then is multiplied."""
    clip: float = 0.0
    """Largest norm of the gradient, 0 for no clipping."""
    accumulate: int = 1
    """Parts that a batch is cut into, one after the other, to save memory."""
    precision: Literal["no", "bf16", "fp16"] = "no"
    """Mixed precision; the SSMs stay in float32."""

    def __post_init__(self) -> None:
        _check_least(self, accumulate=1, warmup=0, plateau_patience=0, clip=0)
        if not 0 < self.plateau_factor <= 1:
            raise ValueError(f"plateau_factor: expected a number above 0 and up to 1, got {self.plateau_factor}")


@dataclass(frozen=True)
class LoopConfig:
    """How long to train, and how often to look."""

    epochs: int = 10
    """Passes over the training part."""
    batch_size: int = 50
    """Examples of a step, over all processes."""
    eval_batch_size: int = 200
    """Examples of a batch in evaluation; it does not change the scores."""
    validations: int = 1
    """Validations an epoch, evenly spaced."""
    patience: int = 0
    """Validations without a better score before the run ends, 0 for never."""
    workers: int = 0
    """Processes that load data, 0 for none."""
    seed: int = 0
    """Seed of weights, order and dropout."""
    tensorboard: bool = False
    """Also write TensorBoard files."""

    def __post_init__(self) -> None:
        _check_least(self, epochs=1, batch_size=1, eval_batch_size=1, validations=1, patience=0, workers=0, seed=0)
        if self.seed >= 2**32:
            raise ValueError(f"seed: expected a number below 2^32, got {self.seed}")


@dataclass(frozen=True)
class Experiment:
    """Everything that defines a run."""

    name: str
    task: TaskConfig = field(default_factory=ForecastConfig)
    model: ModelConfig | ResNetConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)


def _check_least(config: Any, **least: int) -> None:
    for name, number in least.items():
        if not getattr(config, name) >= number:
            raise ValueError(f"{name}: expected a number from {number} on, got {getattr(config, name)}")


# What config.json calls the kinds of a part that has several; runs of older versions have the first and do not say so.
KINDS: dict[str, dict[str, Any]] = {
    "task": {
        "forecast": ForecastConfig,
        "images": ImageConfig,
        "classify": ClassifyConfig,
        "text": TextConfig,
        "density": DensityConfig,
    },
    "model": {"SequenceModel": ModelConfig, "ResNet": ResNetConfig},
    "optim": {"optim": OptimConfig},
    "loop": {"loop": LoopConfig},
}


def to_dict(experiment: Experiment) -> dict[str, Any]:
    """Plain values, for config.json."""
    content: dict[str, Any] = {"name": experiment.name}
    for part, kinds in KINDS.items():
        config = getattr(experiment, part)
        values = {k: str(v) if isinstance(v, Path) else v for k, v in dataclasses.asdict(config).items()}
        kind = next(name for name, kind in kinds.items() if type(config) is kind)
        content[part] = {"kind": kind, **values} if len(kinds) > 1 else values
    return content


def from_dict(content: dict[str, Any]) -> Experiment:
    """The inverse of `to_dict`; unknown settings are refused."""
    if not isinstance(content, dict) or {"name", *KINDS} - set(content):
        raise ValueError(f"config.json: expected an experiment with name, {', '.join(KINDS)}, got {content!r:.200}")
    parts: dict[str, Any] = {"name": content["name"]}
    for part, kinds in KINDS.items():
        values = dict(content[part])
        kind = values.pop("kind", next(iter(kinds)))
        if kind not in kinds:
            raise ValueError(
                f"config.json: {part}: expected the kind {' or '.join(kinds)}, got {kind!r}; "
                "written by a newer longwave?"
            )
        unknown = sorted(set(values) - {f.name for f in dataclasses.fields(kinds[kind])})
        if unknown:
            raise ValueError(
                f"config.json: unknown settings in {part}: {', '.join(unknown)}; written by a newer longwave?"
            )
        for name in {"csv", "npz", "file"} & set(values):
            values[name] = None if values[name] is None else Path(values[name])
        parts[part] = kinds[kind](**values)
    return Experiment(**parts)
