"""Structures that a user writes: every mistake is named before the fit, and affine ones have honest certificates."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from rslm import Objective, Problem, solve
from rslm.evaluation.dual import StructuredDuals
from rslm.losses import Logistic, Square
from rslm.measurements import Entries
from rslm.structures import Affine, Hankel, Linear, Penalty, Smoothed, Structure, Symmetric, Toeplitz
from rslm.testing import check_penalty, check_structure

RNG = np.random.default_rng(0)
Y = np.where(RNG.random((4, 4)) < 0.8, RNG.standard_normal((4, 4)), np.nan)


class Swapped(Toeplitz):
    def place(self, rows, columns):
        return super().place(columns, rows)


class TwiceAdjoint(Symmetric):
    def adjoint(self, X, Y):
        return 2.0 * super().adjoint(X, Y)


class TwiceGram(Symmetric):
    def gram(self, w):
        return 2.0 * super().gram(w)


class TwiceTransposed(Hankel):
    def transposed_times(self, w, X):
        return 2.0 * super().transposed_times(w, X)


class ListCounts(Symmetric):
    counts = (1.0,) * 10


class NoCounts(Symmetric):
    counts = np.zeros(10)


class Floats(Symmetric):
    def __init__(self):
        super().__init__(4)
        self.shape = (4.0, 4.0)


class WithOffset(Symmetric):
    def __init__(self, offset):
        super().__init__(4)
        self.offset = offset


class NoForm(Structure):
    pass


class NoBox(Structure):
    form = "bounds"


class Quadratic(Penalty):
    """½ weight ‖W‖², with a factor that its products have too much."""

    average = 1.0

    def __init__(self, weight=1.0, factor=1.0):
        self.weight, self.factor = weight, factor

    def penalty(self, A, B):
        return 0.5 * self.weight * float(np.sum((A @ B.T) ** 2))

    def times(self, A, B, Y):
        return self.factor * self.weight * A @ (B.T @ Y)

    def transposed_times(self, A, B, X):
        return self.factor * self.weight * B @ (A.T @ X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Swapped(4, 4), "place of .* is wrong"),
        (lambda: TwiceAdjoint(4), "adjoint of .* is wrong"),
        (lambda: Affine(TwiceAdjoint(4), np.eye(4)), "adjoint of .* is wrong"),
        (lambda: TwiceGram(4), "gram of .* is wrong"),
        (lambda: TwiceTransposed(4, 4), "transposed_times of .* is wrong"),
        (lambda: ListCounts(4), r"counts of .* must be a real array of shape \(10,\); got tuple"),
        (lambda: NoCounts(4), r"counts of .* must be positive; counts\[0\] is 0"),
        (Floats, "needs a shape .* whole numbers ≥ 1; got"),
        (lambda: WithOffset([[1.0]]), "offset of .* must be an array or a sparse array; got list"),
        (lambda: WithOffset(np.eye(3)), r"must be real and of shape \(4, 4\)"),
        (lambda: WithOffset(1j * np.eye(4)), "must be real"),
        (lambda: WithOffset(1e200 * np.eye(4)), "at most 1e\\+40"),
        (lambda: Linear((4, 4), 3, np.zeros((16, 3))), "only zeros"),
        (NoForm, "has the form None; derive your structure from"),
        (NoBox, "has the form 'bounds'; derive your structure from"),
        (lambda: Quadratic(factor=2.0), "penalty of .* is wrong"),
        (lambda: Quadratic(-1.0), "must not be negative"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Problem(Square(), Entries(Y), make())


def test_public_checks_find_them_too():
    check_penalty(Quadratic(), (4, 5))
    with pytest.raises(AssertionError, match="penalty of"):
        check_penalty(Quadratic(factor=0.5), (4, 5))
    with pytest.raises(AssertionError, match="place of"):
        check_structure(Swapped(4, 4))


def test_a_penalty_is_solved_and_certified():
    result = solve(Problem(Square(), Entries(Y), Quadratic(2.0), C=3.0), 4, random_state=0)
    W, known = cp.Variable((4, 4)), ~np.isnan(Y)
    misfit = 3.0 * cp.sum_squares(cp.multiply(known, W - np.nan_to_num(Y)))
    best = cp.Problem(cp.Minimize(misfit + 0.5 * cp.square(cp.norm(W, "nuc")) + cp.sum_squares(W))).solve(cp.CLARABEL)
    assert result.certificate.relative_gap < 1e-6
    assert result.certificate.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("offset", ["array", "sparse array", "sparse matrix"])
@pytest.mark.parametrize("size", [0.2, 10.0, 1000.0])
def test_the_dual_of_an_affine_structure_is_below_the_optimum(offset, size):
    given = size * np.random.default_rng(1).standard_normal((4, 4))
    kinds = {"array": np.asarray, "sparse array": sparse.csr_array, "sparse matrix": sparse.csr_matrix}
    result = solve(Problem(Square(), Entries(Y), WithOffset(kinds[offset](given)), C=1.0), 4, random_state=0)
    W, known = cp.Variable((4, 4)), ~np.isnan(Y)
    misfit = cp.sum_squares(cp.multiply(known, W - np.nan_to_num(Y)))
    rules = [W - given == (W - given).T]
    best = cp.Problem(cp.Minimize(misfit + 0.5 * cp.square(cp.norm(W, "nuc"))), rules).solve(cp.CLARABEL)
    assert result.certificate.dual <= best * (1 + 1e-7)  # Clarabel's own accuracy
    assert result.certificate.primal >= best * (1 - 1e-7)
    assert "contradicts" not in result.certificate.method


def test_a_rank_below_that_of_the_offset():
    """No answer is worse than W₀ itself, and the rank that is reported is that of W."""
    structure = Affine(Linear((4, 4), 1, np.eye(16)[:, [1]]), np.diag([5.0, 4.0, 3.0, 2.0]))
    for rank in (1, 2, 4):
        result = solve(Problem(Square(), Entries(Y), structure, C=1.0), rank, random_state=0)
        W = structure.whole_matrix(result.parameters)
        value = np.nansum((Y - W) ** 2) + 0.5 * np.linalg.norm(W, "nuc") ** 2
        assert value <= np.nansum((Y - structure.offset) ** 2) + 0.5 * 14.0**2 + 1e-9
        assert result.certificate.primal == pytest.approx(value, rel=1e-9)
        assert result.numerical_rank() == 4


def test_dual_variables_that_are_not_feasible_are_corrected():
    """S + E with the least E for which P*(S + E) = P*(M*z), also in the part of the dual value that the offset has."""
    offset = np.random.default_rng(1).standard_normal((4, 4))
    structure, data = Affine(Symmetric(4), offset), Entries(Y)
    problem = Problem(Square(), data, structure, C=1.0)
    smoothed = Problem(Square(), data, Smoothed(structure, 1e-2), C=1.0)
    solution = Objective(smoothed).evaluate(np.random.default_rng(2).standard_normal((4, 2)) / 3.0).solution
    z = 1.5 * solution.dual()
    S, Z = solution.times(np.eye(4)), np.zeros((4, 4))
    Z[data.places()] = z
    symmetric = 0.5 * ((Z - S) + (Z - S).T)  # the least correction is the symmetric part of what is missing
    duals = StructuredDuals(problem, z, 1, solution)
    assert np.linalg.norm(symmetric) > 0.1  # or the test would say nothing
    assert np.linalg.norm(symmetric) <= duals.infeasibility() <= 1.02 * np.linalg.norm(symmetric)
    assert duals.support() == pytest.approx(np.sum((S + symmetric - Z) * offset), rel=1e-6)


@pytest.mark.parametrize("seed", [35, 38, 41])
def test_an_offset_of_rank_one_is_no_saddle(seed):
    """The first guess has the rank of the offset; columns of U that are 0 would stay so."""
    rng = np.random.default_rng(seed)
    B, offset = rng.standard_normal((9, 2)), np.outer(rng.standard_normal(3), rng.standard_normal(3))
    data = Entries(np.sign(rng.standard_normal((3, 3))))
    result = solve(Problem(Logistic(), data, Affine(Linear((3, 3), 2, B), offset), C=5.0), 3, random_state=0)
    assert result.certificate.relative_gap < 1e-6
