"""g against brute force, its derivatives against differences, and what an evaluation promises."""

import numpy as np
import pytest

from rslm import Objective, ObservedMatrix, Problem
from rslm.inner.entries.newton import Newton
from rslm.inner.entries.ridge import Ridge
from rslm.kernels import Columns
from rslm.losses import Absolute, Square
from rslm.measurements import Entries
from rslm.testing import check_gradient, check_hessian

nan = np.nan
D, T = 12, 9


def data(seed=0, dtype=np.float64):
    """Column 2 is empty, column 5 has one entry, column 7 all; row 3 is empty but for column 7."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((D, T))
    Y[rng.random((D, T)) < 0.4] = nan
    Y[3], Y[:, 2], Y[:, 5] = nan, nan, nan
    Y[4, 5] = 1.5
    Y[:, 7] = rng.standard_normal(D)
    return Y.astype(dtype)


def weights(seed=1):
    rng = np.random.default_rng(seed)
    return {"row_weights": rng.uniform(0.2, 3, D), "column_weights": rng.uniform(0.2, 3, T)}


def problem(C=2.0, weighted=False, dtype=np.float64):
    return Problem(Square(), Entries(data(dtype=dtype)), C=C, **(weights() if weighted else {}))


def position(rank, seed=2):
    U = np.random.default_rng(seed).standard_normal((D, rank))
    return U / np.linalg.norm(U)


def weights_of(p):
    ones = np.ones(D), np.ones(T)
    return tuple(o if w is None else w for w, o in zip((p.row_weights, p.column_weights), ones, strict=True))


def by_columns(p, U):
    """Value, V and the dense dual matrix Z of z, one dense ridge regression a column."""
    Y, (rows, cols) = data(), weights_of(p)
    X = U / np.sqrt(rows)[:, None]
    value, V, Z = 0.0, np.zeros((T, U.shape[1])), np.zeros((D, T))
    for t in range(T):
        at = ~np.isnan(Y[:, t])
        A, y = X[at], Y[at, t]
        V[t] = np.linalg.solve(2 * p.C * A.T @ A + cols[t] * np.eye(U.shape[1]), 2 * p.C * A.T @ y)
        value += p.C * np.sum((y - A @ V[t]) ** 2) + 0.5 * cols[t] * V[t] @ V[t]
        Z[at, t] = 2 * p.C * (y - A @ V[t])
    return value, V, Z


def dual_value(p, U, Z):
    """−C Σ ℓ*(−z/C) − ½‖UᵀS‖² with ℓ*(s) = s²/4 + s y and S = Z / (√p √q)."""
    Y, (rows, cols) = data(), weights_of(p)
    known = ~np.isnan(Y)
    s, y = -Z[known] / p.C, Y[known]
    S = Z / np.sqrt(rows)[:, None] / np.sqrt(cols)
    return -p.C * np.sum(s**2 / 4 + s * y) - 0.5 * np.sum((U.T @ S) ** 2)


def spread(z):
    """The dual variables, column by column, in a dense matrix."""
    Z = np.zeros((D, T))
    Z.T[~np.isnan(data()).T] = z
    return Z


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


RANKS = [1, 3, D]  # the last one is more than any column but one has entries


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("C", [1e-3, 2.0, 1e3])
@pytest.mark.parametrize("rank", RANKS)
def test_value(rank, C, weighted):
    p, U = problem(C, weighted), position(rank)
    e = Objective(p).evaluate(U)
    value, V, Z = by_columns(p, U)
    # 1e-10: rounding, times the condition of the regressions, which is at most 2C/min q = 1e4.
    assert e.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(e.V, V, atol=1e-10 * np.abs(V).max())
    np.testing.assert_allclose(spread(e.dual()), Z, atol=1e-10 * np.abs(Z).max())


@pytest.mark.parametrize("rank", RANKS)
def test_value_is_the_largest_of_the_dual(rank, weighted):
    p, U = problem(weighted=weighted), position(rank)
    e = Objective(p).evaluate(U)
    Z = spread(e.dual())
    assert dual_value(p, U, Z) == pytest.approx(e.value, rel=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0):
        for _ in range(10):
            other = Z + size * np.where(Z != 0, rng.standard_normal((D, T)), 0)
            assert dual_value(p, U, other) < e.value


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("rank", RANKS)
def test_v_and_the_gradient_are_those_of_the_dual_matrix(rank, weighted):
    p, U = problem(weighted=weighted), position(rank)
    rows, cols = weights_of(p)
    e = Objective(p).evaluate(U)
    S = spread(e.dual()) / np.sqrt(rows)[:, None] / np.sqrt(cols)
    np.testing.assert_allclose(e.V * np.sqrt(cols)[:, None], S.T @ U, atol=1e-12)
    np.testing.assert_allclose(e.gradient, -S @ (S.T @ U), atol=1e-12)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("C", [0.1, 2.0, 1e3])
@pytest.mark.parametrize("rank", RANKS)
def test_derivatives(rank, C, weighted):
    objective, U = Objective(problem(C, weighted)), position(rank)
    check_gradient(objective, U)
    check_hessian(objective, U)


def test_derivatives_away_from_the_sphere(weighted):
    objective = Objective(problem(weighted=weighted))
    for size in (0.1, 30.0):
        check_gradient(objective, size * position(2))
        check_hessian(objective, size * position(2))


def test_derivatives_in_single_precision(weighted):
    """Only the residuals are stored in single precision, rounded by at most 2⁻²⁴ = 6e-8 of themselves.

    Sums of a hundred of them gain nothing, and the differences of the gradient are taken over steps of at least 1e-2.
    """
    objective, U = Objective(problem(weighted=weighted, dtype=np.float32)), position(3)
    check_gradient(objective, U, tol=1e-5)
    check_hessian(objective, U, tol=1e-5, symmetry=1e-6)


def test_single_precision_is_the_double_one_of_rounded_data(weighted):
    single = Objective(problem(weighted=weighted, dtype=np.float32)).evaluate(position(3))
    rounded = Problem(Square(), Entries(data(dtype=np.float32).astype(float)), C=2.0, **(weights() if weighted else {}))
    double = Objective(rounded).evaluate(position(3))
    assert single.dual().dtype == np.float32
    assert single.V.dtype == single.gradient.dtype == np.float64
    # 2⁻²⁴ = 6e-8 a residual, of random sign
    assert single.value == pytest.approx(double.value, rel=1e-7)
    np.testing.assert_allclose(single.gradient, double.gradient, atol=2e-7 * np.abs(double.gradient).max())
    np.testing.assert_allclose(single.dual(), double.dual(), atol=1e-7 * np.abs(double.dual()).max())


def test_rotations(weighted):
    objective, U = Objective(problem(weighted=weighted)), position(4)
    rng = np.random.default_rng(5)
    Q, xi = np.linalg.qr(rng.standard_normal((4, 4)))[0], rng.standard_normal((D, 4))
    a, b = objective.evaluate(U), objective.evaluate(U @ Q)
    assert b.value == pytest.approx(a.value, rel=1e-13)
    np.testing.assert_allclose(b.gradient, a.gradient @ Q, atol=1e-12)
    np.testing.assert_allclose(b.V, a.V @ Q, atol=1e-12)
    np.testing.assert_allclose(b.hessian_product(xi @ Q), a.hessian_product(xi) @ Q, atol=1e-11)
    np.testing.assert_allclose(b.preconditioner(xi @ Q), a.preconditioner(xi) @ Q, atol=1e-12)
    np.testing.assert_allclose(b.dual(), a.dual(), atol=1e-12)


def test_preconditioner_is_the_stated_matrix(weighted):
    """B_i = (2C/p_i) Σ_t v_t v_tᵀ + ‖UᵀS‖² I for row i."""
    p, U = problem(weighted=weighted), position(3)
    rows, cols = weights_of(p)
    e = Objective(p).evaluate(U)
    eta = np.random.default_rng(0).standard_normal(U.shape)
    known = ~np.isnan(data())
    shift = np.sum(cols[:, None] * e.V**2)
    expected = [
        np.linalg.solve(2 * p.C / rows[i] * e.V[known[i]].T @ e.V[known[i]] + shift * np.eye(3), eta[i])
        for i in range(D)
    ]
    np.testing.assert_allclose(e.preconditioner(eta), expected, rtol=1e-10)


def test_weights_of_one_are_none():
    U = position(3)
    plain = Objective(problem()).evaluate(U)
    ones = Problem(Square(), Entries(data()), C=2.0, row_weights=np.ones(D), column_weights=np.ones(T))
    assert Objective(ones).evaluate(U).value == plain.value


def test_entries_in_any_form():
    whole, U = ObservedMatrix.from_any(data()), position(2)
    expected = Objective(Problem(Square(), Entries(whole))).evaluate(U)
    for same in (Entries(whole.to_csr()), Entries(data()), Entries.of_transposed(whole.transposed())):
        assert (same.shape, len(same)) == ((D, T), len(whole))
        assert Objective(Problem(Square(), same)).evaluate(U).value == expected.value
    assert repr(Entries(whole)) == f"Entries(12 × 9, {len(whole)} observed)"


def test_empty_columns_have_no_code_and_empty_rows_no_gradient():
    Y = data()
    Y[3] = nan
    e = Objective(Problem(Square(), Entries(Y), C=2.0)).evaluate(position(3))
    assert np.all(e.V[2] == 0)
    assert np.all(e.V[[0, 1, 3]] != 0)
    assert np.all(e.gradient[3] == 0)


def test_one_entry():
    """min_v C(y − uv)² + ½v² at u = 1."""
    e = Objective(Problem(Square(), Entries([[2.0]]), C=1.5)).evaluate(np.array([[1.0]]))
    assert e.V[0, 0] == pytest.approx(1.5, rel=1e-15)
    assert e.value == pytest.approx(1.5, rel=1e-15)
    assert e.gradient[0, 0] == pytest.approx(-2.25, rel=1e-15)


def test_one_inner_solve_a_point(monkeypatch):
    calls = []
    for name in ("evaluate", "derivative", "systems"):
        original = getattr(Columns, name)

        def counted(self, *args, name=name, original=original, **options):
            calls.append(name)
            return original(self, *args, **options)

        monkeypatch.setattr(Columns, name, counted)
    objective = Objective(problem())
    e = objective.evaluate(position(2))
    assert calls == ["evaluate"]
    for _ in range(3):
        e.hessian_product(e.gradient)
        e.preconditioner(e.gradient)
        e.dual()
        _ = e.value, e.gradient, e.V
    assert sorted(calls) == ["derivative"] * 3 + ["evaluate", "systems"]
    assert (objective.evaluations, objective.hessian_products) == (1, 3)


def test_release_keeps_value_gradient_and_v():
    objective = Objective(problem())
    first = objective.evaluate(position(2))
    kept = first.value, first.gradient.copy(), first.V.copy()
    residual = first.solution.solved.residual
    first.release()
    first.release()
    second, third = objective.evaluate(position(2, seed=8)), objective.evaluate(position(2, seed=9))
    assert second.solution.solved.residual is residual  # the memory is used again, and once only
    assert third.solution.solved.residual is not residual
    assert first.value == kept[0]
    np.testing.assert_array_equal(first.gradient, kept[1])
    np.testing.assert_array_equal(first.V, kept[2])
    again = Objective(problem()).evaluate(position(2, seed=8))
    np.testing.assert_array_equal(second.dual(), again.dual())
    np.testing.assert_array_equal(second.hessian_product(kept[1]), again.hessian_product(kept[1]))


@pytest.mark.parametrize("what", ["hessian_product", "dual", "preconditioner"])
def test_released_points_refuse_the_rest(what):
    objective = Objective(problem())
    e = objective.evaluate(position(2))
    e.preconditioner(e.gradient)
    e.release()
    other = objective.evaluate(position(2, seed=8))
    other.preconditioner(other.gradient)  # takes the released memory
    with pytest.raises(RuntimeError, match="released"):
        getattr(e, what)(*([e.gradient] if what != "dual" else []))


def test_memory_of_another_rank_is_not_used():
    objective = Objective(problem())
    e = objective.evaluate(position(2))
    e.preconditioner(e.gradient)
    e.release()
    f, fresh = objective.evaluate(position(5)), Objective(problem()).evaluate(position(5))
    np.testing.assert_array_equal(f.hessian_product(f.gradient), fresh.hessian_product(f.gradient))
    np.testing.assert_array_equal(f.preconditioner(f.gradient), fresh.preconditioner(f.gradient))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads, weighted):
    p, U = problem(weighted=weighted), position(3)
    a, b = Objective(p, 1).evaluate(U), Objective(p, threads).evaluate(U)
    assert a.value == b.value
    np.testing.assert_array_equal(a.gradient, b.gradient)
    np.testing.assert_array_equal(a.hessian_product(U), b.hessian_product(U))


def test_u_is_not_changed_and_need_not_be_contiguous():
    U = np.asfortranarray(position(3))
    before = U.copy()
    e = Objective(problem()).evaluate(U)
    e.hessian_product(U)
    np.testing.assert_array_equal(U, before)
    assert e.value == Objective(problem()).evaluate(np.ascontiguousarray(U)).value


@pytest.mark.parametrize("shape", [(D,), (D - 1, 2), (D, 0), (D, 2, 1)])
def test_wrong_shape_of_u(shape):
    with pytest.raises(ValueError, match=r"U must have shape \(12, r\) with r ≥ 1; got "):
        Objective(problem()).evaluate(np.ones(shape))


@pytest.mark.parametrize("C", [np.float32(2.0), np.int64(2), 2, np.float64(2)])
def test_c_of_any_kind_of_number_means_the_same(C):
    U = position(3)
    e = Objective(problem(C)).evaluate(U)
    assert float(e.value) == Objective(problem(2.0)).evaluate(U).value


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"C": 0}, ValueError, "C must be a positive finite number; got 0"),
        ({"C": -1.0}, ValueError, r"got -1\.0"),
        ({"C": np.inf}, ValueError, "got inf"),
        ({"C": nan}, ValueError, "got nan"),
        ({"C": "1"}, ValueError, "got '1'"),
        ({"C": True}, ValueError, "got True"),
        ({"C": 1 + 0j}, ValueError, r"got \(1\+0j\)"),
        ({"loss": "square"}, TypeError, r"loss must be a Loss, for instance .*Square\(\); got 'square'"),
        ({"data": np.eye(3)}, TypeError, r"for instance Entries\(Y\); got ndarray"),
        (
            {"structure": "box"},
            TypeError,
            "structure must be None or a Structure .*; got 'box'",
        ),
        ({"row_weights": np.ones(T)}, ValueError, r"row_weights must have shape \(12,\); got \(9,\)"),
        ({"column_weights": np.zeros(T)}, ValueError, r"column_weights\[0\] is 0\.0"),
        ({"row_weights": np.r_[np.ones(D - 1), nan]}, ValueError, r"row_weights\[11\] is nan"),
    ],
)
def test_problem_errors(change, error, message):
    with pytest.raises(error, match=message):
        Problem(**{"loss": Square(), "data": Entries(data()), "C": 1.0} | change)


def test_the_error_says_why_no_solver_fits(monkeypatch):
    monkeypatch.setattr("rslm.inner.choose.CANDIDATES", (Ridge, Newton))
    needed = r"no inner solver fits.*Ridge: needs a quadratic loss, Absolute\(\) is not; Newton: needs a second deriv"
    with pytest.raises(ValueError, match=needed):
        Objective(Problem(Absolute(), Entries(data())))


class Broken:
    """An objective whose derivatives are wrong by a factor, or whose Hessian is not symmetric."""

    def __init__(self, gradient=1.0, hessian=1.0, skew=0.0):
        self.objective, self.factors = Objective(problem()), (gradient, hessian, skew)

    def evaluate(self, U):
        e, (gradient, hessian, skew) = self.objective.evaluate(U), self.factors
        product, e.gradient = e.hessian_product, e.gradient * gradient
        e.hessian_product = lambda xi: hessian * product(xi) + skew * np.roll(xi, 1, axis=0)
        return e


@pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6, -1.0])
def test_a_wrong_gradient_is_found(factor):
    with pytest.raises(AssertionError, match="by the gradient, but"):
        check_gradient(Broken(gradient=factor), position(2))


@pytest.mark.parametrize("options", [{"hessian": 1 + 1e-6}, {"hessian": -1.0}, {"skew": 1e-2}])
def test_a_wrong_hessian_is_found(options):
    with pytest.raises(AssertionError, match="Hessian product and differences"):
        check_hessian(Broken(**options), position(2))


def test_an_asymmetric_hessian_is_found():
    with pytest.raises(AssertionError, match="not symmetric"):
        check_hessian(Broken(skew=1e-6), position(2), tol=1.0)
