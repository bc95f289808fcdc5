"""Linear structure: W = P(w) in every stage, and W approaches low rank.

With smoothing by δ, see `structures.smoothed`, the part of W outside the span of U costs its square over 2δ. Its weight
relative to the loss depends on δ · 2C, so δ is measured relative to that. It is reduced from where the data dominate to
where the rank does; and further, if smoothing may be what keeps the duality gap open.

Where many parameters are not observed, the data determine too little, and the path has growing C instead: symmetric
30 × 30 data of rank 2 with a fifth of the entries are recovered in this way, but not in the other.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rslm.continuation.rounding import usual_curvature
from rslm.continuation.stage import Reached, Stage, Stages, advance, stirred
from rslm.inner.linear.smoothed_linear import linear_of, share_observed
from rslm.problem import Problem
from rslm.structures import Smoothed

FIRST, LAST = 1e-1, 1e-4  # δ, in units of `cost_of_loss`
LARGEST = 1e-2  # upper limit of the first δ, relative to U, whose norm is 1
ALMOST = 1.001  # a δ that is above the last one by rounding errors only would be a stage that changes nothing
FASTER = 0.1  # factor from one δ to the next
OPEN = 0.1  # smoothing may be the reason for a gap if it can explain this fraction of it
LEAST = 1e-12  # with a smaller δ, rounding errors of 1e-16/δ spoil the objective
MOSTLY = 0.9  # if at least this fraction of the parameters is observed, δ is reduced, otherwise C grows
EASY, STEP = 1.0, 10.0  # for growing C: least `cost_of_loss` of the first stage, and the factor from one C to the next
LIMIT = 60  # iterations of a stage before the last one
LIMIT_FOR_GAP = 200  # iterations of a stage that shall close the gap


def narrowing_stages(path: Stages, from_data: bool) -> Stages:
    """The path to a problem with linear structure, around the path of its loss; shorter if a start is given."""
    first: Stage = next(path)
    yield from _opening(first, from_data)
    stage: Stage | None = first
    while stage is not None:
        delta = first_and_last(stage.problem)[1]
        reached = yield smoothed(stage, delta)
        while stage.last and _may_explain(reached) and delta > LEAST:
            delta = max(LEAST, delta * FASTER)
            finer = replace(stage, limit=LIMIT_FOR_GAP, start=stirred(reached.evaluation))
            reached = yield smoothed(finer, delta)
        stage = advance(path, reached)


def _opening(stage: Stage, from_data: bool) -> Stages:
    """The first stages: δ is reduced if most parameters are observed, otherwise C grows."""
    problem = stage.problem
    first, last = first_and_last(problem)
    before = replace(stage, last=False, sharp=False, limit=LIMIT)
    unknown = linear_of(problem).offset is None and share_observed(problem) < MOSTLY  # W is near W₀
    if from_data and unknown:
        for easier in easier_problems(problem):
            yield smoothed(before.relaxed("C", problem.C / easier.C, easier), first_and_last(easier)[1])
        return
    delta = first if from_data else max(last, first * FASTER)
    while delta > ALMOST * last:
        yield smoothed(before, delta)
        delta = max(last, delta * FASTER)


def easier_problems(problem: Problem) -> list[Problem]:
    """The same problem with smaller C, the smallest first, until structure and loss have about the same weight."""
    easier: list[Problem] = []
    while cost_of_loss(problem) < EASY:
        problem = replace(problem, C=problem.C / STEP)
        easier.insert(0, problem)
    return easier


def cost_of_loss(problem: Problem) -> float:
    """The δ at which a part of W outside the span of U costs, on average, as much as an error of the same size."""
    curvature = 2.0 if problem.loss.quadratic else usual_curvature(problem)
    return float(linear_of(problem).counts.sum()) / (curvature * problem.C * len(problem.data))


def first_and_last(problem: Problem) -> tuple[float, float]:
    """The first and the last δ of the path."""
    unit = cost_of_loss(problem)
    first = max(min(FIRST * unit, LARGEST), LEAST)
    return first, max(min(LAST * unit, first), LEAST)


def smoothed(stage: Stage, delta: float | None = None) -> Stage:
    """A stage with its structure smoothed by δ; if None, by the last δ of the path."""
    problem = stage.problem
    delta = first_and_last(problem)[1] if delta is None else delta
    return stage.relaxed("structure", delta, replace(problem, structure=Smoothed(linear_of(problem), delta)))


def _may_explain(reached: Reached) -> bool:
    """Whether the duality gap may be open because of smoothing."""
    gap = math.inf if reached.certificate is None else reached.certificate.gap
    return OPEN * gap <= reached.evaluation.solution.cost_of_smoothing()
