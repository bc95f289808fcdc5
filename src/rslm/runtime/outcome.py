"""Why a solver ended."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """Why a solver ended. Only the first two mean that it converged."""

    CERTIFIED = "certified"  #: the duality gap is within the tolerance: a global optimum, however the solver ended
    STATIONARY = "stationary"  #: the gradient is within the tolerance: no better point nearby at this rank
    ITERATIONS = "iterations"  #: out of iterations
    TIME = "time"  #: out of time
    STALLED = "stalled"  #: no step lowers the objective any more, at the limit of floating-point numbers
    INTERRUPTED = "interrupted"  #: stopped from outside; this is the best point so far
    STAGE_LIMIT = "tried"  #: a continuation stage has used up its iterations; never the outcome of a result
    FAILED = "failed"  #: the objective is not a finite number, or no matrix of this rank satisfies the bounds

    @property
    def converged(self) -> bool:
        """Whether the solver converged."""
        return self in (Outcome.CERTIFIED, Outcome.STATIONARY)
