"""Estimators in the style of scikit-learn, which hold the fitted run in memory and need no folder."""

from longwave.estimators.forecaster import S4Forecaster
from longwave.estimators.sequences import S4Classifier, S4Regressor, S4Tagger

__all__ = ["S4Classifier", "S4Forecaster", "S4Regressor", "S4Tagger"]
