"""Progress of a fit in the terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

EVERY = 0.5  # seconds between updates, as each computes the error on held-out data


class FitProgress:
    """A callback with scikit-learn's protocol: shows iteration, objective, gradient, gap and the held-out error.

    Of work without a model, such as refits for standard errors, it shows the name of the task.
    """

    def __init__(
        self,
        console: Console,
        error: Callable[[Any], float] | None = None,
        name: str = "held-out RMSE",
        before: int = 0,  # iterations of the same fit before it was resumed
    ) -> None:
        self._error, self._name = error, name
        self._iterations, self._shown = before, -math.inf
        self._seen = console.is_terminal
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._seen,
        )
        self._task = self._bar.add_task("Fitting …")

    def setup(self, estimator: Any, context: Any) -> None:
        self._bar.start()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        self._iterations += fitted_estimator is not None
        now = time.perf_counter()
        if self._seen and now - self._shown >= EVERY:
            self._shown = now
            words = _capital(context.task_name) if fitted_estimator is None else self._line(fitted_estimator)
            self._bar.update(self._task, description=words)
        return False

    def _line(self, model: Any) -> str:
        now = {name: float(values[-1]) for name, values in model.history_.items() if name != "relaxations"}
        if getattr(model, "_trying", False):  # a fit of a search for settings, whose gradient does not matter
            rank = model.row_factors_.shape[1]
            parts = [f"Finding settings: trying rank {rank}, C {now['C']:.3g}"]
            return ", ".join(parts + ([] if self._error is None else [f"{self._name} {self._error(model):.4f}"]))
        if (drawing := getattr(model, "_drawing", None)) is not None:
            parts = [f"Averaging: {drawing[0]} of {drawing[1]} draws"]
            return ", ".join(parts + ([] if self._error is None else [f"{self._name} {self._error(model):.4f}"]))
        parts = [f"Iteration {self._iterations}"]
        if self._error is not None:
            parts.append(f"{self._name} {self._error(model):.4f}")
        parts += [f"objective {now['objective']:.5g}", f"gradient {now['relative_gradient']:.0e}"]
        if math.isfinite(now["relative_gap"]):
            parts.append(f"gap {now['relative_gap']:.2g}")
        return ", ".join(parts)  # fits 80 columns

    def teardown(self, estimator: Any, context: Any) -> None:
        self._bar.stop()


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
