"""The one outer loop."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from rslm.certificate import Certificate, bare_certificate, certify, no_certificate
from rslm.checkpoint.file import Checkpoint, Ended, OnTheWay, Snapshot
from rslm.checkpoint.fingerprint import settings_of
from rslm.continuation.growing_c import ENOUGH, stages
from rslm.continuation.rounding import Reached, Stage, advance
from rslm.continuation.smoothing import last_stage
from rslm.continuation.softening import stand_in
from rslm.continuation.start import initial_point
from rslm.evaluation.dual import least_loss
from rslm.evaluation.objective import Evaluation, Objective
from rslm.inner.inward import drawn_inward
from rslm.kernels import Stopped
from rslm.measurements import Tasks
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt, held_back
from rslm.runtime.log import logger
from rslm.runtime.outcome import Outcome
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.cost import cost_of_bounds, seconds_for_bounds
from rslm.solvers.manifold import norm
from rslm.solvers.point import Evaluate, Point
from rslm.solvers.result import Result
from rslm.solvers.stopping import (
    Criterion,
    IterationLimit,
    NoProgress,
    NotFinite,
    Progress,
    SmallGradient,
    TimeLimit,
    check_max_time,
    check_tol,
)
from rslm.solvers.trust_region import TrustRegion
from rslm.structures import Box, LinearStructure, Smoothed


class Method(Protocol):
    def step(self, point: Point, evaluate: Evaluate) -> Point: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


SOLVERS: dict[str, Callable[[bool], Method]] = {"trust-region": TrustRegion, "conjugate-gradient": ConjugateGradient}

Callback = Callable[[Progress], object]

MOST_RANK = 128
MOST_IN_VAIN = 2
WORSE = 1e-9  # an objective that is larger by this part, than that of the simplest matrix, is worse
AFRESH = 25  # iterations from one point that is evaluated afresh to the next, where a fit has to be able to go on there
SHARPER = 1e-2  # relative gradient of a sharp stage, in tolerances
SHORT_OF_SHARP = (Outcome.STALLED, Outcome.TRIED, Outcome.ITERATIONS)  # and yet within the tolerance
LARGEST_RATIO = 4e15  # of the loss to the trace norm: beyond it, that is a rounding error of the loss
ENDED_FROM_OUTSIDE = (Outcome.TIME, Outcome.INTERRUPTED)
ENDS = (Outcome.STATIONARY, Outcome.STALLED, Outcome.TRIED)  # of a stage, from which the way leads on
FIRST_LOOK, LOOKING = 2.0, 0.05  # seconds until somebody who watches is told the gap; part of the time that may take

PART_FOR_BOUNDS = 0.5  # of the time after the end that is tried to keep bounds in the best way
SOME = 0.2  # seconds of an evaluation with bounds from which on that is not even tried

RECORDED = (
    "gradient_norm",
    "value",
    "relative_gradient",
    "seconds",
    "evaluations",
    "hessian_products",
    "C",
    "rounding",
    "softness",
    "smoothing",
)


def solve(
    problem: Problem,
    rank: int,
    *,
    solver: str = "trust-region",
    max_iter: int = 1000,
    tol: float = 1e-6,
    max_time: float | None = None,
    start: Floats | None = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
    n_threads: int | None = None,
    certificate: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Result:
    """Minimise g(U) over U with at most `rank` columns and certify the answer.

    Ctrl-C ends the iteration after the step that it is at, or within it if that takes long, a second one at once; the
    best point so far is returned with the outcome `INTERRUPTED`.

    Parameters
    ----------
    problem : Problem
    rank : int
        Largest rank of W, at most min(d, T).
    solver : {"trust-region", "conjugate-gradient"}
    max_iter : int
        Most outer iterations, those on the way, at smaller C or with kinks of the loss rounded, included.
    tol : float
        Converged when the Riemannian gradient is at most `tol` times the Euclidean one; certified when the relative
        duality gap is at most `tol`.
    max_time : float, optional
        Seconds after which the iteration ends with the best point so far, within the bounds. It is returned within two
        seconds, for which it may have to be moved into the bounds in a rougher way, and without a certificate, as that
        then says. Where there was no time for any point, W is 0, or constant where 0 is beyond the bounds.
    start : array of shape (d, rank), optional
        Where to begin. If None, from the singular vectors of the data and, where C is large, by way of smaller C, or,
        where the loss has kinks, by way of a square loss.
    callback : callable, optional
        Called with a `Progress` after every iteration; the solver stops when it returns True.
    random_state : int or Generator, optional
        For the start.
    n_threads : int, optional
        All cores if None; the numbers do not depend on it.
    certificate : bool, default=True
        Whether the answer is certified, which takes as long as some evaluations. Where the way to the answer depends on
        it, with kinks or a structure, it is in any case.
    checkpoint : path, optional
        A file that is written now and then, and from which the same call goes on if this one is stopped in any way, to
        bitwise the same answer; `history` counts the time before, `max_time` does not. `max_iter`, `max_time`, `start`,
        `n_threads` and `callback` may be others then; a file of other data or settings is refused. After a call that
        has converged, the same one gives the same answer at once. Where the inner solver starts from its last solution,
        every 25th iteration is evaluated afresh, from which on a fit can go on; the last digits may differ from those
        without a checkpoint.
    """
    began = time.perf_counter()
    _check(problem, rank, solver, max_iter, tol, max_time)
    # The matrices here are thin; threads of the BLAS would only compete with those of the kernels.
    # Overflow is not warned of by NumPy but told by the outcome.
    with (
        held_back() as interrupt,
        interrupt.within(max_time, began),
        single_threaded_blas(),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        U = None if start is None else _checked_start(start, problem, rank)
        file = None
        if checkpoint is not None:
            file = Checkpoint(checkpoint, settings_of(problem, rank, solver, tol, random_state), len(RECORDED))
        going_on = None if file is None else file.found
        limits: list[Criterion] = [IterationLimit(max_iter)]
        if max_time is not None:
            limits.append(TimeLimit(max_time + (0.0 if going_on is None else going_on.seconds)))
        run = _Run(SOLVERS[solver], thread_count(n_threads), callback, began, interrupt, file)
        run.from_data = start is None if going_on is None else going_on.from_data
        if isinstance(problem.structure, Box) and (line := cost_of_bounds(problem.shape, rank, run.n_threads)):
            logger.info(line)
        way = stages(problem, rank, run.from_data)
        stage: Stage | None = next(way)
        answer: _Answer | None = None
        stopped: Outcome | None = None
        wanted = certificate or not problem.loss.quadratic or problem.structure is not None
        in_vain = 0  # finer problems in a row that have given no better answer
        try:
            while stage is not None:
                if stage.start is not None:
                    U = stage.start
                if U is None and not run.knows_stage:
                    U = initial_point(Objective(stage.problem, n_threads), rank, random_state)
                enough = SmallGradient(tol * SHARPER if stage.sharp else tol if stage.last else max(tol, ENOUGH))
                tried = None if stage.tries is None else IterationLimit(run.iteration + stage.tries, Outcome.TRIED)
                run.certify = partial(_answer, problem, stage, tol=tol, outcome=Outcome.TRIED) if stage.last else None
                outcome = run.stage(stage, U, [NotFinite(), enough, *limits, *([tried] if tried else [])])
                if outcome in ENDED_FROM_OUTSIDE:
                    stopped = outcome
                    break
                point, found, kept = run.point, None, None
                U, goes_on = point.U, outcome in ENDS
                if outcome in SHORT_OF_SHARP and point.relative_gradient <= tol:
                    outcome = Outcome.STATIONARY
                if answer is not None and not goes_on:  # what was found before is as good as it gets
                    break
                if stage.last or not goes_on:
                    own = partial(_answer, problem, stage, point=point, objective=run.objective)
                    new = own(tol=tol, outcome=outcome, wanted=wanted)
                    found, outcome, kept = new.certificate, new.outcome, new.value
                    if answer is None or _better(found, outcome, answer.certificate, tol):
                        answer, in_vain = new, 0
                    else:  # with new multipliers of bounds a gap may be larger once, and smaller again
                        in_vain += 1
                    goes_on = goes_on and found.relative_gap > tol and in_vain < MOST_IN_VAIN
                stage = advance(way, Reached(point.evaluation, found, kept)) if goes_on else None
        except Stopped:
            stopped = Outcome.INTERRUPTED if interrupt.pending else Outcome.TIME
        except KeyboardInterrupt:
            if run.problem is None:  # there is nothing to keep
                raise
            stopped = Outcome.INTERRUPTED
        except Exception:  # workers are gone, say: the same call may go on from the last point
            if file is not None:
                with suppress(OSError):
                    file.keep()
            raise
        if answer is None:
            assert stopped is not None
            own_stage = (
                stage if stage is not None and run.problem is stage.problem else None
            )  # it may have no point yet
            answer = _concluded(problem, rank, run, own_stage, interrupt, tol, stopped, wanted)
        elif stopped is Outcome.INTERRUPTED:  # what was found before is as good as it gets
            answer = replace(answer, outcome=stopped)
        run.keep(interrupted=stopped is not None)
    run.record_if_none(answer.value)
    outcome = answer.outcome
    if answer.certificate.relative_gap <= tol and outcome is not Outcome.INTERRUPTED:  # which callers have to know of
        outcome = Outcome.CERTIFIED
    parts = answer.U, answer.V, answer.parameters, answer.intercepts, answer.value
    return Result(problem, *parts, outcome, answer.certificate, run.history(), run.iteration)


@dataclass(frozen=True)
class _Answer:
    U: Floats
    V: Floats
    parameters: Floats | None
    intercepts: Floats | None
    value: float
    outcome: Outcome
    certificate: Certificate


def _better(new: Certificate, outcome: Outcome, old: Certificate, tol: float) -> bool:
    """Whether a finer problem has given the better answer: a smaller gap, and found, not stalled."""
    return new.relative_gap < old.relative_gap and (outcome is Outcome.STATIONARY or new.relative_gap <= tol)


def _answer(
    problem: Problem,
    stage: Stage | None,
    *,
    point: Point,
    objective: Objective,
    tol: float,
    outcome: Outcome,
    wanted: bool = True,
) -> _Answer:
    """What a point says of the problem that was asked for, and not only of the stage that it was found in."""
    if stage is None or stage.rounding is None or stage.softness is None:
        stage = stand_in(problem) if not isinstance(problem.structure, LinearStructure) else last_stage(problem)
        objective = Objective(stage.problem, objective.n_threads)
        point = Point(objective.evaluate(point.U))
    evaluation = point.evaluation
    kept = evaluation.within_bounds()
    found: Evaluation | _Kept = kept
    simple = _nearest_to_zero(problem, evaluation.U.shape[1], objective.n_threads)
    if simple is not None and not kept.value - simple.value <= WORSE * abs(simple.value):
        found, certificate = simple, certify(problem, evaluation, tol, False, simple)
        if not math.isfinite(evaluation.value):
            outcome = Outcome.FAILED
        elif outcome not in ENDED_FROM_OUTSIDE:
            outcome = Outcome.STALLED
    elif math.isfinite(kept.value) and not wanted:
        certificate = no_certificate(problem, kept, tol, "it was not asked for")
    elif math.isfinite(kept.value):
        stationary = outcome is Outcome.STATIONARY
        certificate = certify(problem, evaluation, tol, stationary, kept)
    else:
        why = "objective is not a finite number" if problem.structure is None else "bounds are not kept"
        certificate, outcome = no_certificate(problem, kept, tol, f"the {why}"), Outcome.FAILED
    softness = stage.softness or 0.0
    certificate = replace(certificate, rounding=stage.rounding or 0.0, softness=softness, smoothing=stage.smoothing)
    parameters = None if evaluation.smoothed is None else evaluation.smoothed.w
    return _Answer(found.U, found.V, parameters, found.intercepts, found.value, outcome, certificate)


def _concluded(
    problem: Problem,
    rank: int,
    run: _Run,
    stage: Stage | None,
    interrupt: Interrupt,
    tol: float,
    outcome: Outcome,
    wanted: bool,
) -> _Answer:
    """The answer where the fit was ended from outside: as good as always, if there is time for that."""
    bounds = isinstance(problem.structure, Box)
    hopeless = bounds and interrupt.hurries and seconds_for_bounds(problem.shape, rank, run.n_threads) > SOME
    if run.problem is not None and not hopeless:
        try:
            with interrupt.ending(PART_FOR_BOUNDS if bounds else 1.0):
                own = partial(_answer, problem, stage, point=run.point, objective=run.objective)
                return own(tol=tol, outcome=outcome, wanted=wanted)
        except (Stopped, KeyboardInterrupt):
            outcome = Outcome.INTERRUPTED if interrupt.pending else outcome
    try:
        with interrupt.ending():
            kept, parameters = _at_hand(problem, rank, run)
    except Stopped:  # workers are still at what they were asked before; without them nothing is known
        with interrupt.ending(math.inf):
            kept, parameters = _at_hand(problem, rank, run)
    certificate, least = None, -math.inf
    try:
        with interrupt.ending():
            least = least if isinstance(problem.data, Elsewhere) else least_loss(problem)
            if wanted and bounds and run.problem is not None:
                # Without multipliers the dual variables of the problem without bounds are feasible too.
                free = None if stage is not None else Objective(replace(problem, structure=None), run.n_threads)
                evaluation = run.point.evaluation if free is None else free.evaluate(run.point.U)
                certificate = certify(problem, evaluation, tol, False, kept)
    except (Stopped, KeyboardInterrupt):
        pass
    if certificate is None:
        why = "the fit was interrupted" if outcome is Outcome.INTERRUPTED else "there was no time left"
        certificate = bare_certificate(kept.value, least, rank, tol, why)
    if not kept.within:
        outcome = Outcome.FAILED
    return _Answer(kept.U, kept.V, parameters, kept.intercepts, kept.value, outcome, certificate)


@dataclass(frozen=True)
class _Kept:
    """W as far as it is known when there is no time left."""

    U: Floats
    V: Floats
    intercepts: Floats | None
    n_threads: int
    value: float = math.inf
    within: bool = True  # the bounds

    def loss(self, problem: Problem) -> float:
        y, w = problem.data.values, problem.predict(self.U, self.V, self.n_threads, self.intercepts)
        return float(np.sum(problem.loss.value(y.astype(np.float64), w)))

    def objective(self, problem: Problem) -> float:
        q = 1.0 if problem.column_weights is None else problem.column_weights[:, None]
        penalty = problem.penalty(self.U, self.V)
        return problem.C * self.loss(problem) + 0.5 * float(np.sum(q * self.V * self.V)) + penalty


def _nearest_to_zero(problem: Problem, rank: int, n_threads: int) -> _Kept | None:
    """The simplest W, which an answer must not be worse than: 0, or what is nearest to it within bounds.

    None where that may not be of rank 1, because bounds vary by rows and by columns, or is not known here.
    """
    structure, (d, T) = problem.structure, problem.shape
    if isinstance(structure, LinearStructure) or isinstance(problem.data, Elsewhere):
        return None
    U, V = np.full((d, rank), 1.0 / math.sqrt(d * rank)), np.zeros((T, rank))
    if isinstance(structure, Box):
        if min(structure.shape) > 1:
            return None
        near = np.clip(0.0, *structure.planes(structure.shape))
        left = np.broadcast_to(near if near.shape[1] == 1 else 1.0, (d, 1)) / problem.row_scale
        right = np.broadcast_to(near.T if near.shape[1] > 1 else 1.0, (T, 1))
        if (size := float(np.linalg.norm(left))) > 0:
            U, V = np.zeros((d, rank)), np.zeros((T, rank))
            U[:, :1], V[:, :1] = left / size, right * size
    own = isinstance(problem.data, Tasks) and problem.data.intercept
    kept = _Kept(U, V, np.zeros(T) if own else None, n_threads)
    return replace(kept, value=kept.objective(problem))


def _at_hand(problem: Problem, rank: int, run: _Run) -> tuple[_Kept, Floats | None]:
    """The answer from what is known already, in a pass or two over the data; zero, or constant, if that is nothing."""
    (d, T), structure = problem.shape, problem.structure
    evaluation = None if run.problem is None else run.point.evaluation
    kept = _Kept(np.full((d, rank), 1.0 / math.sqrt(d * rank)), np.zeros((T, rank)), None, run.n_threads)
    if evaluation is not None:
        kept = replace(kept, U=evaluation.U, V=evaluation.V, intercepts=evaluation.intercepts, value=evaluation.value)
    elif isinstance(problem.data, Tasks) and problem.data.intercept:
        kept = replace(kept, intercepts=np.zeros(T))
    if isinstance(structure, LinearStructure):
        smoothed = None if evaluation is None else evaluation.smoothed
        return kept, np.zeros(structure.size) if smoothed is None else smoothed.w
    if isinstance(problem.data, Elsewhere) and structure is None:
        return kept, None
    known = not isinstance(problem.data, Elsewhere)
    if isinstance(structure, Box):
        scale = problem.row_scale

        def at(X: Floats, V: Floats) -> _Kept:
            size = float(np.linalg.norm(X / scale)) or 1.0
            return replace(kept, U=X / scale / size, V=V * size)

        found = drawn_inward(
            structure, kept.U * scale, kept.V, lambda X, V: at(X, V).objective(problem) if known else 0.0
        )
        kept = replace(kept, within=False) if found is None else at(*found)
    return replace(kept, value=kept.objective(problem) if known else math.inf), None


class _Run:
    """One run of the loop over one or several stages: the point, the count and the history."""

    def __init__(
        self,
        make_method: Callable[[bool], Method],
        n_threads: int,
        callback: Callback | None,
        began: float,
        interrupt: Interrupt,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.make_method, self.n_threads, self.callback, self.began = make_method, n_threads, callback, began
        self.interrupt = interrupt
        self.checkpoint = checkpoint
        self.iteration = 0
        self._last_told = -1
        self.records: list[tuple[float, ...]] = []
        self.objective: Objective
        self.method: Method
        self._spent = (0, 0)  # evaluations and Hessian products of earlier stages
        self.point: Point
        self.problem: Problem | None = None  # which the point belongs to
        self._trials: list[Point] = []
        self.rounding = self.softness = self.smoothing = 0.0
        self.certify: Callable[..., _Answer] | None = None
        self._gap, self._next_look = math.nan, began + FIRST_LOOK
        self.from_data = True  # whether the way has begun at the data
        self.ended: list[Ended] = []  # all stages before the present one
        self._at_end = False  # of the present one
        self.patience = NoProgress()
        found = None if checkpoint is None else checkpoint.found
        if found is not None:
            self.records, self.began = list(found.records), began - found.seconds

    def stage(self, stage: Stage, U: Floats | None, criteria: list[Criterion]) -> Outcome:
        """Minimise one objective until a criterion stops it: from U, or from where a checkpoint says that it was."""
        problem, self.rounding = stage.problem, math.nan if stage.rounding is None else stage.rounding
        self.softness = math.nan if stage.softness is None else stage.softness
        self.smoothing, self.patience = stage.smoothing, NoProgress()
        known, self._at_end = self._known(), False
        if known is not None:
            U = known.U
        assert U is not None
        try:
            if problem is not self.problem:  # else it goes on where it was, to a smaller tolerance
                before: Objective | None = getattr(self, "objective", None)
                if before is not None:
                    self._spent = self._work()
                self.objective = Objective(problem, self.n_threads, after=before)
                if before is not None:  # of the last stage only U and V are still needed
                    self.point.evaluation.release()
                    before.free()
                self.method = self.make_method(self.rounding > 0 and not stage.last)
                self.point, self.problem = self._afresh(U), problem
            elif known is not None:
                self._replace(self._afresh(U))
            if isinstance(known, Ended):
                outcome, self.iteration = known.outcome, known.iteration
            else:
                outcome = self._iterate(known, [*criteria, self.patience])
            if outcome in ENDS:
                self.ended.append(Ended(self.point.U, outcome, self.iteration))
                self._at_end = True
        except KeyboardInterrupt:
            if self.problem is None:  # there is no point yet
                raise
            return Outcome.INTERRUPTED
        return outcome

    def _iterate(self, known: OnTheWay | None, criteria: list[Criterion]) -> Outcome:
        if known is None:
            self._note()
        else:
            self._restore(known)
        while (outcome := self._stop(criteria)) is None:
            self._replace(self.method.step(self.point, self._evaluate))
            self.iteration += 1
            if not self._remembers:
                self._note()
            elif self.iteration % AFRESH == 0:
                self._replace(self._afresh(self.point.U))
                self._note()
        if outcome in ENDS and self._remembers:
            self._replace(self._afresh(self.point.U))
        return outcome

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    @property
    def _remembers(self) -> bool:
        """Whether the present point depends on those before it, which a checkpoint does not know."""
        return self.checkpoint is not None and self.objective.remembers

    @property
    def knows_stage(self) -> bool:
        """Whether a checkpoint knows where the next stage is, or where it has ended."""
        return self._known() is not None

    def _known(self) -> Ended | OnTheWay | None:
        if self.checkpoint is None or (found := self.checkpoint.found) is None:
            return None
        count = len(self.ended)
        if count < len(found.ended):
            return found.ended[count]
        return found.present if count == len(found.ended) else None

    def _afresh(self, U: Floats) -> Point:
        """The point U; where there is a checkpoint, with numbers that depend on U alone and not on points before it."""
        if self.checkpoint is not None:
            self.objective.forget()
            if isinstance(self.objective.problem.structure, Smoothed):  # as exact as its own gradient there demands
                self.objective.evaluate(U).release()
        return Point(self.objective.evaluate(U))

    def _restore(self, known: OnTheWay) -> None:
        assert self.checkpoint is not None
        assert self.checkpoint.found is not None
        self.method.restore(known.method)
        self.patience.restore(known.patience)
        found, objective = self.checkpoint.found, self.objective
        self.iteration = found.iteration
        self._spent = found.work[0] - objective.evaluations, found.work[1] - objective.hessian_products

    def _note(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.note(self._snapshot(OnTheWay(self.point.U, self.method.state(), self.patience.state())))

    def _snapshot(self, present: OnTheWay | None) -> Snapshot:
        seconds = time.perf_counter() - self.began
        done = self.iteration, seconds, self._work(), list(self.records)
        return Snapshot(self.from_data, list(self.ended), present, *done)

    def keep(self, interrupted: bool) -> None:
        """See that the checkpoint has all that can be gone on from, now that the fit ends."""
        if self.checkpoint is None:
            return
        found = self.checkpoint.found
        known = found is not None and found.present is None and len(found.ended) == len(self.ended)
        if self._at_end and not interrupted and not known:
            self.checkpoint.note(self._snapshot(None))
        self.checkpoint.keep()

    def _work(self) -> tuple[int, int]:
        return self._spent[0] + self.objective.evaluations, self._spent[1] + self.objective.hessian_products

    def _evaluate(self, U: Floats) -> Point:
        for refused in self._trials:  # a method asks for another trial when it has no use for the last one
            refused.evaluation.release()
        self._trials = [Point(self.objective.evaluate(U))]
        return self._trials[0]

    def _replace(self, chosen: Point) -> None:
        """Go on from the chosen point. It is in place before any other is released: an interrupt finds it whole."""
        done = [p for p in (self.point, *self._trials) if p is not chosen]
        self.point, self._trials = chosen, []
        for p in done:
            p.evaluation.release()

    def _stop(self, criteria: list[Criterion]) -> Outcome | None:
        progress = Progress(
            self.iteration,
            self.point.value,
            self.point.relative_gradient,
            time.perf_counter() - self.began,
            *self._work(),
            self.objective.problem.C,
            self.rounding,
            self.softness,
            self.smoothing,
            self._relative_gap(),
            self.point.evaluation,
        )
        self.records.append((self.point.gradient_norm, *(getattr(progress, name) for name in RECORDED[1:])))
        if self._interrupted_by_callback(progress) or self.interrupt.pending:
            return Outcome.INTERRUPTED
        return next((o for c in criteria if (o := c.check(progress)) is not None), None)

    def _relative_gap(self) -> float:
        """Looked at now and then, for those who watch: it costs about as much as some evaluations."""
        if self.callback is None or self.certify is None or not self.records:
            return math.nan
        began = time.perf_counter()
        if began >= self._next_look:
            found = self.certify(point=self.point, objective=self.objective)
            if found.outcome is Outcome.INTERRUPTED:
                raise KeyboardInterrupt
            self._gap, now = found.certificate.relative_gap, time.perf_counter()
            self._next_look = now + (now - began) / LOOKING
        return self._gap

    def _interrupted_by_callback(self, progress: Progress) -> bool:
        if self.callback is None or progress.iteration == self._last_told:  # the first point of a stage is not new
            return False
        self._last_told = progress.iteration
        answer = self.callback(progress)
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def record_if_none(self, value: float) -> None:
        """See that there is a history, also where there was no time for any point."""
        if not self.records:
            seconds, nan = time.perf_counter() - self.began, math.nan
            self.records.append((math.inf, value, math.inf, seconds, 0.0, 0.0, nan, nan, nan, nan))

    def history(self) -> dict[str, Floats]:
        table = np.array(self.records, dtype=np.float64).reshape(-1, len(RECORDED))
        columns: dict[str, Floats] = dict(zip(RECORDED, table.T.copy(), strict=True))
        return {"objective": columns.pop("value"), **columns}


def _check(problem: Problem, rank: int, solver: str, max_iter: int, tol: float, max_time: float | None) -> None:
    largest = min(*problem.shape, MOST_RANK)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= largest:
        why = "the smaller side of the data" if largest < MOST_RANK else "the most that the kernels can do"
        raise ValueError(f"rank must be a whole number from 1 to {largest}, {why}; got {rank!r}")
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(f"solver must be one of {sorted(SOLVERS)}; got {solver!r}")
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0:
        raise ValueError(f"max_iter must be a whole number ≥ 0; got {max_iter!r}")
    check_tol(tol)
    check_max_time(max_time)
    _check_ratio(problem)


def _check_ratio(problem: Problem) -> None:
    """Inner systems X_tᵀX_t + q_t/2C are solved only where rounding errors of the first part leave the second one."""
    if not problem.loss.quadratic or not isinstance(problem.structure, Box | None):
        return
    weights = (problem.row_weights, problem.column_weights)
    p, q = (1.0 if one is None else float(one.min()) for one in weights)
    most = 0.5 * LARGEST_RATIO * p * q
    if most < problem.C:
        weighted = " for these weights" if p * q != 1.0 else ""
        raise ValueError(
            f"C = {problem.C:.3g} is too large{weighted}: the trace norm would be "
            f"lost among rounding errors. Use at most {most:.3g}; far less fits the data as well"
        )


def _checked_start(start: Floats, problem: Problem, rank: int) -> Floats:
    U = np.array(start, dtype=np.float64)
    if U.shape != (problem.shape[0], rank) or not np.isfinite(U).all() or norm(U) == 0:
        raise ValueError(f"start must be a finite non-zero array of shape {(problem.shape[0], rank)}; got {U.shape}")
    return U / norm(U)
