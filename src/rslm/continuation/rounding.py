"""Losses with kinks: solved with rounded kinks, in stages with less and less rounding.

If many errors are exactly at a kink, the dual variables are not unique and g is not smooth. If few are, g is smooth
only within steps that take no other error across a kink. A loss rounded by δ has neither problem unless δ is small
relative to the errors. So the path starts with a square loss, continues with δ of about half a typical error, and then
reduces δ:

- quickly, while most errors are within the rounded part, so that rounding decides the answer (data without noise);
- then slowly, until rounding can change at most a small part of the objective;
- and further, if rounding may be what keeps the duality gap open.

Where C is so large that outliers could have a factor of their own, the square loss and the first rounded ones have a
smaller C, see `continuation.outliers`.

With such a loss, truncated conjugate gradients soon amplify a rounding error to the accuracy of a step, so two machines
take different paths. The answer must not depend on the path: the first width is a median of the targets times a power
of 2, and the last stages are solved so far beyond the tolerance that the influence of the path is negligible.

The dual variables of the rounded loss are feasible for the loss with kinks, so the certificate holds for the latter.
Losses that are curved only in a narrow part, such as Huber's with a small δ, have the same path; for all other losses
the path starts with a square loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from rslm.certificate import Certificate
from rslm.continuation.outliers import resisting, with_smaller_C
from rslm.continuation.stage import Stage, Stages, stirred
from rslm.evaluation.objective import Evaluation
from rslm.inner.choose import has_solver
from rslm.losses import Interval, Square
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.problem import Problem

WIDE = 0.1  # width of a loss that is rounded already, in medians of the targets, above which it is like any smooth one
SQUARE = 0.5  # width of the square loss of the first stage, in medians of the targets
FIRST = 0.5  # the first width of rounded kinks, in medians of the errors
DECISIVE, FASTER = 0.5, 0.1  # if more than this fraction of the errors is in the rounded part, the factor for δ
SLOWER = 0.3  # the factor for δ otherwise
NEGLIGIBLE = 0.1  # fraction of the objective that rounding may change in the end; the optimum changes much less
ACCURATE = 1e-5  # the same where more than `DECISIVE` of the errors are in the rounded part
SAMPLE = 100_000  # observations from which medians and averages are estimated
LEAST, LEAST_FOR_GAP = 1e-5, 1e-9  # the least widths, in medians of the targets
OPEN = 0.1  # rounding may be the reason for a gap if it can explain this fraction of it
MINIMAL = 0.01  # ε and δ for a solver that has to end early, in typical inverse curvatures
LIMIT, LIMIT_FOR_GAP = 200, 300  # iterations of a stage before the last one, and of a stage that shall close the gap


def rounded_stages(problem: Problem, from_data: bool) -> Stages:
    """The stages to solve one after the other; the end of each stage is sent to the generator.

    `from_data` says whether the solver starts from the data, not from a given point.
    """
    loss, some = problem.loss, problem.data.sample(SAMPLE)
    if loss.interval is None or loss.interval.reach == np.inf or not some.any():
        if from_data and not loss.quadratic and (curvature := typical_curvature(problem)) > 0:
            yield _squared(problem, curvature)
        last = Stage(problem, last=True)
        yield last if has_solver(problem) else without_kinks(last)
        return
    interval = loss.interval
    reach, own = interval.reach, interval.rounding
    usual = _usual_error(problem)
    wide, delta = own * reach >= WIDE * usual, _first_rounding(interval, usual, usual)
    narrowest = math.inf
    if from_data:
        smaller = resisting(problem, usual)
        square = _squared(problem, reach / (SQUARE * usual))
        reached = yield with_smaller_C(square, smaller[0]) if smaller else square
        for C in [*smaller, None]:
            if not wide:
                # If no error is larger than ε, the loss is 0 already, and any width will do.
                typical = Errors(problem, interval, reached.evaluation).typical or usual
                delta = narrowest = min(_first_rounding(interval, typical, usual), narrowest)
            if C is not None:
                eased = Stage(problem, limit=LIMIT, start=stirred(reached.evaluation))
                eased = eased if wide else _rounded(eased, max(delta, 0.0))
                reached = yield with_smaller_C(eased, C)
    if wide:
        yield Stage(problem, last=True)
        return
    while delta > own:
        rounded = _rounded(Stage(problem), delta)
        reached = yield replace(rounded, limit=LIMIT)
        errors = Errors(problem, interval, reached.evaluation)
        if own == 0 and (delta * reach <= LEAST * usual or errors.settled(delta)):
            reached = yield replace(rounded, last=True, sharp=True)
            while errors.may_explain(reached.certificate, delta) and delta * reach > LEAST_FOR_GAP * usual:
                delta *= SLOWER  # small widths need a start near the solution
                finer = Stage(problem, last=True, sharp=True, limit=LIMIT_FOR_GAP, start=stirred(reached.evaluation))
                reached = yield _rounded(finer, delta)
                errors = Errors(problem, interval, reached.evaluation)
            return
        # Effects fit many errors exactly, and then a warm start must be nearer.
        quickly = errors.within(delta) > DECISIVE and problem.location is None
        delta *= FASTER if quickly else SLOWER
    yield Stage(problem, last=True, sharp=True)


def _usual_error(problem: Problem) -> float:
    """The usual size of the targets; with a location, which takes their mean away, of their distances from it."""
    some = problem.data.sample(SAMPLE)
    if problem.location is None or problem.loss.binary:
        return usual_size(some)
    return usual_size(some - np.median(some)) or usual_size(some)


def _first_rounding(interval: Interval, typical: float, usual: float) -> float:
    """The first δ, in addition to that of the loss, for errors of a `typical` size."""
    width = usual * 2.0 ** math.floor(math.log2(FIRST * typical / usual))
    return width / interval.reach - interval.rounding


def _rounded(stage: Stage, delta: float) -> Stage:
    """A stage with its loss rounded by δ."""
    return stage.relaxed("loss", delta, replace(stage.problem, loss=stage.problem.loss.rounded(delta)))


def _squared(problem: Problem, curvature: float) -> Stage:
    """A square loss of this `curvature` on a first guess of the predictions: cheap, and near the solution."""
    data = problem.data.map(partial(CheckedLoss(problem.loss).guess, usual=usual_size(problem.data.sample(SAMPLE))))
    square = replace(problem, loss=Square(), data=data, C=problem.C * curvature / 2.0)
    return Stage(problem).relaxed("loss", math.inf, square)


def typical_curvature(problem: Problem) -> float:
    """The average ℓ'' at predictions of 0; if that is 0, an estimate from the slope there; 0 if the slope is 0 too."""
    loss, y = problem.loss, problem.data.sample(SAMPLE)
    size = float(np.mean(np.abs(CheckedLoss(loss).guess(y, usual_size(y)))))
    slope, curvature = (float(np.mean(np.abs(f(y, np.zeros_like(y))))) for f in (loss.gradient, loss.hessian))
    return (curvature or slope / size) if size > 0 else 0.0


def usual_curvature(problem: Problem) -> float:
    """The typical curvature, or 1 if the data are all zero."""
    return typical_curvature(problem) or 1.0


def without_kinks(stage: Stage) -> Stage:
    """The stage with its loss rounded as much as Newton's method needs."""
    return stage if stage.problem.loss.smooth else _rounded(stage, MINIMAL / usual_curvature(stage.problem))


class Errors:
    """A sample of the errors at a point; not all, because this is kept during a stage."""

    def __init__(self, problem: Problem, interval: Interval, evaluation: Evaluation) -> None:
        self.reach, self.total, self.value = interval.reach, problem.C * len(problem.data), evaluation.value
        y, w = evaluation.sample(problem, SAMPLE)
        self.excess, self.typical = interval.beyond(y, y - w), interval.typical(y, y - w)

    def within(self, delta: float) -> float:
        """The fraction of the errors that lie in the part of the loss that δ rounds."""
        return float(np.mean((self.excess > 0) & (self.excess < delta * self.reach)))

    def changed(self, delta: float) -> float:
        """By how much rounding can change the objective."""
        return self.total * 0.5 * delta * self.reach**2 * self.within(delta)

    def settled(self, delta: float) -> bool:
        most = NEGLIGIBLE if self.within(delta) <= DECISIVE else ACCURATE
        return self.changed(delta) <= most * self.value

    def may_explain(self, certificate: Certificate | None, delta: float) -> bool:
        """Whether the duality gap may be open because of rounding."""
        return certificate is not None and OPEN * certificate.gap <= self.changed(delta)
