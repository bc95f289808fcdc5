"""The answer to the given problem, from a point of a stage on the path to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rslm.certificate import Certificate, bare_certificate, certify, no_certificate
from rslm.continuation.path import stand_in
from rslm.continuation.stage import Stage
from rslm.evaluation.data_term import local_term
from rslm.evaluation.objective import Evaluation, Objective, primal, value_at
from rslm.inner.kept_location import Inside, moved_inside
from rslm.kernels import Stopped
from rslm.location import Effects
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats
from rslm.solvers.cost import seconds_for_bounds
from rslm.solvers.loop import Loop
from rslm.solvers.point import Point
from rslm.structures import Box, Free

WORSE = 1e-9  # relative amount by which an objective must exceed that of the simplest matrix to count as worse
ENDED_FROM_OUTSIDE = (Outcome.TIME, Outcome.INTERRUPTED)
PART_FOR_BOUNDS = 0.5  # share of the extra time that may be spent on the best way to keep bounds
SLOW = 0.2  # seconds of an evaluation with bounds above which that is not tried


@dataclass(frozen=True)
class Answer:
    U: Floats
    V: Floats
    parameters: Floats | None
    intercepts: Floats | None
    effects: Effects | None
    value: float
    outcome: Outcome
    certificate: Certificate


def better(new: Answer, old: Answer, tol: float) -> bool:
    """Whether a less relaxed problem gave a better answer: a smaller gap at a stationary point, or within `tol`."""
    gap = new.certificate.relative_gap
    return gap < old.certificate.relative_gap and (new.outcome is Outcome.STATIONARY or gap <= tol)


def answer(
    problem: Problem,
    stage: Stage | None,
    *,
    point: Point,
    objective: Objective,
    tol: float,
    outcome: Outcome,
    wanted: bool = True,
) -> Answer:
    """The answer to the given problem at a `point` that was found in a `stage`; certified if `wanted`."""
    if stage is None or not stage.answers:
        stage = stand_in(problem)
        objective = Objective(stage.problem, objective.n_threads)
        point = Point(objective.evaluate(point.x))
    evaluation = point.evaluation
    kept = evaluation.within_bounds()
    found: Evaluation | Candidate = kept
    parameters = evaluation.solution.parameters
    simple = simplest(problem, evaluation.U.shape[1], objective.n_threads)
    if simple is not None and not kept.value - simple.value <= WORSE * abs(simple.value):
        found, certificate = simple, certify(problem, evaluation, tol, False, simple.primal(problem))
        if not math.isfinite(evaluation.value):
            outcome = Outcome.FAILED
        elif outcome not in ENDED_FROM_OUTSIDE:
            outcome = Outcome.STALLED
    elif (without := at_no_parameters(problem, evaluation)) is not None:
        found, parameters = without, without.parameters
        certificate = certify(problem, evaluation, tol, False, without.value)
        outcome = outcome if outcome in ENDED_FROM_OUTSIDE else Outcome.STALLED
    elif math.isfinite(kept.value) and not wanted:
        certificate = no_certificate(problem, kept, tol, "it was not asked for")
    elif math.isfinite(kept.value):
        certificate = certify(problem, evaluation, tol, outcome is Outcome.STATIONARY, kept.primal(problem))
    else:
        why = "bounds are not kept" if problem.structure.box is not None else "objective is not a finite number"
        certificate, outcome = no_certificate(problem, kept, tol, f"the {why}"), Outcome.FAILED
    certificate = replace(certificate, relaxations=stage.relaxations)
    parts = found.U, found.V, parameters, found.intercepts, found.effects, found.value
    return Answer(*parts, outcome, certificate)


def answer_after_stop(
    problem: Problem,
    rank: int,
    loop: Loop,
    stage: Stage | None,
    interrupt: Interrupt,
    tol: float,
    outcome: Outcome,
    wanted: bool,
) -> Answer:
    """The answer of a fit that was stopped from outside: the usual one if time allows, otherwise a quicker one."""
    bounds = problem.structure.box is not None
    hopeless = bounds and interrupt.ends_soon and seconds_for_bounds(problem.shape, rank, loop.n_threads) > SLOW
    if loop.problem is not None and not hopeless:
        try:
            with interrupt.ending(PART_FOR_BOUNDS if bounds else 1.0):
                if loop.point.evaluation.single:
                    loop.in_double()
                own = partial(answer, problem, stage, point=loop.point, objective=loop.objective)
                return own(tol=tol, outcome=outcome, wanted=wanted)
        except (Stopped, KeyboardInterrupt):
            outcome = Outcome.INTERRUPTED if interrupt.pending else outcome
    try:
        with interrupt.ending():
            kept = quick_candidate(problem, rank, loop)
    except Stopped:  # workers are still busy with an earlier request, and there is no candidate without them
        with interrupt.ending(math.inf):
            kept = quick_candidate(problem, rank, loop)
    certificate, least = None, -math.inf
    try:
        with interrupt.ending():
            if problem.data.at_hand:
                least = local_term(problem, loop.n_threads).least_loss()
            if wanted and bounds and loop.problem is not None:
                # Dual variables of the problem without bounds are feasible too, with multipliers of 0.
                free = None if stage is not None else Objective(replace(problem, structure=Free()), loop.n_threads)
                evaluation = loop.point.evaluation if free is None else free.evaluate(loop.point.x)
                certificate = certify(problem, evaluation, tol, False, kept.primal(problem))
    except (Stopped, KeyboardInterrupt):
        pass
    if certificate is None:
        why = "the fit was interrupted" if outcome is Outcome.INTERRUPTED else "there was no time left"
        certificate = bare_certificate(kept.value, least, rank, tol, why)
    if not kept.within:
        outcome = Outcome.FAILED
    parts = kept.U, kept.V, kept.parameters, kept.intercepts, kept.effects, kept.value
    return Answer(*parts, outcome, certificate)


@dataclass(frozen=True)
class Candidate:
    """A matrix that may be the answer, without an inner solution."""

    U: Floats
    V: Floats
    intercepts: Floats | None
    n_threads: int
    value: float = math.inf
    within: bool = True  #: whether W keeps the bounds
    parameters: Floats | None = None  #: of a linear structure
    effects: Effects | None = None
    solution: None = None

    def _of_data(self, problem: Problem) -> float:
        return local_term(problem, self.n_threads).value(self)

    def objective(self, problem: Problem) -> float:
        """C·L(W) + ½‖V‖² + penalty, as in g(U)."""
        q = 1.0 if problem.column_weights is None else problem.column_weights[:, None]
        return primal(problem, self, self._of_data(problem), 0.5 * float(np.sum(q * self.V * self.V)))

    def primal(self, problem: Problem) -> float:
        """The objective of W."""
        return primal(problem, self, self._of_data(problem))


def simplest(problem: Problem, rank: int, n_threads: int) -> Candidate | None:
    """The simplest W, 0 or the nearest to it within the bounds. An answer must not be worse.

    None if it may not have rank 1, because bounds vary by rows and by columns, or if the data are in other processes.
    """
    found, (d, T) = problem.structure.simplest(problem.shape), problem.shape
    if found is None or not problem.data.at_hand or problem.location is not None:
        return None
    U, V = np.full((d, rank), 1.0 / math.sqrt(d * rank)), np.zeros((T, rank))
    left = found[0] / problem.row_scale
    if (size := float(np.linalg.norm(left))) > 0:
        U, V = np.zeros((d, rank)), np.zeros((T, rank))
        U[:, :1], V[:, :1] = left / size, found[1] * size
    kept = Candidate(U, V, np.zeros(T) if problem.data.intercept else None, n_threads)
    return replace(kept, value=kept.objective(problem))


def quick_candidate(problem: Problem, rank: int, loop: Loop) -> Candidate:
    """The last point, moved into the bounds in a pass or two over the data; without a point, W is 0 or constant."""
    (d, T), structure = problem.shape, problem.structure
    evaluation = None if loop.problem is None else loop.point.evaluation
    kept = Candidate(np.full((d, rank), 1.0 / math.sqrt(d * rank)), np.zeros((T, rank)), None, loop.n_threads)
    if evaluation is not None:
        kept = replace(kept, U=evaluation.U, V=evaluation.V, intercepts=evaluation.intercepts, value=evaluation.value)
        kept = replace(kept, effects=evaluation.effects)
    elif problem.data.intercept:
        kept = replace(kept, intercepts=np.zeros(T))
    elif problem.location is not None:
        kept = replace(kept, effects=Effects.none(problem.shape, problem.location.n_covariates))
    if (linear := structure.linear) is not None:
        if evaluation is not None:
            return replace(kept, value=evaluation.primal(problem), parameters=evaluation.solution.parameters)
        return replace(kept, parameters=np.zeros(linear.size))
    if not problem.data.at_hand and structure.box is None:
        return kept
    scale = problem.row_scale

    def value_of(kept: Candidate) -> float:
        return kept.objective(problem) if problem.data.at_hand else math.inf

    def at(X: Floats, V: Floats) -> Candidate:
        size = float(np.linalg.norm(X / scale)) or 1.0
        return replace(kept, U=X / scale / size, V=V * size)

    if structure.box is not None and problem.location is not None:
        return _located_candidate(problem, structure.box, kept, value_of)
    if structure.box is not None:
        found = structure.inward(kept.U * scale, kept.V, lambda X, V: value_of(at(X, V)))
        kept = replace(kept, within=False) if found is None else at(*found)
    return replace(kept, value=value_of(kept))


def _located_candidate(
    problem: Problem, box: Box, kept: Candidate, value_of: Callable[[Candidate], float]
) -> Candidate:
    """A candidate with effects, moved into the bounds."""
    assert problem.location is not None
    assert kept.effects is not None
    scale = problem.row_scale

    def at(one: Inside) -> Candidate:
        size = float(np.linalg.norm(one.X / scale))
        if size == 0.0:
            return replace(kept, V=np.zeros(kept.V.shape), effects=one.effects)
        return replace(kept, U=one.X / scale / size, V=one.V * size, effects=one.effects)

    given = Inside(kept.U * scale, kept.V, kept.effects)
    found = moved_inside(box, problem.location, given, lambda one: value_of(at(one)))
    kept = replace(kept, within=False) if found is None else at(found)
    return replace(kept, value=value_of(kept))


def at_no_parameters(problem: Problem, evaluation: Evaluation) -> Candidate | None:
    """W = W₀ of an affine structure, if it is better than the W of an evaluation; else None.

    If the rank is below that of every matrix with the structure, no small change may lead to a good one.
    """
    linear = problem.structure.linear
    if linear is None or linear.offset is None or not linear.formable:
        return None
    value = value_at(problem, np.zeros(linear.size))
    if not evaluation.primal(problem) - value > WORSE * abs(value):
        return None
    rank, (left, s, right) = evaluation.U.shape[1], np.linalg.svd(linear.offset_matrix(), full_matrices=False)
    U, size = left[:, :rank] * np.sqrt(s[:rank]), max(float(np.sqrt(s[:rank].sum())), np.finfo(float).tiny)
    V = right[:rank].T * np.sqrt(s[:rank]) * size
    intercepts = np.zeros(len(V)) if problem.data.intercept else None
    return Candidate(U / size, V, intercepts, 1, value, parameters=np.zeros(linear.size))
