"""Estimators: thin compositions of a problem, a solver and scikit-learn's conventions."""

from rslm.estimators.completion import (
    C_for_soft_impute,
    InductiveCompletion,
    MatrixCompletion,
    soft_impute_lambda,
)
from rslm.estimators.implicit import ImplicitCompletion
from rslm.estimators.panel import PanelCompletion
from rslm.estimators.persistence import load
from rslm.estimators.series import HankelModel
from rslm.estimators.tasks import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor

__all__ = [
    "C_for_soft_impute",
    "HankelModel",
    "ImplicitCompletion",
    "InductiveCompletion",
    "MatrixCompletion",
    "MultiTaskClassifier",
    "MultiTaskRegressor",
    "PanelCompletion",
    "ReducedRankRegressor",
    "load",
    "soft_impute_lambda",
]
