"""Bounds: softened in stages with smaller and smaller ε, and kept exactly in the end.

If a row of U is almost 0, its bounds depend only on its direction, and g is not smooth; if for some column no v keeps
the bounds, g is not even finite. Soft bounds, see `structures.soft_box`, have neither problem. So the path starts
without bounds, continues with an ε at which violating a bound costs somewhat more than an error of an observed entry,
and then reduces ε, each time with the multipliers of the stage before, until keeping the bounds adds only a small share
to the objective; and further, if softness may be what keeps the duality gap open.

At the end rows and columns are solved once more, with hard bounds. The certificate holds for that W and the hard
bounds: multipliers of soft bounds are feasible for hard ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rslm.continuation.rounding import MINIMAL, usual_curvature, without_kinks
from rslm.continuation.stage import Reached, Stage, Stages, advance, stirred
from rslm.evaluation.objective import Evaluation
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Box, Multipliers, SoftBox

FIRST = 3.0  # curvature of the first soft bounds, relative to that of an observed entry
SPARSE = 1e3  # entries of W per observed entry, above which the first bounds are stiffer, so that fewer are violated
STIFFER = 5.0  # factor from one stage to the next
NEGLIGIBLE = 3e-3  # share of the objective that keeping the bounds may add in the end
PART = 0.4  # largest share of that for violating soft bounds
STIFFEST = 1e8  # curvature relative to that of an observed entry; larger ones gain nothing
OPEN = 0.1  # softness may be the reason for a gap if it can explain this share of it
LIMIT = 300  # iterations of a stage before the last one, and of a stage that shall close the gap
LEAST = 0.3  # lower limit of 1 − `along` in `moved_inward`
SPREAD = 2.0  # rows of the start are moved until their bounds are this many standard deviations from their mean


def bounded_stages(problem: Problem, path: Stages, from_data: bool) -> Stages:
    """The path to a problem with bounds, around the `path` to the same one without them."""
    box, start, expected = problem.structure.box, None, None
    assert box is not None
    first = FIRST * math.sqrt(max(problem.shape[0] * problem.shape[1] / (SPARSE * len(problem.data)), 1.0))
    epsilon = 1.0 / (first * usual_curvature(problem))
    least = epsilon * first / STIFFEST
    stage: Stage | None = next(path)
    while stage is not None:
        if not stage.last and stage.problem.loss.quadratic:  # in place of the problem's loss, or with a smaller C
            reached = yield stage.relaxed("bounds", math.inf)
            if from_data:
                start, from_data = moved_inward(box, reached.evaluation, problem.row_scale), False
            if problem.loss.interval is not None:
                # The first width of rounded kinks depends on the errors, which must be those with bounds.
                softness = epsilon * stage.problem.C / problem.C
                squares = replace(soft(stage, box, softness), limit=LIMIT, start=start)
                reached = yield squares.relaxed("bounds", math.inf)
                start = None
            stage = advance(path, reached)
            continue
        if not stage.last:  # so do the next ones: bounds become stiffer together with the loss
            reached = yield replace(soft(stage, box, epsilon, expected), start=start)
            start = None
            if not (stage.replaced or _paid_little(reached.evaluation)) and epsilon > least:
                expected, epsilon = reached.evaluation.multipliers(), epsilon / STIFFER
            stage = advance(path, reached)
            continue
        stage = without_kinks(stage)  # if all data are 0, the path without bounds has no rounding
        if from_data:
            reached = yield replace(stage, last=False, sharp=False).relaxed("bounds", math.inf)
            start, from_data = moved_inward(box, reached.evaluation, problem.row_scale), False
        while True:
            softened = soft(stage, box, epsilon, expected)
            reached = yield replace(softened, last=False, limit=LIMIT, start=start)
            start = None
            if _negligible(reached.evaluation) or epsilon <= least:
                break
            expected, epsilon = reached.evaluation.multipliers(), epsilon / STIFFER
        reached = yield softened
        if (again := escape(reached)) is not None:
            reached = yield soft(replace(stage, limit=LIMIT, start=again), box, epsilon, expected)
        while reached.certificate is not None and epsilon > least and _may_explain(reached):
            expected, epsilon = reached.evaluation.multipliers(), epsilon / STIFFER
            finer = replace(stage, limit=LIMIT, start=stirred(reached.evaluation))
            reached = yield soft(finer, box, epsilon, expected)
        start = None
        stage = advance(path, reached)


def soft(stage: Stage, box: Box, epsilon: float | None = None, expected: Multipliers | None = None) -> Stage:
    """A stage with bounds softened by ε; if None, by a default that suits any point."""
    epsilon = MINIMAL / usual_curvature(stage.problem) if epsilon is None else epsilon
    problem = replace(stage.problem, structure=SoftBox(box, epsilon, expected))
    return stage.relaxed("bounds", epsilon, problem)


def moved_inward(box: Box, evaluation: Evaluation, scale: Floats) -> Floats:
    """U with those rows moved inward, along the average column, whose mean violates their bounds.

    Without bounds, rows with few observed entries are small, and then most columns violate lower bounds above 0 by far.
    """
    if evaluation.location is not None:  # effects have taken the predictions near the bounds
        return evaluation.point
    X, V = evaluation.U * scale, evaluation.V
    average = V.mean(axis=0)
    square = float(average @ average)
    if square == 0.0:
        return evaluation.U
    lower, upper = box.of_rows()
    mean = X @ average
    spread = SPREAD * np.sqrt(np.einsum("jk,kl,jl->j", X, np.cov(V.T, bias=True).reshape(len(average), -1), X))
    # Moving a row increases its spread, because the columns vary along their average.
    along = SPREAD * float(np.std(V @ average)) / square
    with np.errstate(invalid="ignore"):
        lifted = np.maximum(mean, np.where(lower > 0, lower / max(1.0 - along, LEAST), lower))
        spread = np.where(mean < lower, spread + np.maximum(lifted - lower, 0.0), spread)
    middle = np.clip(0.5 * (lower + upper), lower + spread, upper - spread)
    wanted = np.where(mean < lower, np.minimum(lower + spread, middle), mean)
    wanted = np.where(mean > upper, np.maximum(upper - spread, middle), wanted)
    U = (X + np.outer((wanted - mean) / square, average)) / scale
    size = float(np.linalg.norm(U))
    return np.asarray(U / size) if 0.0 < size < np.inf else evaluation.U  # all rows may have to be moved to 0


def _paid_little(evaluation: Evaluation) -> bool:
    """Whether little is paid for violating the bounds."""
    return evaluation.violation_cost <= PART * NEGLIGIBLE * evaluation.value


def _negligible(evaluation: Evaluation) -> bool:
    """Whether keeping the bounds costs little; what is paid for violating them is only a part of that."""
    kept = evaluation.within_bounds().value if _paid_little(evaluation) else math.inf
    return kept - evaluation.value <= NEGLIGIBLE * evaluation.value


def escape(reached: Reached) -> Floats | None:
    """Where to begin again if the gap is open although some columns of U are 0; otherwise None.

    Then the limit on the rank is not active, so U may be a saddle point: an earlier stage needed fewer columns.
    """
    found, certificate = reached.evaluation, reached.certificate
    if certificate is None or not certificate.tol < certificate.relative_gap < math.inf or _may_explain(reached):
        return None
    again = stirred(found)
    return None if again is found.point else again


def _may_explain(reached: Reached) -> bool:
    """Whether the duality gap may be open because the bounds were soft.

    Softness explains the cost of keeping the bounds in the problem of this stage. The primal value of the certificate
    cannot be used, because it has the loss with its kinks, and that difference is due to rounding.
    """
    assert reached.certificate is not None
    assert reached.kept is not None
    return OPEN * reached.certificate.gap <= reached.kept - reached.evaluation.value
