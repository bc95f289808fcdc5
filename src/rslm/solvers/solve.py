"""Minimise a problem over U, with continuation from easier problems, and certify the answer."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from rslm.checkpoint.file import Checkpoint
from rslm.checkpoint.fingerprint import settings_of
from rslm.continuation.growing_c import ENOUGH
from rslm.continuation.path import stages
from rslm.continuation.stage import Reached, Stage, advance
from rslm.continuation.start import initial_point
from rslm.evaluation.effects import effects_alone, of_unobserved
from rslm.evaluation.objective import Objective
from rslm.kernels import Stopped
from rslm.location.packing import Packing
from rslm.problem import Problem
from rslm.runtime.interrupts import deferred_interrupts
from rslm.runtime.log import logger
from rslm.runtime.outcome import Outcome
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats
from rslm.solvers.answer import ENDED_FROM_OUTSIDE, Answer, answer, answer_after_stop, better
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.cost import cost_of_bounds, cost_of_generic
from rslm.solvers.loop import COLUMNS, STAGE_DONE, Callback, Loop, Method
from rslm.solvers.manifold import norm
from rslm.solvers.point import Point
from rslm.solvers.result import Result
from rslm.solvers.stopping import (
    Criterion,
    IterationLimit,
    NotFinite,
    SmallGradient,
    TimeLimit,
    check_max_time,
    check_tol,
)
from rslm.solvers.trust_region import TrustRegion

SOLVERS: dict[str, Callable[[bool, bool], Method]] = {
    "trust-region": TrustRegion,
    "conjugate-gradient": ConjugateGradient,
}

MOST_WITHOUT_GAIN = 2  # the path ends after this many last stages in a row without a better answer
SHARPER = 1e-2  # relative gradient at which a sharp stage ends, in units of `tol`
MAY_BE_STATIONARY = (Outcome.STALLED, Outcome.STAGE_LIMIT, Outcome.ITERATIONS)  # a sharp stage may be within `tol`


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

    Ctrl-C ends the iteration after the present step, or within it if that takes long; a second Ctrl-C ends it at once.
    The best point so far is returned with the outcome `INTERRUPTED`.

    Parameters
    ----------
    problem : Problem
    rank : int
        Largest rank of W, at most min(d, T).
    solver : {"trust-region", "conjugate-gradient"}
    max_iter : int
        Maximum number of outer iterations, including those of continuation stages.
    tol : float
        Converged when the Riemannian gradient is at most `tol` times the Euclidean one; certified when the relative
        duality gap is at most `tol`.
    max_time : float, optional
        Seconds after which the iteration ends. The best point so far is moved into the bounds and returned within two
        more seconds; if that leaves no time for a certificate, the certificate says so. If there was no time for any
        point, W is 0, or constant where 0 violates the bounds.
    start : array of shape (d, rank), optional
        Where to begin. If None, the solver begins at the singular vectors of the data. Where C is large it warm-starts
        from smaller C, and where the loss has kinks from a square loss.
    callback : callable, optional
        Called with a `Progress` after every iteration; the solver stops when it returns True.
    random_state : int or Generator, optional
        For the start.
    n_threads : int, optional
        All cores if None; the numbers do not depend on it.
    certificate : bool, default=True
        Whether the answer is certified, which takes as long as a few evaluations. With kinks or a structure it always
        is, because continuation needs the certificate.
    checkpoint : path, optional
        A file that is written from time to time. If this call is stopped in any way, the same call continues from it,
        to bitwise the same answer. `max_iter`, `max_time`, `start`, `n_threads` and `callback` may differ; a file
        of other data or settings is an error. `history` includes the time of earlier calls, `max_time` does not. After
        a call that has converged, the same call returns the same answer at once. Where the inner solver warm-starts,
        every 25th iteration uses a cold start, so the last digits may differ from those without a checkpoint.
    """
    began = time.perf_counter()
    _check(problem, rank, solver, max_iter, tol, max_time)
    _report_cost(problem, rank, thread_count(n_threads))
    # The matrices here are thin: threads of the BLAS would only compete with those of the kernels.
    # NumPy does not warn of overflow; the outcome reports it.
    with (
        deferred_interrupts() as interrupt,
        interrupt.within(max_time, began),
        single_threaded_blas(),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        U = None if start is None else _checked_start(start, problem, rank, thread_count(n_threads))
        file = None
        if checkpoint is not None:
            file = Checkpoint(checkpoint, settings_of(problem, rank, solver, tol, random_state), COLUMNS)
        before = None if file is None else file.found
        limits: list[Criterion] = [IterationLimit(max_iter)]
        if max_time is not None:
            limits.append(TimeLimit(max_time + (0.0 if before is None else before.seconds)))
        loop = Loop(SOLVERS[solver], thread_count(n_threads), callback, began, interrupt, file)
        loop.from_data = start is None if before is None else before.from_data
        path = stages(problem, rank, loop.from_data)
        stage: Stage | None = next(path)
        found: Answer | None = None
        stopped: Outcome | None = None
        wanted = certificate or not problem.plain
        without_gain = 0
        try:
            while stage is not None:
                if stage.start is not None:
                    U = stage.start
                if U is None and not loop.knows_stage:
                    U = initial_point(Objective(stage.problem, n_threads), rank, random_state)
                enough = SmallGradient(tol * SHARPER if stage.sharp else tol if stage.last else max(tol, ENOUGH))
                cap = [] if stage.limit is None else [IterationLimit(loop.iteration + stage.limit, Outcome.STAGE_LIMIT)]
                loop.gap_of = partial(_gap_at, problem, stage, tol) if stage.last else None
                outcome = loop.stage(stage, U, [NotFinite(), enough, *limits, *cap])
                if outcome in ENDED_FROM_OUTSIDE:
                    stopped = outcome
                    break
                point, new = loop.point, None
                U, continues = point.x, outcome in STAGE_DONE
                if outcome in MAY_BE_STATIONARY and point.relative_gradient <= tol:
                    outcome = Outcome.STATIONARY
                if found is not None and not continues:  # the previous answer is the best one
                    break
                if stage.last or not continues:
                    own = partial(answer, problem, stage, point=point, objective=loop.objective)
                    new = own(tol=tol, outcome=outcome, wanted=wanted)
                    if found is None or better(new, found, tol):
                        found, without_gain = new, 0
                    else:  # new multipliers of bounds may increase the gap once before it decreases again
                        without_gain += 1
                    continues = continues and new.certificate.relative_gap > tol and without_gain < MOST_WITHOUT_GAIN
                reached = Reached(point.evaluation, *((None, None) if new is None else (new.certificate, new.value)))
                stage = advance(path, reached) if continues else None
        except Stopped:
            stopped = Outcome.INTERRUPTED if interrupt.pending else Outcome.TIME
        except KeyboardInterrupt:
            if loop.problem is None:  # there is no point yet
                raise
            stopped = Outcome.INTERRUPTED
        except Exception:  # for instance, workers are lost: the same call can continue from the last point
            if file is not None:
                with suppress(OSError):
                    file.keep()
            raise
        if found is None:
            assert stopped is not None
            own_stage = stage if stage is not None and loop.problem is stage.problem else None  # it may have no point
            found = answer_after_stop(problem, rank, loop, own_stage, interrupt, tol, stopped, wanted)
        elif stopped is Outcome.INTERRUPTED:  # the previous answer is the best one
            found = replace(found, outcome=stopped)
        loop.keep(interrupted=stopped is not None)
    loop.record_if_none(found.value)
    outcome = found.outcome
    if found.certificate.relative_gap <= tol and outcome is not Outcome.INTERRUPTED:  # callers must see an interrupt
        outcome = Outcome.CERTIFIED
    effects = None if found.effects is None else of_unobserved(problem, found.effects)
    parts = found.U, found.V, found.parameters, found.intercepts, effects, found.value
    return Result(problem, *parts, outcome, found.certificate, loop.history(), loop.iteration)


def _gap_at(problem: Problem, stage: Stage, tol: float, point: Point, objective: Objective) -> float:
    """The relative gap at a point of the iteration."""
    found = answer(problem, stage, point=point, objective=objective, tol=tol, outcome=Outcome.STAGE_LIMIT)
    return found.certificate.relative_gap


def _report_cost(problem: Problem, rank: int, threads: int) -> None:
    if problem.structure.box is not None and (line := cost_of_bounds(problem.shape, rank, threads)):
        logger.info(line)
    if line := cost_of_generic(problem):
        warnings.warn(line, UserWarning, stacklevel=3)


def _check(problem: Problem, rank: int, solver: str, max_iter: int, tol: float, max_time: float | None) -> None:
    if not hasattr(problem, "check_conditioning"):
        raise TypeError(f"problem must be a Problem; got {problem!r}")
    largest = min(problem.shape)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= largest:
        raise ValueError(f"rank must be a whole number from 1 to {largest}, the smaller side of the data; got {rank!r}")
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(f"solver must be one of {sorted(SOLVERS)}; got {solver!r}")
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0:
        raise ValueError(f"max_iter must be a whole number ≥ 0; got {max_iter!r}")
    check_tol(tol)
    check_max_time(max_time)
    problem.check_conditioning()


def _checked_start(start: Floats, problem: Problem, rank: int, n_threads: int) -> Floats:
    if np.asarray(start).dtype.kind not in "fiub":
        raise TypeError(f"start must be an array of real numbers; got {start!r}")
    given = np.array(start, dtype=np.float64)
    packing = None if problem.location is None else Packing.of(problem)
    if packing is not None and given.shape == (len(packing.scales), rank + 1):  # a point of an earlier result
        U = given[: problem.shape[0], :-1]
        if not np.isfinite(given).all() or norm(U) == 0:
            raise ValueError("start must be finite, and its U must not be 0; use the point of an earlier result")
        return packing.with_U(given, U / norm(U))
    U = given
    if U.shape != (problem.shape[0], rank) or not np.isfinite(U).all() or norm(U) == 0:
        raise ValueError(f"start must be a finite non-zero array of shape {(problem.shape[0], rank)}; got {U.shape}")
    if packing is None:
        return U / norm(U)
    return packing.packed(U / norm(U), effects_alone(problem, n_threads))
