"""Columns whose products with all rows of a factor must be within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rslm.kernels import _native
from rslm.kernels.arrays import matrix
from rslm.kernels.columns import Columns, Factors
from rslm.runtime.types import Floats, Indices64

RESTLESS = 16  # 1/16 of the rows, those that have moved furthest, is always checked


@dataclass(frozen=True)
class Bound:
    """The entries with an active bound, a sparse matrix, and the columns that satisfy the bounds.

    v_t minimises ½(v − c_t)ᵀM_t(v − c_t) − Σ_j s_jt x_jᵀv, and s_jt changes by −weight_jt per unit of x_jᵀv.
    """

    X: Floats  #: (rows, rank)
    V: Floats  #: (columns, rank)
    entries: Columns  #: the entries with an active bound
    s: Floats  #: their multipliers: positive at a lower bound, negative at an upper one
    weight: Floats
    margin: Floats  #: per column: the smallest distance of the other rows to their bounds, relative to their norms
    excess: Floats  #: per column: the violation of hard bounds, if no v satisfies them

    @classmethod
    def nothing(cls, X: Floats, V: Floats) -> Self:
        """No active bounds, and nothing known about the columns."""
        none = Columns(np.zeros(len(V) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), len(X))
        empty, unknown = np.zeros(0), np.full(len(V), -np.inf)
        return cls(X, V, none, empty, empty, unknown, np.zeros(len(V)))


def bound(
    X: Floats,
    centre: Floats,
    factors: Factors,
    lower: Floats,
    upper: Floats,
    stiffness: float,
    threads: int,
    before: Bound | None = None,
    shift: tuple[Columns, Floats] | None = None,
    most: int | None = None,
) -> Bound:
    """Minimise ½(v − c_t)ᵀM_t(v − c_t) for every column t, with lower_jt ≤ x_jᵀv ≤ upper_jt for all rows j.

    Parameters
    ----------
    X : array of shape (rows, rank)
    centre : array of shape (columns, rank)
        The minimisers c without bounds.
    factors : Factors
        Of M; overwritten by those of M + Σ weight x xᵀ over the entries with an active bound.
    lower, upper : arrays of shape (rows, columns), of any strides
        ±∞ where there is no bound.
    stiffness : float
        k of soft bounds, which add ½ k · distance² to the objective instead; infinite for hard bounds.
    before : Bound, optional
        The result for a similar problem with the same bounds and rank: a warm start, whose margins tell which rows
        need not be checked again. It is ignored if the shape of V differs.
    shift : (Columns, values), optional
        Entries whose soft bounds are shifted, and by how much.
    most : int, optional
        Maximum number of violated entries. With more, the work ends early, `excess` is infinite for all columns, and
        the rest of the result is undefined.
    """
    X, V = matrix(X), centre.copy()
    before = before if before is not None and before.V.shape == V.shape else Bound.nothing(X, V)
    restless, unrest = _movement(before.X, X)
    margin, excess, indptr = before.margin.copy(), np.empty(len(V)), np.empty(len(V) + 1, dtype=np.int64)
    moved, by = (Bound.nothing(X, V).entries, np.zeros(0)) if shift is None else shift
    index, s, weight = _native.bound(
        X,
        V,
        factors.data,
        lower,
        upper,
        stiffness,
        before.entries.indptr,
        before.entries.index,
        moved.indptr,
        moved.index,
        by,
        before.V,
        margin,
        unrest,
        restless,
        excess,
        indptr,
        np.iinfo(np.int64).max if most is None else most,
        threads,
    )
    return Bound(X, V, Columns(indptr, index, len(X)), s, weight, margin, excess)


def _movement(before: Floats, now: Floats) -> tuple[NDArray[np.int32], float]:
    """The rows that have moved furthest relative to their norms, and the largest such distance of the others."""
    if before is now:
        return np.zeros(0, dtype=np.int32), 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.linalg.norm(now - before, axis=1) / np.linalg.norm(now, axis=1)
    moved[np.isnan(moved)] = 0.0  # rows that were 0 and still are
    few = len(moved) // RESTLESS
    order: Indices64 = np.argpartition(moved, len(moved) - few - 1)
    return order[len(moved) - few :].astype(np.int32), float(moved[order[len(moved) - few - 1]])
