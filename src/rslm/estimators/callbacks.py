"""Progress of a fit while it runs: for the log, and for callbacks of scikit-learn's protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.estimators.scaling import in_units
from rslm.estimators.scikit_learn import callback_context, has_callbacks
from rslm.runtime.log import logger
from rslm.solvers.stopping import Progress

Attributes = Callable[[Progress], dict[str, Any]]
REPORTS = 20  # of draws to callbacks, as each may copy all draws


class Reporter:
    """Reports every iteration of a fit, which may consist of several calls of the solver."""

    def __init__(self, estimator: Any, X: Any, several: bool = False) -> None:
        self._estimator, self._X = estimator, X
        self._context = callback_context(estimator, None if several else estimator.max_iter)
        self._context.call_on_fit_task_begin(estimator=estimator, X=X)
        self._active = bool(estimator.verbose or has_callbacks(estimator))
        self._iterations = 0

    def callback(self, attributes: Attributes, scale: float = 1.0) -> Callable[[Progress], bool] | None:
        """The callback for a solver; None without a log and without callbacks, which saves some work.

        Callbacks that ask for a fitted estimator get one with these attributes and a `history_` of the last iteration.
        """
        return (lambda progress: self._report(progress, attributes, scale)) if self._active else None

    def _report(self, progress: Progress, attributes: Attributes, scale: float) -> bool:
        if self._estimator.verbose:
            logger.info(line(progress))
        if progress.iteration == 0:
            return False
        self._iterations += 1
        task = self._context.subcontext(task_name=f"iteration {self._iterations}")
        task.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator,
                X=self._X,
                reconstruction_attributes=lambda: attributes(progress) | _last(progress, scale),
            )
        )

    def drawn(self, count: int, n: int, noise: float, seconds: float, attributes: Callable[[], dict[str, Any]]) -> bool:
        """Report a draw of a posterior to the log, and about `REPORTS` of n to callbacks; whether one wants to stop."""
        if self._estimator.verbose:
            logger.info(f"draw {count} of {n}  noise {noise:.4g} of the spread  {seconds:.2f} s")
        if not self._active or count % -(-n // REPORTS):
            return False
        task = self._context.subcontext(task_name=f"draw {count}")
        task.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator,
                X=self._X,
                reconstruction_attributes=lambda: attributes() | {"_drawing": (count, n)},
            )
        )

    def stage(self, words: str) -> bool:
        """Report work that has no model yet, as the name of a task; whether a callback wants to stop."""
        if self._estimator.verbose:
            logger.info(words)
        if not self._active:
            return False
        task = self._context.subcontext(task_name=words)
        task.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return bool(task.call_on_fit_task_end(estimator=self._estimator, X=self._X))

    def done(self) -> None:
        """Report the end of the fit."""
        self._context.call_on_fit_task_end(estimator=self._estimator, X=self._X)


def _last(progress: Progress, scale: float) -> dict[str, Any]:
    history = {
        "objective": float(in_units(np.array(progress.value), scale)),
        "relative_gradient": progress.relative_gradient,
        "relative_gap": progress.relative_gap,
        "seconds": progress.seconds,
        "C": progress.C,
    }
    arrays: dict[str, Any] = {name: np.array([value]) for name, value in history.items()}
    return {"history_": arrays | {"relaxations": [progress.relaxations]}}


RELAXED = {"loss": "loss rounded by", "bounds": "bounds softened by", "structure": "structure smoothed by"}


def line(p: Progress) -> str:
    """One iteration, for the log."""
    return (
        f"rank {p.U.shape[1]}  iteration {p.iteration:3d}  objective {p.value:.10e}  "
        f"relative gradient {p.relative_gradient:.1e}  {p.evaluations} evaluations  "
        f"{p.hessian_products} Hessian products  {p.seconds:.2f} s  C {p.C:g}"
        + "".join(f"  {RELAXED[r.of]} {r.amount:.1e}" for r in p.relaxations if r.of in RELAXED and r.amount < math.inf)
        + (f"  relative gap {p.relative_gap:.1e}" if p.relative_gap >= 0 else "")
    )
