"""Structured low-rank matrix learning with a certificate of optimality."""

from rslm.data import ObservedMatrix
from rslm.estimators import (
    HankelModel,
    InductiveCompletion,
    MatrixCompletion,
    MatrixCompletionCV,
    MultiTaskClassifier,
    MultiTaskRegressor,
    ReducedRankRegressor,
    load,
)
from rslm.objective import Objective
from rslm.problem import Problem
from rslm.solvers import solve
from rslm.version import __version__

__all__ = [
    "HankelModel",
    "InductiveCompletion",
    "MatrixCompletion",
    "MatrixCompletionCV",
    "MultiTaskClassifier",
    "MultiTaskRegressor",
    "Objective",
    "ObservedMatrix",
    "Problem",
    "ReducedRankRegressor",
    "__version__",
    "load",
    "solve",
]
