"""Progress of a fit in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class FitProgress:
    """A callback of scikit-learn's protocol: a bar over the iterations with the error on held-out entries."""

    def __init__(self, console: Console, error: Callable[[Any], float] | None) -> None:
        self.errors: list[float] = []
        self.iterations = 0
        self._error = error
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("iteration {task.completed}"),
            *([] if error is None else [TextColumn("held-out RMSE {task.fields[error]}")]),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._bar.add_task("Fitting", total=None, error="–")

    def setup(self, estimator: Any, context: Any) -> None:
        self._bar.start()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        if fitted_estimator is not None:
            self.iterations += 1
            if self._error is not None:
                self.errors.append(self._error(fitted_estimator))
            self._bar.update(self._task, advance=1, error=f"{self.errors[-1]:.4f}" if self.errors else "–")
        return False

    def teardown(self, estimator: Any, context: Any) -> None:
        self._bar.update(self._task, total=self.iterations)
        self._bar.stop()
