"""Scorers for `GridSearchCV` and `cross_validate` of scikit-learn: called with a fitted model and held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.labels import hashable
from rslm.evaluate.aligned import arranged
from rslm.evaluate.errors import mean_absolute, predictions, root_mean_square
from rslm.evaluate.metrics import OF_USERS, mean_at_k
from rslm.evaluate.ranking import rank_items, rank_new_users
from rslm.evaluate.splits import check_fraction, holdout_per_user
from rslm.runtime.types import Floats

ERRORS: dict[str, Callable[[Any, Any], float]] = {"rmse": root_mean_square, "mae": mean_absolute}
ROWS = 256  # new users that are filled at a time
NEW_ROWS = (
    "if they are new rows, as in the folds of GridSearchCV, state which share of their entries the model sees: "
    "fold_in=0.8"
)


def _check(metric: str, known: Iterable[str], fold_in: float | None) -> None:
    """Raise an error unless a scorer has one of the known metrics, and a fraction to show."""
    if metric not in known:
        raise ValueError(f"metric must be one of {', '.join(map(repr, known))}; got {metric!r}")
    if fold_in is not None:
        check_fraction(fold_in, "fold_in")


@dataclass(frozen=True)
class RankingScorer:
    """A ranking metric of a fitted model; larger is better.

    Parameters
    ----------
    metric : {"recall", "capped_recall", "precision", "ndcg", "map", "mrr", "hit_rate"}, default="ndcg"
    k : int, default=10
        The first k places count.
    fold_in : float between 0 and 1, optional
        If None, the data are held-out items of the users that the model was fitted to; the items that it was fitted to
        are left out. Otherwise the data are new users, as the folds of `GridSearchCV` are: this fraction of every
        user's items is shown to the model, the others have to be found.
    relevant_from : float, optional
        Held-out entries of at least this value are relevant; if None, those above 0.
    random_state : int, default=0
        Seed of the items that are shown.
    """

    metric: str = "ndcg"
    k: int = 10
    fold_in: float | None = None
    relevant_from: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        _check(self.metric, OF_USERS, self.fold_in)

    def __call__(self, model: Any, X: Any, y: object = None) -> float:
        """The metric, averaged over the users of X who have relevant items.

        Parameters
        ----------
        model : fitted model
        X : the held-out matrix
        y : ignored
        """
        if self.fold_in is None:
            held_out = _of_fitted_rows(model, X)
            users = np.flatnonzero(held_out.row_counts())
            ids = getattr(model, "row_ids_", None)
            ranking = rank_items(model, self.k, users=users if ids is None else ids[users])
        else:
            shown, held_out = holdout_per_user(X, 1.0 - self.fold_in, self.random_state)
            ranking = rank_new_users(model, shown, self.k)
        return mean_at_k(ranking, held_out, self.metric, self.k, self.relevant_from)


@dataclass(frozen=True)
class ErrorScorer:
    """Minus an error of a fitted model at held-out entries, so that larger is better.

    Parameters
    ----------
    metric : {"rmse", "mae"}, default="rmse"
    fold_in : float between 0 and 1, optional
        If None, the data are held-out entries of the rows that the model was fitted to. Otherwise they are new rows, as
        the folds of `GridSearchCV` are: this fraction of every row's entries is shown to the model, the others are
        predicted.
    random_state : int, default=0
        Seed of the entries that are shown.
    """

    metric: Literal["rmse", "mae"] = "rmse"
    fold_in: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        _check(self.metric, ERRORS, self.fold_in)

    def __call__(self, model: Any, X: Any, y: object = None) -> float:
        """Minus the error at the entries of X.

        Parameters
        ----------
        model, X, y : as for `RankingScorer`
        """
        if self.fold_in is None:
            held_out = _of_fitted_rows(model, X)
            found = predictions(model, held_out)
        else:
            if not hasattr(model, "transform"):
                raise TypeError(
                    f"{type(model).__name__} has no transform, which predicts the entries of new rows; a model of "
                    "values such as MatrixCompletion is needed. For implicit models use RankingScorer"
                )
            shown, held_out = holdout_per_user(X, 1.0 - self.fold_in, self.random_state)
            found = _filled_in(model, shown, held_out)
        return -ERRORS[self.metric](found - held_out.values, held_out.weights)


def _of_fitted_rows(model: Any, X: Any) -> ObservedMatrix:
    """Held-out entries in the rows and columns of a model, by ids where both have any."""
    data, rows, ids = ObservedMatrix.from_any(X), len(model.row_factors_), getattr(model, "row_ids_", None)
    if ids is not None and data.row_ids is not None:
        if set(hashable(data.row_ids)).isdisjoint(hashable(ids)):
            raise ValueError(f"none of the {data.shape[0]} rows of X is a row of the model; {NEW_ROWS}")
    elif data.shape[0] != rows:
        raise ValueError(f"X has {data.shape[0]} rows, but the model was fitted to {rows}; {NEW_ROWS}")
    return arranged(data, (rows, len(model.col_factors_)), ids, getattr(model, "col_ids_", None), "X")


def _filled_in(model: Any, shown: ObservedMatrix, wanted: ObservedMatrix) -> Floats:
    """The entries `wanted` of new rows, from those that are shown, some rows at a time."""
    found = np.empty(len(wanted))
    rows = wanted.rows_of_entries()
    for start in range(0, wanted.shape[0], ROWS):
        stop = min(start + ROWS, wanted.shape[0])
        at = slice(wanted.indptr[start], wanted.indptr[stop])
        filled = model.transform(_rows(shown, start, stop))
        found[at] = filled[rows[at] - start, wanted.index[at]]
    return found


def _rows(data: ObservedMatrix, start: int, stop: int) -> ObservedMatrix:
    indptr = data.indptr[start : stop + 1]
    at = slice(indptr[0], indptr[-1])
    return ObservedMatrix(
        indptr - indptr[0], data.index[at], data.values[at], (stop - start, data.shape[1]), col_ids=data.col_ids
    )
