"""Linear structures: products, systems, derivatives, and the convex problem against CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import hankel, toeplitz
from scipy.sparse.linalg import aslinearoperator

from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.certificate.relaxation import amounts_by_iteration
from rslm.inner.linear import hankel_system, systems
from rslm.losses import Absolute, Square
from rslm.measurements import Entries, Samples, Tasks
from rslm.structures import Affine, Hankel, Linear, Smooth, Smoothed, Symmetric, Toeplitz
from rslm.testing import check_gradient, check_hessian, check_structure


def circulant(side=5):
    return Linear(
        (side, side),
        side,
        lambda w: np.array([np.roll(w, k) for k in range(side)]),
        lambda W: sum(np.roll(W[k], -k) for k in range(side)),
    )


def scaled():
    """A parametrisation whose P*P is not diagonal."""
    P = np.random.default_rng(5).standard_normal((12, 6))
    return Linear((3, 4), 6, aslinearoperator(P))


STRUCTURES = [
    Hankel(6, 16),
    Hankel(16, 6),
    Hankel(1, 7),
    Hankel(7, 1),
    Hankel(1, 1),
    Hankel(4, 3, channels=3),
    Hankel(3, 8, channels=2),
    Toeplitz(6, 16),
    Toeplitz(9, 2),
    Symmetric(1),
    Symmetric(6),
    circulant(),
    scaled(),
    Linear((2, 3), 6, sparse.eye_array(6)),
]


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_products_belong_to_one_map(structure):
    check_structure(structure)


def test_the_matrices_are_the_ones_that_they_are_called():
    w = np.arange(1.0, 10.0)
    assert np.allclose(Hankel(4, 6).matrix(w), hankel(w[:4], w[3:]))
    assert np.allclose(Toeplitz(4, 6).matrix(w), toeplitz(w[3::-1], w[3:]))
    both = Hankel(2, 3, channels=2).matrix(w[:8])
    assert np.allclose(both, np.hstack([hankel(w[:2], w[1:4]), hankel(w[4:6], w[5:8])]))
    assert np.allclose(Symmetric(2).matrix(w[:3]), [[1, 2], [2, 3]])


def test_a_wrong_adjoint_is_caught_by_name_before_the_fit():
    wrong = Linear((3, 4), 12, lambda w: w.reshape(3, 4), lambda W: W.T.ravel())
    with pytest.raises(ValueError, match=r"adjoint of Linear\(\(3, 4\), 12\) is wrong"):
        Problem(Square(), Entries(np.ones((3, 4))), wrong)
    with pytest.raises(AssertionError, match="adjoint of Linear"):
        check_structure(wrong)


class CrookedGram(Toeplitz):
    def gram(self, w):
        return 1.01 * super().gram(w)


class CrookedTimes(Toeplitz):
    def transposed_times(self, w, X):
        return 1.01 * super().transposed_times(w, X)


@pytest.mark.parametrize(("structure", "name"), [(CrookedGram(3, 5), "gram"), (CrookedTimes(3, 5), "transposed_times")])
def test_check_structure_names_what_is_wrong(structure, name):
    with pytest.raises(AssertionError, match=f"^{name} of"):
        check_structure(structure)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hankel(0, 3), "window must be a whole number ≥ 1; got 0"),
        (lambda: Hankel(3, 2.5), "windows must be a whole number"),
        (lambda: Symmetric(True), "side must be a whole number"),
        (lambda: Linear((3,), 2, np.eye(6)), r"shape must be \(d, T\)"),
        (lambda: Linear((3, 2), 2, np.eye(6)), r"must have shape \(d·T, size\) = \(6, 2\); got \(6, 6\)"),
        (lambda: Linear((3, 2), 6, lambda w: w), "adjoint must be one too"),
        (lambda: Linear((3, 2), 6, np.eye(6), 3), "must be functions"),
        (lambda: Linear((3, 2), 6, lambda w: w, lambda W: W).matrix(np.ones(6)), r"forward .* shape \(3, 2\)"),
        (lambda: Smoothed(Hankel(2, 2), 0.0), "δ must be a positive number"),
        (lambda: Samples([np.nan, np.nan]), "all 2 samples are missing"),
        (lambda: Samples([1.0, np.inf]), "sample 1 is not"),
        (lambda: Problem(Square(), Samples(np.ones(5)), Hankel(2, 3)), "4 parameters, but there are 5 samples"),
        (lambda: Problem(Square(), Samples(np.ones(5))), "parameters of a linear structure"),
        (lambda: Problem(Square(), Entries(np.ones((2, 2))), Hankel(2, 3)), r"has shape \(2, 3\), but the data"),
        (
            lambda: Problem(Square(), Tasks(np.ones((3, 2)), np.ones(3), [0, 1, 1]), Symmetric(3)),
            r"has shape \(3, 3\), but the data have shape \(2, 2\)",
        ),
        (lambda: Objective(Problem(Square(), Samples(np.ones(4)), Hankel(2, 3))), "needs a smoothed linear structure"),
        (
            lambda: Objective(Problem(Absolute(), Samples(np.ones(4)), Smoothed(Hankel(2, 3), 1e-3))),
            "SmoothedLinear: needs a second derivative",
        ),
        (lambda: Affine(Hankel(2, 3), np.ones((3, 2))), r"of shape \(2, 3\); got float64 of shape \(3, 2\)"),
        (lambda: Affine(Hankel(2, 3), np.full((2, 3), np.nan)), "must be finite"),
        (lambda: Affine(np.eye(2), np.eye(2)), "must be a linear structure"),
        (lambda: Smooth(), "needs L_rows or L_columns"),
        (lambda: Smooth(np.ones((2, 3))), "L_rows must be a square matrix"),
        (
            lambda: Smooth([[1.0, 2.0], [0.0, 1.0]]),
            "L_rows must be symmetric; .* by up to 2",
        ),
        (lambda: Smooth(None, [[1.0, 2.0], [2.0, 1.0]]), "L_columns must be positive semidefinite.* -1"),
        (lambda: Smooth([[np.inf]]), "L_rows must be finite"),
        (
            lambda: Problem(Square(), Entries(np.ones((2, 2))), Smooth(Smooth.path(3))),
            r"L_rows must have shape \(2, 2\) for W of shape \(2, 2\); got \(3, 3\)",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_offsets_of_affine_structures_are_added():
    one, two = np.random.default_rng(0).standard_normal((2, 3, 3))
    both = Affine(Affine(Symmetric(3), one), two)
    np.testing.assert_allclose(both.whole_matrix(np.zeros(6)), one + two)


def some_problems():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(21)
    y[3] = np.nan
    yield Hankel(6, 16), Samples(y)
    yield Hankel(16, 6), Samples(y)
    yield Hankel(4, 3, channels=3), Samples(rng.standard_normal((3, 6)))
    yield Hankel(5, 4), Entries(np.where(rng.random((5, 4)) < 0.6, rng.standard_normal((5, 4)), np.nan))
    yield Toeplitz(6, 16), Samples(y)
    yield Symmetric(6), Samples(y)
    yield Symmetric(4), Entries(rng.standard_normal((4, 4)))
    yield circulant(), Entries(rng.standard_normal((5, 5)))
    yield scaled(), Entries(rng.standard_normal((3, 4)))


PROBLEMS = list(some_problems())
IDS = [f"{s!r}-{type(d).__name__}" for s, d in PROBLEMS]


def never_factorise(patch):
    patch.setattr(hankel_system, "is_factorised", lambda *_: False)


@pytest.fixture(params=[True, False], ids=["factorised", "iterative"])
def banded(request, monkeypatch):
    """Both ways to solve the system of a Hankel structure; short series are factorised unless it is prevented."""
    if not request.param:
        never_factorise(monkeypatch)
    return request.param


@pytest.fixture
def exact_cg(monkeypatch):
    """Conjugate gradients to the last digit: differences of the objective see all errors that are left."""
    monkeypatch.setattr(systems, "ROUGH", systems.EXACT)


@pytest.mark.parametrize(("structure", "data"), PROBLEMS, ids=IDS)
@pytest.mark.parametrize(("C", "delta", "rank"), [(1.0, 0.1, 1), (30.0, 1e-3, 3)])
def test_derivatives(structure, data, C, delta, rank, banded, exact_cg):
    objective = Objective(Problem(Square(), data, Smoothed(structure, delta), C=C))
    U = np.random.default_rng(1).standard_normal((structure.shape[0], rank))
    U /= np.linalg.norm(U)
    check_gradient(objective, U)
    # Products of a system that is solved by iteration are linear and symmetric to its accuracy only.
    check_hessian(objective, U, symmetry=1e-10 if banded else 1e-8)


@pytest.mark.parametrize(("structure", "data"), PROBLEMS, ids=IDS)
def test_the_inner_problem_is_solved(structure, data, banded, exact_cg):
    """Against normal equations with the dense map."""
    C, delta, (d, T) = 3.0, 1e-2, structure.shape
    U = np.random.default_rng(1).standard_normal((d, 2))
    U /= np.linalg.norm(U)
    P = np.stack([structure.matrix(e).ravel() for e in np.eye(structure.size)], axis=1)
    if isinstance(data, Samples):
        M = np.eye(structure.size)[data.index]
    else:
        rows, columns = data.places()
        M = P.reshape(d, T, -1)[rows, columns]
    inverse = np.kron(np.linalg.inv(U @ U.T + delta * np.eye(d)), np.eye(T))
    w = np.linalg.solve(2 * C * M.T @ M + P.T @ inverse @ P, 2 * C * M.T @ data.values)
    e = Objective(Problem(Square(), data, Smoothed(structure, delta), C=C)).evaluate(U)
    value = C * np.sum((data.values - M @ w) ** 2) + 0.5 * (P @ w) @ inverse @ (P @ w)
    assert np.allclose(e.solution.parameters, w, atol=1e-9 * np.abs(w).max())
    assert e.value == pytest.approx(value, rel=1e-10)
    assert np.allclose(e.dual(), 2 * C * (data.values - M @ w), atol=1e-7)
    assert e.solution.correction(e.dual())[0] < 1e-7
    S = (inverse @ (P @ w)).reshape(d, T)
    assert np.allclose(e.solution.times(np.eye(T)), S, atol=1e-7)


def test_bands_and_iteration_agree_where_most_samples_are_missing():
    y = np.random.default_rng(2).standard_normal((2, 60))
    y[0, 5:40] = np.nan
    y[1, ::3] = np.nan
    structure = Hankel(20, 41, channels=2)
    U = np.linalg.qr(np.random.default_rng(3).standard_normal((20, 4)))[0] / 2
    problem = Problem(Square(), Samples(y), Smoothed(structure, 1e-4), C=10.0)
    one = Objective(problem).evaluate(U)
    with pytest.MonkeyPatch.context() as patch:
        never_factorise(patch)
        other = Objective(problem).evaluate(U)
    assert np.allclose(one.solution.parameters, other.solution.parameters, atol=1e-6)
    assert one.value == pytest.approx(other.value, rel=1e-9)


def convex_optimum(structure, data, C):
    w = cp.Variable(structure.size)
    P = np.stack([structure.matrix(e).ravel() for e in np.eye(structure.size)], axis=1)
    W = cp.reshape(P @ w, structure.shape, order="C")
    if isinstance(data, Samples):
        seen = w[data.index]
    else:
        rows, columns = data.places()
        seen = (P @ w)[rows * structure.shape[1] + columns]
    problem = cp.Problem(cp.Minimize(C * cp.sum_squares(data.values - seen) + 0.5 * cp.square(cp.normNuc(W))))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("structure", "data"), PROBLEMS, ids=IDS)
@pytest.mark.parametrize("C", [3.0, 30.0])
def test_full_rank_reaches_the_convex_optimum(structure, data, C):
    result = solve(Problem(Square(), data, structure, C=C), min(structure.shape), random_state=0)
    wanted = convex_optimum(structure, data, C)
    assert result.certificate.primal == pytest.approx(wanted, rel=1e-5)
    assert result.certificate.dual <= wanted * (1 + 1e-6) <= result.certificate.primal * (1 + 2e-6)
    assert result.certificate.relative_gap < 1e-4


def test_the_certificate_bounds_the_optimum_where_the_rank_is_limited():
    structure, data = PROBLEMS[0]
    result = solve(Problem(Square(), data, structure, C=3.0), 1, random_state=0)
    wanted = convex_optimum(structure, data, 3.0)
    assert result.certificate.dual <= wanted <= result.certificate.primal
    W = structure.matrix(result.parameters)
    true = 3.0 * np.sum((data.values - result.parameters[data.index]) ** 2) + 0.5 * np.linalg.norm(W, "nuc") ** 2
    assert true <= result.certificate.primal <= 1.01 * true
    assert "structure smoothed by" in str(result.certificate)


def test_narrowing_makes_the_rank_low():
    t = np.arange(60)
    y = 0.95**t * np.cos(0.5 * t) + 0.05 * np.random.default_rng(0).standard_normal(60)
    result = solve(Problem(Square(), Samples(y), Hankel(30, 31), C=1e3), 2, random_state=0)
    s = np.linalg.svd(Hankel(30, 31).matrix(result.parameters), compute_uv=False)
    assert result.converged
    assert s[2] < 1e-3 * s[0]
    smoothing = amounts_by_iteration(result.history["relaxations"])["structure"]
    assert smoothing[-1] < 0.01 * smoothing[0]
    assert np.all(np.diff(smoothing) <= 0)


def test_a_symmetric_matrix_is_completed():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 2))
    W = A @ A.T
    Y = np.where(np.tril(rng.random((30, 30)) < 0.4), W, np.nan)  # of the lower half alone
    result = solve(Problem(Square(), Entries(Y), Symmetric(30), C=1e4), 2, random_state=0)
    found = Symmetric(30).matrix(result.parameters)
    assert np.linalg.norm(found - W) < 0.02 * np.linalg.norm(W)


def test_out_of_iterations_before_the_first_stage_ends():
    y = np.random.default_rng(0).standard_normal(40)
    problem = Problem(Square(), Samples(y), Hankel(20, 21), C=10.0)
    result = solve(problem, 3, max_iter=1, random_state=0)
    assert result.outcome.value == "iterations"
    assert np.isfinite(result.certificate.primal)
    assert result.parameters.shape == (40,)


def test_the_certificate_holds_where_small_singular_values_of_u_are_beside_large_ones():
    """As (I − U K Uᵀ)/δ the inverse of Θ would lose all digits here, and the primal value be below the optimum."""
    structure, delta = Toeplitz(4, 4), 1e-9
    rng = np.random.default_rng(0)
    Q, R = (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
    U = Q * np.array([1.0, 0.1, 1e-3, 1e-5]) @ R
    U /= np.linalg.norm(U)
    data = Samples(rng.standard_normal(7))
    e = Objective(Problem(Square(), data, Smoothed(structure, delta), C=1e3)).evaluate(U)
    W = structure.matrix(e.solution.parameters)
    left, s, _ = np.linalg.svd(U)
    exact = 0.5 * np.sum((left.T @ W) ** 2 / (s**2 + delta)[:, None])
    assert abs(e.solution.penalty - exact) < 100 * e.solution.noise


def test_what_iteration_leaves_is_bounded_where_parameters_have_very_different_sizes():
    rng = np.random.default_rng(3)
    P = rng.standard_normal((12, 12)) * 10.0 ** rng.uniform(-3, 3, 12)
    structure, data = Linear((4, 3), 12, P), Entries(rng.standard_normal((4, 3)))
    v = rng.standard_normal(12)
    x = structure.least_norm_parameters(v)
    np.testing.assert_allclose(P @ x, np.linalg.lstsq(P.T, v, rcond=None)[0], rtol=1e-6)
    result = solve(Problem(Square(), data, structure, C=1e3), 3, random_state=0)
    W = structure.matrix(result.parameters)
    at = data.places()
    true = 1e3 * np.sum((data.values - W[at]) ** 2) + 0.5 * np.linalg.norm(W, "nuc") ** 2
    assert result.certificate.dual <= true * (1 + 1e-9)
    assert true <= result.certificate.primal * (1 + 1e-9)


class CrookedAdjoint(Toeplitz):
    def adjoint(self, X, Y):
        return 2.0 * super().adjoint(X, Y)


def test_a_structure_of_ones_own_class_is_checked_too():
    with pytest.raises(ValueError, match="adjoint of Toeplitz"):
        Problem(Square(), Samples(np.ones(7)), CrookedAdjoint(3, 5))


class Doubled(Toeplitz):
    """Entries that are not single parameters, by a class of one's own."""

    def times(self, w, Y):
        return 2.0 * super().times(w, Y)

    def transposed_times(self, w, X):
        return 2.0 * super().transposed_times(w, X)

    def adjoint(self, X, Y):
        return 2.0 * super().adjoint(X, Y)

    def gram(self, w):
        return 4.0 * super().gram(w)

    @property
    def counts(self):
        return 4.0 * super().counts

    def place(self, rows, columns):
        return None


def test_a_class_of_ones_own_whose_entries_are_not_parameters():
    check_structure(Doubled(3, 5))
    Y = np.random.default_rng(0).standard_normal((3, 5))
    one, other = (
        solve(Problem(Square(), Entries(Y), s, C=3.0), 3, random_state=0) for s in (Doubled(3, 5), Toeplitz(3, 5))
    )
    assert np.allclose(2.0 * one.parameters, other.parameters, atol=1e-3)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-5)


def test_the_dual_value_holds_where_the_inner_problem_is_hardly_solved(monkeypatch):
    structure, data = PROBLEMS[0]
    problem = Problem(Square(), data, structure, C=3.0)
    wanted, U = convex_optimum(structure, data, 3.0), solve(problem, 6, random_state=0).U
    never_factorise(monkeypatch)
    for rough in (1.0, 0.3, 0.1, 0.03):  # 1: not at all, w is 0
        monkeypatch.setattr(systems, "ROUGH", rough)
        monkeypatch.setattr(systems, "EXACT", rough)
        for delta in (1e-2, 1e-3):
            smoothed = Problem(Square(), data, Smoothed(structure, delta), C=3.0)
            certificate = certify(problem, Objective(smoothed).evaluate(U), 1e-6, False)
            assert certificate.dual <= wanted * (1 + 1e-6)
