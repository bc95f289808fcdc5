"""What is told of a fit while it runs: to the log, and to callbacks of scikit-learn's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.estimators.choices import line
from rslm.solvers.stopping import Progress
from rslm.verbosity import logger, show_log


class Teller:
    """Called by the solver after every iteration; `attributes` are those of the model as it is then.

    Callbacks that want a fitted estimator get one with these attributes and a `history_` of this iteration.
    """

    def __init__(
        self, estimator: Any, X: Any, attributes: Callable[[Progress], dict[str, Any]], squared_scale: float = 1.0
    ) -> None:
        self._estimator, self._X, self._attributes, self._squared_scale = estimator, X, attributes, squared_scale
        self._context = estimator._init_callback_context(max_subtasks=estimator.max_iter)
        self._context.call_on_fit_task_begin(estimator=estimator, X=X)
        if estimator.verbose:
            show_log()
        self._heard = bool(estimator.verbose or getattr(estimator, "_skl_callbacks", ()))

    @property
    def to_solver(self) -> Teller | None:
        """None where nobody listens: the solver then saves itself what only a watcher wants to know."""
        return self if self._heard else None

    def __call__(self, progress: Progress) -> bool:
        if self._estimator.verbose:
            logger.info(line(progress))
        if progress.iteration == 0:
            return False
        task = self._context.subcontext(task_name=f"iteration {progress.iteration}")
        task.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator, X=self._X, reconstruction_attributes=lambda: self._now(progress)
            )
        )

    def _now(self, progress: Progress) -> dict[str, Any]:
        history = {
            "objective": progress.value * self._squared_scale,
            "relative_gradient": progress.relative_gradient,
            "relative_gap": progress.relative_gap,
            "seconds": progress.seconds,
        }
        return self._attributes(progress) | {"history_": {name: np.array([value]) for name, value in history.items()}}

    def done(self) -> None:
        """The fit has ended."""
        self._context.call_on_fit_task_end(estimator=self._estimator, X=self._X)
