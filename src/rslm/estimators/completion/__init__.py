"""Matrix completion, from entries alone or with features of rows and columns."""

from rslm.estimators.completion.completion import Completion
from rslm.estimators.completion.inductive_completion import InductiveCompletion
from rslm.estimators.completion.matrix_completion import MatrixCompletion
from rslm.estimators.completion.matrix_completion_cv import MatrixCompletionCV

__all__ = ["Completion", "InductiveCompletion", "MatrixCompletion", "MatrixCompletionCV"]
