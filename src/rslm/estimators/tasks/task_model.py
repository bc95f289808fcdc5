"""The base of the linear models in a common subspace: parameters, fit and file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import parts
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import is_auto, needs_distributed
from rslm.estimators.defaults import loss_for
from rslm.estimators.fitted_loss import FittedLoss
from rslm.estimators.scaling import extreme_scale
from rslm.estimators.tasks import found_file
from rslm.estimators.tasks.automatic import Asked, Choice, checked_effects, checked_rank, choose
from rslm.estimators.tasks.calibrated import Calibrated
from rslm.estimators.tasks.family import LOW_RANK, Family, Fitted
from rslm.estimators.tasks.units import Units
from rslm.estimators.tasks.words import WITHOUT_LOW_RANK
from rslm.kernels import Stopped
from rslm.linalg.low_rank import singular_values
from rslm.location import Effects, Location
from rslm.losses import Loss
from rslm.measurements import Measurement, Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import interrupted
from rslm.runtime.magnitudes import as_float, without_tiny
from rslm.runtime.outcome import Outcome
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats, Indices64
from rslm.solvers import Result
from rslm.solvers.result import NEGLIGIBLE
from rslm.solvers.stopping import Progress, time_left
from rslm.storage.container import Arrays, Facts

MOST_RANK = 127  # the largest that is searched
MOST_LOCATED = 126  # the same with a location


class TaskModel(Calibrated, FittedLoss):
    """Linear models of several tasks: row t of `coef_` with `intercept_[t]` is the model of task t."""

    certificate_: Certificate | None
    common_coef_: Floats
    _location: Location | None

    _found: ClassVar[dict[str, str]] = {
        "rank_": "rank",
        "C_": "C",
        "effects_": "ridges of common coefficients and intercepts",
        "task_part_": "what tasks add to the common model",
    }
    _compared: ClassVar[dict[str, str]] = {
        "mean": "the mean",
        "pooled": "one model for all tasks",
        "by_task": "a ridge for every task",
        "model": "this model",
    }
    _overview: ClassVar[tuple[str, ...]] = ("held_out", "coefficients", "spectrum", "convergence")

    def _verdict(self) -> str:
        part = getattr(self, "task_part_", "")
        return WITHOUT_LOW_RANK[part][1] if part in WITHOUT_LOW_RANK else super()._verdict()

    def _measure(self) -> str:
        units = getattr(self, "_units", None)
        alike = units is None or bool((units.scale == units.scale[0]).all())
        return super()._measure() + ("" if alike else " in standard deviations")

    def _spectrum(self) -> Floats:
        if not hasattr(self, "subspace_"):
            return np.zeros(0)
        added = self.subspace_.T @ (self.coef_ - self.common_coef_).T
        return np.asarray(np.linalg.svd(added, compute_uv=False))

    def __init__(
        self,
        rank: int | str = "auto",
        C: float | str = "auto",
        *,
        loss: Any = "square",
        effects: Any = "auto",
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
        self.effects = effects
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # ---- what was asked ----------------------------------------------------------------------------------------------

    @property
    def _has_effects(self) -> bool:
        return checked_effects(self.effects)[0]

    def _asked(self) -> Asked:
        """What was given, and what has to be found."""
        _, ridges = checked_effects(self.effects)
        rank, C = checked_rank(self.rank), _checked_C(self.C)
        only = rank is not None or C is not None or not self._has_effects
        return Asked(rank, C, ridges, only)

    # ---- fits --------------------------------------------------------------------------------------------------------

    def _fit_tasks(
        self,
        data: Tasks,
        loss: Loss,
        middles: Floats,
        strata: Indices64,
        unexplained: float = 0.0,
        centre: Floats | None = None,
        rows: float = 0.0,
        *,
        checkpoint: str | os.PathLike[str] | None,
        client: Any = None,
        began: float,
    ) -> None:
        """Learn all tasks by the paper's problem: no effects, and the features in their own units.

        `middles` of their targets were subtracted, so that intercepts are small, and `centre` from the features. The
        square loss of the data is larger by the square of `unexplained`. With a `centre`, the rows of the data stand
        for others, whose number is `rows`. The fit began at `began`. Where the rank or C has to be found, rows are held
        out, with a share of every one of the `strata`.
        """
        asked = self._asked()
        scale = extreme_scale(np.append(data.values, unexplained)) if loss.quadratic else 1.0  # square loss only
        if scale != 1.0 or unexplained > 0:
            with np.errstate(under="ignore"):
                data = data.with_values(without_tiny(data.values / scale))
        reporter = Reporter(self, None)
        with self._solving():
            family = Family.of(loss, False, bool(self.fit_intercept), data.values, thread_count(self.n_threads))
            choice = choose(asked, family, data, strata, self.random_state, MOST_RANK, self.max_time, began)
            problem = Problem(loss, data if client is None else _distributed(data, client), C=choice.setting.C)
            result = self._solve(
                problem,
                choice.setting.rank,
                getattr(self, "_U", None) if self.warm_start else None,
                max_time=time_left(self.max_time, began),
                callback=reporter.callback(lambda p: self._models(p, middles, scale, centre), scale),
                checkpoint=checkpoint,
            )
            self._units, self._location = Units.none(data.shape[0], data.shape[1]), None
            models = self._models(result, middles, scale, centre)
            self.coef_, self.intercept_ = models["coef_"], models["intercept_"]
            self.common_coef_, self.common_intercept_ = np.zeros(data.shape[0]), 0.0
            self._U = result.U
            self._keep(result, scale, constant=problem.C * (unexplained / scale) ** 2)
            self.rank_ = result.numerical_rank() if result.V.any() else 0
            self._keep_choice(choice.in_units(loss, scale))
            stands_for = None if centre is None else (rows, centre)
            self._keep_errors(family, choice, data, np.full(data.shape[1], scale), stands_for)
            self._describe()
            self._warn_if_not_converged()
            reporter.done()

    def _fit_with_effects(
        self,
        data: Tasks,
        loss: Loss,
        units: Units,
        strata: Indices64,
        *,
        located: bool = True,
        checkpoint: str | os.PathLike[str] | None,
        client: Any = None,
        began: float,
    ) -> None:
        """Learn all tasks from data in `units`; with common coefficients and shrunk intercepts if `located`."""
        reporter = Reporter(self, None)
        with self._solving():
            family = Family.of(loss, located, bool(self.fit_intercept), data.values, thread_count(self.n_threads))
            asked, most = self._asked(), MOST_LOCATED if located else MOST_RANK
            choice = choose(asked, family, data, strata, self.random_state, most, self.max_time, began)
            scale = float(units.scale[0]) if (units.scale == units.scale[0]).all() else 1.0
            if choice.setting.task_part == LOW_RANK:
                problem = family.problem(choice.setting, data)
                if client is not None:
                    problem = Problem(loss, _distributed(data, client), C=problem.C, location=problem.location)
                result = self._solve(
                    problem,
                    choice.setting.rank,
                    getattr(self, "_U", None) if self.warm_start else None,
                    max_time=time_left(self.max_time, began),
                    callback=reporter.callback(lambda p: _in_units(_fitted(p, p.evaluation.effects), units), scale),
                    checkpoint=checkpoint,
                )
                fitted = _fitted(result, result.effects)
                self._keep(result, scale)
            else:
                fitted = self._convex(family, choice, data)
            self._units, self._U, self._location = units, fitted.U, family.location(choice.setting)
            for name, value in _in_units(fitted, units).items():
                setattr(self, name, value)
            s = singular_values(fitted.U, fitted.V)
            self.rank_ = int((s > NEGLIGIBLE * s[0]).sum()) if s[0] > 0 else 0
            self._keep_choice(choice.in_units(loss, scale))
            self._keep_errors(family, choice, data, units.scale)
            self._describe()
            self._warn_if_not_converged()
            reporter.done()

    def _convex(self, family: Family, choice: Choice, data: Tasks) -> Fitted:
        """One model for all tasks, or a ridge for every task: there is no subspace to find, and no certificate."""
        self.certificate_, self.history_, self.n_iter_ = None, {}, 1
        self.outcome_, self.converged_ = Outcome.STATIONARY.value, True
        try:
            return family.convex(choice.setting, family.problem(choice.setting, data), self.tol)
        except Stopped:
            self.outcome_, self.converged_ = (Outcome.INTERRUPTED if interrupted() else Outcome.TIME).value, False
            d, T = data.shape
            return Fitted(np.zeros((d, 1)), np.zeros((T, 1)), Effects.none((d, T)), None)

    def _keep_choice(self, choice: Choice) -> None:
        """Set what was given or found."""
        self._setting = setting = choice.setting
        self.C_, self.task_part_ = setting.C, setting.task_part
        self.effects_ = None if self._location is None else (setting.common, setting.intercepts)
        self.path_, self.held_out_ = choice.path, choice.held_out

    @staticmethod
    def _models(found: Progress | Result, middles: Floats, scale: float, centre: Floats | None) -> dict[str, Floats]:
        coef = scale * found.V @ found.U.T
        offsets = 0.0 if found.intercepts is None else scale * found.intercepts
        intercept = middles + offsets - (0.0 if centre is None else coef @ centre)
        none = np.zeros(len(found.U))
        return {"coef_": coef, "intercept_": intercept, "common_coef_": none, "_basis": np.linalg.qr(found.U)[0]}

    def unscaled(self, mean: Floats, size: Floats) -> Self:
        """Change the models to those for features x, where `fit` was given (x − mean) / size; returns self."""
        check_is_fitted(self)
        self.coef_, self.common_coef_ = self.coef_ / size, self.common_coef_ / size
        self.intercept_ = self.intercept_ - self.coef_ @ mean
        self.common_intercept_ = float(self.common_intercept_ - self.common_coef_ @ mean)
        own = self._units
        self._units = Units(mean + own.mean * size, own.size * size, own.middle, own.scale)
        self._describe()
        return self

    def _describe(self) -> None:
        self._basis = _basis(self._U, self._units)  # its columns span what tasks add to the common coefficients
        within = np.linalg.svd(self._basis.T @ (self.coef_ - self.common_coef_).T, full_matrices=False)[0]
        self.subspace_ = self._basis @ within[:, : self.rank_]

    def _regression_loss(self, values: Callable[[], Floats], weights: Floats | None) -> Loss:
        """The loss for targets that are spread as these values."""
        self._fitted_loss = loss = loss_for(self.loss, values, weights)
        if loss.binary:
            raise ValueError(f"{loss!r} is for two classes; a regression needs a loss of real numbers")
        return loss

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        arrays |= {"coef": self.coef_, "intercept": self.intercept_, "U": self._U, "common_coef": self.common_coef_}
        more = found_file.written(self._setting, self._units, self.path_, self.held_out_)
        ridges = None if self._location is None else asdict(self._location)
        facts |= {"common_intercept_": float(self.common_intercept_), "location": ridges}
        return arrays | more[0], facts | more[1]

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        params = {"effects": None} | params  # earlier files have none
        model = super()._from_file(params, arrays, facts)
        model.coef_ = np.asarray(parts.floats(arrays, "coef", None, None), dtype=np.float64)
        tasks, features = model.coef_.shape
        if min(tasks, features) < 1:
            raise ValueError("coef")
        model.intercept_ = np.asarray(parts.floats(arrays, "intercept", tasks), dtype=np.float64)
        model._U = parts.floats(arrays, "U", features, None)
        model._read_features(arrays, facts, features, min(model._U.shape))
        before = "common_coef" not in arrays
        model.common_coef_ = np.zeros(features) if before else parts.floats(arrays, "common_coef", features)
        model.common_intercept_ = 0.0 if before else parts.number(facts, "common_intercept_")
        read = found_file.before(params, model._U) if before else found_file.read(arrays, facts, features, tasks)
        model._setting, model._units, model.path_, model.held_out_ = read
        model._location = None if before else found_file.location(facts["location"])
        model.C_, model.task_part_ = model._setting.C, model._setting.task_part
        model._read_errors(arrays, facts)
        setting = model._setting
        model.effects_ = None if model._location is None else (setting.common, setting.intercepts)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fitted(found: Progress | Result, effects: Effects | None) -> Fitted:
    return Fitted(found.U, found.V, effects, found.intercepts)


def _in_units(fitted: Fitted, units: Units) -> dict[str, Any]:
    """The models for the data as they were given."""
    coef = fitted.V @ fitted.U.T
    common: Floats = np.zeros(coef.shape[1])
    middle = 0.0
    intercept = np.zeros(len(coef)) if fitted.intercepts is None else fitted.intercepts
    if fitted.effects is not None:
        common, middle = fitted.effects.rows, fitted.effects.mean
        coef, intercept = coef + common, fitted.effects.columns + middle
    of_tasks, of_all = units.coefficients(coef, intercept), units.coefficients(common, np.array([middle]), each=False)
    models = {"coef_": of_tasks[0], "intercept_": of_tasks[1], "common_coef_": of_all[0][0]}
    if fitted.effects is None:
        of_all = of_all[0], np.zeros(1)
    return models | {"common_intercept_": float(of_all[1][0]), "_basis": _basis(fitted.U, units)}


def _basis(U: Floats, units: Units) -> Floats:
    return np.asarray(np.linalg.qr(U / units.size[:, None])[0])


def _checked_C(C: Any) -> float | None:
    """C as a float; None if it has to be found."""
    if is_auto(C):
        return None
    number = as_float(C)
    if not 0 < number < np.inf:
        raise ValueError(f'C must be a positive finite number or "auto"; got {C!r}')
    return number


def _distributed(tasks: Tasks, client: Any) -> Measurement:
    needs_distributed()
    from rslm.distributed.tasks import distribute_tasks

    return distribute_tasks(tasks, client)
