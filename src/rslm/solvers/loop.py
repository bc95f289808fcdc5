"""The outer loop: iterations of a method over the stages of a path, with history and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from rslm.certificate.relaxation import RELAXED, Relaxations, amount_of, relaxations_of
from rslm.checkpoint.file import Checkpoint, Ended, Present, Snapshot
from rslm.continuation.stage import Stage
from rslm.evaluation.objective import Objective
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats
from rslm.solvers.point import Evaluate, Point
from rslm.solvers.result import History
from rslm.solvers.stopping import Criterion, NoProgress, Progress

COLD_START_EVERY = 25  # iterations; with a checkpoint, a fit can continue exactly only from a cold start
STAGE_DONE = (Outcome.STATIONARY, Outcome.STALLED, Outcome.STAGE_LIMIT)  # after these the path continues
FIRST_GAP, TIME_FOR_GAP = 2.0, 0.05  # seconds until a callback gets the gap; share of the time to compute it
SINGLE = 1e-3  # relative gradient down to which points are evaluated in single precision
IN_DOUBT = (Outcome.STATIONARY, Outcome.STALLED, Outcome.FAILED)  # rounding, overflow or underflow may look like these
PATIENCE_AT_KINKS = 20  # iterations without progress, with effects and rounded kinks

RECORDED = ("gradient_norm", "value", "relative_gradient", "seconds", "evaluations", "hessian_products", "C")
COLUMNS = len(RECORDED) + len(RELAXED)  # numbers recorded in every iteration

Callback = Callable[[Progress], object]


class Method(Protocol):
    def step(self, point: Point, evaluate: Evaluate) -> Point: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Loop:
    """The iteration over one or several stages: the present point, counts and the history."""

    def __init__(
        self,
        make_method: Callable[[bool, bool], Method],
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
        self._last_shown = -1
        self.records: list[tuple[float, ...]] = []
        self.objective: Objective
        self.method: Method
        self._spent = (0, 0)  # evaluations and Hessian products of earlier stages
        self.point: Point
        self.problem: Problem | None = None  # the problem that the point belongs to
        self._trials: list[Point] = []
        self.relaxations: Relaxations = ()
        self.gap_of: Callable[[Point, Objective], float] | None = None  # of the present stage, for the callback
        self._gap, self._next_gap = math.nan, began + FIRST_GAP
        self.from_data = True  # whether the path has begun at the data, not at a given start
        self.ended: list[Ended] = []  # all stages before the present one
        self._at_end = False  # whether the present stage has ended
        self.patience = NoProgress()
        found = None if checkpoint is None else checkpoint.found
        if found is not None:
            self.records, self.began = list(found.records), began - found.seconds

    def stage(self, stage: Stage, U: Floats | None, criteria: list[Criterion]) -> Outcome:
        """Minimise one objective until a criterion stops it: from U, or from where the checkpoint ended."""
        problem, self.relaxations = stage.problem, stage.relaxations
        # With effects, a step that crosses kinks which are hardly rounded has to be shortened many times.
        kinks = problem.location is not None and any(relaxation.of == "loss" for relaxation in stage.relaxations)
        self.patience = NoProgress(PATIENCE_AT_KINKS) if kinks else NoProgress()
        ended, present = self._known()
        self._at_end = False
        if (known := ended or present) is not None:
            U = known.U
        assert U is not None
        try:
            if problem is not self.problem:  # otherwise the same problem continues, to a smaller tolerance
                before: Objective | None = getattr(self, "objective", None)
                if before is not None:
                    self._spent = self._work()
                    self.point.evaluation.warm_start()
                self.objective = Objective(problem, self.n_threads, after=before)
                if before is not None:  # only U and V of the previous stage are still needed
                    self.point.evaluation.release()
                    before.free()
                rounded, softened = (0 < stage.amount(of) < math.inf for of in ("loss", "bounds"))
                self.method = self.make_method(rounded and not stage.last, rounded or softened)
                self.objective.single = self._begins_single(known, present, U)
                # A start that was given is the best answer so far, also if no time is left for another point.
                given = before is None and not self.from_data
                with self.interrupt.ending() if given else nullcontext():
                    self.point, self.problem = self._cold_start(U), problem
            elif known is not None:
                self.objective.single = self._begins_single(known, present, U)
                self._replace(self._cold_start(U))
            if ended is not None:
                outcome, self.iteration = ended.outcome, ended.iteration
            else:
                outcome = self._iterate(present, [*criteria, self.patience])
            if outcome in STAGE_DONE:
                self.ended.append(Ended(self.point.x, outcome, self.iteration))
                self._at_end = True
        except KeyboardInterrupt:
            if self.problem is None:  # there is no point yet
                raise
            return Outcome.INTERRUPTED
        return outcome

    def _iterate(self, known: Present | None, criteria: list[Criterion]) -> Outcome:
        if known is None:
            self._note()
        else:
            self._restore(known)
        while (outcome := self._confirmed(criteria)) is None:
            before = self.point.value
            self._replace(self.method.step(self.point, self._evaluate))
            self.iteration += 1
            if self.objective.single and (self._lost_in_noise(before) or self.point.relative_gradient <= SINGLE):
                self.in_double()
            if not self._depends_on_path:
                self._note()
            elif self.iteration % COLD_START_EVERY == 0:
                self._replace(self._cold_start(self.point.x))
                self._note()
        if outcome in STAGE_DONE and self._depends_on_path:
            self._replace(self._cold_start(self.point.x))
        elif self.objective.single:
            self.in_double()
            point = self.point  # the history ends with the numbers of the answer
            self.records[-1] = (point.gradient_norm, point.value, point.relative_gradient, *self.records[-1][3:])
        return outcome

    def _begins_single(self, known: Ended | Present | None, present: Present | None, U: Floats) -> bool:
        """Whether the first point is evaluated in single precision: as before, if the checkpoint has it."""
        if present is not None:
            return present.single
        return known is None and self.objective.gains(U)

    def _confirmed(self, criteria: list[Criterion]) -> Outcome | None:
        """Whether and why to stop. What is in doubt in single precision is decided in double precision."""
        outcome = self._stop(criteria)
        if outcome in IN_DOUBT and self.objective.single:
            self.in_double()
            self.records.pop()  # of the same iteration
            outcome = self._stop(criteria)
        return outcome

    def _lost_in_noise(self, before: float) -> bool:
        """Whether the last step, from a point of the value `before`, gained less than rounding can."""
        return not before - self.point.value > self.point.evaluation.noise

    def in_double(self) -> None:
        """Continue in double precision: rounding errors would soon decide which steps are accepted."""
        self.objective.single = False
        self._replace(Point(self.objective.evaluate(self.point.x)))
        self.patience.forget()  # rounding may have made earlier values too small

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    @property
    def _depends_on_path(self) -> bool:
        """Whether the last digits of a point depend on earlier points, which a checkpoint does not store."""
        return self.checkpoint is not None and self.objective.warm_starts

    @property
    def knows_stage(self) -> bool:
        """Whether the checkpoint contains the next stage."""
        return self._known() != (None, None)

    def _known(self) -> tuple[Ended | None, Present | None]:
        """The end of the next stage, or its last point, if the checkpoint has it."""
        if self.checkpoint is None or (found := self.checkpoint.found) is None:
            return None, None
        count = len(self.ended)
        if count < len(found.ended):
            return found.ended[count], None
        return None, found.present if count == len(found.ended) else None

    def _cold_start(self, U: Floats) -> Point:
        """The point U; with a checkpoint, its numbers depend on U alone, not on earlier points."""
        if self.checkpoint is not None:
            self.objective.forget()
            if self.objective.tightens:  # the first evaluation gives the gradient that decides the accuracy
                self.objective.evaluate(U).release()
        return Point(self.objective.evaluate(U))

    def _restore(self, known: Present) -> None:
        assert self.checkpoint is not None
        assert self.checkpoint.found is not None
        self.method.restore(known.method)
        self.patience.restore(known.patience)
        found, objective = self.checkpoint.found, self.objective
        self.iteration = found.iteration
        self._spent = found.work[0] - objective.evaluations, found.work[1] - objective.hessian_products

    def _note(self) -> None:
        if self.checkpoint is not None:
            state = self.point.x, self.method.state(), self.patience.state(), self.objective.single
            self.checkpoint.note(self._snapshot(Present(*state)))

    def _snapshot(self, present: Present | None) -> Snapshot:
        seconds = time.perf_counter() - self.began
        done = self.iteration, seconds, self._work(), list(self.records)
        return Snapshot(self.from_data, list(self.ended), present, *done)

    def keep(self, interrupted: bool) -> None:
        """Write the checkpoint when the fit ends, so that the same call can continue from it."""
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
        self.point.evaluation.warm_start()
        for rejected in self._trials:  # a method evaluates another trial only if it has rejected the last one
            rejected.evaluation.release()
        self._trials = [Point(self.objective.evaluate(U))]
        return self._trials[0]

    def _replace(self, chosen: Point) -> None:
        """Continue from the `chosen` point. It is stored before any other is released, in case of an interrupt."""
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
            self.relaxations,
            self._relative_gap(),
            self.point.evaluation,
        )
        numbers = (getattr(progress, name) for name in RECORDED[1:])
        amounts = (amount_of(self.relaxations, of) for of in RELAXED)
        self.records.append((self.point.gradient_norm, *numbers, *amounts))
        if self._interrupted_by_callback(progress) or self.interrupt.pending:
            return Outcome.INTERRUPTED
        return next((o for c in criteria if (o := c.check(progress)) is not None), None)

    def _relative_gap(self) -> float:
        """The relative gap for the callback. It costs as much as a few evaluations, so it is computed rarely."""
        if self.callback is None or self.gap_of is None or not self.records:
            return math.nan
        began = time.perf_counter()
        if began >= self._next_gap:
            self._gap, now = self.gap_of(self.point, self.objective), time.perf_counter()
            self._next_gap = now + (now - began) / TIME_FOR_GAP
        return self._gap

    def _interrupted_by_callback(self, progress: Progress) -> bool:
        if self.callback is None or progress.iteration == self._last_shown:  # a stage starts at a point already shown
            return False
        self._last_shown = progress.iteration
        answer = self.callback(progress)
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def record_if_none(self, value: float) -> None:
        """Record one iteration if there was no time for any point, so that the history is not empty."""
        if not self.records:
            seconds, nan = time.perf_counter() - self.began, math.nan
            self.records.append((math.inf, value, math.inf, seconds, 0.0, 0.0, nan, *(0.0 for _ in RELAXED)))

    def history(self) -> History:
        """One array per recorded number, and the relaxations of every iteration."""
        table = np.array(self.records, dtype=np.float64).reshape(-1, len(RECORDED) + len(RELAXED))
        columns: History = dict(zip(RECORDED, table[:, : len(RECORDED)].T.copy(), strict=True))
        relaxations = [relaxations_of(row) for row in table[:, len(RECORDED) :]]
        return {"objective": columns.pop("value"), **columns, "relaxations": relaxations}
