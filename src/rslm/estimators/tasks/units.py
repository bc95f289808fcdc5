"""Features and targets in units of their own spread, so that settings mean the same for all data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from rslm.estimators.defaults import NORMAL, needs_width
from rslm.estimators.medians import median
from rslm.losses import Loss
from rslm.runtime.types import Floats

FULL = 0.5  # part of the entries of a sparse matrix above which a dense one needs hardly more memory
CONSTANT = 1e-10  # a feature varies if its spread is larger than this relative to its size


@dataclass(frozen=True, eq=False)
class Units:
    """Features are (x − mean) / size and targets (y − middle) / scale in the units of the solver."""

    mean: Floats  #: (n_features,)
    size: Floats  #: (n_features,)
    middle: Floats  #: (n_tasks,), or one for all
    scale: Floats  #: likewise

    @classmethod
    def none(cls, features: int, tasks: int) -> Units:
        """The units of the data."""
        return cls(np.zeros(features), np.ones(features), np.zeros(tasks), np.ones(tasks))

    @classmethod
    def of(cls, X: Any, weights: Floats | None, tasks: int, centred: bool) -> Units:
        """Units of features by their standard deviations; targets stay as they are.

        Sparse features keep their zeros and are only divided by their root mean squares; so are all without an
        intercept.
        """
        mean, size = _of_features(X, weights, centred and not _stays_sparse(X))
        return cls(mean, size, np.zeros(tasks), np.ones(tasks))

    def with_targets(self, y: Floats, weights: Floats | None, loss: Loss, centred: bool) -> Units:
        """The same units of features, with one unit for the targets of all tasks.

        They are divided by their standard deviation where the loss is quadratic, because then a multiple of the targets
        has a multiple of the answer; otherwise only their median is subtracted.
        """
        middle, scale = spread_of(y, weights, centred, loss.quadratic)
        return replace(self, middle=np.full_like(self.middle, middle), scale=np.full_like(self.scale, scale))

    def features(self, X: Any) -> Any:
        """The features of rows in these units; dense, unless most are 0."""
        if not _stays_sparse(X):
            return (_dense(X) - self.mean) / self.size
        return sparse.csr_array(X) @ sparse.diags_array(1.0 / self.size)

    def coefficients(self, coef: Floats, intercept: Floats, each: bool = True) -> tuple[Floats, Floats]:
        """Coefficients and intercepts of all tasks for the data as they were; or of the common model if not `each`."""
        scale, middle = (self.scale, self.middle) if each else (self.scale[:1], self.middle[:1])
        own = np.asarray(scale[:, None] * np.atleast_2d(coef) / self.size)
        return own, np.asarray(middle + scale * intercept - own @ self.mean)


def spread_of(
    y: Floats, weights: Floats | None, centred: bool, quadratic: bool, scaled: bool = False
) -> tuple[float, float]:
    """Middle and scale of targets: means for a quadratic loss; else medians, and 1 as scale unless `scaled`."""
    largest = float(np.abs(y).max(initial=0.0)) or 1.0
    unit = y / largest  # squares of the targets may overflow
    middle = 0.0
    if centred:
        middle = float(np.average(unit, weights=weights)) if quadratic else median(unit, weights)
    if not (quadratic or scaled):
        return middle * largest, 1.0
    spread = 0.0 if quadratic else NORMAL * median(np.abs(unit - middle), weights)
    if not spread > CONSTANT * abs(middle):
        spread = float(np.sqrt(np.average((unit - middle) ** 2, weights=weights)))
    if not spread > CONSTANT * abs(middle):
        spread = abs(middle)
    return middle * largest, (spread or 1.0) * largest


def in_any_unit(given: Any, loss: Loss) -> bool:
    """Whether a loss that was `given` may be that of scaled targets: it has no width, or none that was given."""
    if needs_width(given) or loss.quadratic:
        return True
    interval = loss.interval
    return interval is not None and not (loss.binary or interval.epsilon or interval.rounding)


def _stays_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X)) and X.nnz <= FULL * X.shape[0] * X.shape[1]


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _of_features(X: Any, weights: Floats | None, centred: bool) -> tuple[Floats, Floats]:
    share = np.full(X.shape[0], 1.0 / X.shape[0]) if weights is None else weights / weights.sum()
    if _stays_sparse(X):
        squares = np.asarray((sparse.csr_array(X) ** 2).T @ share).ravel()
        size = np.sqrt(squares)
        return np.zeros(X.shape[1]), np.where(size > 0, size, 1.0)
    X = _dense(X)
    mean = share @ X if centred else np.zeros(X.shape[1])
    size = np.sqrt(np.einsum("n,nj,nj->j", share, X - mean, X - mean))
    varies = size > CONSTANT * np.abs(mean)
    return np.asarray(mean), np.where(varies, size, np.maximum(np.abs(mean), 1.0))
