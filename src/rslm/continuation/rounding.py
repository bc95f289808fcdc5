"""Losses with kinks: solved with the kinks rounded, which is made less and less.

Where many errors are exactly at a kink the dual variables are not unique and g is not smooth, and where few are, g is
smooth only within steps that take no other error across one. Rounded by δ, the loss has neither trouble as long as δ is
not small against the errors. So the way leads from a square loss, over δ of about half a typical error, to smaller δ:

- while most errors are within the rounded part, it decides the answer (data without noise): δ is made much smaller;
- else δ is made smaller until rounding can change no more than a small part of the objective;
- and further, if it may be rounding that keeps the duality gap open.

Where a loss has bends, truncated conjugate gradients soon amplify a rounding error to the accuracy of a step, so two
machines take two paths. The answer must not depend on that: the first width is a median of the targets times a power of
2, and the last problems are solved so far beyond the tolerance that what is left of the path is negligible.

The dual variables of the rounded loss are feasible for the loss with its kinks, so the certificate is about that one.
Losses that are smooth but for a narrow part of them, such as Huber's with a small δ, are reached in the same way, and
all other losses over a square one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from rslm.certificate import Certificate
from rslm.continuation.stage import Stage, Stages, stirred
from rslm.evaluation.objective import Evaluation
from rslm.inner.choose import has_solver
from rslm.losses import Interval, Square
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.problem import Problem

SQUARE = 0.5  # the square loss to begin with is one of this width, in medians of the targets
FIRST = 0.5  # the first width, in medians of the errors
DECISIVE, FASTER = 0.5, 0.1  # with more than this part of the errors in the rounded part, δ is multiplied by that
SLOWER = 0.3  # and by this else
NEGLIGIBLE = 0.1  # part of the objective that rounding may change in the end; it changes the optimum by far less
SAMPLE = 100_000  # entries that are looked at
LEAST, LEAST_FOR_GAP = 1e-5, 1e-9  # the least widths, in medians of the targets
OPEN = 0.1  # rounding may be the reason of a gap of which it can explain this part
NEAR = 0.01  # ε and δ for a solver that has to end early, in typical inverse curvatures
TRIES, TRIES_FOR_GAP = 200, 300  # iterations that a stage before the last, and a smaller gap, are worth


def rounded_stages(problem: Problem, from_data: bool) -> Stages:
    """The problems to solve one after the other; the generator is sent where each has ended.

    `from_data` says whether the solver starts from the data, not from a point that it was given.
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
    usual = usual_size(some)
    width = FIRST * usual
    if from_data:
        reached = yield _squared(problem, reach / (SQUARE * usual))
        # Where no error is beyond ε, the loss is 0 already; any width will do.
        errors = Errors(problem, interval, reached.evaluation)
        width = FIRST * (errors.typical or usual)
    delta = usual * 2.0 ** math.floor(math.log2(width / usual)) / reach - own
    while delta > own:
        rounded = _rounded(Stage(problem), delta)
        reached = yield replace(rounded, tries=TRIES)
        errors = Errors(problem, interval, reached.evaluation)
        if own == 0 and (delta * reach <= LEAST * usual or errors.settled(delta)):
            reached = yield replace(rounded, last=True, sharp=True)
            while errors.may_explain(reached.certificate, delta) and delta * reach > LEAST_FOR_GAP * usual:
                delta *= SLOWER  # small widths need a start that is near
                finer = Stage(problem, last=True, sharp=True, tries=TRIES_FOR_GAP, start=stirred(reached.evaluation.U))
                reached = yield _rounded(finer, delta)
                errors = Errors(problem, interval, reached.evaluation)
            return
        delta *= FASTER if errors.within(delta) > DECISIVE else SLOWER
    yield Stage(problem, last=True, sharp=True)


def _rounded(stage: Stage, delta: float) -> Stage:
    """A stage with its loss rounded by δ."""
    return stage.relaxed("loss", delta, replace(stage.problem, loss=stage.problem.loss.rounded(delta)))


def _squared(problem: Problem, curvature: float) -> Stage:
    """A square loss of this curvature on a first guess of the predictions: solved at little cost, and near."""
    data = problem.data.map(partial(CheckedLoss(problem.loss).guess, usual=usual_size(problem.data.sample(SAMPLE))))
    square = replace(problem, loss=Square(), data=data, C=problem.C * curvature / 2.0)
    return Stage(problem).relaxed("loss", math.inf, square)


def typical_curvature(problem: Problem) -> float:
    """ℓ'' at predictions of 0, on the average; where that is 0, what the slope there says; 0 if there is no slope."""
    loss, y = problem.loss, problem.data.sample(SAMPLE)
    size = float(np.mean(np.abs(CheckedLoss(loss).guess(y, usual_size(y)))))
    slope, curvature = (float(np.mean(np.abs(f(y, np.zeros_like(y))))) for f in (loss.gradient, loss.hessian))
    return (curvature or slope / size) if size > 0 else 0.0


def usual_curvature(problem: Problem) -> float:
    """The typical curvature, or 1 where the data are all zero."""
    return typical_curvature(problem) or 1.0


def without_kinks(stage: Stage) -> Stage:
    """The stage with its loss rounded as far as Newton's method needs it."""
    return stage if stage.problem.loss.smooth else _rounded(stage, NEAR / usual_curvature(stage.problem))


class Errors:
    """The errors of a point, or a sample of them: it lives as long as a stage, and must not be as large as the data."""

    def __init__(self, problem: Problem, interval: Interval, evaluation: Evaluation) -> None:
        self.reach, self.total, self.value = interval.reach, problem.C * len(problem.data), evaluation.value
        y, w = evaluation.sample(problem, SAMPLE)
        self.excess, self.typical = interval.beyond(y, y - w), interval.typical(y, y - w)

    def within(self, delta: float) -> float:
        """The part of the errors that is within the part of the loss that δ has rounded."""
        return float(np.mean((self.excess > 0) & (self.excess < delta * self.reach)))

    def changed(self, delta: float) -> float:
        """How much rounding can change the objective."""
        return self.total * 0.5 * delta * self.reach**2 * self.within(delta)

    def settled(self, delta: float) -> bool:
        return self.within(delta) <= DECISIVE and self.changed(delta) <= NEGLIGIBLE * self.value

    def may_explain(self, certificate: Certificate | None, delta: float) -> bool:
        """Whether the duality gap may be open because of rounding."""
        return certificate is not None and OPEN * certificate.gap <= self.changed(delta)
