"""Linear systems from records of inputs and outputs: x(t+1) = A x + B u, y = C x + D u + offset + noise."""

from rslm.estimators.series.systems.identify import identify
from rslm.estimators.series.systems.system import System, simulate

__all__ = ["System", "identify", "simulate"]
