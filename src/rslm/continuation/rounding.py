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
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rslm.certificate import Certificate
from rslm.evaluation.objective import Evaluation
from rslm.inner.choose import has_solver
from rslm.losses import BoxDual, Square
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.problem import Problem
from rslm.runtime.types import Floats

SQUARE = 0.5  # the square loss to begin with is one of this width, in medians of the targets
FIRST = 0.5  # the first width, in medians of the errors
DECISIVE, FASTER = 0.5, 0.1  # with more than this part of the errors in the rounded part, δ is multiplied by that
SLOWER = 0.3  # and by this else
NEGLIGIBLE = 0.1  # part of the objective that rounding may change in the end; it changes the optimum by far less
SAMPLE = 100_000  # entries that are looked at
LEAST, LEAST_FOR_GAP = 1e-5, 1e-9  # the least widths, in medians of the targets
STIRRED = 1e-3  # norm of the noise that is added to U, whose own norm is 1, where the gap stays open
OPEN = 0.1  # rounding may be the reason of a gap of which it can explain this part
NEAR = 0.01  # ε and δ for a solver that has to end early, in typical inverse curvatures
ON_THE_WAY, TRIES = 200, 300  # iterations that a stage on the way, and a smaller gap, are worth


@dataclass(frozen=True)
class Stage:
    """A problem on the way."""

    problem: Problem
    last: bool = False  #: it is solved to the tolerance that was asked for
    rounding: float | None = None  #: δ; None where the problem is not the one that was asked for, rounded
    softness: float | None = 0.0  #: ε of soft bounds; None where there should be bounds, but are none yet
    smoothing: float = 0.0  #: δ of a smoothed linear structure
    sharp: bool = False  #: it is solved beyond the tolerance, because rounding errors decide the path to its answer
    start: Floats | None = None  #: where to begin, if not where the stage before has ended
    tries: int | None = None  #: after so many iterations it is left, for the next stage or the answer of the one before


@dataclass(frozen=True)
class Reached:
    """Where a stage has ended."""

    evaluation: Evaluation
    certificate: Certificate | None  #: after a last stage
    kept: float | None = None  #: the objective of this stage where W keeps the bounds, after a last stage


Stages = Generator[Stage, Reached, None]


def rounded_stages(problem: Problem, from_data: bool) -> Stages:
    """The problems to solve one after the other; the generator is sent where each has ended.

    `from_data` says whether the solver starts from the data, not from a point that it was given.
    """
    loss, some = problem.loss, problem.data.sample(SAMPLE)
    if not isinstance(loss, BoxDual) or loss.box.reach == np.inf or not some.any():
        if from_data and not loss.quadratic and (curvature := typical_curvature(problem)) > 0:
            yield Stage(_squared(problem, curvature))
        smooth, rounding = (problem, 0.0) if has_solver(problem) else without_kinks(problem)
        yield Stage(smooth, last=True, rounding=rounding)
        return
    reach, own = loss.box.reach, loss.box.smoothing
    usual = usual_size(some)
    width = FIRST * usual
    if from_data:
        reached = yield Stage(_squared(problem, reach / (SQUARE * usual)))
        # Where no error is beyond ε, the loss is 0 already; any width will do.
        errors = Errors(problem, loss, reached.evaluation)
        width = FIRST * (errors.typical or usual)
    delta = usual * 2.0 ** math.floor(math.log2(width / usual)) / reach - own
    while delta > own:
        rounded = replace(problem, loss=loss.smoothed(delta))
        reached = yield Stage(rounded, rounding=delta, tries=ON_THE_WAY)
        errors = Errors(problem, loss, reached.evaluation)
        if own == 0 and (delta * reach <= LEAST * usual or errors.settled(delta)):
            reached = yield Stage(rounded, last=True, rounding=delta, sharp=True)
            while errors.may_explain(reached.certificate, delta) and delta * reach > LEAST_FOR_GAP * usual:
                delta *= SLOWER  # small widths need a start that is near
                finer = replace(problem, loss=loss.smoothed(delta))
                start = stirred(reached.evaluation.U)
                reached = yield Stage(finer, last=True, rounding=delta, sharp=True, tries=TRIES, start=start)
                errors = Errors(problem, loss, reached.evaluation)
            return
        delta *= FASTER if errors.within(delta) > DECISIVE else SLOWER
    yield Stage(problem, last=True, rounding=0.0, sharp=True)


def advance(way: Stages, reached: Reached) -> Stage | None:
    """The next stage, None after the last one."""
    try:
        return way.send(reached)
    except StopIteration:
        return None


def stirred(U: Floats) -> Floats:
    """U with a little of the directions that it has given up, which a finer problem may need; else as it is."""
    _, values, right = np.linalg.svd(U, full_matrices=False)
    lost = values <= STIRRED * values[0]
    if not lost.any():
        return U
    noise = np.random.default_rng(0).standard_normal((len(U), np.count_nonzero(lost)))
    U = U + (noise * (STIRRED / float(np.linalg.norm(noise)))) @ right[lost]
    return np.asarray(U / np.linalg.norm(U))


def _squared(problem: Problem, curvature: float) -> Problem:
    """A square loss of this curvature on the data as the loss sees them: solved at little cost, and near."""
    data = problem.data.map(partial(CheckedLoss(problem.loss).guess, usual=usual_size(problem.data.sample(SAMPLE))))
    return replace(problem, loss=Square(), data=data, C=problem.C * curvature / 2.0)


def typical_curvature(problem: Problem) -> float:
    """ℓ'' at predictions of 0, on the average; where that is 0, what the slope there says; 0 if there is no slope."""
    loss, y = problem.loss, problem.data.sample(SAMPLE)
    size = float(np.mean(np.abs(CheckedLoss(loss).guess(y, usual_size(y)))))
    slope, curvature = (float(np.mean(np.abs(f(y, np.zeros_like(y))))) for f in (loss.gradient, loss.hessian))
    return (curvature or slope / size) if size > 0 else 0.0


def usual_curvature(problem: Problem) -> float:
    """The typical curvature, or 1 where the data are all zero."""
    return typical_curvature(problem) or 1.0


def without_kinks(problem: Problem) -> tuple[Problem, float]:
    """The problem with a loss that Newton's method can solve, and how far that was rounded."""
    loss = problem.loss
    if not isinstance(loss, BoxDual) or loss.box.smoothing > 0:
        return problem, 0.0
    rounding = NEAR / usual_curvature(problem)
    return replace(problem, loss=loss.smoothed(rounding)), rounding


class Errors:
    """The errors of a point, or a sample of them: it lives as long as a stage, and must not be as large as the data."""

    def __init__(self, problem: Problem, loss: BoxDual, evaluation: Evaluation) -> None:
        self.reach, self.total, self.value = loss.box.reach, problem.C * len(problem.data), evaluation.value
        y, w = evaluation.sample(problem, SAMPLE)
        self.beyond, self.typical = loss.box.beyond(y, y - w), loss.box.typical(y, y - w)

    def within(self, delta: float) -> float:
        """The part of the errors that is within the part of the loss that δ has rounded."""
        return float(np.mean((self.beyond > 0) & (self.beyond < delta * self.reach)))

    def changed(self, delta: float) -> float:
        """How much rounding can change the objective."""
        return self.total * 0.5 * delta * self.reach**2 * self.within(delta)

    def settled(self, delta: float) -> bool:
        return self.within(delta) <= DECISIVE and self.changed(delta) <= NEGLIGIBLE * self.value

    def may_explain(self, certificate: Certificate | None, delta: float) -> bool:
        """Whether the duality gap may be open because of rounding."""
        return certificate is not None and OPEN * certificate.gap <= self.changed(delta)
