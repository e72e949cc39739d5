"""Classification by two models: ridge regression on random convolutions, solved before training, and a deep model.

On small sets the two are about equally good, and wrong about different sequences; their mean is better than
either. The deep model is trained as if it were alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from longwave.core.settings import at_least, set_by_task
from longwave.layers import MixerConfig, S4Config
from longwave.layers.checks import without_autocast
from longwave.layers.state_space import StateSpaces
from longwave.models.base import MODELS, ModelConfig, Spec
from longwave.models.convolutions import RandomConvolutions, fit_ridge
from longwave.models.pretrained import Pretrained
from longwave.models.sequence import SequenceConfig, SequenceModel

TEMPERATURES = torch.logspace(-2, 1, 61, dtype=torch.float64)
SHARES = torch.linspace(0, 1, 21, dtype=torch.float64)  # candidate weights of the ridge regression in the prediction
MOST_CALIBRATING = 500  # validation examples that decide it
DOUBT = 2.0  # how much likelier, in nats, one of the two alone must make the validation set than halves


@MODELS.register("Classifier")
@dataclass(frozen=True)
class ClassifierConfig(ModelConfig):
    """Ridge regression on random convolutions, solved before training, and a deep model beside it."""

    convolutions: int = at_least(0, 5040)
    """Random convolution features for the ridge regression; 0 for the deep model alone."""
    d_model: int = 64
    """Features of every layer of the deep model."""
    n_layers: int = 3
    """Residual blocks of the deep model."""
    mixer: MixerConfig = field(
        default_factory=lambda: S4Config(d_state=16, bidirectional=True, dt_min=0.01, dt_max=1.0)
    )
    """The layer that mixes the steps in each block."""
    norm: Literal["layer", "batch"] = "batch"
    """Norm of each block."""
    dropout: float = 0.1
    """Dropout probability."""
    tie_dropout: bool = True
    """Share one dropout mask among all steps of a row."""
    input_size: int = set_by_task(1)
    """Channels of the input (set by the task)."""
    output_size: int = set_by_task(2)
    """Classes (set by the task)."""
    longest: int = set_by_task(1)
    """Steps of the longest training sequence (set by the task)."""
    holdout_model: bool = set_by_task(False)
    """Whether a second model is trained without a held-out part, and validated on it (set by the task)."""

    takes_any_length = True

    def build(self) -> "Classifier":
        """A new model with these settings; until `prepare`, its ridge regression scores all classes the same."""
        return Classifier(self)

    def resolve(self, spec: Spec) -> Self:
        """The settings with the sizes that a task decides; without examples to start from, without convolutions."""
        if "mean" not in spec.decoders:
            raise ValueError("model: a Classifier needs a task with one class per sequence")
        convolutions = 0 if spec.examples is None else self.convolutions
        return replace(self.with_sizes(spec), convolutions=convolutions, mixer=self.mixer.for_length(spec.length))

    def prepare(self, model: Any, spec: Spec) -> bool:
        """Solve the ridge regression of a new model."""
        if spec.examples is not None and self.convolutions:
            model.start(**spec.examples())
        return False

    @property
    def label(self) -> str:
        """Display name in tables."""
        return f"{self.mixer.label} + random convolutions" if self.convolutions else self.mixer.label


class Classifier(Pretrained, nn.Module):
    """y, None = model(x), from sequences x (B, L, channels) to y (B, classes).

    In training, y are the logits of the deep model, or (B, 2, classes) with those of the holdout model. Otherwise they
    are log-probabilities: a weighted mean of the deep model's and the ridge regression's.

    Rows that are `held` out train neither the holdout model nor a second ridge regression. In evaluation these two
    predict them, so training examples can be used to validate.
    """

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        deep: SequenceConfig = config.as_kind("SequenceModel")
        self.model = SequenceModel(deep)
        self.holdout_model = SequenceModel(deep) if config.holdout_model else None
        self.convolutions: RandomConvolutions | None = None
        if config.convolutions:
            self.convolutions = RandomConvolutions(config.input_size, config.longest, config.convolutions)
            solutions = 1 + config.holdout_model  # by all training examples, and without those that are held
            self.register_buffer("weight", torch.zeros(solutions, self.convolutions.count, config.output_size))
            self.register_buffer("offset", torch.zeros(solutions, config.output_size))
            self.register_buffer("share", torch.tensor(0.5))  # of the ridge regression

    def start(
        self,
        x: Tensor,
        y: Tensor,
        lengths: Tensor | None = None,
        held: Tensor | None = None,
        weight: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> None:
        """Solve the ridge regression for training examples x (n, L, channels) of the classes y (n,).

        With weights, all classes are to count alike: then a class' share is taken out of its probability. With
        `sample_weight`, examples count as often as it says.
        """
        assert self.convolutions is not None
        lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        convolutions = RandomConvolutions(self.config.input_size, self.config.longest, self.config.convolutions)
        convolutions.start(x, lengths)
        features = convolutions(x, lengths)
        self.convolutions.load_state_dict(convolutions.state_dict())
        counts = torch.ones(len(x), dtype=torch.float64) if sample_weight is None else sample_weight.double()
        everything = counts > 0
        if (counts[everything] < 1).any():  # these are no counts: only their ratios matter
            counts = counts / counts[everything].mean()
        for k, kept in enumerate((everything, everything if held is None else everything & ~held)[: len(self.weight)]):
            slope, offset = _solve(features[kept], y[kept], counts[kept], self.config.output_size)
            if weight is not None:
                offset = offset - y[kept].bincount(counts[kept], minlength=len(offset)).clamp(min=1).log()
            self.weight[k].copy_(slope)
            self.offset[k].copy_(offset)

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        held: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """The output (B, classes), or in training with a holdout model (B, 2, classes)."""
        for name, value in (("state", state), ("time", time)):
            if value is not None:
                raise ValueError(f"{name}: a Classifier takes whole sequences without time features")
        if self.training:
            y = self.model(x, lengths=lengths)[0]
            if self.holdout_model is not None and held is not None:
                y = torch.stack((y, self.holdout_model(x, lengths=lengths)[0]), 1)
            return y, None
        deep = self.deep(x, lengths=lengths, held=held)[0]
        if self.convolutions is None:
            return deep, None
        return torch.lerp(deep, self.ridge(x, lengths, held).to(deep), self.share.to(deep)), None

    def deep(
        self, x: Tensor, *, time: Tensor | None = None, lengths: Tensor | None = None, held: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The log-probabilities (B, classes) of the deep model alone."""
        y = self.model(x, lengths=lengths)[0]
        if held is not None and self.holdout_model is not None:
            y = torch.where(held.unsqueeze(1), self.holdout_model(x, lengths=lengths)[0], y)
        return y.log_softmax(-1), None

    def ridge(self, x: Tensor, lengths: Tensor | None = None, held: Tensor | None = None) -> Tensor:
        """The log-probabilities (B, classes) of the ridge regression alone."""
        assert self.convolutions is not None
        with without_autocast(x):  # a sum of thousands of features wants single precision
            features = self.convolutions(x, lengths).to(self.weight)
            scores = features @ self.weight[0] + self.offset[0]
            if held is not None:
                scores = torch.where(held.unsqueeze(1), features @ self.weight[-1] + self.offset[-1], scores)
            return scores.log_softmax(-1)

    def calibrate(self, batches: Callable[[int], Iterator[dict[str, Tensor]]]) -> None:
        """Choose the weight of the ridge regression on batches of the validation set."""
        if self.convolutions is not None:
            self.choose_share(batches(MOST_CALIBRATING))

    @torch.no_grad()
    def choose_share(self, batches: Iterator[dict[str, Tensor]]) -> None:
        """Choose the share by the likelihood of the validation set, close to one half if it is small."""
        losses = DOUBT * (2 * SHARES - 1).square()
        for batch in batches:
            lengths, held = batch.get("lengths"), batch.get("held")
            deep = self.deep(batch["x"], lengths=lengths, held=held)[0].double()
            ridge = self.ridge(batch["x"], lengths, held).double()
            weight = batch.get("weight", torch.ones_like(batch["y"], dtype=torch.float64))
            weight = weight * batch.get("sample_weight", 1)
            for k, share in enumerate(SHARES.tolist()):
                each = nn.functional.cross_entropy(deep.lerp(ridge, share), batch["y"], reduction="none")
                losses[k] += float((each * weight).sum())
        self.share.fill_(float(SHARES[losses.argmin()]))

    @property
    def state_spaces(self) -> list[StateSpaces]:
        """SSM layers of the deep model, without those of the holdout model."""
        return self.model.state_spaces

    @property
    def explained(self) -> Any:
        """The deep model: random convolutions have no gradients."""
        return self.deep

    @property
    def parts(self) -> dict[str, Any]:
        """Submodels that are scored separately, by their display name."""
        return {f"{self.config.mixer.label} alone": self.deep} if self.convolutions is not None else {}

    weight: Tensor
    offset: Tensor
    share: Tensor


def _solve(features: Tensor, y: Tensor, counts: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Solve ridge regression, with the temperature of the highest leave-one-out likelihood.

    The labels are smoothed as if each class had one more example of unknown class: else a few examples that are all
    correct when left out would make it certain of everything.
    """
    targets = 2 * nn.functional.one_hot(y, classes).double() - 1
    ridge = fit_ridge(features, targets, counts)
    unsure = classes / (float(counts.sum()) + classes)

    def loss(temperature: float) -> float:
        scores = ridge.left_out / temperature
        return float(counts @ nn.functional.cross_entropy(scores, y, reduction="none", label_smoothing=unsure))

    temperature = TEMPERATURES[int(np.argmin([loss(t) for t in TEMPERATURES.tolist()]))]
    return ridge.weight / temperature, ridge.offset / temperature
