"""What all estimators of linear models in a common subspace share: the parameters, the fit and the file."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_is_fitted

from rslm.data import parts
from rslm.estimators.callbacks import Teller
from rslm.estimators.choices import as_seed, needs_distributed, warn_if_not_converged
from rslm.estimators.persistence import (
    certificate_of,
    check_settings,
    facts_of_fit,
    history_of,
    loss_from_plain,
    save,
)
from rslm.estimators.scaling import extreme_scale, in_units
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.interrupts import held_back
from rslm.runtime.log import log_shown
from rslm.runtime.magnitudes import without_tiny
from rslm.runtime.threads import single_threaded_blas
from rslm.runtime.types import Floats
from rslm.solvers import Result, solve
from rslm.solvers.stopping import Progress, time_left
from rslm.storage.container import Arrays, Facts

MOST_RANK = 127  # one less than the kernels can do: intercepts may need one
FACTS = ("outcome_", "converged_", "n_iter_", "rank_", "n_features_in_")


class TaskModel(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Linear models of several tasks: row t of `coef_` with `intercept_[t]` is that of task t."""

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
        """Learn all tasks; `middles` of their targets have been taken out, so that intercepts are small.

        The square loss of all tasks is larger than that of the data by the square of what is `unexplained`; `centre`
        was taken out of the features; the fit has begun at `began`.
        """
        rank = self._checked_rank(data.shape)
        # Only with a square loss is it the same problem.
        scale = extreme_scale(np.append(data.values, unexplained)) if loss.quadratic else 1.0
        if scale != 1.0 or unexplained > 0:
            with np.errstate(under="ignore"):
                data = data.with_values(without_tiny(data.values / scale))
        constant = (unexplained / scale) ** 2
        last = getattr(self, "_U", None) if self.warm_start else None
        teller = Teller(self, None)
        with held_back(), log_shown(self.verbose), single_threaded_blas():  # the matrices here are thin
            result = solve(
                Problem(loss, data if client is None else _distributed(data, client), C=self.C),
                rank,
                start=last if last is not None and last.shape == (data.shape[0], rank) else None,
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                max_time=time_left(self.max_time, began),
                callback=teller.about(lambda p: self._models(p, middles, scale, centre), scale),
                random_state=as_seed(self.random_state),
                n_threads=self.n_threads,
                checkpoint=checkpoint,
            )
            models = self._models(result, middles, scale, centre)
            self.coef_, self.intercept_ = models["coef_"], models["intercept_"]
            self._U = result.U
            self.certificate_ = result.certificate.shifted(float(self.C) * constant).scaled(scale)
            objective = result.history["objective"] + float(self.C) * constant
            in_squares = {"objective": objective, "gradient_norm": result.history["gradient_norm"]}
            self.history_ = result.history | {k: in_units(v, scale) for k, v in in_squares.items()}
            self.outcome_, self.converged_ = result.outcome.value, result.converged
            self.n_iter_ = max(result.n_iter, 1)
            self.rank_ = result.numerical_rank() if result.V.any() else 0
            self._describe()
            gradient = float(result.history["relative_gradient"][-1])
            warn_if_not_converged(result.outcome, self.max_iter, gradient)
            teller.done()

    @staticmethod
    def _models(
        found: Progress | Result, middles: Floats, scale: float, centre: Floats | None
    ) -> dict[str, NDArray[np.float64]]:
        coef = scale * found.V @ found.U.T
        offsets = 0.0 if found.intercepts is None else scale * found.intercepts
        intercept = middles + offsets - (0.0 if centre is None else coef @ centre)
        return {"coef_": coef, "intercept_": intercept, "_basis": np.linalg.qr(found.U)[0]}

    def unscaled(self, mean: Floats, size: Floats) -> Self:
        """The same models for features x where `fit` was given (x − mean) / size; this one is changed, and returned."""
        check_is_fitted(self)
        self.coef_ = self.coef_ / size
        self.intercept_ = self.intercept_ - self.coef_ @ mean
        self._U = self._U / np.asarray(size)[:, None]
        self._describe()
        return self

    def _describe(self) -> None:
        self._basis = np.linalg.qr(self._U)[0]  # all coefficients are combinations of its columns
        within = np.linalg.svd(self._basis.T @ self.coef_.T, full_matrices=False)[0]
        self.subspace_ = self._basis @ within[:, : self.rank_]

    def _checked_rank(self, shape: tuple[int, int]) -> int:
        if isinstance(self.rank, bool) or not isinstance(self.rank, int | np.integer) or self.rank < 1:
            raise ValueError(f"rank must be a whole number ≥ 1; got {self.rank!r}")
        return min(int(self.rank), *shape, MOST_RANK)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `rslm.load` reads: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path
            It appears whole or not at all; what was there is replaced.
        """
        check_is_fitted(self)
        save(self, path)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "U": self._U}
        arrays |= {f"history_{k}": v for k, v in self.history_.items()}
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names"] = np.asarray(self.feature_names_in_, dtype=str)
        return arrays, {name: getattr(self, name) for name in FACTS} | {"certificate": asdict(self.certificate_)}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = cls(**params | {"loss": loss_from_plain(params["loss"])})
        check_settings(model.n_threads, model.loss)
        model.coef_ = np.asarray(parts.floats(arrays, "coef", None, None), dtype=np.float64)
        tasks, features = model.coef_.shape
        if min(tasks, features) < 1:
            raise ValueError("coef")
        model.intercept_ = np.asarray(parts.floats(arrays, "intercept", tasks), dtype=np.float64)
        model._U = parts.floats(arrays, "U", features, None)
        known = facts_of_fit(facts) | {"rank_": parts.whole(facts, "rank_", most=min(model._U.shape))}
        known["n_features_in_"] = parts.whole(facts, "n_features_in_", features, features)
        for name, value in known.items():
            setattr(model, name, value)
        model.certificate_ = certificate_of(facts)
        model.history_ = history_of(arrays)
        if "feature_names" in arrays:
            model.feature_names_in_ = parts.words(arrays, "feature_names", features)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _distributed(tasks: Tasks, client: Any) -> Elsewhere:
    needs_distributed()
    from rslm.distributed.tasks import distribute_tasks

    return distribute_tasks(tasks, client)
