"""The one outer loop."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from rslm._typing import Floats
from rslm.certificate import Certificate, certify, no_certificate
from rslm.initial import initial_point
from rslm.interrupts import Interrupt, held_back
from rslm.manifold import norm
from rslm.narrowing import last_stage
from rslm.objective import Objective
from rslm.problem import Problem
from rslm.smoothing import Reached, Stage, advance
from rslm.softening import stand_in
from rslm.solvers.agreement import settings_of
from rslm.solvers.checkpoint import Checkpoint, Ended, OnTheWay, Snapshot
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.continuation import ENOUGH, stages
from rslm.solvers.point import Evaluate, Point
from rslm.solvers.result import Outcome, Result
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
from rslm.structures import LinearStructure, Smoothed
from rslm.threads import single_threaded_blas, thread_count


class Method(Protocol):
    def step(self, point: Point, evaluate: Evaluate) -> Point: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


SOLVERS: dict[str, Callable[[bool], Method]] = {"trust-region": TrustRegion, "conjugate-gradient": ConjugateGradient}

Callback = Callable[[Progress], object]

MOST_RANK = 128
MOST_IN_VAIN = 2
AFRESH = 25  # iterations from one point that is evaluated afresh to the next, where a fit has to be able to go on there
SHARPER = 1e-2  # relative gradient of a sharp stage, in tolerances
SHORT_OF_SHARP = (Outcome.STALLED, Outcome.TRIED, Outcome.ITERATIONS, Outcome.TIME)  # and yet within the tolerance
ENDS = (Outcome.STATIONARY, Outcome.STALLED, Outcome.TRIED)  # of a stage, from which the way leads on
FIRST_LOOK, LOOKING = 2.0, 0.05  # seconds until somebody who watches is told the gap; part of the time that may take

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

    Ctrl-C ends the iteration after the step that it is at, a second one at once; the best point so far is returned with
    the outcome `INTERRUPTED`.

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
        Seconds after which the iteration ends with the best point so far; the certificate comes on top.
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
    with held_back() as interrupt, single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
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
        way = stages(problem, rank, run.from_data)
        stage: Stage | None = next(way)
        answer: _Answer | None = None
        wanted = certificate or not problem.loss.quadratic or problem.structure is not None
        in_vain = 0  # finer problems in a row that have given no better answer
        while stage is not None:
            if stage.start is not None:
                U = stage.start
            if U is None and not run.knows_stage:
                U = initial_point(Objective(stage.problem, n_threads), rank, random_state)
            enough = SmallGradient(tol * SHARPER if stage.sharp else tol if stage.last else max(tol, ENOUGH))
            tried = None if stage.tries is None else IterationLimit(run.iteration + stage.tries, Outcome.TRIED)
            run.certify = partial(_answer, problem, stage, tol=tol, outcome=Outcome.TRIED) if stage.last else None
            outcome = run.stage(stage, U, [NotFinite(), enough, *limits, *([tried] if tried else [])])
            point, found, kept = run.point, None, None
            U, goes_on = point.U, outcome in ENDS
            if outcome in SHORT_OF_SHARP and point.relative_gradient <= tol:
                outcome = Outcome.STATIONARY
            if answer is not None and not goes_on:  # what was found before is as good as it gets
                if outcome is Outcome.INTERRUPTED:
                    answer = replace(answer, outcome=outcome)
                break
            if stage.last or not goes_on:
                # An interrupt may come before the stage has a point of its own.
                own = stage if run.problem is stage.problem else None
                new = _answer(
                    problem, own, point=point, objective=run.objective, tol=tol, outcome=outcome, wanted=wanted
                )
                found, outcome, kept = new.certificate, new.outcome, new.value
                if answer is None or _better(found, outcome, answer.certificate, tol):
                    answer, in_vain = new, 0
                else:  # with new multipliers of bounds a gap may be larger once, and smaller again
                    in_vain += 1
                goes_on = goes_on and found.relative_gap > tol and in_vain < MOST_IN_VAIN
            stage = advance(way, Reached(point.evaluation, found, kept)) if goes_on else None
        assert answer is not None
        run.keep(interrupted=answer.outcome is Outcome.INTERRUPTED)
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
    evaluation = kept = point.evaluation
    try:
        kept = evaluation.within_bounds()
        if math.isfinite(kept.value) and not wanted:
            certificate = no_certificate(problem, kept, tol, "it was not asked for")
        elif math.isfinite(kept.value):
            stationary = outcome is Outcome.STATIONARY
            certificate = certify(problem, evaluation, tol, stationary, kept)
        else:
            why = "objective is not a finite number" if problem.structure is None else "bounds are not kept"
            certificate, outcome = no_certificate(problem, kept, tol, f"the {why}"), Outcome.FAILED
    except KeyboardInterrupt:
        certificate, outcome = no_certificate(problem, kept, tol, "interrupted"), Outcome.INTERRUPTED
    softness = stage.softness or 0.0
    certificate = replace(certificate, rounding=stage.rounding or 0.0, softness=softness, smoothing=stage.smoothing)
    parameters = None if evaluation.smoothed is None else evaluation.smoothed.w
    return _Answer(kept.U, kept.V, parameters, kept.intercepts, kept.value, outcome, certificate)


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


def _checked_start(start: Floats, problem: Problem, rank: int) -> Floats:
    U = np.array(start, dtype=np.float64)
    if U.shape != (problem.shape[0], rank) or not np.isfinite(U).all() or norm(U) == 0:
        raise ValueError(f"start must be a finite non-zero array of shape {(problem.shape[0], rank)}; got {U.shape}")
    return U / norm(U)
