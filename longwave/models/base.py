"""The interface of models: modules with registered settings that adapt to a task."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from torch import Tensor

from longwave.core import files
from longwave.core.registry import Registry
from longwave.core.settings import Settings, dumps

FORMAT = 2  # of config.json and model.safetensors
Shift = Literal["none", "last", "mean"]  # what is subtracted from a window: nothing, its last known value, its mean
# For a linear start. auto: the mean of several solutions; combined: one of simple forecasts, weighted on held-out rows.
StartShift = Shift | Literal["auto", "combined"]


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """A linear forecast that was solved, not trained: weight context + bias, for each column by itself."""

    weight: Tensor  # (horizon, context), float64
    bias: Tensor  # (horizon,), float64
    reversion: float = 0.0  # the share of the solution without a shift
    members: Mapping[str, float] = field(default_factory=dict)  # what it combines, with weights
    reason: str = ""  # of these weights
    beside: Tensor | None = None  # (horizon, length, time_size), float64: weights of the features beside the input


@dataclass(frozen=True)
class Spec:
    """Requirements of a task on a model."""

    input_size: int  # channels of the input
    output_size: int  # numbers that the model puts out, for the whole sequence or for each step
    vocabulary: int = 0  # number of tokens, if the input is tokens
    scale: int = 0  # values in order that the tokens stand for, as of a pixel; 0: tokens have no order
    time_size: int = 0  # features of time beside the input, and of columns that are not forecast
    is_regressed: bool = False  # whether a linear solution has weights for these features
    stamps: tuple[
        int, ...
    ] = ()  # where these are stamps, whole numbers, as of the month: how many values each can have
    horizon: int = 0  # steps to forecast
    length: int | None = None  # steps of every sequence; None: they differ
    longest: int = 1  # steps of the longest training sequence, for models that start from examples
    image_size: tuple[int, int] | None = None  # height and width, if the sequence is an image row by row
    decoders: tuple[str, ...] = ()  # those of a sequence model whose output the task understands
    is_causal: bool = False  # whether a step must not see those after it
    ordered: bool = False  # whether the outputs of a step are those of values in order, as of a pixel
    # The linear solution of a shift, of which the given share (None: as the validation set suggests) has no shift.
    linear: Callable[[StartShift, float | None], LinearSolution] | None = None
    # Training examples to solve a classifier from: x, y, and what else a batch has; None: there are none.
    examples: Callable[[], dict[str, Tensor]] | None = None
    is_irregular: bool = False  # whether steps are at irregular times, and batches have `gaps`
    changes_rate: bool = False  # whether sequences come at several sampling rates, and batches have `rate`


class Model(Protocol):
    """y, state = model(x): the output for a batch x, and the state after it where there is one."""

    config: "ModelConfig"

    def __call__(
        self, x: Tensor, state: Any = None, *, time: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The output for x (B, L, channels) or tokens (B, L)."""
        ...

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model into a folder."""
        ...


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The settings of a model: everything that is needed to build it again."""

    registry: ClassVar[Registry[Any]] = Registry("model", "longwave.models")

    @abstractmethod
    def build(self) -> Any:
        """A new model with these settings."""
        raise TypeError(f"{type(self).__name__} does not say how to build its model")

    @abstractmethod
    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides; a task that the model cannot do is refused."""
        raise TypeError(f"{type(self).__name__} does not say how to fit a task")

    def with_sizes(self, spec: Spec) -> Self:
        """The settings with the sizes of a task, as far as both have them by the same name."""
        shared = {one.name for one in fields(self)} & {one.name for one in fields(spec)}
        return replace(self, **{name: getattr(spec, name) for name in shared})

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json into `folder`: what `save_pretrained` of the model writes beside its weights."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = self.to_dict()
        files.write_json(folder / "config.json", {"format": FORMAT, "model": settings.pop("kind"), "config": settings})

    def to_json_string(self) -> str:
        """The settings as JSON text, under the method name that loggers of transformers call."""
        return dumps(self)

    @property
    @abstractmethod
    def label(self) -> str:
        """Display name in tables."""

    def prepare(self, model: Any, spec: Spec) -> bool:
        """Initialise a new model with what the task solves in closed form; gives whether there was anything."""
        return False

    @property
    def streams(self) -> bool:
        """Whether the model has `step`, which takes one step of a sequence at a time."""
        return False

    @property
    def vocabulary(self) -> int:
        """Number of tokens, if the input is tokens."""
        return 0

    @property
    def decoder(self) -> str:
        """The decoder of a SequenceModel, or its equivalent."""
        return "none"

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """Tokens at which the bins of an adaptive softmax begin, if there is one."""
        return ()

    @property
    def logistics(self) -> int:
        """Components of a mixture of logistics as the output distribution; 0: none."""
        return 0

    @property
    def takes_any_length(self) -> bool:
        """Whether the model takes sequences of any length on their own, as stream windows are."""
        return False

    @property
    def supports_rate(self) -> bool:
        """Whether the model takes `rate`: input sampled at 1/rate of the frequency of training."""
        return False

    @property
    def refuses_gaps(self) -> str | None:
        """Why the model does not take steps at irregular times; None: it does."""
        return "only models of S4D (s4d) take rows at irregular times"


MODELS: Registry[type[ModelConfig]] = ModelConfig.registry
