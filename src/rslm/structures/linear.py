"""Linear structure: W = P(w) with parameters w and a linear map P.

A structure provides products with P(w) and with the adjoint P*, which are all that the inner solver of
`rslm.inner.linear.smoothed_linear` needs; the d × T matrix is formed only on request.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg

from rslm.runtime.magnitudes import LARGEST
from rslm.runtime.types import Floats, Indices64
from rslm.structures.base import Observed, Structure
from rslm.structures.validate import validate_linear


class LinearStructure(Structure):
    """All matrices P(w) of shape (d, T), for w of length `size`.

    A structure of your own needs `shape`, `size`, the products `times`, `transposed_times` and `adjoint`, `gram` and
    `counts`. Where every entry of P(w) is one parameter, `place` should say which one: this makes other methods fast.
    """

    form = "linear"
    couples_columns = True
    #: Whether the tests of this package check the adjoint, so that a fit need not.
    tested: bool = False
    #: The bandwidth of P*XP for any d × d matrix X; None where it is not banded.
    bandwidth: int | None = None

    shape: tuple[int, int]
    size: int
    #: W₀ of an affine structure, all matrices P(w) + W₀: an array or sparse array of shape (d, T); None for 0.
    offset: Any = None

    @property
    def linear(self) -> LinearStructure:
        return self

    def shape_of(self, data: Observed) -> tuple[int, int]:
        return self.shape

    @property
    def formable(self) -> bool:
        """Whether W is so small that it may be formed for its singular values."""
        d, T = self.shape
        return float(d) * T * min(d, T) <= FORMABLE

    def simplest(self, shape: tuple[int, int]) -> None:
        return None

    def check(self, data: Observed) -> None:
        self.check_shape(data)
        self.check_offset()
        self.validate()

    def validate(self) -> None:
        """Raise an error if a part is wrong. Structures that the tests of this package check are not checked again."""
        if not (self.tested and type(self).__module__.startswith("rslm.")):
            validate_linear(self)

    def check_shape(self, data: Observed) -> None:
        """Raise an error if the `data` have another shape, or another number of parameters."""
        super().check(data)
        numbers = (*self.shape, self.size) if isinstance(self.shape, tuple) else ()
        if len(numbers) != 3 or not all(isinstance(k, int | np.integer) and k >= 1 for k in numbers):
            raise ValueError(
                f"{self!r} needs a shape (d, T) and a size, whole numbers ≥ 1; got {self.shape!r} and {self.size!r}"
            )
        if data.parameters is None and data.shape != self.shape:
            raise ValueError(f"{self!r} has shape {self.shape}, but the data have shape {data.shape}")
        if data.parameters not in (None, self.size):
            raise ValueError(f"{self!r} has {self.size} parameters, but there are {data.parameters} samples")

    def check_offset(self) -> None:
        """Raise an error if W₀ is not a finite matrix of the right shape."""
        given: Any = self.offset
        if given is None:
            return
        if not isinstance(given, np.ndarray) and not bool(sparse.issparse(given)):
            raise TypeError(f"offset of {self!r} must be an array or a sparse array; got {type(given).__name__}")
        if given.shape != self.shape or given.dtype.kind not in "fiub":
            raise ValueError(
                f"offset of {self!r} must be real and of shape {self.shape}; got {given.dtype} of shape {given.shape}"
            )
        if not np.abs(self.offset_matrix()).max() <= LARGEST:
            raise ValueError(f"offset of {self!r} must be finite, and at most {LARGEST:g} in size")

    def arrays(self) -> list[NDArray[Any]]:
        """A product with random numbers, to nine digits, because the last digits of FFT products may differ."""
        rng = np.random.default_rng(0)
        product = self.whole_times(rng.standard_normal(self.size), rng.standard_normal((self.shape[1], 2)))
        return [np.array([float(f"{float(np.vdot(product, rng.standard_normal(product.shape))):.9g}")])]

    @abstractmethod
    def times(self, w: Any, Y: Any) -> Floats:
        """P(w) Y for Y of shape (T, k)."""

    @abstractmethod
    def transposed_times(self, w: Any, X: Any) -> Floats:
        """P(w)ᵀ X for X of shape (d, k)."""

    @abstractmethod
    def adjoint(self, X: Any, Y: Any) -> Floats:
        """P*(X Yᵀ) for X of shape (d, k) and Y of shape (T, k)."""

    # Factors that occur in several products can be prepared once; the products accept both forms.

    def parameters(self, w: Floats) -> Any:
        """w prepared for `times` and `transposed_times`; w itself if there is nothing to prepare."""
        return w

    def left(self, X: Floats) -> Any:
        """X prepared for `transposed_times` and `adjoint`."""
        return X

    def right(self, Y: Floats) -> Any:
        """Y prepared for `times` and `adjoint`."""
        return Y

    @abstractmethod
    def gram(self, w: Floats) -> Floats:
        """P*P w."""

    @property
    @abstractmethod
    def counts(self) -> Floats:
        """The diagonal of P*P: where every entry of P(w) is one parameter, how many entries each parameter is."""

    def place(self, rows: Indices64, columns: Indices64) -> Indices64 | None:
        """Which parameter each entry (rows[k], columns[k]) of P(w) is; None where entries are not single parameters."""
        return None

    def entries(self, w: Floats, rows: Indices64, columns: Indices64) -> Floats:
        """The entries (rows[k], columns[k]) of P(w)."""
        index = self.place(rows, columns)
        return np.asarray(self.matrix(w)[rows, columns] if index is None else w[index])

    def spread(self, values: Floats, rows: Indices64, columns: Indices64) -> Floats:
        """P* of the matrix with values[k] at (rows[k], columns[k]), 0 elsewhere; values at the same place are added."""
        index = self.place(rows, columns)
        if index is not None:
            return np.bincount(index, values, self.size).astype(np.float64)
        W = np.zeros(self.shape)
        np.add.at(W, (rows, columns), values)
        return self.adjoint(W, np.eye(self.shape[1]))

    def least_norm_parameters(self, v: Floats) -> Floats:
        """x with P*P x = v: of all W with P*(W) = v, P(x) has the least Frobenius norm. NaN if it is not found."""
        if not v.any():
            return np.zeros(self.size)
        gram = LinearOperator((self.size, self.size), matvec=self.gram, dtype=np.float64)
        inverse = LinearOperator((self.size, self.size), matvec=lambda x: x / self.counts, dtype=np.float64)
        x, failed = cg(gram, v, rtol=1e-10, maxiter=10 * self.size, M=inverse)
        return np.full(self.size, np.nan) if failed else np.asarray(x)

    def matrix(self, w: Floats) -> Floats:
        """P(w) as a dense array."""
        return self.times(w, np.eye(self.shape[1]))

    # ---- W = P(w) + W₀ -------------------------------------------------------------------------------------------

    def offset_matrix(self) -> Floats:
        """W₀ as a dense array."""
        dense = self.offset.toarray() if hasattr(self.offset, "toarray") else self.offset
        return np.zeros(self.shape) if dense is None else np.asarray(dense, dtype=np.float64)

    def whole_times(self, w: Any, Y: Any) -> Floats:
        """W Y for W = P(w) + W₀."""
        product = self.times(w, Y)
        return product if self.offset is None else product + self.offset @ Y

    def whole_transposed_times(self, w: Any, X: Any) -> Floats:
        """Wᵀ X for W = P(w) + W₀."""
        product = self.transposed_times(w, X)
        return product if self.offset is None else product + self.offset.T @ X

    def of_offset(self, function: Callable[[Floats], Floats]) -> Floats | float:
        """P*(function(W₀)); 0 where there is no W₀."""
        if self.offset is None:
            return 0.0
        return self.adjoint(function(self.offset_matrix()), np.eye(self.shape[1]))

    def whole_gram(self, w: Floats) -> Floats:
        """P*(W) for W = P(w) + W₀."""
        return self.gram(w) + self.of_offset(lambda W: W)

    def square(self, w: Floats) -> float:
        """The sum of squares of all entries of W = P(w) + W₀."""
        own = float(w @ self.gram(w))
        if self.offset is None:
            return own
        return own + 2.0 * float(w @ self.of_offset(lambda W: W)) + float(np.sum(self.offset_matrix() ** 2))

    def whole_matrix(self, w: Floats) -> Floats:
        """W = P(w) + W₀ as a dense array."""
        return self.matrix(w) if self.offset is None else self.matrix(w) + self.offset_matrix()


class Linear(LinearStructure):
    """A parametrisation of your own.

    Every product forms the d × T matrix, which must fit into memory. The adjoint is tested before a fit, and a wrong
    one is an error; `rslm.testing.check_structure` tests everything.

    Parameters
    ----------
    shape : (d, T)
    size : int
        Length of w.
    forward : callable or LinearOperator
        w ↦ P(w), an array of shape (d, T); or a SciPy LinearOperator (or matrix) of shape (d·T, size), which returns
        P(w).ravel() and has an adjoint itself, so that `adjoint` is not needed.
    adjoint : callable, optional
        W ↦ P*(W), an array of shape (size,): ⟨P(w), W⟩ = ⟨w, P*(W)⟩.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm.structures import Linear
    >>> from rslm.testing import check_structure
    >>> circulant = Linear((4, 4), 4, lambda w: np.array([np.roll(w, k) for k in range(4)]),
    ...                    lambda W: sum(np.roll(W[k], -k) for k in range(4)))
    >>> check_structure(circulant)
    """

    def __init__(
        self, shape: tuple[int, int], size: int, forward: Any, adjoint: Callable[[Floats], Floats] | None = None
    ) -> None:
        self.shape, self.size = checked_shape(shape), checked_count("size", size)
        d, T = self.shape
        if adjoint is None:
            if callable(forward) and not isinstance(forward, LinearOperator):
                raise TypeError("forward is a function, so adjoint must be one too; or give a LinearOperator")
            operator = aslinearoperator(forward)
            if operator.shape != (d * T, self.size):
                raise ValueError(
                    f"the operator must have shape (d·T, size) = {(d * T, self.size)}; got {operator.shape}"
                )
            self._forward: Callable[[Floats], Floats] = lambda w: operator.matvec(w).reshape(d, T)
            self._adjoint: Callable[[Floats], Floats] = lambda W: operator.rmatvec(W.ravel())
        else:
            if not (callable(forward) and callable(adjoint)):
                raise TypeError("forward and adjoint must be functions")
            self._forward, self._adjoint = forward, adjoint
        self._counts: Floats | None = None

    def matrix(self, w: Floats) -> Floats:
        return _checked("forward", self._forward(w), self.shape)

    def _back(self, W: Floats) -> Floats:
        return _checked("adjoint", self._adjoint(W), (self.size,))

    def times(self, w: Floats, Y: Floats) -> Floats:
        return np.asarray(self.matrix(w) @ Y)

    def transposed_times(self, w: Floats, X: Floats) -> Floats:
        return np.asarray(self.matrix(w).T @ X)

    def adjoint(self, X: Floats, Y: Floats) -> Floats:
        return self._back(X @ Y.T)

    def gram(self, w: Floats) -> Floats:
        return self._back(self.matrix(w))

    @property
    def counts(self) -> Floats:
        """An unbiased estimate of the diagonal of P*P; only preconditioners use it."""
        if self._counts is None:
            rng = np.random.default_rng(0)
            probes = rng.choice([-1.0, 1.0], (min(PROBES, self.size), self.size))
            estimate = np.mean([x * self.gram(x) for x in probes], axis=0)
            self._counts = np.maximum(estimate, 0.1 * max(float(estimate.mean()), np.finfo(float).tiny))
        return self._counts

    def __repr__(self) -> str:
        return f"Linear({self.shape}, {self.size})"


FORMABLE = 2e8  # multiplications; about a tenth of a second
PROBES = 30  # random vectors from which the diagonal of P*P is estimated


def checked_shape(shape: Any) -> tuple[int, int]:
    try:
        d, T = shape
    except (TypeError, ValueError):
        raise ValueError(f"shape must be (d, T); got {shape!r}") from None
    return checked_count("d", d), checked_count("T", T)


def checked_count(name: str, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be a whole number ≥ 1; got {count!r}")
    return int(count)


def _checked(name: str, got: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(got, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} of the structure must return an array of shape {shape}; got {array.shape}")
    return array
