"""min ‖P_Ω(Y − P Qᵀ)‖²  over P and Q of r columns, with P Qᵀ ≥ 0 in every entry. No regularisation.

Block coordinate descent: one element of a factor at a time is set to the minimiser of its parabola, clipped to the
interval in which all entries of its row (or column) of P Qᵀ stay non-negative. Given Q, rows of P do not depend on
each other, so one coordinate of all rows of a block is one step, on the block's dense part of P Qᵀ; then the same for
Q. The start is the rank-one fit of non-negative data, with small non-negative random columns, so it is feasible.

R. Kannan, M. Ishteva, H. Park, Bounded matrix low rank approximation, ICDM 2012; Bounded matrix factorization for
recommender system, Knowledge and Information Systems, 2014. There the bounds are those of the ratings; here W ≥ 0.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from paper.methods.nonnegative.bmc import rank_one
from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "BMA"
PROBLEM = "squares, W ≥ 0"
GRID = (0.0,)
START = 0.1  # of the random columns, relative to the first one
BLOCK = 1 << 18  # entries of P Qᵀ at a time
TINY = 1e-300  # instead of 0 in a divisor
TOL, MAX_ITER = 1e-5, 1000  # relative decrease of the squares in a sweep


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """Run the descent; `weight` is not used."""
    P, Q = start(data, rank)
    by_rows, by_columns = (_matrix(entries) for entries in (data.transposed, data))
    record(P, Q)
    before = squares(data, P, Q)
    for _ in range(MAX_ITER):
        P = updated(P, Q, by_rows)
        Q = updated(Q, P, by_columns)
        record(P, Q)
        now = squares(data, P, Q)
        if before - now <= TOL * before:
            return
        before = now


def squares(data: Entries, P: Floats, Q: Floats) -> float:
    return float(np.sum((data.at(P, Q) - data.y) ** 2))


def start(data: Entries, rank: int) -> tuple[Floats, Floats]:
    left, right = rank_one(data)
    rng = np.random.default_rng(0)
    size = np.sqrt(np.linalg.norm(left) * np.linalg.norm(right))  # the same for both factors
    P, Q = left * (size / np.linalg.norm(left)), right * (size / np.linalg.norm(right))
    more = [START * F.mean() * rng.random((len(F), rank - 1)) for F in (P, Q)]
    return np.hstack([P, more[0]]), np.hstack([Q, more[1]])


def updated(P: Floats, Q: Floats, data: sparse.csr_array) -> Floats:
    """P after one pass over its columns, for given Q. `data` has the observed values, with a row for each of P."""
    grams, slopes = normal_equations(P, Q, data)
    P, step = P.copy(), max(1, BLOCK // len(Q))
    scratch, columns = np.empty((step, len(Q))), np.ascontiguousarray(Q.T)
    for k in range(0, len(P), step):
        at = slice(k, k + step)
        W, ratio = P[at] @ columns, scratch[: len(P[at])]
        for x, q in enumerate(columns):
            np.maximum(W, TINY, out=W)  # rounding alone makes an entry negative
            with np.errstate(over="ignore"):
                np.divide(q, W, out=ratio)
            # W + move · q ≥ 0: the largest q/W bounds the move from below, the least one from above.
            low, high = _bound(ratio.max(axis=1)), -_bound(-ratio.min(axis=1))
            curvature = grams[at, x, x]
            wanted = np.divide(slopes[at, x], curvature, out=np.zeros(len(curvature)), where=curvature > 0)
            move = np.clip(wanted, low, high)
            P[at, x] += move
            slopes[at] -= move[:, None] * grams[at, x]
            W += np.multiply(q, move[:, None], out=ratio)
    return P


def _bound(ratio: Floats) -> Floats:
    """−1/ratio where it is positive; elsewhere there is no bound."""
    return np.asarray(np.divide(-1.0, ratio, out=np.full(len(ratio), -np.inf), where=ratio > 0))


def normal_equations(P: Floats, Q: Floats, data: sparse.csr_array) -> tuple[Floats, Floats]:
    """For every row the matrix Σ q qᵀ of its observed entries, and Σ (y − p q) q: half the negative gradient."""
    r = Q.shape[1]
    i, j = np.triu_indices(r)
    ones = sparse.csr_array((np.ones_like(data.data), data.indices, data.indptr), shape=data.shape)
    grams = np.empty((len(P), r, r))
    grams[:, i, j] = ones @ (Q[:, i] * Q[:, j])
    grams[:, j, i] = grams[:, i, j]
    return grams, data @ Q - np.einsum("nij,nj->ni", grams, P)


def _matrix(transposed: Entries) -> sparse.csr_array:
    """The entries of the transposed, by its columns, are those of the matrix by rows."""
    columns = transposed.columns
    return sparse.csr_array((transposed.y, columns.index, columns.indptr), shape=transposed.shape[::-1])
