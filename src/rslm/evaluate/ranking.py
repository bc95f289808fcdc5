"""Items ranked for users: what every ranking metric takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.data import Labels, ObservedMatrix
from rslm.data.checks import real_numbers
from rslm.evaluate.aligned import arranged
from rslm.evaluate.largest import largest
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats, Indices32, Indices64


@dataclass(frozen=True, eq=False)
class Ranking:
    """The first k items of some users, best first.

    `rank_items`, `rank_factors` and `rank_new_users` make one; `Ranking.from_lists` takes what another tool recommends.
    """

    items: Indices32  #: (users, k): positions of items; −1 behind the last one, where fewer than k were left
    users: Indices64  #: the row of every user in a matrix of users × items
    shape: tuple[int, int]  #: of that matrix
    known: ObservedMatrix | None = None  #: entries that were left out
    row_ids: NDArray[Any] | None = None  #: ids of all rows, if there are any
    col_ids: NDArray[Any] | None = None

    @classmethod
    def from_lists(cls, lists: Iterable[ArrayLike], n_items: int) -> Self:
        """A ranking from one list of items for each user.

        Parameters
        ----------
        lists : sequences of positions of items, best first, one for each row of the held-out matrix
            They may differ in length, and may be empty.
        n_items : int
            Number of items of the catalogue.
        """
        rows = [_positions(given, at) for at, given in enumerate(lists)]
        k = max([len(row) for row in rows], default=0)
        if k == 0:
            raise ValueError("there is no item in any of the lists; give at least one")
        items = np.full((len(rows), k), -1, dtype=np.int64)
        for at, row in enumerate(rows):
            if ((row < 0) | (row >= n_items)).any():
                wrong = row[(row < 0) | (row >= n_items)][0]
                raise ValueError(f"list {at} has item {wrong}, but items are positions from 0 to {n_items - 1}")
            if len(np.unique(row)) < len(row):
                raise ValueError(f"list {at} has an item more than once; every item has one place in a ranking")
            items[at, : len(row)] = row
        return cls(items.astype(np.int32), np.arange(len(rows)), (len(rows), n_items))

    @property
    def k(self) -> int:
        """The number of items that were ranked for every user, where enough were left."""
        return int(self.items.shape[1])

    @property
    def counts(self) -> Indices64:
        """The number of items of every user: fewer than k where nearly everything is known."""
        return np.asarray((self.items >= 0).sum(axis=1, dtype=np.int64))


def rank_items(
    model: Any, k: int, *, known: Any = "fitted", users: Any = None, n_threads: int | None = None
) -> Ranking:
    """The k items with the largest predictions of every user, exactly, in the order of `model.recommend`.

    Predictions are computed in blocks, never all at once. Of equal ones, the item with the smaller position comes
    first. A user of whom fewer than k items are unknown gets all of these.

    Parameters
    ----------
    model : a fitted model with `row_factors_` and `col_factors_`
        With its `row_effects_`, `col_effects_` and `intercept_`, if it has any.
    k : int
        Number of items for each user, at most the number of all items.
    known : ObservedMatrix, or any other matrix that `fit` accepts, "fitted" or None, default="fitted"
        Entries that are left out: those of this matrix, those that the model was fitted to (its `known_`), or none.
    users : positions, or ids where the model has ids, optional
        The users that are ranked for; None for all.
    n_threads : int, optional
        None for all cores. The result does not depend on it.

    Returns
    -------
    Ranking
    """
    left, right = factors_of(model)
    shape = len(left), len(right)
    row_ids, col_ids = getattr(model, "row_ids_", None), getattr(model, "col_ids_", None)
    if isinstance(known, str):
        if known != "fitted":
            raise ValueError(f"known must be a matrix, 'fitted' or None; got {known!r}")
        known = getattr(model, "known_", None)
        if known is None:
            raise ValueError(
                "the model does not hold the entries that it was fitted to, so they cannot be left out. Give them: "
                "known=train; known=None ranks all items, including those that a user already has"
            )
    at = np.arange(shape[0]) if users is None else Labels("row", shape[0], row_ids).positions(users)
    return _ranked(left, right, k, known, at, n_threads, row_ids, col_ids)


def rank_factors(
    row_factors: ArrayLike,
    col_factors: ArrayLike,
    k: int,
    *,
    known: Any = None,
    users: ArrayLike | None = None,
    n_threads: int | None = None,
) -> Ranking:
    """The k items with the largest products of factors of every user, as `rank_items` ranks them.

    An effect of every item is one more column of `col_factors`, with ones in `row_factors`. Popularity is such an
    effect alone: `rank_factors(np.ones((n_users, 1)), train.col_counts()[:, None], k, known=train)`.

    Parameters
    ----------
    row_factors : array (users, rank)
    col_factors : array (items, rank)
    k : int
        Number of items for each user, at most the number of all items.
    known : ObservedMatrix, or any other matrix that `fit` accepts, of the shape (users, items), optional
        Entries that are left out.
    users : positions, optional
        The users that are ranked for; None for all.
    n_threads : int, optional
        None for all cores. The result does not depend on it.

    Returns
    -------
    Ranking
    """
    left, right = (
        real_numbers(np.asarray(a), w) for a, w in ((row_factors, "row_factors"), (col_factors, "col_factors"))
    )
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1] or not len(right):
        raise ValueError(
            f"row_factors has shape {left.shape} and col_factors {right.shape}, but (users, rank) and (items, rank) "
            "with the same rank are needed"
        )
    at = np.arange(len(left)) if users is None else Labels("row", len(left)).positions(users)
    return _ranked(left, right, k, known, at, n_threads)


def rank_new_users(model: Any, fold_in: Any, k: int) -> Ranking:
    """The k items with the largest predictions of users that the model was not fitted to, without those in `fold_in`.

    Parameters
    ----------
    model : a fitted model with `recommend_for`
    fold_in : matrix with the items that the model was fitted to
        What is known of the new users, as `holdout_users` returns it. With ids, it needs only the items that have an
        entry.
    k : int
        Number of items for each user, at most the number of all items.

    Returns
    -------
    Ranking
        Its rows are those of `fold_in`.
    """
    data = ObservedMatrix.from_any(fold_in, allow_empty=True)
    n_items, col_ids = getattr(model, "n_features_in_", data.shape[1]), getattr(model, "col_ids_", None)
    data = arranged(data, (data.shape[0], n_items), None, col_ids, "fold_in")
    check_k(k, data.shape[1])
    lists: Sequence[NDArray[Any]] = model.recommend_for(data, k)[0]
    counts = np.array([len(listed) for listed in lists])
    columns = Labels("column", data.shape[1], col_ids)
    items = np.full((len(lists), int(k)), -1, dtype=np.int32)
    items[np.arange(int(k)) < counts[:, None]] = columns.positions(np.concatenate(lists))
    return Ranking(items, np.arange(len(lists)), data.shape, data, data.row_ids, data.col_ids)


def _positions(given: ArrayLike, at: int) -> Indices64:
    """The items of one list."""
    items = np.asarray(given).reshape(-1)
    if len(items) and items.dtype.kind not in "iu":
        raise ValueError(
            f"list {at} has items of type {items.dtype}, but positions of items are needed, whole numbers from 0 on"
        )
    return items.astype(np.int64)


def factors_of(model: Any) -> tuple[Floats, Floats]:
    """Two matrices whose product is the prediction of a model, effects included."""
    if not (hasattr(model, "row_factors_") and hasattr(model, "col_factors_")):
        raise TypeError(
            f"{type(model).__name__} has no row_factors_ and col_factors_; a fitted model that completes a matrix is "
            "needed. For arrays of factors use rank_factors, for lists of items Ranking.from_lists"
        )
    rows, cols = model.row_factors_, model.col_factors_
    of_rows, of_cols = getattr(model, "row_effects_", np.zeros(len(rows))), getattr(model, "col_effects_", 0.0)
    constant = np.broadcast_to(of_cols + getattr(model, "intercept_", 0.0), len(cols))
    return np.column_stack([rows, of_rows, np.ones(len(rows))]), np.column_stack([cols, np.ones(len(cols)), constant])


def check_k(k: Any, n_items: int) -> None:
    """An error unless k is a whole number of items."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a whole number ≥ 1; got {k!r}")
    if k > n_items:
        raise ValueError(f"k is {k}, but there are only {n_items} items; give a k of at most {n_items}")


def _ranked(
    left: Floats,
    right: Floats,
    k: int,
    known: Any,
    users: Indices64,
    n_threads: int | None,
    row_ids: NDArray[Any] | None = None,
    col_ids: NDArray[Any] | None = None,
) -> Ranking:
    shape = len(left), len(right)
    check_k(k, shape[1])
    left_out = None if known is None else arranged(known, shape, row_ids, col_ids, "known")
    items, _ = largest(left, right, int(k), left_out, users, thread_count(n_threads))
    return Ranking(items, users, shape, left_out, row_ids, col_ids)
