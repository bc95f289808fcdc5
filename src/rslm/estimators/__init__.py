"""Estimators: thin compositions of a problem, a solver and scikit-learn's conventions."""

from rslm.estimators.hankel_model import HankelModel
from rslm.estimators.matrix_completion import MatrixCompletion
from rslm.estimators.multi_task import MultiTaskRegressor
from rslm.estimators.persistence import load

__all__ = ["HankelModel", "MatrixCompletion", "MultiTaskRegressor", "load"]
