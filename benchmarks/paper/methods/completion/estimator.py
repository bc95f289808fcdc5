"""MatrixCompletion as a method of completion, followed by a callback."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from paper.observed import Entries
from paper.record import Record
from rslm import MatrixCompletion, ObservedMatrix


class Follower:
    """Records every iterate that scikit-learn's callback protocol passes on."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def setup(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> None:
        if fitted_estimator is not None:
            self.record(*factors(fitted_estimator))

    def teardown(self, estimator: Any, context: Any) -> None: ...


def factors(model: Any) -> tuple[Any, Any]:
    """Predictions as one product: mean and effects are two more columns of the factors."""
    users, films = model.row_factors_, model.col_factors_
    left = np.column_stack([films, model.col_effects_ + model.intercept_, np.ones(len(films))])
    return left, np.column_stack([users, np.ones(len(users)), model.row_effects_])


def fit_estimator(data: Entries, record: Record, **settings: Any) -> None:
    """The entries are films × users, the estimator wants users × films: its rows are our columns."""
    d, T = data.shape
    X = ObservedMatrix(data.columns.indptr, data.columns.index, data.y, (T, d))
    model = MatrixCompletion(**settings, max_iter=500, random_state=0, n_threads=data.threads)
    model.set_callbacks(Follower(record))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")  # some films have no rating in a split
        warnings.simplefilter("ignore", ConvergenceWarning)  # the page tells which fits have converged
        model.fit(X)
