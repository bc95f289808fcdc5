"""A quadratic penalty on W along rows or columns:  ½ tr(WᵀL_rows W) + ½ tr(W L_columns Wᵀ).

With the Laplacian of a graph it is ½ Σ (w_i − w_j)² over its edges, which makes neighbouring rows, or columns, similar.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from rslm.runtime.types import Floats
from rslm.structures.base import Observed
from rslm.structures.linear import checked_count
from rslm.structures.penalty import Penalty

LANCZOS = 100  # maximum number of restarts for the least eigenvalue


class Smooth(Penalty):
    """All matrices, with a quadratic penalty on differences between neighbouring rows or columns.

    Parameters
    ----------
    L_rows, L_columns : arrays or scipy.sparse matrices of shape (d, d) and (T, T), or None
        Symmetric and positive semidefinite, for instance Laplacians of graphs; None for no cost.

    Examples
    --------
    >>> from rslm.structures import Smooth
    >>> Smooth(L_columns=Smooth.path(100, 5.0))  # 100 columns in time
    Smooth(rows=None, columns=100)
    """

    def __init__(self, L_rows: Any = None, L_columns: Any = None) -> None:
        if L_rows is None and L_columns is None:
            raise ValueError("Smooth needs L_rows or L_columns; both are None")
        self.rows, self.columns = _checked("L_rows", L_rows), _checked("L_columns", L_columns)

    @staticmethod
    def path(n: int, weight: float = 1.0) -> sparse.csr_array:
        """The Laplacian of a path of `n` points, such as times, times `weight`: neighbours become similar."""
        n = checked_count("n", n)
        if n == 1:
            return sparse.csr_array((1, 1))
        steps: Any = sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n))
        return sparse.csr_array(weight * (steps.T @ steps))

    def check(self, data: Observed) -> None:
        super().check(data)
        shape = data.shape
        for name, L, n in (("L_rows", self.rows, shape[0]), ("L_columns", self.columns, shape[1])):
            if L is not None and L.shape != (n, n):
                raise ValueError(f"{name} must have shape {(n, n)} for W of shape {shape}; got {L.shape}")

    @property
    def average(self) -> float:
        """The average curvature of the penalty along a single entry."""
        return sum(float(L.diagonal().mean()) for L in (self.rows, self.columns) if L is not None)

    def arrays(self) -> list[NDArray[Any]]:
        rng = np.random.default_rng(0)
        given = [L for L in (self.rows, self.columns) if L is not None]
        return [np.asarray(L @ rng.standard_normal(L.shape[0])) for L in given]

    def penalty(self, A: Floats, B: Floats) -> float:
        """½⟨W, 𝓛W⟩ for W = A Bᵀ with thin A and B."""
        total = 0.0
        if self.rows is not None:
            total += float(np.sum((A.T @ (self.rows @ A)) * (B.T @ B)))
        if self.columns is not None:
            total += float(np.sum((A.T @ A) * (B.T @ (self.columns @ B))))
        return 0.5 * total

    def times(self, A: Floats, B: Floats, Y: Floats) -> Floats:
        """(L_rows W + W L_columns) Y for W = A Bᵀ with thin A and B."""
        out = np.zeros((len(A), Y.shape[1]))
        if self.rows is not None:
            out += self.rows @ (A @ (B.T @ Y))
        if self.columns is not None:
            out += A @ (B.T @ (self.columns @ Y))
        return out

    def transposed_times(self, A: Floats, B: Floats, X: Floats) -> Floats:
        """(L_rows W + W L_columns)ᵀ X for W = A Bᵀ with thin A and B."""
        out = np.zeros((len(B), X.shape[1]))
        if self.rows is not None:
            out += B @ (A.T @ (self.rows @ X))
        if self.columns is not None:
            out += self.columns @ (B @ (A.T @ X))
        return out

    def __repr__(self) -> str:
        return f"Smooth(rows={_size(self.rows)}, columns={_size(self.columns)})"


def _size(L: Any) -> int | None:
    return None if L is None else int(L.shape[0])


def _checked(name: str, given: Any) -> Any:
    if given is None:
        return None
    is_sparse = bool(sparse.issparse(given))
    if (given if is_sparse else np.asarray(given)).dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a matrix of real numbers; got {type(given).__name__}")
    L: Any = sparse.csr_array(given).astype(np.float64) if is_sparse else np.array(given, dtype=np.float64)
    if L.ndim != 2 or L.shape[0] != L.shape[1] or L.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix; got shape {np.shape(given)}")
    if not np.isfinite(L.data if is_sparse else L).all():
        raise ValueError(f"{name} must be finite")
    size = float(abs(L).max())
    apart = float(abs(L - L.T).max())
    if apart > 1e-9 * size:
        raise ValueError(f"{name} must be symmetric; it differs from its transpose by up to {apart:.3g}")
    _refuse_indefinite(name, L, size)
    return L


def _refuse_indefinite(name: str, L: Any, size: float) -> None:
    n = L.shape[0]
    if n <= 2000:
        least = float(np.linalg.eigvalsh(L.toarray() if hasattr(L, "toarray") else L)[0])
    else:  # Gershgorin's bound, which is sharp enough for Laplacians
        diagonal = L.diagonal()
        least = float((diagonal - (np.asarray(abs(L).sum(axis=1)).ravel() - np.abs(diagonal))).min())
        if least < -1e-9 * size:
            try:
                least = float(eigsh(L, k=1, which="SA", return_eigenvectors=False, tol=1e-6, maxiter=LANCZOS)[0])
            except ArpackNoConvergence:  # usual for eigenvalues near 0, so it does not mean that L is indefinite
                return
    if least < -1e-8 * size * n:
        raise ValueError(f"{name} must be positive semidefinite; its least eigenvalue is {least:.3g}")
