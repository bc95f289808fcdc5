"""The largest unknown entries of rows of the learned matrix, without forming the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix, parts
from rslm.estimators.choices import is_whole
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.predicting import Predicting
from rslm.runtime.types import Floats, Indices32, Indices64

CELLS = 1 << 22  # entries of the matrix that are computed at a time


@dataclass(frozen=True)
class Known:
    """Which entries are known, row by row."""

    indptr: Indices64
    index: Indices32

    @classmethod
    def of(cls, data: ObservedMatrix) -> Self:
        return cls(data.indptr, data.index)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Self | None:
        if "known_indptr" not in arrays:
            return None
        index = parts.positions(arrays, "known_index", None, shape[1])
        return cls(parts.starts(arrays, "known_indptr", shape[0] + 1, len(index)), index)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"known_indptr": self.indptr, "known_index": self.index}


class Recommending(Predicting):
    """A learned matrix that recommends columns for its rows and for new samples."""

    _known: Known | None = None  # entries from the file of a model

    def recommend(
        self, rows: ArrayLike, top: int = 10, known: ObservedMatrix | None = None
    ) -> tuple[list[NDArray[Any]], list[Floats]]:
        """The columns with the largest predictions for each row, best first, and the predictions.

        Known entries are never recommended. A row with fewer than `top` unknown columns gets all of these.

        Parameters
        ----------
        rows : positions, or ids where `fit` was given ids
        top : int, default=10
            Maximum number of columns for each row.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Its entries are left out. If None, those that `fit` was given, or that the file of the model holds.

        Returns
        -------
        columns : list of arrays, one for each row
            Ids, or positions where `fit` was given no ids. If all have one length, `np.stack(columns)` is an array.
        predictions : list of arrays of the same lengths
        """
        check_is_fitted(self)
        if known is not None:
            self._check_known(known)
            left_out: Known | None = Known.of(known)
        else:
            left_out = Known.of(self.residuals_) if hasattr(self, "residuals_") else self._known
        at = np.atleast_1d(self._rows.positions(rows))
        return self._listed(at, *largest(at, self._left, self._right, top, left_out))

    def _recommended_for(self, X: Any, top: int, row_features: Any = None) -> tuple[list[NDArray[Any]], list[Floats]]:
        check_is_fitted(self)
        data = self._observed(X, fitting=False)
        codes, features = self._folded(data, row_features)
        rows = np.arange(len(codes))
        return self._listed(rows, *largest(rows, codes, features, top, Known.of(data)))

    def _listed(self, rows: Indices64, columns: Indices64, scores: Floats) -> tuple[list[NDArray[Any]], list[Floats]]:
        """The unknown columns of each row, by id, and their predictions, clipped to the bounds."""
        if self._box is not None:
            left = np.isfinite(scores)
            at = np.broadcast_to(rows[:, None], columns.shape)[left]
            scores[left] = clipped(scores[left], self._box, at, columns[left])
        return listed(columns, scores, self._cols)

    def _check_known(self, known: ObservedMatrix) -> None:
        check_known(known, self._rows, self._cols)


def check_known(known: ObservedMatrix, rows: Labels, cols: Labels) -> None:
    """Raise an error unless `known` has the shape and the ids that `fit` was given."""
    shape = rows.count, cols.count
    if known.shape != shape:
        raise ValueError(f"known must have the shape that fit was given, {shape}; got {known.shape}")
    pairs = ((rows, known.row_ids), (cols, known.col_ids))
    if any(labels.ids is not None and ids is not None and not labels.same(ids) for labels, ids in pairs):
        raise ValueError("known has other ids than fit was given, or in another order")


def listed(columns: Indices64, scores: Floats, labels: Labels) -> tuple[list[NDArray[Any]], list[Floats]]:
    """What `largest` has found, row by row and by id, without those of −∞."""
    named = columns if labels.ids is None else np.asarray(labels.ids)[columns]
    counts = np.isfinite(scores).sum(axis=1)
    return [a[:n] for a, n in zip(named, counts, strict=True)], [a[:n] for a, n in zip(scores, counts, strict=True)]


def largest(
    rows: Indices64, row_factors: Floats, col_factors: Floats, top: int, known: Known | None
) -> tuple[Indices64, Floats]:
    """The columns with the largest values of every row, best first, and the values; −∞ where all others are known."""
    if not is_whole(top, least=1):
        raise ValueError(f"top must be a whole number ≥ 1; got {top!r}")
    top = min(int(top), len(col_factors))
    columns, scores = np.empty((len(rows), top), dtype=np.int64), np.empty((len(rows), top))
    step = max(1, CELLS // len(col_factors))
    for start in range(0, len(rows), step):
        mine = rows[start : start + step]
        values = row_factors[mine] @ col_factors.T
        if known is not None:
            counts = known.indptr[mine + 1] - known.indptr[mine]
            own = np.repeat(known.indptr[mine] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            values[np.repeat(np.arange(len(mine)), counts), known.index[own]] = -np.inf
        best = np.argpartition(-values, top - 1, axis=1)[:, :top]
        found = np.take_along_axis(values, best, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        at = slice(start, start + len(mine))
        columns[at], scores[at] = np.take_along_axis(best, order, axis=1), np.take_along_axis(found, order, axis=1)
    return columns, scores
