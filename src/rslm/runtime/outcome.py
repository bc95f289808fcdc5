"""How a solver has ended."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """Why a solver ended. Only the first two mean that it has found what it was looking for."""

    CERTIFIED = "certified"  #: the duality gap is within the tolerance: a global optimum, whatever made the solver end
    STATIONARY = "stationary"  #: the gradient is within the tolerance: no better point nearby at this rank
    ITERATIONS = "iterations"  #: out of iterations
    TIME = "time"  #: out of time
    STALLED = "stalled"  #: no step lowers the objective any more, at the limit of floating-point numbers
    INTERRUPTED = "interrupted"  #: stopped from outside; this is the best point so far
    TRIED = "tried"  #: a problem on the way has had its iterations; never that of a result
    FAILED = "failed"  #: the objective is not a finite number, or no matrix of this rank keeps the bounds

    @property
    def converged(self) -> bool:
        """Whether the solver has found what it was looking for."""
        return self in (Outcome.CERTIFIED, Outcome.STATIONARY)
