"""Features of the rows, or of the columns, of a matrix with observed entries, and an indicator of each.

    B̃ = [X, diag(own)]

Coefficients of the features X are shared by all rows; the indicators give every row a coefficient of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.measurements.features import FeatureMatrix
from rslm.runtime.types import Floats


class Side:
    """The matrix B̃, given by its products.

    Parameters
    ----------
    X : array, scipy.sparse matrix, or None
    own : array of n non-negative weights, or None
        The indicator features are diag(own).
    base : array of shape (n, r), optional
        Added to B̃ V, which has this rank; only for rows that are fitted with a fixed U.
    """

    def __init__(self, X: Any = None, own: Floats | None = None, base: Floats | None = None) -> None:
        self.X = X if X is None or isinstance(X, FeatureMatrix) else FeatureMatrix(X)
        self.own, self.base = own, base
        self.features = 0 if self.X is None else self.X.shape[1]
        if self.X is not None:
            self.size = self.X.shape[0]
        elif own is not None:
            self.size = len(own)
        else:
            raise ValueError("a side needs features or indicators")
        if own is not None and own.shape != (self.size,):
            raise ValueError(f"own must have shape ({self.size},); got {own.shape}")

    @classmethod
    def plain(cls, size: int) -> Side:
        """No features: each of `size` rows has a coefficient of its own, B̃ = I."""
        return cls(own=np.ones(size))

    @property
    def width(self) -> int:
        """Columns of B̃."""
        return self.features + (0 if self.own is None else self.size)

    def lift(self, V: Floats, threads: int) -> Floats:
        """B̃ V, by `threads` threads."""
        G = np.zeros((self.size, V.shape[1])) if self.X is None else self.X.times(V[: self.features], threads)
        if self.own is not None:
            G += self.own[:, None] * V[self.features :]
        return G

    def lower(self, G: Floats, threads: int) -> Floats:
        """B̃ᵀ G, by `threads` threads."""
        parts = [] if self.X is None else [self.X.transposed_times(G, threads)]
        if self.own is not None:
            parts.append(self.own[:, None] * G)
        return np.concatenate(parts)

    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that define B̃."""
        given: list[NDArray[Any]] = [part for part in (self.own, self.base) if part is not None]
        return given if self.X is None else [*self.X.arrays(), *given]

    def squares(self) -> Floats:
        """The sum of squares of every column of B̃."""
        of_features = np.zeros(0) if self.X is None else self.X.squares()
        return of_features if self.own is None else np.concatenate([of_features, self.own**2])
