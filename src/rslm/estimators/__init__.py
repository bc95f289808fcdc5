"""Estimators: thin compositions of a problem, a solver and scikit-learn's conventions."""

from rslm.estimators.completion.inductive_completion import InductiveCompletion
from rslm.estimators.completion.matrix_completion import MatrixCompletion
from rslm.estimators.completion.matrix_completion_cv import MatrixCompletionCV
from rslm.estimators.persistence import load
from rslm.estimators.series.hankel_model import HankelModel
from rslm.estimators.tasks.multi_task_classifier import MultiTaskClassifier
from rslm.estimators.tasks.multi_task_regressor import MultiTaskRegressor
from rslm.estimators.tasks.reduced_rank import ReducedRankRegressor

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
