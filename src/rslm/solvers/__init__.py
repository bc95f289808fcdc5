"""The outer solvers: one loop, two ways to step."""

from rslm.runtime.outcome import Outcome
from rslm.solvers.result import Result
from rslm.solvers.solve import SOLVERS, solve

__all__ = ["SOLVERS", "Outcome", "Result", "solve"]
