"""The largest unknown entries of rows of the learned matrix, without forming the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix, parts
from rslm.estimators.choices import is_whole
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.observed_input import columns_by_id
from rslm.estimators.completion.predicting import Predicting
from rslm.evaluate.largest import largest
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats, Indices32, Indices64


class Recommending(Predicting):
    """A learned matrix that recommends columns for its rows and for new samples."""

    _known: ObservedMatrix | None = None  # entries from the file of a model

    def recommend(
        self, rows: ArrayLike, top: int = 10, known: ObservedMatrix | None = None
    ) -> tuple[list[NDArray[Any]], list[Floats]]:
        """The columns with the largest predictions for each row, best first, and the predictions.

        Known entries are never recommended. A row with fewer than `top` unknown columns gets all of these. Of equal
        predictions, that of the first column comes first.

        Parameters
        ----------
        rows : positions, or ids where `fit` was given ids
        top : int, default=10
            Maximum number of columns for each row.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Its entries are left out. If None, those of `known_`.
            To recommend known entries, too, give one without entries:
            ``ObservedMatrix.from_any(scipy.sparse.csr_array(shape), allow_empty=True)``.

        Returns
        -------
        columns : list of arrays, one for each row
            Ids, or positions where `fit` was given no ids. If all have one length, `np.stack(columns)` is an array.
        predictions : list of arrays of the same lengths
        """
        check_is_fitted(self)
        if known is not None:
            self._check_known(known)
        at = np.atleast_1d(self._rows.positions(rows))
        return self._recommended(at, self._left, self._right, top, self.known_ if known is None else known)

    @property
    def known_(self) -> ObservedMatrix | None:
        """Which entries `recommend` leaves out: those that `fit` was given, or that the file of the model holds.

        Their values have no meaning. None for a file without them, and for a model that was fitted by a cluster.
        """
        check_is_fitted(self)
        return getattr(self, "residuals_", self._known)

    def _recommended_for(self, X: Any, top: int, row_features: Any = None) -> tuple[list[NDArray[Any]], list[Floats]]:
        check_is_fitted(self)
        data = self._observed(columns_by_id(X, self._cols, leave_out=True), fitting=False)
        codes, features = self._folded(data, row_features)
        return self._recommended(np.arange(len(codes)), codes, features, top, data)

    def _recommended(
        self, rows: Indices64, left: Floats, right: Floats, top: int, known: ObservedMatrix | None
    ) -> tuple[list[NDArray[Any]], list[Floats]]:
        return self._listed(rows, *recommended(rows, left, right, top, known, thread_count(self.n_threads)))

    def _listed(self, rows: Indices64, columns: Indices32, scores: Floats) -> tuple[list[NDArray[Any]], list[Floats]]:
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
    if not isinstance(known, ObservedMatrix):
        raise TypeError(
            f"known must be an ObservedMatrix of the shape that fit was given, {shape}, or None; got "
            f"{type(known).__name__}. To leave nothing out, give one without entries: "
            f"ObservedMatrix.from_any(scipy.sparse.csr_array({shape}), allow_empty=True)"
        )
    if known.shape != shape:
        raise ValueError(f"known must have the shape that fit was given, {shape}; got {known.shape}")
    pairs = ((rows, known.row_ids), (cols, known.col_ids))
    if any(labels.ids is not None and ids is not None and not labels.same(ids) for labels, ids in pairs):
        raise ValueError("known has other ids than fit was given, or in another order")


def recommended(
    rows: Indices64, left: Floats, right: Floats, top: int, known: ObservedMatrix | None, threads: int
) -> tuple[Indices32, Floats]:
    """The columns of the largest entries of some rows of `left @ right.T` that are not known, and the entries."""
    if not is_whole(top, least=1):
        raise ValueError(f"top must be a whole number ≥ 1; got {top!r}")
    return largest(left, right, min(int(top), len(right)), known, rows, threads)


def listed(columns: Indices32, scores: Floats, labels: Labels) -> tuple[list[NDArray[Any]], list[Floats]]:
    """What was found, row by row and by id, without entries of −∞, which are known."""
    named = columns.astype(np.int64) if labels.ids is None else np.asarray(labels.ids)[columns]
    counts = np.isfinite(scores).sum(axis=1)
    return [a[:n] for a, n in zip(named, counts, strict=True)], [a[:n] for a, n in zip(scores, counts, strict=True)]


def known_to_arrays(known: ObservedMatrix) -> dict[str, NDArray[Any]]:
    """What a file keeps of the known entries."""
    return {"known_indptr": known.indptr, "known_index": known.index}


def known_from_arrays(arrays: dict[str, NDArray[Any]], rows: Labels, cols: Labels) -> ObservedMatrix | None:
    """The known entries that a file keeps; None if it keeps none."""
    if "known_indptr" not in arrays:
        return None
    index = parts.positions(arrays, "known_index", None, cols.count)
    indptr = parts.starts(arrays, "known_indptr", rows.count + 1, len(index))
    values = np.ones(len(index), dtype=np.float32)
    shape = rows.count, cols.count
    return ObservedMatrix(indptr.astype(np.int64), index.astype(np.int32), values, shape, rows.ids, cols.ids)
