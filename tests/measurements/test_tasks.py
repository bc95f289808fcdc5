"""Tasks: derivatives, the convex problem against CVXPY, intercepts, the certificate."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Square
from rslm.measurements import Tasks
from rslm.structures import Box
from rslm.testing import check_gradient, check_hessian

D, T = 6, 5


def some_tasks(*, seed=0, classes=False):
    """Tasks of different lengths that share a direction; one of a single row, unless there are classes."""
    rng = np.random.default_rng(seed)
    n = 90 if classes else 40
    X = rng.standard_normal((n, D))
    tasks = rng.integers(0, T if classes else T - 1, n)
    tasks[7] = T - 1
    W = np.outer(rng.standard_normal(D), rng.standard_normal(T))
    y = np.einsum("nd,nd->n", X, W.T[tasks]) + 0.3 * (tasks - 2) + 0.3 * rng.standard_normal(n)
    return X, np.where(y + rng.standard_normal(n) > 0, 1.0, -1.0) if classes else y, tasks


def random_point(rank, seed=1):
    U = np.random.default_rng(seed).standard_normal((D, rank))
    return U / np.linalg.norm(U)


SMOOTH = [Square(), Huber(0.5), Logistic()]
LOSSES = [*SMOOTH, Absolute(), EpsilonInsensitive(0.2), Hinge()]


def problem_of(loss, C=2.0, **options):
    X, y, tasks = some_tasks(classes=loss.binary)
    return Problem(loss, Tasks(X, y, tasks, **options), C=C)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("rank", [1, 3])
def test_derivatives(loss, rank, intercept):
    objective = Objective(problem_of(loss, intercept=intercept))
    check_gradient(objective, random_point(rank))
    # The column of the intercepts is 1000 times as large as the others, and takes a few digits.
    check_hessian(objective, random_point(rank), tol=1e-6, symmetry=1e-8)


def convex_optimum(problem, loss):
    data = problem.data
    rows, tasks = data.places()
    X = data.features.X.toarray() if sparse.issparse(data.features.X) else data.features.X
    W, b = cp.Variable(problem.shape), cp.Variable(problem.shape[1])
    w = cp.sum(cp.multiply(X[rows], W.T[tasks]), axis=1) + (b[tasks] if data.intercept else 0)
    y = data.values
    total = {
        Square: lambda: cp.sum_squares(y - w),
        Huber: lambda: cp.sum(cp.huber((y - w) / 1.0, loss.delta)) / 2 if isinstance(loss, Huber) else None,
        Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, w))),
        Absolute: lambda: cp.sum(cp.abs(y - w)),
        EpsilonInsensitive: lambda: cp.sum(cp.pos(cp.abs(y - w) - loss.epsilon)),
        Hinge: lambda: cp.sum(cp.pos(1 - cp.multiply(y, w))),
    }[type(loss)]()
    convex = cp.Problem(cp.Minimize(problem.C * total + 0.5 * cp.square(cp.normNuc(W))))
    return convex.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("C", "intercept"), [(0.3, True), (3.0, False)])
def test_full_rank_reaches_the_convex_optimum(loss, intercept, C):
    problem = problem_of(loss, C, intercept=intercept)
    if isinstance(loss, Huber):
        scale = loss.value(np.zeros(1), np.full(1, 0.1))[0] / 0.01  # ours near 0, beside CVXPY's square
        wanted = convex_optimum(Problem(loss, problem.data, C=C * 2 * scale), loss)
    else:
        wanted = convex_optimum(problem, loss)
    result = solve(problem, T, random_state=0)
    tol, gap = (1e-6, 1e-5) if loss in SMOOTH else (1e-5, 1e-5)
    if isinstance(loss, EpsilonInsensitive) and C == 3.0:
        # Most errors are within ε, and systems of large intercepts and hardly any curvature lose their digits: the way
        # to less rounding ends early. What is said of it has to be right all the same.
        tol, gap = 2e-3, np.inf
    assert result.certificate.primal == pytest.approx(wanted, rel=tol)
    assert result.certificate.dual <= wanted * (1 + 1e-6)
    assert result.certificate.relative_gap < gap


def test_intercepts_are_not_penalised():
    X, y, tasks = some_tasks()
    shift = np.arange(T) * 10.0
    one = solve(Problem(Square(), Tasks(X, y, tasks, intercept=True), C=1.0), 3, random_state=0)
    other = solve(Problem(Square(), Tasks(X, y + shift[tasks], tasks, intercept=True), C=1.0), 3, random_state=0)
    assert np.allclose(other.intercepts, one.intercepts + shift, atol=1e-3)
    assert np.allclose(other.U @ other.V.T, one.U @ one.V.T, atol=1e-3)


def test_sparse_and_dense_features_agree():
    X, y, tasks = some_tasks()
    X[np.abs(X) < 0.7] = 0.0
    dense, thin = (
        solve(Problem(Square(), Tasks(F, y, tasks), C=1.0), 3, random_state=0) for F in (X, sparse.csc_array(X))
    )
    assert np.allclose(dense.U @ dense.V.T, thin.U @ thin.V.T, atol=1e-6)
    assert thin.certificate.relative_gap == pytest.approx(dense.certificate.relative_gap, rel=1e-6)


def test_the_order_of_rows_does_not_matter():
    X, y, tasks = some_tasks()
    order = np.random.default_rng(2).permutation(len(y))
    one = Objective(Problem(Square(), Tasks(X, y, tasks), C=1.0)).evaluate(random_point(2))
    other = Objective(Problem(Square(), Tasks(X[order], y[order], tasks[order]), C=1.0)).evaluate(random_point(2))
    assert one.value == pytest.approx(other.value, rel=1e-12)
    assert np.allclose(one.gradient, other.gradient)


def test_tasks_that_share_their_rows():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, D)), rng.standard_normal((12, 4))
    Y[2, 1] = Y[5, 3] = np.nan
    seen = ~np.isnan(Y)
    shared = Tasks.shared(X, Y)
    rows, tasks = np.nonzero(seen)
    apart = Tasks(X[rows], Y[seen], tasks)
    one, other = (Objective(Problem(Square(), data, C=2.0)).evaluate(random_point(3)) for data in (shared, apart))
    assert one.value == pytest.approx(other.value, rel=1e-12)
    assert np.allclose(one.gradient, other.gradient)
    assert len(shared) == seen.sum()


def test_a_low_rank_is_found():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 50))
    tasks = np.repeat(np.arange(50), 12)  # fewer rows than features
    X = rng.standard_normal((600, 30))
    y = np.einsum("nd,nd->n", X, W.T[tasks]) + 0.01 * rng.standard_normal(600)
    result = solve(Problem(Square(), Tasks(X, y, tasks), C=1e3), 2, random_state=0)
    assert result.converged
    assert np.linalg.norm(result.U @ result.V.T - W) < 0.02 * np.linalg.norm(W)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks(np.ones((3, 2)), np.ones(2), [0, 0, 1]), r"y must have shape \(3,\)"),
        (lambda: Tasks(np.ones((3, 2)), np.ones(3), [0, 1]), "tasks must be 3 whole numbers"),
        (lambda: Tasks(np.ones((3, 2)), np.ones(3), [0.0, 1, 1]), "tasks must be 3 whole numbers"),
        (lambda: Tasks(np.ones((3, 2)), np.ones(3), [0, 2, 2]), "task 1 has no rows"),
        (lambda: Tasks(np.ones(3), np.ones(3), [0, 0, 0]), r"X must have shape \(n, d\)"),
        (lambda: Tasks([[1.0, np.nan]], [1.0], [0]), "X must be finite"),
        (lambda: Tasks.shared(np.ones((3, 2)), np.ones((4, 2))), "X has 3 rows, but Y has 4"),
        (
            lambda: Objective(Problem(Square(), Tasks(np.ones((2, 2)), np.ones(2), [0, 1]), Box(0, None))),
            "ActiveSet: needs entries",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_dual_value_holds_for_any_dual_variables():
    """With intercepts only those that sum to 0 in every task are feasible; others are made so."""
    X, y, tasks = some_tasks()
    plain, problem = (Problem(Square(), Tasks(X, y + 5.0, tasks, intercept=i), C=2.0) for i in (False, True))
    without, result = (solve(p, T, random_state=0) for p in (plain, problem))
    evaluation = Objective(problem).evaluate(result.U)
    evaluation.dual = Objective(plain).evaluate(without.U).dual  # would prove that intercepts are of no use
    certificate = certify(problem, evaluation, 1e-6, True)
    assert np.isfinite(certificate.sigma_max)  # else it would be refused as contradicting the primal value
    assert certificate.dual <= result.certificate.primal < 0.5 * without.certificate.primal
