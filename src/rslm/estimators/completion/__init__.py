"""Matrix completion, from entries alone or with features of rows and columns."""

from rslm.estimators.completion.completion import Completion
from rslm.estimators.completion.inductive_completion import InductiveCompletion
from rslm.estimators.completion.matrix_completion import MatrixCompletion
from rslm.estimators.completion.soft_impute import C_for_soft_impute, soft_impute_lambda

__all__ = ["C_for_soft_impute", "Completion", "InductiveCompletion", "MatrixCompletion", "soft_impute_lambda"]
