"""Linear structure: W = P(w) always, and nearer and nearer to low rank.

Smoothed by δ, see `structures.smoothed`, what is outside the span of U costs 1/2δ a square. Beside the loss, that is
cheap or dear according to δ · 2C: so δ is counted in the ratio of the two, and goes down from where the data decide to
where the rank does; and further, if it may be smoothing that keeps the duality gap open.

Where many parameters are not observed, the data decide nothing, and the way leads over smaller C instead: symmetric
30 × 30 data of rank 2 with a fifth of the entries are found in this way, and not in the other.
"""

from __future__ import annotations

from dataclasses import replace

from rslm.continuation.rounding import Reached, Stage, Stages, advance, usual_curvature, without_kinks
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


def narrowing_stages(problem: Problem, way: Stages, from_data: bool) -> Stages:
    """The way to a problem with linear structure; `way` is that to its loss, whose first problem is reached from the
    data, and from a given start in a shorter way."""
    first: Stage = next(way)
    yield from _opening(first, from_data)
    stage: Stage | None = first
    while stage is not None:
        delta = first_and_last(stage.problem)[1]
        reached = yield _smoothed(stage, delta)
        while stage.last and _may_explain(reached) and delta > LEAST:
            delta = max(LEAST, delta * FASTER)
            reached = yield replace(_smoothed(stage, delta), tries=TRIES_FOR_GAP)
        stage = advance(way, reached)


def _opening(stage: Stage, from_data: bool) -> Stages:
    """Where the data decide, from large δ to small ones, else from small C to large ones."""
    problem = stage.problem
    first, last = first_and_last(problem)
    on_the_way = replace(stage, last=False, sharp=False, tries=TRIES)
    assert isinstance(problem.structure, LinearStructure)
    unknown = problem.structure.offset is None and share_observed(problem) < MOSTLY  # W₀ says where W is near
    if from_data and unknown:
        for easier in easier_problems(problem):
            yield _smoothed(replace(on_the_way, problem=easier), first_and_last(easier)[1])
        return
    delta = first if from_data else max(last, first * FASTER)
    while delta > last:
        yield _smoothed(on_the_way, delta)
        delta = max(last, delta * FASTER)


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
    curvature = 2.0 if problem.loss.quadratic else usual_curvature(problem)
    return float(problem.structure.counts.sum()) / (curvature * problem.C * len(problem.data))


def first_and_last(problem: Problem) -> tuple[float, float]:
    """δ at both ends of the way."""
    unit = cost_of_loss(problem)
    first = max(min(FIRST * unit, LARGEST), LEAST)
    return first, max(min(LAST * unit, first), LEAST)


def _smoothed(stage: Stage, delta: float) -> Stage:
    """A stage with its structure smoothed by δ."""
    assert isinstance(stage.problem.structure, LinearStructure)
    problem = replace(stage.problem, structure=Smoothed(stage.problem.structure, delta))
    return replace(stage, problem=problem, smoothing=delta)


def last_stage(problem: Problem) -> Stage:
    """Where the solver has to end before the way has begun."""
    smooth, rounding = without_kinks(problem)
    return _smoothed(Stage(smooth, rounding=rounding), first_and_last(problem)[1])


def _may_explain(reached: Reached) -> bool:
    """Whether the duality gap may be open because of smoothing."""
    solution = reached.evaluation.smoothed
    assert solution is not None
    return reached.certificate is not None and OPEN * reached.certificate.gap <= solution.cost_of_smoothing()
