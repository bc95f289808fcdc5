"""Linear structure: W = P(w) always, and nearer and nearer to low rank.

Smoothed by δ, see `structures.smoothed`, what is outside the span of U costs 1/2δ a square. Beside the loss, that is
cheap or dear according to δ · 2C: so δ is counted in the ratio of the two, and goes down from where the data decide to
where the rank does; and further, if it may be smoothing that keeps the duality gap open.

Where many parameters are not observed, the data decide nothing, and the way leads over smaller C instead: symmetric
30 × 30 data of rank 2 with a fifth of the entries are found in this way, and not in the other.
"""

from __future__ import annotations

from dataclasses import replace

from rslm.continuation.rounding import Reached, Stage, Stages
from rslm.inner.smoothed_linear import share_observed
from rslm.problem import Problem
from rslm.structures import LinearStructure, Smoothed

FIRST, LAST = 1e-1, 1e-4  # δ, in units of the cost of the loss
LARGEST = 1e-2  # the first δ at most, beside U, whose norm is 1
FASTER = 0.1  # from one δ to the next
OPEN = 0.1  # smoothing may be the reason of a gap of which it can explain this part
LEAST = 1e-12  # below it rounding errors of 1e-16/δ spoil the objective
MOSTLY = 0.9  # part of the parameters that is observed, from which on the data decide
EASY, STEP = 1.0, 10.0  # the cost of the loss to begin with where they do not, and from one C to the next
TRIES = 60  # iterations that a stage on the way is worth
TRIES_FOR_GAP = 200  # and a smaller gap


def narrowing_stages(problem: Problem, from_data: bool) -> Stages:
    """The way to a problem with linear structure; from a given start it is shorter."""
    first, last = first_and_last(problem)
    if from_data and share_observed(problem) < MOSTLY:
        for easier in easier_problems(problem):
            yield stage_at(easier, first_and_last(easier)[1], tries=TRIES)
        delta = last
    else:
        delta = first if from_data else max(last, first * FASTER)
    while delta > last:
        yield stage_at(problem, delta, tries=TRIES)
        delta = max(last, delta * FASTER)
    reached = yield replace(stage_at(problem, last), last=True)
    while _may_explain(reached) and delta > LEAST:
        delta = max(LEAST, delta * FASTER)
        reached = yield replace(stage_at(problem, delta, tries=TRIES_FOR_GAP), last=True)


def easier_problems(problem: Problem) -> list[Problem]:
    """The same problem with smaller C, the smallest first, down to where the structure counts as much as the loss."""
    easier: list[Problem] = []
    while cost_of_loss(problem) < EASY:
        problem = replace(problem, C=problem.C / STEP)
        easier.insert(0, problem)
    return easier


def cost_of_loss(problem: Problem) -> float:
    """The δ at which what is outside the span of U costs as much as an error of the same size, on the average."""
    assert isinstance(problem.structure, LinearStructure)
    return float(problem.structure.counts.sum()) / (2.0 * problem.C * len(problem.data))


def first_and_last(problem: Problem) -> tuple[float, float]:
    """δ at both ends of the way."""
    unit = cost_of_loss(problem)
    first = max(min(FIRST * unit, LARGEST), LEAST)
    return first, max(min(LAST * unit, first), LEAST)


def stage_at(problem: Problem, delta: float, tries: int | None = None) -> Stage:
    """The problem smoothed by δ."""
    assert isinstance(problem.structure, LinearStructure)
    smoothed = replace(problem, structure=Smoothed(problem.structure, delta))
    return Stage(smoothed, rounding=0.0, smoothing=delta, tries=tries)


def last_stage(problem: Problem) -> Stage:
    """Where the solver has to end before the way has begun."""
    return stage_at(problem, first_and_last(problem)[1])


def _may_explain(reached: Reached) -> bool:
    """Whether the duality gap may be open because of smoothing."""
    solution = reached.evaluation.smoothed
    assert solution is not None
    return reached.certificate is not None and OPEN * reached.certificate.gap <= solution.cost_of_smoothing()
