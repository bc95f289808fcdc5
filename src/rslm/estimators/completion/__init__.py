"""Matrix completion, from entries alone or with features of rows and columns."""

from rslm.estimators.completion.completion import Completion
from rslm.estimators.completion.inductive_completion import InductiveCompletion
from rslm.estimators.completion.matrix_completion import MatrixCompletion

__all__ = ["Completion", "InductiveCompletion", "MatrixCompletion"]
