"""The largest entries of rows of the learned matrix, but for those that are known, without forming the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix, parts
from rslm.estimators.completion.bounds import clipped
from rslm.runtime.types import Floats, Indices32, Indices64
from rslm.structures import Box

CELLS = 1 << 22  # of the matrix that exist at a time


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


class Recommending:
    """What a fitted matrix recommends, to those that it knows and to others."""

    row_factors_: Floats
    col_factors_: Floats
    _rows: Labels
    _cols: Labels
    _box: Box | None
    _known: Known | None = None  # entries that the file of a model has

    if TYPE_CHECKING:  # what the estimator has

        def _observed(self, X: Any, *, fitting: bool) -> ObservedMatrix: ...

        def _folded(self, data: ObservedMatrix) -> tuple[Floats, Floats]: ...

    def recommend(
        self, rows: ArrayLike, top: int = 10, known: ObservedMatrix | None = None
    ) -> tuple[list[NDArray[Any]], list[Floats]]:
        """For each of these rows the columns with the largest predictions, best first, and the predictions.

        Known entries are never recommended: where fewer than `top` columns are unknown, these are all there is.

        Parameters
        ----------
        rows : positions, or ids where `fit` was given ids
        top : int, default=10
            How many columns for each row, at most.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Its entries are left out; those that `fit` has seen if None, or that the file of the model has.

        Returns
        -------
        columns : list of arrays, one for each row
            Ids, or positions where `fit` was given no ids. `np.stack(columns)` is an array, if all are of one length.
        predictions : list of arrays of the same lengths
        """
        check_is_fitted(self)
        if known is not None:
            self._check_known(known)
            left_out: Known | None = Known.of(known)
        else:
            left_out = Known.of(self.residuals_) if hasattr(self, "residuals_") else self._known
        at = np.atleast_1d(self._rows.positions(rows))
        return self._listed(at, *largest(at, self.row_factors_, self.col_factors_, top, left_out))

    def recommend_for(self, X: Any, top: int = 10) -> tuple[list[NDArray[Any]], list[Floats]]:
        """For samples that `fit` has not seen the columns with the largest predictions, without those that X has.

        Each is fitted at the learned subspace, as by `transform`; nothing dense is formed, however many they are.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given
        top : int, default=10
            How many columns for each sample, at most.

        Returns
        -------
        columns, predictions : lists of arrays, one for each sample
            As in `recommend`.
        """
        check_is_fitted(self)
        data = self._observed(X, fitting=False)
        codes, features = self._folded(data)
        found = largest(np.arange(len(codes)), codes, features, top, Known.of(data))
        return self._listed(np.zeros(len(codes), dtype=np.int64), *found)

    def _listed(self, rows: Indices64, columns: Indices64, scores: Floats) -> tuple[list[NDArray[Any]], list[Floats]]:
        """Row by row what is not known, by id, with predictions within the bounds, which rounding errors may leave."""
        left = np.isfinite(scores)
        if self._box is not None:
            at = np.broadcast_to(rows[:, None], columns.shape)[left]
            scores[left] = clipped(scores[left], self._box, at, columns[left])
        named = columns if self._cols.ids is None else np.asarray(self._cols.ids)[columns]
        counts = left.sum(axis=1)
        return [a[:n] for a, n in zip(named, counts, strict=True)], [a[:n] for a, n in zip(scores, counts, strict=True)]

    def _check_known(self, known: ObservedMatrix) -> None:
        shape = len(self.row_factors_), len(self.col_factors_)
        if known.shape != shape:
            raise ValueError(f"known must have the shape that fit was given, {shape}; got {known.shape}")
        pairs = ((self._rows, known.row_ids), (self._cols, known.col_ids))
        if any(labels.ids is not None and ids is not None and not labels.same(ids) for labels, ids in pairs):
            raise ValueError("known has other ids than fit was given, or in another order")


def largest(
    rows: Indices64, row_factors: Floats, col_factors: Floats, top: int, known: Known | None
) -> tuple[Indices64, Floats]:
    """For every row the columns with the largest values, best first, and these; −∞ where no unknown one is left."""
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
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
