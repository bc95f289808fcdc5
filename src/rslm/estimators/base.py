"""The base of all estimators: from a solver's result to attributes, warnings and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import parts
from rslm.estimators import persistence
from rslm.estimators.choices import as_seed
from rslm.estimators.scaling import in_units
from rslm.estimators.scikit_learn import CallbackSupportMixin
from rslm.estimators.shown import Shown
from rslm.estimators.warn import warn_caller
from rslm.location.packing import Packing
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt, deferred_interrupts
from rslm.runtime.log import log_shown
from rslm.runtime.threads import single_threaded_blas
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, Result, solve
from rslm.storage.container import Arrays, Facts

SOLVER_OPTIONS = ("solver", "max_iter", "tol", "n_threads")
IN_SQUARES = ("objective", "gradient_norm")  # parts of a history in the units of the squared data
FACTS = ("outcome_", "converged_", "n_iter_")  # attributes that every file holds as they are
FAR = 1e-3  # relative gradient above which a solver that stalls has not found a stationary point


class Estimator(Shown, CallbackSupportMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator with a certificate and a file."""

    certificate_: Certificate | None
    history_: dict[str, Any]

    #: Further attributes that the file holds as they are.
    _facts: ClassVar[tuple[str, ...]] = ("rank_", "n_features_in_")
    #: What to do with a column of X that holds text or dates.
    _instead_of_text: ClassVar[str] = "Encode it as numbers, or leave it out."
    #: Parameters that a file holds in a form of their own.
    _forms: ClassVar[dict[str, persistence.Form]] = {"loss": persistence.LOSS_FORM}

    @abstractmethod
    def fit(self, *data: Any, **options: Any) -> Self:
        """Learn from data."""

    # ---- solving -------------------------------------------------------------------------------------------------

    @contextmanager
    def _solving(self) -> Iterator[Interrupt]:
        """Hold back Ctrl-C, show the log, and use one thread for BLAS, since the matrices are thin."""
        with deferred_interrupts() as interrupt, log_shown(self.verbose), single_threaded_blas():
            yield interrupt

    def _solver_options(self) -> dict[str, Any]:
        """The parameters that go to the solver unchanged."""
        params = self.get_params(deep=False)
        return {name: params[name] for name in SOLVER_OPTIONS if name in params}

    def _solve(self, problem: Problem, rank: int, start: Floats | None, **options: Any) -> Result:
        """Solve a problem with the parameters of the estimator, from `start` if its shape fits."""
        fits = start is not None and start.shape in (
            (problem.shape[0], rank),
            (0 if problem.location is None else len(Packing.of(problem).scales), rank + 1),
        )
        seed, options = as_seed(self.random_state), self._solver_options() | options
        return solve(problem, rank, start=start if fits else None, random_state=seed, **options)

    def _keep(self, result: Result, scale: float = 1.0, constant: float = 0.0) -> None:
        """Set what every fit has. Data were divided by `scale` before solving; `constant` is added to the objective."""
        certificate = result.certificate.shifted(constant) if constant else result.certificate
        self.certificate_ = certificate.scaled(scale)
        history = result.history | {"objective": result.history["objective"] + constant}
        self.history_ = history | {name: in_units(history[name], scale) for name in IN_SQUARES}
        self.outcome_, self.converged_ = result.outcome.value, result.converged
        self.n_iter_ = max(result.n_iter, 1)  # the start has been evaluated at least

    def _warn_if_not_converged(self) -> None:
        advice = self._advice().get(Outcome(self.outcome_))
        if advice is not None:
            warn_caller(advice, ConvergenceWarning)

    def _warn_of_unfinished_search(self, path: dict[str, Any] | None) -> None:
        """Warn that `max_time` has ended a search for settings; `path` are those that it has tried."""
        if self.max_time is None or self.outcome_ == Outcome.INTERRUPTED.value:
            return
        tried = 0 if path is None else len(next(iter(path.values())))
        found = f"with {tried} of them tried, and the best so far were used" if tried else "before one was compared"
        warn_caller(
            f"max_time={self.max_time} has ended the search for settings {found}: rank {self.rank_}, C={self.C_:.3g}; "
            "raise max_time, or give these settings",
            ConvergenceWarning,
        )

    def _advice(self) -> dict[Outcome, str]:
        """What to do, by outcome; other outcomes raise no warning."""
        advice = {
            Outcome.ITERATIONS: f"not converged after max_iter={self.max_iter} iterations; raise max_iter or tol",
            Outcome.FAILED: "the objective is not a finite number; rescale the data or lower C",
        }
        gradient = float(self.history_["relative_gradient"][-1]) if self.history_ else 0.0
        if gradient > FAR:
            advice[Outcome.STALLED] = (
                f"no step lowers the objective any more, but its relative gradient is {gradient:.1e}; lower C"
            )
        return advice

    # ---- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `rslm.load` reads: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path
            The file appears whole or not at all; an existing one is replaced.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    def _to_file(self) -> tuple[Arrays, Facts]:
        """What the fit has learned, as arrays and as facts that JSON can hold."""
        arrays: Arrays = persistence.history_to_arrays(self.history_)
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names"] = np.asarray(self.feature_names_in_, dtype=str)
        facts = {name: getattr(self, name) for name in (*FACTS, *self._facts)}
        return arrays, facts | {"certificate": None if self.certificate_ is None else asdict(self.certificate_)}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = cls(**persistence.read_params(cls._forms, params))
        persistence.check_settings(model.get_params(deep=False))
        model.outcome_, model.converged_ = persistence.outcome_of(facts), parts.flag(facts, "converged_")
        model.n_iter_ = parts.whole(facts, "n_iter_")
        model.certificate_ = persistence.certificate_of(facts)
        model.history_ = persistence.history_of(arrays)
        if model.certificate_ is None and model.history_:  # only a fit without iterations has none
            raise ValueError("certificate")
        return model

    def _read_features(self, arrays: Arrays, facts: Facts, n_features: int, largest_rank: int) -> None:
        """Set what a file says of the features and of the rank."""
        self.n_features_in_ = parts.whole(facts, "n_features_in_", n_features, n_features)
        self.rank_ = parts.whole(facts, "rank_", most=largest_rank)
        if "feature_names" in arrays:
            self.feature_names_in_ = parts.words(arrays, "feature_names", n_features)
