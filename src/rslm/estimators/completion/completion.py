"""The base of the estimators that complete a matrix: solving, attributes, warnings and files."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import Labels, ObservedMatrix, parts
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import OWN, as_loss, is_auto
from rslm.estimators.completion.fitted_samples import FittedSamples
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.predicting_intervals import PredictingIntervals
from rslm.estimators.completion.recommend import known_from_arrays, known_to_arrays
from rslm.estimators.completion.residuals import outlier_scores, residuals
from rslm.estimators.persistence import ids_from_array, ids_to_array, save
from rslm.estimators.warn import warn_caller
from rslm.runtime.magnitudes import LARGEST, LEAST
from rslm.runtime.types import Floats
from rslm.solvers import Result
from rslm.storage.container import Arrays, Facts

USUAL_RANK = 10  # where none is given
NOTHING = 1e-12  # entries this small relative to the data are rounding errors of 0


class Completion(PredictingIntervals):
    """A matrix that is completed from some of its entries."""

    certificate_: Certificate

    _found: ClassVar[dict[str, str]] = {
        "rank_": "rank",
        "C_": "C",
        "weighting_": "weighting",
        "feature_weight_": "weight of features",
    }
    _more_pictures: ClassVar[tuple[str, ...]] = ("residuals", "effects", "intervals")

    def _settings(self) -> dict[str, str]:
        draws = getattr(self, "n_draws_", 0)
        return super()._settings() | ({"draws averaged": str(draws)} if draws else {})

    def _held_out_errors(self) -> dict[str, float]:
        errors = super()._held_out_errors()
        if self.effects is None:  # those of the mean once more
            errors.pop(self._compared["effects"], None)
        return errors

    @abstractmethod
    def _warn_of_unobserved(self, layout: Layout) -> None:
        """Warn of rows and columns without an observed entry."""

    @abstractmethod
    def _set_subspace(self, features: Floats, C: float, weighting: float, mean_count: float) -> None:
        """Set the subspace for new samples from what a file holds."""

    # ---- fitting -------------------------------------------------------------------------------------------------

    def _fit(
        self,
        X: Any,
        layout: Layout,
        rank: int | None,
        start: Floats | None,
        max_time: float | None,
        checkpoint: str | os.PathLike[str] | None = None,
        reporter: Reporter | None = None,
        then: Callable[[Result], None] | None = None,
    ) -> Result:
        """Solve the problem of the layout and keep the model; what comes `then` is still part of the fit."""
        problem = layout.problem()
        limit = rank_limit(rank, problem.shape)
        reporter = Reporter(self, X) if reporter is None else reporter
        callback = reporter.callback(layout.at, layout.scale)
        result = self._solve(problem, limit, start, max_time=max_time, callback=callback, checkpoint=checkpoint)
        self._keep_model(layout, result)
        if then is not None:
            then(result)
        reporter.done()
        return result

    def _keep_model(self, layout: Layout, result: Result) -> None:
        """Set all attributes, then warn of what the user should know."""
        self._set(layout.model(result.U, result.V, result.certificate.relaxed("loss"), result.effects))
        self._keep(result, layout.scale)
        self.rank_ = result.numerical_rank()
        self.__dict__.pop("residuals_", None)
        if layout.at_hand:
            self.residuals_ = self._residuals(layout.data)
        else:
            layout.data.cluster.forget()  # type: ignore[attr-defined]
        one_class = self.classes_ is not None and layout.one_class  # then a mean may grow without limit
        if not one_class:
            self._warn_if_not_converged()
        if layout.box is not None and _norm(self.row_factors_, self.col_factors_) <= NOTHING * layout.largest:
            warn_caller(
                "the learned matrix is zero everywhere: at this C, no other matrix within the bounds has a smaller "
                "objective"
            )
        if one_class:
            warn_caller(
                "only one class is observed; in a sparse matrix only stored entries are observed, so store zeros, too"
            )
        self._warn_of_unobserved(layout)

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _residuals(self, data: ObservedMatrix) -> ObservedMatrix:
        return residuals(data, self._predicted(data, self._left), self._checked_loss())

    @property
    def outlier_scores_(self) -> ObservedMatrix:
        """|residuals_| relative to their usual size: an entry above 3 is unusual, one above 10 very unusual."""
        check_is_fitted(self)
        if not hasattr(self, "residuals_"):
            raise AttributeError(
                "a model that was loaded from a file or fitted by a cluster has no residuals; fit in this process to "
                "get them"
            )
        return outlier_scores(self.residuals_, getattr(self._subspace, "units", None))

    # ---- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], known: ObservedMatrix | None = None) -> None:
        """Write the model to a file that `rslm.load` reads: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path
            The file appears whole or not at all; an existing one is replaced.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Entries that `recommend` of the loaded model leaves out.
        """
        check_is_fitted(self)
        if known is not None:
            self._check_known(known)
        save(self, path, {} if known is None else known_to_arrays(known))

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        arrays |= {"row_factors_": self.row_factors_, "col_factors_": self.col_factors_}
        arrays |= {"row_effects_": self.row_effects_, "col_effects_": self.col_effects_}
        facts["intercept"] = float(self.intercept_)
        arrays["counts"] = self._counts
        arrays |= {"subspace": self._subspace.features} | self._seen.to_arrays()
        arrays |= ids_to_array("row", self._rows.ids) | ids_to_array("col", self._cols.ids)
        facts["mean_count"], facts["C"] = self._subspace.mean_count, float(self._subspace.C)
        if self._subspace.weighting is not None:  # a model of features alone has none
            facts["weighting"] = self._subspace.weighting
        facts["classes"] = None if self.classes_ is None else self.classes_.tolist()
        return arrays, facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model.classes_ = _classes_of(facts["classes"], model.loss)
        model.row_factors_ = parts.floats(arrays, "row_factors_", None, None)
        rows, rank = model.row_factors_.shape
        model.col_factors_ = parts.floats(arrays, "col_factors_", None, rank)
        shape = rows, len(model.col_factors_)
        if "row_effects_" in arrays:
            model.row_effects_ = parts.floats(arrays, "row_effects_", rows)
            model.col_effects_ = parts.floats(arrays, "col_effects_", shape[1])
            model.intercept_ = parts.number(facts, "intercept")
        else:  # a file of an older version, whose models have no effects
            model.row_effects_, model.col_effects_ = np.zeros(rows), np.zeros(shape[1])
        if min(*shape, rank) < 1:
            raise ValueError("row_factors_")
        model._rows = _labels("row", rows, ids_from_array("row", arrays))
        model._cols = _labels("column", shape[1], ids_from_array("col", arrays))
        model._set_subspace(
            parts.floats(arrays, "subspace", shape[1], None),
            # Files of older versions hold C among the parameters only.
            parts.number(facts if "C" in facts else params, "C", least=LEAST, most=LARGEST),
            parts.number(facts if "weighting" in facts else params, "weighting", least=-100.0, most=100.0),
            parts.number(facts, "mean_count", least=np.finfo(float).tiny),
        )
        # Files of older versions do not hold the counts; their models keep all features.
        counts = {"counts": arrays["counts"].astype(np.float64)} if "counts" in arrays else None
        model._counts = np.full(shape[1], rows) if counts is None else parts.floats(counts, "counts", shape[1])
        model._seen = FittedSamples.from_arrays(arrays, shape)
        model._intervals = Intervals.from_arrays(arrays, shape)
        model._known = known_from_arrays(arrays, model._rows, model._cols)
        model._rounding = parts.number({"rounding": model.certificate_.relaxed("loss")}, "rounding", least=0.0)
        model._read_features(arrays, facts, shape[1], rank)
        return model


def rank_limit(rank: Any, shape: tuple[int, int]) -> int:
    """The limit on the rank: the given one, which the solver checks, or one that suits a matrix of this shape."""
    return min(USUAL_RANK, *shape) if rank is None or is_auto(rank) else rank


def _labels(kind: str, count: int, ids: NDArray[Any] | None) -> Labels:
    if ids is not None and len(ids) != count:
        raise ValueError(f"{kind}_ids")
    return Labels(kind, count, ids)


def _classes_of(plain: Any, loss: Any) -> NDArray[Any] | None:
    """The two classes that a file holds. A user's own loss, which a file only names, may have classes or not."""
    classes = None if plain is None else np.array(plain)
    own = isinstance(loss, str) and loss.startswith(OWN)
    if (classes is not None and (classes.shape != (2,) or classes.dtype.kind not in "fiubU")) or (
        not own and as_loss(loss).binary != (classes is not None)
    ):
        raise ValueError("classes")
    return classes


def _norm(left: Floats, right: Floats) -> float:
    """The Frobenius norm of left rightᵀ; the factors are divided by their sizes, so that no square overflows."""
    sizes = [float(np.abs(factors).max(initial=0.0)) for factors in (left, right)]
    if not all(sizes):
        return 0.0
    a, b = (factors / size for factors, size in zip((left, right), sizes, strict=True))
    return sizes[0] * sizes[1] * math.sqrt(max(float(np.sum((a.T @ a) * (b.T @ b))), 0.0))
