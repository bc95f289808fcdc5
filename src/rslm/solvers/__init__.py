"""The outer solvers: one loop, two ways to step."""

from rslm.solvers.result import Outcome, Result
from rslm.solvers.solve import SOLVERS, solve

__all__ = ["SOLVERS", "Outcome", "Result", "solve"]
