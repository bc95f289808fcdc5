"""Side information: derivatives, the convex problem against CVXPY, the systems of shared columns, bad input."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from rslm import Objective, ObservedMatrix, Problem, solve
from rslm.inner.features import shared_systems
from rslm.inner.features.shared_systems import SharedSystem
from rslm.location import Effects, Location
from rslm.losses import Absolute, Huber, Logistic, Square
from rslm.measurements import Bilinear, Entries, Side, Tasks
from rslm.testing import check_gradient, check_hessian

N, M, P, Q = 9, 8, 4, 3
SIDES = {
    "features": lambda X: Side(X),
    "sparse features": lambda X: Side(sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))),
    "features and indicators": lambda X: Side(X, np.linspace(0.5, 2.0, len(X))),
    "one indicator without weight": lambda X: Side(X, np.arange(len(X)) / len(X)),
    "indicators": lambda X: Side.plain(len(X)),
}


def observed(*, classes=False, seed=0):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((N, P)), rng.standard_normal((M, Q))
    Y = np.outer(A @ rng.standard_normal(P), B @ rng.standard_normal(Q)) + 0.3 * rng.standard_normal((N, M))
    Y = np.where(Y + rng.standard_normal((N, M)) > 0, 1.0, -1.0) if classes else Y
    Y[rng.random((N, M)) < 0.4] = np.nan
    Y[2], Y[:, 5] = np.nan, np.nan  # a row and a column of which nothing is known but their features
    return Y, A, B


def problem_of(loss, rows="features and indicators", cols="features and indicators", C=2.0):
    Y, A, B = observed(classes=loss.binary)
    return Problem(loss, Bilinear(Y, SIDES[rows](A), SIDES[cols](B)), C=C)


def located(loss, C=2.0, offset=0.0):
    """With a mean, which is a covariate of ones, another covariate, and weights of the entries."""
    Y, A, B = observed(classes=loss.binary)
    both = "features and indicators"
    rng, data = np.random.default_rng(2), ObservedMatrix.from_any(Y if loss.binary else Y + offset)
    data = replace(data, weights=rng.uniform(0.3, 2.0, len(data)))
    X = np.column_stack([np.ones(len(data)), rng.standard_normal(len(data))])
    entries = Bilinear(data, SIDES[both](A), SIDES[both](B))
    return Problem(loss, entries, C=C, location=Location(mean=False, covariates=X))


def random_point(problem, rank, seed=1):
    U = np.random.default_rng(seed).standard_normal((problem.shape[0], rank))
    return U / np.linalg.norm(U)


SMOOTH = [Square(), Huber(0.5), Logistic()]


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("cols", SIDES)
@pytest.mark.parametrize("rows", ["features", "features and indicators", "indicators"])
def test_derivatives(loss, rows, cols):
    problem = problem_of(loss, rows, cols)
    objective = Objective(problem)
    check_gradient(objective, random_point(problem, 3))
    check_hessian(objective, random_point(problem, 3))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_derivatives_with_a_location(loss):
    problem = located(loss)
    objective = Objective(problem)
    effects = Effects(0.0, np.zeros(problem.shape[0]), np.zeros(problem.shape[1]), np.array([0.3, -0.2]))
    point = objective.point(random_point(problem, 3), effects)
    check_gradient(objective, point)
    check_hessian(objective, point)


@pytest.mark.parametrize("rank", [1, 5])
def test_derivatives_where_the_shared_system_is_iterated(rank, monkeypatch):
    monkeypatch.setattr(shared_systems, "DIRECT", 0)
    problem = problem_of(Logistic(), C=20.0)
    check_gradient(Objective(problem), random_point(problem, rank))
    check_hessian(Objective(problem), random_point(problem, rank))


def dense(side):
    return side.lift(np.eye(side.width), 1)


@pytest.mark.parametrize("direct", [0, 1500])
@pytest.mark.parametrize("side", SIDES)
def test_the_shared_system_against_a_dense_one(side, direct, monkeypatch):
    monkeypatch.setattr(shared_systems, "DIRECT", direct)
    rng = np.random.default_rng(0)
    of = SIDES[side](rng.standard_normal((M, Q)))
    roots = rng.standard_normal((M, 2, 5)) * rng.integers(0, 2, (M, 1, 1))  # some blocks are zero, most singular
    H = 30.0 * np.einsum("tka,tkb->tab", roots, roots)
    B = dense(of)
    matrix = np.einsum("ta,tij,tb->aibj", B, H, B).reshape(B.shape[1] * 5, -1) + np.eye(B.shape[1] * 5)
    R = rng.standard_normal((B.shape[1], 5))
    expected = np.linalg.solve(matrix, R.ravel()).reshape(R.shape)
    np.testing.assert_allclose(SharedSystem(of, H, 1).solve(R), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("cols", SIDES)
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_the_inner_solution_is_optimal(loss, cols):
    problem = problem_of(loss, cols=cols, C=50.0)
    U = random_point(problem, 4)
    evaluation = Objective(problem).evaluate(U)
    data, z = problem.data, evaluation.dual()
    rows, columns = data.places()
    Z = sparse.csc_array((z, (rows, columns)), shape=(N, M)).toarray()
    S = dense(data.rows).T @ Z @ dense(data.cols)
    np.testing.assert_allclose(evaluation.V, S.T @ U, rtol=1e-7, atol=1e-8)
    w = problem.predict(U, evaluation.V, 1)
    np.testing.assert_allclose(z, -problem.C * loss.gradient(data.values, w), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("loss", [*SMOOTH, Absolute()], ids=repr)
@pytest.mark.parametrize(("rows", "cols"), [("features", "features"), ("features and indicators", "sparse features")])
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_full_rank_reaches_the_convex_optimum(loss, rows, cols, C):
    problem = problem_of(loss, rows, cols, C)
    data = problem.data
    i, j = data.places()
    W = cp.Variable(problem.shape)
    w = cp.sum(cp.multiply(dense(data.rows)[i] @ W, dense(data.cols)[j]), axis=1)
    total = {
        Square: lambda: cp.sum_squares(data.values - w),
        Huber: lambda: cp.sum(cp.huber(data.values - w, 0.5)) / 2,
        Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(data.values, w))),
        Absolute: lambda: cp.sum(cp.abs(data.values - w)),
    }[type(loss)]()
    if isinstance(loss, Huber):
        total *= 2 * loss.value(np.zeros(1), np.full(1, 0.1))[0] / 0.01  # ours near 0, beside CVXPY's square
    wanted = cp.Problem(cp.Minimize(C * total + 0.5 * cp.square(cp.normNuc(W)))).solve(solver=cp.CLARABEL)
    result = solve(problem, min(problem.shape), random_state=0)
    tol = 1e-6 if loss in SMOOTH else 1e-4  # kinks are rounded, and the certificate says how far the answer can be off
    assert result.certificate.primal == pytest.approx(wanted, rel=tol)
    assert result.certificate.dual <= wanted * (1 + 1e-6)
    assert result.certificate.relative_gap < 10 * tol


@pytest.mark.parametrize("loss", [*SMOOTH, Absolute()], ids=repr)
def test_a_location_at_the_convex_optimum(loss):
    problem = located(loss)
    data, X = problem.data, problem.location.covariates
    i, j = data.places()
    W, beta = cp.Variable(problem.shape), cp.Variable(2)
    w = cp.sum(cp.multiply(dense(data.rows)[i] @ W, dense(data.cols)[j]), axis=1) + X @ beta
    total = {
        Square: lambda: cp.square(data.values - w),
        Huber: lambda: cp.huber(data.values - w, 0.5) / 2,
        Logistic: lambda: cp.logistic(-cp.multiply(data.values, w)),
        Absolute: lambda: cp.abs(data.values - w),
    }[type(loss)]()
    wanted = cp.Problem(cp.Minimize(2.0 * cp.sum(cp.multiply(data.weights, total)) + 0.5 * cp.square(cp.normNuc(W))))
    optimum = wanted.solve(solver=cp.CLARABEL)
    result = solve(problem, min(problem.shape), random_state=0)
    tol = 1e-6 if loss in SMOOTH else 1e-4
    assert result.certificate.primal == pytest.approx(optimum, rel=tol)
    assert result.certificate.dual <= optimum * (1 + 1e-6)
    assert result.certificate.relative_gap < 10 * tol
    np.testing.assert_allclose(result.effects.coefficients, beta.value, rtol=0.02, atol=0.02)


def test_the_mean_takes_an_offset():
    one, other = (solve(located(Square(), offset=offset), 3, random_state=0) for offset in (0.0, 1e4))
    assert other.effects.coefficients[0] - 1e4 == pytest.approx(one.effects.coefficients[0], abs=1e-6)
    np.testing.assert_allclose(other.U @ other.V.T, one.U @ one.V.T, atol=1e-6)


def test_indicators_alone_are_plain_completion():
    Y, _, _ = observed()
    weights = np.linspace(0.5, 2.0, M)
    data = Bilinear(Y, None, Side(own=1 / np.sqrt(weights)))
    one = solve(Problem(Square(), data, C=3.0), 3, random_state=0)
    other = solve(Problem(Square(), Entries(Y), C=3.0, column_weights=weights), 3, random_state=0)
    assert one.value == pytest.approx(other.value, rel=1e-8)
    assert one.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-6)


def test_features_of_one_side_are_tasks():
    Y, A, _ = observed()
    one = solve(Problem(Square(), Bilinear(Y, A), C=3.0), 3, random_state=0)
    other = solve(Problem(Square(), Tasks.shared(A, Y), C=3.0), 3, random_state=0)
    assert one.value == pytest.approx(other.value, rel=1e-8)
    np.testing.assert_allclose(one.U @ one.V.T, other.U @ other.V.T, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda Y, A, B: Bilinear(Y, A[:-1], B), ValueError, "features of the rows have 8 rows, but Y has 9"),
        (lambda Y, A, B: Bilinear(Y, A, B[:-1]), ValueError, "features of the columns have 7 rows, but Y has 8"),
        (lambda Y, A, B: Bilinear(Y, A * np.nan, B), ValueError, "must be finite"),
        (lambda Y, A, B: Side(), ValueError, "needs features or indicators"),
        (lambda Y, A, B: Side(A, np.ones(3)), ValueError, r"own must have shape \(9,\)"),
        (lambda Y, A, B: Objective(Problem(Absolute(), Bilinear(Y, A, B))), ValueError, "has kinks"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make(*observed())
