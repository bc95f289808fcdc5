"""What every measurement offers that is at hand: one value for every observation, and linear functions of W.

    apply(X, V)   M W for W = X Vᵀ, one number for every observation
    adjoint(z)    M*z, the d × T matrix with ⟨M W, z⟩ = ⟨W, M*z⟩ for all W, sparse as a rule

A measurement of one's own needs these two, `shape` and `values`; `rslm.testing.check_measurement` tries them out.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats


class Measurement(ABC):
    """Linear functions of W, of shape (d, T), with the values observed through them."""

    values: Floats  #: one for every observation
    #: Every column has an intercept, which is added to its predictions and not penalised.
    intercept: bool = False
    _loss: object = None  # whose targets the values are
    _checked = False  # whether the values have been looked at

    def with_values(self, values: Floats) -> Self:
        """The same observations with other `values`."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other.values, other._checked = values, False
        return other

    def map(self, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with the values that a `function` makes of them."""
        return self.with_values(function(self.values))

    def as_targets(self, loss: object, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with what a `loss` makes of their values, by a `function`, unless they are that."""
        if self._loss is loss:
            return self
        targets = function(self.values)
        if targets is self.values:
            return self
        other = self.with_values(targets)
        other._loss = loss
        return other

    def checked(self, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with their values as a `function` accepts them, which is asked once."""
        if self._checked:
            return self
        accepted = function(self.values)
        loss = self._loss
        other = self if accepted is self.values else self.with_values(accepted)
        other._loss, other._checked = loss, True
        return other

    def sample(self, size: int) -> Floats:
        """Values of about `size` observations, evenly spaced."""
        return self.values[:: len(self.values) // size + 1]

    # ---- linear functions of W ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        raise TypeError(f"{self!r} does not know the shape of W")

    def __len__(self) -> int:
        return len(self.values)

    def apply(self, X: Floats, V: Floats, threads: int = 1) -> Floats:
        """M W for W = X Vᵀ, with X of shape (d, k) and V of shape (T, k), by at most `threads` threads."""
        raise NotImplementedError(f"{type(self).__name__} needs a method apply(X, V)")

    def adjoint(self, z: Floats) -> Any:
        """M*z of shape (d, T): a sparse matrix, an array, or a LinearOperator."""
        raise NotImplementedError(f"{type(self).__name__} needs a method adjoint(z)")

    def adjoint_times(self, z: Floats, Y: Floats, threads: int = 1) -> Floats:
        """M*z Y for Y of shape (T, k), by at most `threads` threads."""
        return np.asarray(self.adjoint(z) @ Y)

    def adjoint_transposed_times(self, z: Floats, X: Floats, threads: int = 1) -> Floats:
        """(M*z)ᵀ X for X of shape (d, k) and `z` with a number an observation, by at most `threads` threads."""
        return np.asarray(self.adjoint(z).T @ X)

    def by_column(self, b: Floats) -> Floats:
        """b[t] for every observation of column t; only where columns have intercepts."""
        raise TypeError(f"{self!r} has no intercepts")

    def sums_by_column(self, z: Floats) -> Floats:
        """The sum of z over the observations of every column, the adjoint of `by_column`."""
        raise TypeError(f"{self!r} has no intercepts")

    @property
    def gain(self) -> float:
        """How large M*M is along an entry, where each observation is of one entry: a preconditioner wants it."""
        return 1.0

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        """All numbers that it consists of, by what they are: a checkpoint is one of the same numbers.

        Of a measurement whose parts are not known, what it makes of some random matrix tells it from others.
        """
        rng, (d, T) = np.random.default_rng(0), self.shape
        some = self.apply(rng.standard_normal((d, 2)), rng.standard_normal((T, 2)))
        return {"values": [self.values], "positions": [np.asarray(some)]}


def try_out(data: Measurement, tol: float = 1e-8) -> None:
    """Look at a measurement of a user's own before the fit: an error that says which part of it is wrong."""
    if not (isinstance(data.values, np.ndarray) and data.values.ndim == 1 and data.values.dtype.kind == "f"):
        raise TypeError(f"values of {data!r} must be a 1-D array of floats; got {type(data.values).__name__}")
    rng, (d, T), n = np.random.default_rng(0), data.shape, len(data.values)
    X, V, z = rng.standard_normal((d, 2)), rng.standard_normal((T, 2)), rng.standard_normal(n)
    w = data.apply(X, V)
    if not (isinstance(w, np.ndarray) and w.shape == (n,)):
        got = f"an array of shape {w.shape}" if isinstance(w, np.ndarray) else type(w).__name__
        raise ValueError(f"apply of {data!r} must give an array of {n} numbers, one an observation; got {got}")
    one, size = float(w @ z), float(np.linalg.norm(w) * np.linalg.norm(z))
    for product, other in (data.adjoint_times(z, V), X), (data.adjoint_transposed_times(z, X), V):
        if product.shape != other.shape:
            raise ValueError(f"adjoint of {data!r} must be of shape {(d, T)}; a product with it is of {product.shape}")
        two = float(np.vdot(product, other))
        if not abs(one - two) <= tol * size:
            raise ValueError(
                f"the adjoint of {data!r} is wrong: ⟨M W, z⟩ is {one:.6g}, but ⟨W, M*z⟩ is {two:.6g} for the same "
                "random W and z; they have to be equal for all. rslm.testing.check_measurement looks closer"
            )
