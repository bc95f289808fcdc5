"""Entries observed through features of rows and columns: (M W)_p = ã_iᵀ W b̃_j for entry p = (i, j).

Ã and B̃ hold the features of the rows and of the columns, and indicators of them: see `rslm.measurements.side`.
F = Ã U and G = B̃ V take the place of U and V; all columns share V.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.kernels import Columns
from rslm.measurements.base import Measurement
from rslm.measurements.side import Side
from rslm.runtime.types import Floats, Indices64


class Bilinear(Measurement):
    """Observed entries of an n × m matrix Ã W B̃ᵀ.

    Parameters
    ----------
    Y : ObservedMatrix, scipy.sparse matrix or array of shape (n, m)
        Stored entries of a sparse matrix are observed, zeros included; NaN in an array is missing. The weights of an
        ObservedMatrix become those of the observations.
    rows, cols : Side, array or scipy.sparse matrix with n and m rows, optional
        The features of both sides; a `Side` may have indicators too. None for indicators alone.
    """

    traits = frozenset({"features", "sides"})

    def __init__(self, Y: Any, rows: Any = None, cols: Any = None) -> None:
        by_columns = ObservedMatrix.from_any(Y).transposed()
        m, n = by_columns.shape
        columns = Columns(by_columns.indptr, by_columns.index, n)
        self._set(columns, by_columns.values, _side(rows, n, "rows"), _side(cols, m, "columns"), by_columns.weights)

    @classmethod
    def of_columns(
        cls, columns: Columns, values: Floats, rows: Side, cols: Side, weights: Floats | None = None
    ) -> Bilinear:
        """Entries with these values and weights, and an existing pattern (`columns`); `rows` and `cols` are sides."""
        data = cls.__new__(cls)
        data._set(columns, values, rows, cols, weights)
        return data

    def _set(self, columns: Columns, values: Floats, rows: Side, cols: Side, weights: Floats | None) -> None:
        self.columns, self.values, self.rows, self.cols = columns, values, rows, cols
        self.weights: Floats | None = weights

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        return self.rows.width, self.cols.width

    def of_rows(self) -> Bilinear:
        """The same observations, with F in place of the features of the rows."""
        rows = Side.plain(self.rows.size)
        return Bilinear.of_columns(self.columns, self.values, rows, self.cols)._copy(weights=self.weights)

    def lift(self, U: Floats, threads: int, *, direction: bool = False) -> Floats:
        """F = Ã U, by `threads` threads; the same for a point and for a `direction`."""
        return self.rows.lift(U, threads)

    def parted(self, U: Floats, V: Floats) -> tuple[Floats, None]:
        """V and None, because there are no intercepts; U is not used."""
        return V, None

    def lower(self, G: Floats, threads: int) -> Floats:
        """Ãᵀ G, by `threads` threads."""
        return self.rows.lower(G, threads)

    def apply(self, X: Floats, V: Floats, threads: int = 1) -> Floats:
        return self.columns.predict(self.rows.lift(X, threads), self.cols.lift(V, threads), threads)

    def adjoint_times(self, z: Floats, Y: Floats, threads: int = 1) -> Floats:
        return self.rows.lower(self.columns.scatter(z, self.cols.lift(Y, threads), threads), threads)

    def adjoint_transposed_times(self, z: Floats, X: Floats, threads: int = 1) -> Floats:
        return self.cols.lower(self.columns.gather(z, self.rows.lift(X, threads), threads), threads)

    @property
    def gain(self) -> float:
        return float(self.rows.squares().sum() / self.rows.size * self.cols.squares().sum() / self.cols.size)

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        arrays: dict[str, list[NDArray[Any]]] = {
            "values": [self.values],
            "positions": [self.columns.indptr, self.columns.index],
            "row features": self.rows.arrays(),
            "column features": self.cols.arrays(),
        }
        return arrays if self.weights is None else arrays | {"weights": [self.weights]}

    def places(self) -> tuple[Indices64, Indices64]:
        """Row and column of every entry."""
        return self.columns.places()

    def __len__(self) -> int:
        return self.columns.entries

    def __repr__(self) -> str:
        n, m = self.columns.shape
        return f"Bilinear({n} × {m}, {len(self)} observed, {self.rows.width} and {self.cols.width} features)"


def _side(given: Any, size: int, name: str) -> Side:
    side = Side.plain(size) if given is None else given if isinstance(given, Side) else Side(given)
    if side.size != size:
        raise ValueError(f"the features of the {name} have {side.size} rows, but Y has {size} {name}")
    return side
