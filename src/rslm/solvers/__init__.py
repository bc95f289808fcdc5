"""The outer solvers: one loop with two methods."""

from rslm.runtime.outcome import Outcome
from rslm.solvers.result import Result
from rslm.solvers.solve import SOLVERS, solve

__all__ = ["SOLVERS", "Outcome", "Result", "solve"]
