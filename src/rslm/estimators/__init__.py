"""Estimators: thin compositions of a problem, a solver and scikit-learn's conventions."""

from rslm.estimators.hankel_model import HankelModel
from rslm.estimators.inductive_completion import InductiveCompletion
from rslm.estimators.matrix_completion import MatrixCompletion
from rslm.estimators.matrix_completion_cv import MatrixCompletionCV
from rslm.estimators.multi_task import MultiTaskRegressor
from rslm.estimators.multi_task_classifier import MultiTaskClassifier
from rslm.estimators.persistence import load
from rslm.estimators.reduced_rank import ReducedRankRegressor

__all__ = [
    "HankelModel",
    "InductiveCompletion",
    "MatrixCompletion",
    "MatrixCompletionCV",
    "MultiTaskClassifier",
    "MultiTaskRegressor",
    "ReducedRankRegressor",
    "load",
]
