"""The interface of a measurement: linear functions of W, and one observed value for each.

    apply(X, V)   M W for W = X Vᵀ, one number per observation
    adjoint(z)    M*z, the d × T matrix with ⟨M W, z⟩ = ⟨W, M*z⟩ for all W, usually sparse

A measurement of your own needs these two, `shape` and `values`; `rslm.testing.check_measurement` tests them.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rslm.data.prepared.manifest import checksums
from rslm.runtime.types import Floats, Indices64

BLOCK = 1 << 20  # weights checked at a time, so that no temporary array is as large as the data
WIDTH = 64  # a dense matrix is measured this many columns at a time


class Measurement(ABC):
    """Linear functions of W, of shape (d, T), with the values observed through them."""

    values: Floats  #: one per observation
    weights: Floats | None = None  #: the weight of every observation in the loss; None where all are 1
    #: Every column has an intercept, which is added to its predictions and not penalised.
    intercept: bool = False
    #: Weight of a zero at every entry of W, the observed ones included: background · Σ W² is added to the loss.
    background: float = 0.0
    #: What specialised inner solvers can rely on: "entries", "all entries", "features", "tasks", "sides".
    traits: frozenset[str] = frozenset()
    #: Whether an observation may depend on several columns of W.
    couples_columns: bool = True
    #: Whether the observations are in this process. If not, `remote_solver` and `remote_term` ask for sums over them.
    at_hand: bool = True
    #: Where parameters of a linear structure are observed, not functions of W: how many parameters there are.
    parameters: int | None = None
    _loss: object = None  # the loss whose targets the values are
    _checked = False  # whether the values have been validated

    @property
    def weighted(self) -> bool:
        """Whether observations have weights."""
        return self.weights is not None

    def sum_of_squared_weights(self) -> float:
        """Σω² over the observations; their number where they have no weights."""
        return float(len(self)) if self.weights is None else float(np.sum(np.square(self.weights, dtype=np.float64)))

    # ---- values ------------------------------------------------------------------------------------------------------

    def with_values(self, values: Floats) -> Self:
        """A copy with other `values`."""
        return self._copy(values=values, _loss=None, _checked=False)

    def map(self, function: Callable[[Floats], Floats]) -> Self:
        """A copy whose values are function(values)."""
        return self.with_values(function(self.values))

    def as_targets(self, loss: object, targets: Callable[[Floats], Floats]) -> Self:
        """A copy whose values are targets(values), as the `loss` needs them; itself if they are so already."""
        if self._loss is loss:
            return self
        return self.with_values(targets(self.values))._copy(_loss=loss)

    def checked(self, accept: Callable[[Floats], Floats]) -> Self:
        """A copy whose values are accept(values), which raises an error if they are invalid; they are checked once."""
        if self._checked:
            return self
        check_weights(self)
        return self._copy(values=accept(self.values), _checked=True)

    def _copy(self, **changes: Any) -> Self:
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)  # it may be a frozen dataclass
        return other

    def sample(self, size: int) -> Floats:
        """Values of about `size` observations, evenly spaced."""
        return self.values[:: len(self.values) // size + 1]

    def __len__(self) -> int:
        return len(self.values)

    # ---- linear functions of W ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        raise TypeError(f"{type(self).__name__} needs an attribute shape, (d, T)")

    def apply(self, X: Floats, V: Floats, threads: int = 1) -> Floats:
        """M W for W = X Vᵀ, with X of shape (d, k) and V of shape (T, k), by at most `threads` threads."""
        raise NotImplementedError(f"{type(self).__name__} needs a method apply(X, V, threads=1)")

    def adjoint(self, z: Floats) -> Any:
        """M*z of shape (d, T): a sparse matrix, an array, or a LinearOperator."""
        raise NotImplementedError(f"{type(self).__name__} needs a method adjoint(z)")

    def adjoint_times(self, z: Floats, Y: Floats, threads: int = 1) -> Floats:
        """M*z Y for Y of shape (T, k), by at most `threads` threads."""
        return np.asarray(self.adjoint(z) @ Y)

    def adjoint_transposed_times(self, z: Floats, X: Floats, threads: int = 1) -> Floats:
        """(M*z)ᵀ X for X of shape (d, k) and `z` with one number per observation, by at most `threads` threads."""
        return np.asarray(self.adjoint(z).T @ X)

    def adjoint_gram(
        self, z: Floats, column_weights: Floats | None, threads: int
    ) -> Callable[[Floats, Floats | None], Floats]:
        """(X, Y) ↦ S (SᵀX + Y) with S = M*z diag(1/√q) for `column_weights` q, by at most `threads` threads.

        Y, if given, is overwritten by SᵀX + Y.
        """
        scale = 1.0 if column_weights is None else (1.0 / np.sqrt(column_weights))[:, None]

        def gram(X: Floats, Y: Floats | None = None) -> Floats:
            product = scale * self.adjoint_transposed_times(z, X, threads)
            if Y is not None:
                Y += product
                product = Y
            return self.adjoint_times(z, scale * product, threads)

        return gram

    def of_matrix(self, W: Floats) -> Floats:
        """M W for a dense W, a few columns at a time."""
        total, unit = np.zeros(len(self)), np.eye(W.shape[1])
        for k in range(0, W.shape[1], WIDTH):
            total += self.apply(np.ascontiguousarray(W[:, k : k + WIDTH]), unit[:, k : k + WIDTH].copy())
        return total

    @property
    def gain(self) -> float:
        """The size of M*M relative to that of a measurement of single entries, for preconditioners."""
        return 1.0

    # ---- functions of the parameters of a linear structure P ---------------------------------------------------------

    def index_in(self, structure: Any) -> Indices64 | None:
        """Which parameter of a `structure` each observation is; None where they are not single parameters."""
        return None

    def of_parameters(self, structure: Any, w: Floats) -> Floats:
        """M P(w) for a linear `structure` P."""
        return self.of_matrix(structure.matrix(w))

    def to_parameters(self, structure: Any, z: Floats) -> Floats:
        """P*(M*z) for a linear `structure` P."""
        unit = np.eye(structure.shape[1])
        parts = (unit[:, k : k + WIDTH].copy() for k in range(0, len(unit), WIDTH))
        return np.asarray(sum(structure.adjoint(self.adjoint_times(z, Y), Y) for Y in parts))

    # ---- intercepts --------------------------------------------------------------------------------------------------

    def by_column(self, b: Floats) -> Floats:
        """b[t] for every observation of column t; needed only where columns have intercepts."""
        raise NotImplementedError(f"{type(self).__name__} has intercepts, so it needs a method by_column(b)")

    def sums_by_column(self, z: Floats) -> Floats:
        """The sum of z over the observations of every column, the adjoint of `by_column`."""
        raise NotImplementedError(f"{type(self).__name__} has intercepts, so it needs a method sums_by_column(z)")

    def centred(self, values: Floats) -> Floats:
        """The `values` of the observations minus the mean over their column."""
        counts = np.maximum(self.sums_by_column(np.ones(len(self))), 1.0)
        return np.asarray(values - self.by_column(self.sums_by_column(values) / counts))

    # ---- location ----------------------------------------------------------------------------------------------------

    #: Whether there is a vector a for which M(a cᵀ) is c_t at every observation of column t.
    locatable: bool = False

    def located(self) -> tuple[Measurement, Floats]:
        """A measurement for which the vector a exists, with a further row of W if need be, and a.

        Where there is no such vector, which only covariates do not need, the measurement itself and 0.
        """
        return self, np.zeros(self.shape[0])

    def with_effects(self, X: Floats, V: Floats, effects: Any, threads: int) -> Floats:
        """M(W + a cᵀ + (b + μ a) 1ᵀ) for W = X Vᵀ with factors X and V, by at most `threads` threads.

        The `effects` are the mean μ, the rows b and the columns c.
        """
        data, a = self.located()
        left = np.zeros((len(a), X.shape[1] + 2))
        left[: len(X), :-2], left[:, -2], left[:, -1] = X, a, effects.mean * a
        left[: len(X), -1] += effects.rows
        return data.apply(left, np.column_stack([V, effects.columns, np.ones(len(V))]), threads)

    def groups(self, side: int) -> Indices64:
        """The row (`side` 0) or column (1) of W that each observation belongs to."""
        raise TypeError(f"{type(self).__name__} has no rows and columns of observations")

    # ---- fingerprints, and observations in other processes -----------------------------------------------------------

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        """All arrays that define the measurement, by name, for its fingerprint.

        A measurement of your own is represented by its values and by M W of a random W.
        """
        rng, (d, T) = np.random.default_rng(0), self.shape
        some = self.apply(rng.standard_normal((d, 2)), rng.standard_normal((T, 2)))
        return {"values": [self.values], "positions": [np.asarray(some)]}

    def fingerprint(self) -> dict[str, str]:
        """Checksums of `arrays`, by name."""
        arrays = self.arrays() | ({} if self.weights is None else {"weights": [self.weights]})
        return {name: checksums(*parts) for name, parts in arrays.items()}

    def remote_solver(self, problem: Any) -> Any:
        """The inner solver of a `problem` with observations in other processes; None where they are at hand."""
        return None

    def remote_term(self, problem: Any) -> Any:
        """The data term of a `problem` with observations in other processes; None where they are at hand."""
        return None

    def validate(self, loss: Any, structure: Any, location: Any) -> None:
        """Raise an error if a method is wrong, or if the measurement cannot be combined with a `loss`, `structure` or
        `location`.

        Only measurements from outside this package are tried out; its own have tests.
        """
        if not type(self).__module__.startswith("rslm."):
            validate(self)


def check_weights(data: Measurement) -> None:
    """Raise an error if the weights of the observations are not one positive number for each."""
    weights, n = data.weights, len(data.values)
    if weights is None:
        return
    if not (isinstance(weights, np.ndarray) and weights.shape == (n,) and weights.dtype.kind in "fiu"):
        got = f"{weights.dtype} of shape {weights.shape}" if isinstance(weights, np.ndarray) else type(weights).__name__
        raise ValueError(f"weights of observations must be an array of {n} numbers, one for each; got {got}")
    for start in range(0, n, BLOCK):
        some = weights[start : start + BLOCK]
        right = (some > 0) & np.isfinite(some)
        if not right.all():
            bad = start + int(np.argmin(right))
            raise ValueError(
                f"weights of observations must be positive and finite; weights[{bad}] is {weights[bad]}. Leave "
                "observations of weight 0 out"
            )


def validate(data: Measurement) -> None:
    """Raise an error that names the part of a measurement which is wrong."""
    values, name = getattr(data, "values", None), type(data).__name__
    if not (isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "f"):
        got = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise TypeError(f"values of {name} must be a 1-D array of floats; got {got}")
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"values of {name} must be finite; values[{k}] is {values[k]}. Leave missing ones out")
    if isinstance(getattr(type(data), "values", None), property):
        raise TypeError(
            f"values of {name} must be a plain attribute, not a property, because copies are given other values"
        )
    numbers = data.shape if isinstance(data.shape, tuple) else ()
    if len(numbers) != 2 or not all(isinstance(k, int | np.integer) and k >= 1 for k in numbers):
        raise TypeError(f"shape of {name} must be (d, T), two whole numbers ≥ 1; got {data.shape!r}")
    rng, (d, T), n = np.random.default_rng(0), data.shape, len(values)
    X, V, z = rng.standard_normal((d, 2)), rng.standard_normal((T, 2)), rng.standard_normal(n)
    try:
        w = data.apply(X, V, 1)
    except (TypeError, ValueError, IndexError) as error:
        raise TypeError(
            f"apply of {name} must accept (X, V, threads), with X of shape ({d}, k) and V of shape ({T}, k): {error}"
        ) from error
    if not (isinstance(w, np.ndarray) and w.shape == (n,) and w.dtype == np.float64):
        got = f"{w.dtype} of shape {w.shape}" if isinstance(w, np.ndarray) else type(w).__name__
        raise ValueError(f"apply of {name} must return an array of {n} float64, one per observation; got {got}")
    try:
        products = data.adjoint_times(z, V), data.adjoint_transposed_times(z, X)
    except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError) as error:
        raise ValueError(
            f"adjoint of {name} must be a matrix of shape {(d, T)}, and have products with others: {error}"
        ) from error
    for product, other in zip(products, (X, V), strict=True):
        if np.shape(product) != other.shape:
            raise ValueError(f"adjoint of {name} must have shape {(d, T)}; a product with it has {np.shape(product)}")
        _agree(f"adjoint of {name}", "⟨M W, z⟩", (w, z), (product, other))
    if data.intercept:
        b = rng.standard_normal(T)
        of_b, sums = data.by_column(b), data.sums_by_column(z)
        if np.shape(of_b) != (n,) or np.shape(sums) != (T,):
            raise ValueError(
                f"by_column and sums_by_column of {name} must return {n} and {T} numbers; got shapes {np.shape(of_b)} "
                f"and {np.shape(sums)}"
            )
        _agree(f"sums_by_column of {name}", "⟨by_column(b), z⟩", (of_b, z), (b, sums))


def _agree(part: str, name: str, one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> None:
    """Both inner products must be equal."""
    first, second = float(np.vdot(*one)), float(np.vdot(*other))
    if not abs(first - second) <= 1e-8 * float(np.linalg.norm(one[0]) * np.linalg.norm(one[1])):
        raise ValueError(
            f"{part} is wrong: {name} is {first:.6g}, but the adjoint gives {second:.6g} for the same random numbers; "
            "they must be equal. rslm.testing.check_measurement reports more"
        )
