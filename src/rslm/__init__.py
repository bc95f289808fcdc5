"""Structured low-rank matrix learning with a certificate of optimality."""

from rslm.data import ObservedMatrix
from rslm.estimators import HankelModel, MatrixCompletion, MultiTaskRegressor, load
from rslm.objective import Objective
from rslm.problem import Problem
from rslm.solvers import solve
from rslm.version import __version__

__all__ = [
    "HankelModel",
    "MatrixCompletion",
    "MultiTaskRegressor",
    "Objective",
    "ObservedMatrix",
    "Problem",
    "__version__",
    "load",
    "solve",
]
