"""The forecaster as sktime has it: a pandas Series in, and one with the rows of a forecasting horizon out."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sktime.forecasting.base import BaseForecaster

from longwave.estimators import S4Forecaster as _Forecaster


class S4Forecaster(BaseForecaster):
    """`longwave.S4Forecaster` as a forecaster of sktime; it is trained for the last step of the horizon in `fit`."""

    _tags: ClassVar[dict[str, Any]] = {
        "scitype:y": "univariate",
        "y_inner_mtype": "pd.Series",
        "capability:exogenous": False,
        "capability:insample": False,
        "capability:missing_values": False,
        "requires-fh-in-fit": True,
        "python_dependencies": ["torch", "scikit-learn"],
    }

    def __init__(
        self,
        context: int | None = None,
        d_model: int = 32,
        n_layers: int = 2,
        epochs: int | None = None,
        max_minutes: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.context = context
        self.d_model = d_model
        self.n_layers = n_layers
        self.epochs = epochs
        self.max_minutes = max_minutes
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        super().__init__()

    def _fit(self, y: Any, X: Any = None, fh: Any = None) -> "S4Forecaster":
        steps = np.asarray(fh.to_relative(self.cutoff))
        if steps.min() < 1:
            raise ValueError(f"fh: expected steps after the end of the series, from 1 on, got {steps.min()}")
        self.forecaster_ = _Forecaster(int(steps.max()), **self.get_params()).fit(_dated(y))
        return self

    def _predict(self, fh: Any, X: Any = None) -> Any:
        values = np.asarray(self.forecaster_.predict(_dated(self._y))["y"])
        steps = np.asarray(fh.to_relative(self.cutoff))
        return pd.Series(values[steps - 1], index=fh.to_absolute_index(self.cutoff), name=self._y.name)

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> "S4Forecaster":
        return self  # `predict` starts from the last known row, and nothing is trained

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Parameters of sktime's tests: small and fast."""
        return {"context": 3, "epochs": 1, "d_model": 8, "n_layers": 1}


def _dated(y: Any) -> Any:
    """A Series as the forecaster takes it: its times as dates, or none if rows are counted."""
    index = y.index.to_timestamp() if isinstance(y.index, pd.PeriodIndex) else y.index
    if not isinstance(index, pd.DatetimeIndex):
        index = None
    return pd.Series(np.asarray(y, np.float64), index=index, name="y")
