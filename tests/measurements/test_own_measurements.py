"""Measurements that a user writes: in any form that Python offers, and wrong ones named before the fit."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from rslm import Problem, solve
from rslm.losses import Huber, Square
from rslm.measurements import Entries, Measurement
from rslm.structures import Hankel, Smooth, Symmetric

D, T = 5, 4
Y = np.random.default_rng(0).standard_normal((D, 2)) @ np.random.default_rng(1).standard_normal((2, T))
ROWS, COLUMNS = np.nonzero(np.random.default_rng(2).random((D, T)) < 0.7)


@dataclass(frozen=True)
class Own(Measurement):
    """Entries, written by a user as a frozen dataclass."""

    values: np.ndarray = field(default_factory=lambda: Y[ROWS, COLUMNS])
    intercept: bool = False

    shape = (D, T)

    def apply(self, X, V, threads=1):
        return np.einsum("pk,pk->p", X[ROWS], V[COLUMNS])

    def adjoint(self, z):
        return sparse.csr_array((z, (ROWS, COLUMNS)), shape=(D, T))

    def by_column(self, b):
        return b[COLUMNS]

    def sums_by_column(self, z):
        return np.bincount(COLUMNS, z, T)


def entries():
    known = np.full((D, T), np.nan)
    known[ROWS, COLUMNS] = Y[ROWS, COLUMNS]
    return Entries(known)


@pytest.mark.parametrize(
    ("loss", "structure"),
    [
        (Square(), None),
        (Square(), Hankel(D, T)),
        (Square(), Smooth(Smooth.path(D))),
        (Huber(0.3), None),
        (Huber(0.3), Smooth(Smooth.path(D))),
    ],
)
def test_the_same_answer_as_that_of_entries(loss, structure):
    own, known = (solve(Problem(loss, data, structure, C=3.0), 4, random_state=0) for data in (Own(), entries()))
    assert own.outcome is known.outcome
    assert own.certificate.primal == pytest.approx(known.certificate.primal, rel=1e-6)


def test_what_a_user_has_made_is_not_changed():
    data, before = Own(), vars(Own()).keys()
    solve(Problem(Huber(), data, C=3.0), 2, random_state=0)
    assert vars(data).keys() == before


@pytest.mark.parametrize("structure", [None, Symmetric(4)])
def test_intercepts(structure):
    """Data that are shifted column by column have the same W."""
    shift = np.array([5.0, -3.0, 10.0, 0.0])

    class Shifted(Own):
        shape = (D, T) if structure is None else (4, 4)

        def apply(self, X, V, threads=1):
            return np.einsum("pk,pk->p", X[ROWS % len(X)], V[COLUMNS])

        def adjoint(self, z):
            return sparse.csr_array((z, (ROWS % self.shape[0], COLUMNS)), shape=self.shape)

    plain, shifted = (
        solve(Problem(Square(), Shifted(Y[ROWS, COLUMNS] + by, True), structure, C=3.0), 4, random_state=0)
        for by in (0.0, shift[COLUMNS])
    )
    assert shifted.outcome.converged
    # 1e-4: intercepts are penalised by 1e-6.
    np.testing.assert_allclose(shifted.left @ shifted.V.T, plain.left @ plain.V.T, atol=1e-4)
    np.testing.assert_allclose(shifted.intercepts - plain.intercepts, shift, atol=1e-3)


def test_an_adjoint_that_is_a_linear_operator():
    class Operator(Own):
        def adjoint(self, z):
            return aslinearoperator(super().adjoint(z))

    one, other = (solve(Problem(Square(), data, C=3.0), 2, random_state=0) for data in (Operator(), Own()))
    assert one.value == pytest.approx(other.value, rel=1e-9)


class NoThreads(Own):
    def apply(self, X, V):
        return super().apply(X, V)


class Transposed(Own):
    def adjoint(self, z):
        return super().adjoint(z).T


class WrongSums(Own):
    def sums_by_column(self, z):
        return 2.0 * super().sums_by_column(z)


class NoShape(Own):
    shape = (0, T)


class AsProperty(Measurement):
    shape = (D, T)

    @property
    def values(self):
        return Y[ROWS, COLUMNS]

    apply, adjoint = Own.apply, Own.adjoint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (NoThreads, r"apply of .* must accept \(X, V, threads\)"),
        (Transposed, r"adjoint of .* must be a matrix of shape \(5, 4\)"),
        (lambda: WrongSums(intercept=True), r"sums_by_column of .* is wrong"),
        (NoShape, r"shape of .* must be \(d, T\), two whole numbers ≥ 1; got \(0, 4\)"),
        (AsProperty, "must be a plain attribute, not a property"),
        (lambda: Own([1.0, 2.0]), "must be a 1-D array of floats; got list"),
        (lambda: Own(np.arange(3)), r"must be a 1-D array of floats; got int64 of shape \(3,\)"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Problem(Square(), make(), C=1.0)
