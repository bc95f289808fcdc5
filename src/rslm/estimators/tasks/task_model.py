"""The base of the linear models in a common subspace: parameters, fit and file."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import parts
from rslm.estimators.base import Estimator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import as_loss, is_whole, needs_distributed
from rslm.estimators.scaling import extreme_scale
from rslm.losses import Loss
from rslm.measurements import Measurement, Tasks
from rslm.problem import Problem
from rslm.runtime.magnitudes import without_tiny
from rslm.runtime.types import Floats
from rslm.solvers import Result
from rslm.solvers.stopping import Progress, time_left
from rslm.storage.container import Arrays, Facts

MOST_RANK = 127  # one less than the kernels' limit: intercepts may need a column


class TaskModel(Estimator):
    """Linear models of several tasks: row t of `coef_` with `intercept_[t]` is the model of task t."""

    certificate_: Certificate

    def __init__(
        self,
        rank: int = 5,
        C: float = 1.0,
        *,
        loss: Any = "square",
        fit_intercept: bool = True,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def _fit_tasks(
        self,
        data: Tasks,
        loss: Loss,
        middles: Floats,
        unexplained: float = 0.0,
        centre: Floats | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None,
        client: Any = None,
        began: float,
    ) -> None:
        """Learn all tasks.

        `middles` of their targets were subtracted, so that intercepts are small, and `centre` from the features. The
        square loss of the data is larger by the square of `unexplained`. The fit began at `began`.
        """
        rank = self._checked_rank(data.shape)
        scale = extreme_scale(np.append(data.values, unexplained)) if loss.quadratic else 1.0  # square loss only
        if scale != 1.0 or unexplained > 0:
            with np.errstate(under="ignore"):
                data = data.with_values(without_tiny(data.values / scale))
        reporter = Reporter(self, None)
        with self._solving():
            result = self._solve(
                Problem(loss, data if client is None else _distributed(data, client), C=self.C),
                rank,
                getattr(self, "_U", None) if self.warm_start else None,
                max_time=time_left(self.max_time, began),
                callback=reporter.callback(lambda p: self._models(p, middles, scale, centre), scale),
                checkpoint=checkpoint,
            )
            models = self._models(result, middles, scale, centre)
            self.coef_, self.intercept_ = models["coef_"], models["intercept_"]
            self._U = result.U
            self._keep(result, scale, constant=float(self.C) * (unexplained / scale) ** 2)
            self.rank_ = result.numerical_rank() if result.V.any() else 0
            self._describe()
            self._warn_if_not_converged()
            reporter.done()

    @staticmethod
    def _models(
        found: Progress | Result, middles: Floats, scale: float, centre: Floats | None
    ) -> dict[str, NDArray[np.float64]]:
        coef = scale * found.V @ found.U.T
        offsets = 0.0 if found.intercepts is None else scale * found.intercepts
        intercept = middles + offsets - (0.0 if centre is None else coef @ centre)
        return {"coef_": coef, "intercept_": intercept, "_basis": np.linalg.qr(found.U)[0]}

    def unscaled(self, mean: Floats, size: Floats) -> Self:
        """Change the models to those for features x, where `fit` was given (x − mean) / size; returns self."""
        check_is_fitted(self)
        self.coef_ = self.coef_ / size
        self.intercept_ = self.intercept_ - self.coef_ @ mean
        self._U = self._U / np.asarray(size)[:, None]
        self._describe()
        return self

    def _describe(self) -> None:
        self._basis = np.linalg.qr(self._U)[0]  # its columns span all coefficients
        within = np.linalg.svd(self._basis.T @ self.coef_.T, full_matrices=False)[0]
        self.subspace_ = self._basis @ within[:, : self.rank_]

    def _regression_loss(self) -> Loss:
        loss = as_loss(self.loss)
        if loss.binary:
            raise ValueError(f"{loss!r} is for two classes; a regression needs a loss of real numbers")
        return loss

    def _checked_rank(self, shape: tuple[int, int]) -> int:
        if not is_whole(self.rank, least=1):
            raise ValueError(f"rank must be a whole number ≥ 1; got {self.rank!r}")
        return min(int(self.rank), *shape, MOST_RANK)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | {"coef": self.coef_, "intercept": self.intercept_, "U": self._U}, facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model.coef_ = np.asarray(parts.floats(arrays, "coef", None, None), dtype=np.float64)
        tasks, features = model.coef_.shape
        if min(tasks, features) < 1:
            raise ValueError("coef")
        model.intercept_ = np.asarray(parts.floats(arrays, "intercept", tasks), dtype=np.float64)
        model._U = parts.floats(arrays, "U", features, None)
        model._read_features(arrays, facts, features, min(model._U.shape))
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _distributed(tasks: Tasks, client: Any) -> Measurement:
    needs_distributed()
    from rslm.distributed.tasks import distribute_tasks

    return distribute_tasks(tasks, client)
