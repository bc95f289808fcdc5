"""Bounds: solved softened, which is made less and less, and kept in the end.

Where a row of U is almost 0 its bounds depend on its direction alone, and g is not smooth; where no v of some column is
within its bounds, g is not even finite. Softened by ε, see `structures.box`, bounds have neither trouble. So the way
leads from the problem without bounds over an ε at which going beyond a bound costs somewhat more than an error of an
observed entry, to smaller ε, each with the multipliers that the last one has found, until to keep the bounds costs no
more than a small part of the objective; and further, if it may be softness that keeps the duality gap open.

At the end rows and columns are solved once more, with bounds that hold. The certificate is about that W and the bounds
themselves: multipliers of soft bounds are feasible for hard ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rslm.continuation.rounding import NEAR, Reached, Stage, Stages, advance, stirred, usual_curvature, without_kinks
from rslm.evaluation.objective import Evaluation
from rslm.inner.choose import has_solver
from rslm.losses import BoxDual
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Box, SoftBox

FIRST = 3.0  # curvature of the first soft bounds, relative to that of an observed entry
SPARSE = 1e3  # entries for one that is observed, from which on they are stiffer, lest too many are beyond them
STIFFER = 5.0  # from one to the next
NEGLIGIBLE = 3e-3  # part of the objective that keeping the bounds may add in the end
PART = 0.4  # of what it costs to keep bounds that is paid, at most, for going beyond them
STIFFEST = 1e8  # curvature relative to that of an observed entry beyond which nothing is gained
OPEN = 0.1  # softness may be the reason of a gap of which it can explain this part
TRIES = 300  # iterations that a stage on the way, and a smaller gap, are worth
LEAST = 0.3  # part of itself that a column of little weight is along the average one, at least
SPREAD = 2.0  # rows of the start are moved until their bounds are so many standard deviations from their mean


def bounded_stages(problem: Problem, way: Stages, from_data: bool) -> Stages:
    """The way to a problem with bounds; `way` is that to the same one without them."""
    box, start, expected = problem.structure, None, None
    assert isinstance(box, Box)
    first = FIRST * math.sqrt(max(problem.shape[0] * problem.shape[1] / (SPARSE * len(problem.data)), 1.0))
    epsilon = 1.0 / (first * usual_curvature(problem))
    least = epsilon * first / STIFFEST
    stage: Stage | None = next(way)
    while stage is not None:
        if not stage.last and stage.rounding is None:  # a square loss in the place of the problem's
            reached = yield replace(stage, softness=None)
            if from_data:
                start, from_data = moved_inward(box, reached.evaluation, problem.row_scale), False
            if isinstance(problem.loss, BoxDual):
                # The first width of its kinks depends on the errors that bounds leave.
                softness = epsilon * stage.problem.C / problem.C
                squares = replace(stage.problem, structure=SoftBox(box, softness))
                reached = yield replace(stage, problem=squares, softness=None, tries=TRIES, start=start)
                start = None
            stage = advance(way, reached)
            continue
        if not stage.last:  # so do the next ones
            rounded = replace(stage.problem, structure=SoftBox(box, epsilon))
            reached = yield replace(stage, problem=rounded, softness=epsilon, start=start)
            start = None
            stage = advance(way, reached)
            continue
        free, rounding = without_kinks(stage.problem)
        if rounding > 0:  # zeros alone are solved without rounding where there are no bounds
            stage = replace(stage, rounding=rounding)
        if from_data:
            reached = yield replace(stage, last=False, sharp=False, softness=None)
            start, from_data = moved_inward(box, reached.evaluation, free.row_scale), False
        while True:
            soft = replace(stage, problem=replace(free, structure=SoftBox(box, epsilon, expected)), softness=epsilon)
            reached = yield replace(soft, last=False, tries=TRIES, start=start)
            start = None
            if _negligible(reached.evaluation) or epsilon <= least:
                break
            expected, epsilon = reached.evaluation.multipliers(), epsilon / STIFFER
        reached = yield soft
        while reached.certificate is not None and epsilon > least and _may_explain(reached):
            expected, epsilon = reached.evaluation.multipliers(), epsilon / STIFFER
            finer = replace(free, structure=SoftBox(box, epsilon, expected))
            start = stirred(reached.evaluation.U)
            reached = yield replace(soft, problem=finer, softness=epsilon, tries=TRIES, start=start)
        start = None
        stage = advance(way, reached)


def moved_inward(box: Box, evaluation: Evaluation, scale: Floats) -> Floats:
    """U with the rows that are beyond their bounds on the average moved inward, along the average column.

    Without bounds, rows with few observed entries are small; lower bounds above 0 are then far away for most columns.
    """
    X, V = evaluation.U * scale, evaluation.V
    average = V.mean(axis=0)
    square = float(average @ average)
    if square == 0.0:
        return evaluation.U
    lower, upper = box.of_rows()
    mean = X @ average
    spread = SPREAD * np.sqrt(np.einsum("jk,kl,jl->j", X, np.cov(V.T, bias=True).reshape(len(average), -1), X))
    # A row that is moved varies more than before, by as much as the average column does along itself.
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


def stand_in(problem: Problem) -> Stage:
    """The problem in a form that can be evaluated anywhere, where the solver has to end on the way to it."""
    smooth, rounding = without_kinks(problem)
    if not isinstance(problem.structure, Box):
        return Stage(problem, rounding=0.0) if has_solver(problem) else Stage(smooth, rounding=rounding)
    softness = NEAR / usual_curvature(problem)
    return Stage(replace(smooth, structure=SoftBox(problem.structure, softness)), False, rounding, softness)


def _negligible(evaluation: Evaluation) -> bool:
    """Whether to keep the bounds costs little; what is paid for going beyond them is but a part of that."""
    most = NEGLIGIBLE * evaluation.value
    return evaluation.paid <= PART * most and evaluation.within_bounds().value - evaluation.value <= most


def _may_explain(reached: Reached) -> bool:
    """Whether the duality gap may be open because the bounds were soft.

    What softness explains is what keeping the bounds costs in this very problem. The primal value of the certificate
    knows the loss with its kinks, and the difference to that is explained by rounding.
    """
    assert reached.certificate is not None
    assert reached.kept is not None
    return OPEN * reached.certificate.gap <= reached.kept - reached.evaluation.value
