"""Features of the rows or columns of a data matrix: from the user's table to the solver's matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data import parts
from rslm.data.labels import hashable
from rslm.measurements.features import checked_features


@dataclass(frozen=True)
class Encoding:
    """How the features of one side become a matrix: [1, weight · X], or weight · X without a constant.

    X is divided by the root mean square length of its rows, so that the weight does not depend on the units.
    """

    kind: str  #: "row" or "column", for messages
    given: int | None  #: number of features; None if there are none
    names: list[str] | None  #: of the columns of a table
    factor: float  #: by which the features are multiplied
    constant: bool

    @classmethod
    def of(cls, kind: str, table: Any, X: Any, weight: float, constant: bool) -> Self:
        if X is None:
            return cls(kind, None, None, 0.0, constant)
        values = X.data if bool(sparse.issparse(X)) else X
        length = float(np.sqrt(np.square(values, dtype=np.float64).sum() / X.shape[0]))
        return cls(kind, X.shape[1], names_of(table), weight / length if length > 0 else 0.0, constant)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """The encoding in a file."""
        given, names = plain["given"], plain["names"]
        if given is not None:
            parts.whole(plain, "given")
        if names is not None and not (isinstance(names, list) and [*map(str, names)] == names and len(names) == given):
            raise ValueError("names")
        read = parts.text(plain, "kind"), given, names, parts.number(plain, "factor"), parts.flag(plain, "constant")
        return cls(*read)

    @property
    def width(self) -> int:
        return (self.given or 0) + self.constant

    def matrix(self, X: Any, size: int) -> Any:
        """The matrix of `size` rows; None without features and constant."""
        parts: list[Any] = [np.ones((size, 1))] if self.constant else []
        if X is not None:
            parts.append(X * self.factor)
        if not parts:
            return None
        return sparse.hstack(parts, format="csr") if sparse.issparse(X) else np.hstack(parts)

    def check(self, table: Any, X: Any) -> None:
        """An error if a new table has other features than that of `fit`, or in another order."""
        if X.shape[1] != (self.given or 0):
            raise ValueError(f"{self.kind}_features have {X.shape[1]} features, but fit was given {self.given or 0}")
        names = names_of(table)
        if names is not None and self.names is not None and names != self.names:
            raise ValueError(
                f"{self.kind}_features have the columns {names}, but fit was given {self.names}; give the same, in the "
                "same order"
            )


def names_of(table: Any) -> list[str] | None:
    return [str(c) for c in table.columns] if hasattr(table, "columns") else None


def as_features(name: str, given: Any, size: int | None, ids: NDArray[Any] | None) -> Any:
    """Features as an array or a sparse matrix, one row for each of `size` rows.

    With ids, a table that has an index is looked up by it; the table may hold further rows.
    """
    if given is None:
        return None
    if ids is not None and hasattr(given, "index") and hasattr(given, "iloc"):
        given = given.iloc[_looked_up(name, given.index.to_numpy(), ids)]
    if hasattr(given, "dtypes") and hasattr(given, "iloc"):
        _check_types(name, given)
        given = given.to_numpy(dtype=np.float64, na_value=np.nan)
    elif hasattr(given, "to_numpy"):
        given = given.to_numpy()
    if not sparse.issparse(given):
        given = np.asarray(given)
        if given.dtype.kind not in "fiub":
            raise TypeError(
                f"{name} must be numbers; got {given.dtype}. Encode categories first, for instance with "
                "pandas.get_dummies or scikit-learn's OneHotEncoder"
            )
        if given.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, one row for each; got shape {given.shape}")
    X = checked_features(given, name)
    if size is not None and X.shape[0] != size:
        raise ValueError(f"{name} have {X.shape[0]} rows, but there are {size} to describe")
    return X


def _looked_up(name: str, index: NDArray[Any], ids: NDArray[Any]) -> Any:
    """Positions of the ids in the index of a table."""
    known = {key: at for at, key in enumerate(hashable(index))}
    if len(known) < len(index):
        raise ValueError(f"{name}: the index of the table holds {len(index)} ids, but only {len(known)} different ones")
    wanted = hashable(ids)
    lacking = [key for key in wanted if key not in known]
    if lacking:
        raise ValueError(f"{name}: {len(lacking)} ids of X are not in the index of the table, such as {lacking[0]!r}")
    return [known[key] for key in wanted]


def _check_types(name: str, table: Any) -> None:
    for column, dtype in zip(table.columns, table.dtypes, strict=True):
        if getattr(dtype, "kind", "O") not in "fiub":
            raise TypeError(
                f"{name}: column {column!r} holds {dtype}, but numbers are needed. Encode categories first, for "
                "instance with pandas.get_dummies or scikit-learn's OneHotEncoder"
            )
