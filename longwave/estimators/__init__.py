"""scikit-learn's way to the same runs: what is fitted lives in the object, and needs no folder."""

from longwave.estimators.forecaster import S4Forecaster
from longwave.estimators.sequences import S4Classifier, S4Regressor, S4Tagger

__all__ = ["S4Classifier", "S4Forecaster", "S4Regressor", "S4Tagger"]
