"""The cost of bounds on all entries: every evaluation computes all products of a row with a column."""

from __future__ import annotations

from rslm.continuation.path import stand_in
from rslm.inner.choose import chosen
from rslm.inner.generic import Generic, slow
from rslm.problem import Problem

RATE = 1.5e9  # multiplications a second of one thread, about
SWEEPS = 2.0  # times that all products are computed in an evaluation, on average
WORTH_A_LINE = 1.0  # seconds of an evaluation


def seconds_for_bounds(shape: tuple[int, int], rank: int, threads: int) -> float:
    """About how long an evaluation with bounds takes."""
    return SWEEPS * float(shape[0]) * shape[1] * rank / (RATE * threads)


def cost_of_bounds(shape: tuple[int, int], rank: int, threads: int) -> str | None:
    """A line about the cost; None where it is small."""
    seconds = seconds_for_bounds(shape, rank, threads)
    if seconds < WORTH_A_LINE:
        return None
    many = float(shape[0]) * shape[1] / 1e9
    return (
        f"bounds: {many:.2g} billion products of a row with a column in an evaluation, about {seconds:.2g} s each on "
        f"{threads} {'thread' if threads == 1 else 'threads'}; max_time limits it"
    )


def cost_of_generic(problem: Problem) -> str | None:
    """A line about the cost where only the generic inner solver fits and the data are large; else None."""
    relaxed = stand_in(problem).problem
    return slow(relaxed) if chosen(relaxed) is Generic else None
