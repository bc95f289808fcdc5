"""Progress of a fit while it runs: for the log, and for callbacks of scikit-learn's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.estimators.choices import line
from rslm.estimators.scaling import in_units
from rslm.runtime.log import logger
from rslm.solvers.stopping import Progress

Attributes = Callable[[Progress], dict[str, Any]]


class Teller:
    """Tells of every iteration of a fit, which may be several solutions one after the other."""

    def __init__(self, estimator: Any, X: Any, several: bool = False) -> None:
        self._estimator, self._X = estimator, X
        self._context = estimator._init_callback_context(max_subtasks=None if several else estimator.max_iter)
        self._context.call_on_fit_task_begin(estimator=estimator, X=X)
        self._heard = bool(estimator.verbose or getattr(estimator, "_skl_callbacks", ()))
        self._iterations = 0

    def about(self, attributes: Attributes, scale: float = 1.0) -> Callable[[Progress], bool] | None:
        """What a solver calls after every iteration; None where nobody listens, which saves it some work.

        Callbacks that want a fitted estimator get one with these attributes and a `history_` of the last iteration.
        """
        return (lambda progress: self._tell(progress, attributes, scale)) if self._heard else None

    def _tell(self, progress: Progress, attributes: Attributes, scale: float) -> bool:
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

    def done(self) -> None:
        """The fit has ended."""
        self._context.call_on_fit_task_end(estimator=self._estimator, X=self._X)


def _last(progress: Progress, scale: float) -> dict[str, Any]:
    history = {
        "objective": float(in_units(np.array(progress.value), scale)),
        "relative_gradient": progress.relative_gradient,
        "relative_gap": progress.relative_gap,
        "seconds": progress.seconds,
        "C": progress.C,
    }
    return {"history_": {name: np.array([value]) for name, value in history.items()}}
