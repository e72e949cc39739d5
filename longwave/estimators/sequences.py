"""Estimators for whole sequences and their steps; X is (n, length), (n, channels, length), or a list of sequences."""

import io
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d, validate_data

from longwave.estimators.base import Estimator, FinishedRun
from longwave.tasks.base import batches, call
from longwave.tasks.classify.predict import classify
from longwave.tasks.classify.report import attribution
from longwave.tasks.classify.task import AVERAGE, ClassifierInput
from longwave.tasks.regress.predict import regress
from longwave.tasks.sequences.data import Channels, Sequences, from_arrays
from longwave.tasks.sequences.predict import prepare
from longwave.tasks.sequences.targets import are_whole, as_array, read_label
from longwave.tasks.sequences.task import SequenceInput, SequenceSplit
from longwave.tasks.tag.predict import tag

EXPLAINING_STEPS = 128  # points on the way from the average example to a sequence


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceEstimator(Estimator):
    """The base of sequence estimators, whose validation set is drawn from the training sequences."""

    channels: Channels = "first"  # whether they stand before the steps in X, or last

    def _checked(self, X: Any, reset: bool = False) -> Any:
        """X as arrays with channels first: (n, length), (n, channels, length), or a list of (channels, length)."""
        if self.channels not in ("first", "last"):
            raise ValueError(f"channels: expected 'first' or 'last', got {self.channels!r}")
        is_list = isinstance(X, list | tuple) and len(X) > 0 and getattr(X[0], "ndim", 0) > 0
        if is_list or (
            getattr(X, "dtype", None) is np.dtype(object) and getattr(X, "ndim", 0) == 1 and np.ndim(X[0]) > 0
        ):
            rows = [np.asarray(row) for row in X]
            rows = [row[None] if row.ndim == 1 else row.T if self.channels == "last" else row for row in rows]
            count = rows[0].shape[0]
            if reset:
                self.n_features_in_ = count
            elif count != self.n_features_in_:
                raise ValueError(f"X: expected sequences of {self.n_features_in_} channels, as in fit, got {count}")
            return rows
        if hasattr(X, "collect") or (self.channels == "last" and getattr(X, "ndim", 0) == 3):
            X = as_array(X, "X").transpose(0, 2, 1)
        return validate_data(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)

    def _sequences(self, X: Any) -> Sequences:
        self._trained()
        sequences = from_arrays(self._checked(X), channels="first")
        _warn(sequences)
        return sequences

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, **task: Any) -> None:
        """Train on all of X, whose targets are y."""
        check_consistent_length(X, y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        _warn(from_arrays(X, channels="first"))
        known = {"split": ["train"] * len(X), "weight": sample_weight}
        experiment = self._experiment(channels="first", **task)
        self._train(experiment, lambda settings, folder: settings.on_arrays(folder, X, y, **known))

    def _split(self, X: Any) -> tuple[SequenceSplit, SequenceInput]:
        """New sequences as the model sees them."""
        sequences = self._sequences(X)
        inputs = self.run_.fact("inputs", ClassifierInput.from_dict)
        return prepare(self.run_, sequences, inputs)[0], inputs

    def _keep(self, finished: FinishedRun) -> None:
        super()._keep(finished)
        if not hasattr(self, "n_features_in_"):
            inputs = self.run_.facts["inputs"]
            self.n_features_in_ = inputs["length"] if len(inputs["mean"]) == 1 else len(inputs["mean"])
        names = self.run_.facts["inputs"].get("classes")
        if names is not None and not hasattr(self, "classes_"):
            self.classes_ = np.array([int(name) for name in names] if are_whole(names) else names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags


def _warn(sequences: Sequences) -> None:
    for note in sequences.notes:
        warnings.warn(note, UserWarning, stacklevel=4)


@dataclass(eq=False, repr=False, kw_only=True)
class S4Classifier(ClassifierMixin, TransformerMixin, SequenceEstimator):
    """Classify sequences with an S4 and, on small sets, ridge regression on random convolutions.

    >>> clf = S4Classifier(random_state=0).fit(X, y)
    >>> clf.predict(X_new), clf.predict_proba(X_new), clf.explain(X_new)
    """

    kind: ClassVar[str] = "classify"

    class_weight: Any = None  # None, "balanced", or a weight by class

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "S4Classifier":
        """Train on sequences X of the classes y (n,); `class_weight` "balanced" weights all classes equally."""
        X = self._checked(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if isinstance(self.class_weight, dict):
            base = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
            sample_weight = base * compute_sample_weight(self.class_weight, y)
        self._fit(X, y, sample_weight, balance=self.class_weight == "balanced")
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, classes): the probability of each class."""
        found = classify(self._trained(), self._sequences(X), device=self.device)
        places = [found.classes.index(read_label(name, "y")) for name in self.classes_.tolist()]
        return found.probabilities[:, places]

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,): the likeliest class."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def transform(self, X: Any) -> NDArray[np.float32]:
        """(n, d_model): the features of each sequence after the last layer of the S4, pooled over its steps."""
        split, _ = self._split(X)
        model, found = self.run_.load_best(), list[NDArray[np.float32]]()
        deep = getattr(model, "model", model)
        hook = deep.decoder.linear.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].numpy()))
        try:
            with torch.no_grad():
                for batch in batches(split, self.run_.batch_size):
                    call(deep, batch)
        finally:
            hook.remove()
        return np.concatenate(found)

    def explain(self, X: Any) -> Any:
        """Attribution of each number to the predicted class, (n, channels, length) or a list of (channels, length).

        Integrated gradients of the S4's lead of its likeliest class over the second, from the average training example
        on; all numbers of a sequence add up to the difference of the leads.
        """
        split, inputs = self._split(X)
        model = self.run_.load_best()
        if float(getattr(model, "share", 0.0)) == 1:  # a large set has no convolutions, and no share
            raise ValueError(
                "explain: the S4 has no weight in this model, since its random convolutions alone did best on held-out "
                "examples, and they have no gradients to attribute predictions with"
            )
        stored = self.run_.config.artifacts
        average = torch.zeros(1, 1, inputs.channels)
        if AVERAGE in stored and split.same_length and int(split.lengths[0]) == inputs.length:
            average = torch.from_numpy(np.load(io.BytesIO(self.run_.artifact(AVERAGE)), allow_pickle=False))
        shares = [
            attribution(model.explained, batch, average, EXPLAINING_STEPS)
            for batch in batches(split, self.run_.batch_size)
        ]
        found = zip((row for some in shares for row in some), split.lengths, strict=True)
        rows = [row[:length].T.numpy() for row, length in found]
        return np.stack(rows) if split.same_length else rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class S4Regressor(MultiOutputMixin, RegressorMixin, SequenceEstimator):
    """Predict one or more numbers per sequence."""

    kind: ClassVar[str] = "regress"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "S4Regressor":
        """Train on sequences X with the targets y (n,) or (n, targets); one that is not known is NaN."""
        if y is None:
            raise ValueError("S4Regressor requires y to be passed, but the target y is None")
        X = self._checked(X, reset=True)
        y = np.asarray(y, np.float64)
        self._fit(X, y, sample_weight)
        self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        self._is_flat = y.ndim == 1
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """(n,) or (n, targets), as y was."""
        values = regress(self._trained(), self._sequences(X), device=self.device).values
        return values[:, 0] if getattr(self, "_is_flat", values.shape[1] == 1) else values


@dataclass(eq=False, repr=False, kw_only=True)
class S4Tagger(SequenceEstimator):
    """Predict a class for each step of sequences."""

    kind: ClassVar[str] = "tag"

    def fit(self, X: Any, y: Any) -> "S4Tagger":
        """Train on sequences X and y (n, length), or a list of arrays (length,); -1, "" or NaN: not known."""
        self.__dict__.pop("classes_", None)  # those of an earlier fit
        self._fit(self._checked(X, reset=True), y)
        return self

    def predict_proba(self, X: Any) -> list[NDArray[np.float64]]:
        """(length, classes) for each sequence: the probability of each class at each step."""
        return tag(self._trained(), self._sequences(X), device=self.device).probabilities

    def predict(self, X: Any) -> Any:
        """(n, length), or a list of (length,): the likeliest class at each step."""
        rows = [self.classes_[chances.argmax(axis=1)] for chances in self.predict_proba(X)]
        return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows

    def score(self, X: Any, y: Any) -> float:
        """The share of known steps whose class is right."""
        truth, found = np.concatenate([np.asarray(row).ravel() for row in y]), np.concatenate(list(self.predict(X)))
        known = np.array([str(cell) not in ("-1", "", "nan") for cell in truth.tolist()])
        return float(accuracy_score(truth[known].astype(found.dtype), found[known]))
