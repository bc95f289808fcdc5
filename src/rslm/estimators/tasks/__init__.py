"""Linear models of several tasks in a common subspace of the features."""

from rslm.estimators.tasks.multi_task_classifier import MultiTaskClassifier
from rslm.estimators.tasks.multi_task_regressor import MultiTaskRegressor
from rslm.estimators.tasks.reduced_rank import ReducedRankRegressor

__all__ = ["MultiTaskClassifier", "MultiTaskRegressor", "ReducedRankRegressor"]
