"""The estimators as aeon has them: collections (n, channels, length), or lists of unequal lengths."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from aeon.classification import BaseClassifier
from aeon.regression import BaseRegressor

from longwave.estimators import S4Classifier as _Classifier
from longwave.estimators import S4Regressor as _Regressor

_TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "deeplearning",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "non_deterministic": False,
    "python_dependencies": ["torch"],
}


@dataclass(eq=False, repr=False)
class _Shared:
    """Parameters, and the estimator that they make."""

    _estimator: ClassVar[type[Any]]

    d_model: int = 64
    n_layers: int = 3
    epochs: int | None = None
    max_minutes: float | None = None
    random_state: Any = None
    device: str = "auto"
    verbose: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def _fit(self, X: Any, y: Any) -> Any:
        given = self.get_params()  # type: ignore[attr-defined]
        self.estimator_ = self._estimator(**given).fit(X, y)
        return self

    def _predict(self, X: Any) -> Any:
        return self.estimator_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"d_model": 8, "n_layers": 1, "epochs": 2}


@dataclass(eq=False, repr=False)
class S4Classifier(_Shared, BaseClassifier):
    """`longwave.S4Classifier` as a classifier of aeon."""

    _tags: ClassVar[dict[str, Any]] = _TAGS
    _estimator: ClassVar[type[Any]] = _Classifier

    def _predict_proba(self, X: Any) -> Any:
        found = self.estimator_.predict_proba(X)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(eq=False, repr=False)
class S4Regressor(_Shared, BaseRegressor):
    """`longwave.S4Regressor` as a regressor of aeon."""

    _tags: ClassVar[dict[str, Any]] = _TAGS
    _estimator: ClassVar[type[Any]] = _Regressor
