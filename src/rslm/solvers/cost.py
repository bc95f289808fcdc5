"""Estimates of running time for slow problems, to inform the user. Bounds need all entries of W in every evaluation."""

from __future__ import annotations

from rslm.continuation.path import stand_in
from rslm.inner.choose import chosen
from rslm.inner.generic import Generic, slow
from rslm.problem import Problem

RATE = 1.5e9  # multiplications per second and thread, approximately
SWEEPS = 2.0  # how often an evaluation computes all entries of W, on average
WORTH_A_LINE = 1.0  # seconds of an evaluation above which the user is informed


def seconds_for_bounds(shape: tuple[int, int], rank: int, threads: int) -> float:
    """The approximate time of an evaluation with bounds."""
    return SWEEPS * float(shape[0]) * shape[1] * rank / (RATE * threads)


def cost_of_bounds(shape: tuple[int, int], rank: int, threads: int) -> str | None:
    """A log line about the cost of bounds; None if it is small."""
    seconds = seconds_for_bounds(shape, rank, threads)
    if seconds < WORTH_A_LINE:
        return None
    many = float(shape[0]) * shape[1] / 1e9
    return (
        f"bounds: every evaluation checks {many:.2g} billion entries, which takes about {seconds:.2g} s on "
        f"{threads} {'thread' if threads == 1 else 'threads'}; max_time limits the total time"
    )


def cost_of_generic(problem: Problem) -> str | None:
    """A warning if only the generic inner solver fits and the data are large; otherwise None."""
    if not problem.data.at_hand:
        return None
    return slow(problem) if chosen(stand_in(problem).problem) is Generic else None
