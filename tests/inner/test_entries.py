"""The inner solvers against independent ones, their conditions of optimality, and derivatives against differences."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVR

from poisson import Poisson
from rslm import Objective, Problem
from rslm.inner.entries.coordinate_descent import CoordinateDescent
from rslm.inner.entries.newton import Newton
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Quantile, SquaredHinge
from rslm.measurements import Entries
from rslm.testing import check_gradient, check_hessian, check_loss

nan = np.nan
D, T = 14, 9

# Every loss twice: as ours, and as CVXPY has it.
LOSSES = {
    "absolute": (Absolute(), lambda y, w: cp.abs(y - w)),
    "ε-insensitive": (EpsilonInsensitive(0.3), lambda y, w: cp.pos(cp.abs(y - w) - 0.3)),
    "quantile 0.3": (Quantile(0.3), lambda y, w: cp.maximum(0.3 * (y - w), -0.7 * (y - w))),
    "quantile 0.9": (Quantile(0.9), lambda y, w: cp.maximum(0.9 * (y - w), -0.1 * (y - w))),
    "hinge": (Hinge(), lambda y, w: cp.pos(1 - cp.multiply(y, w))),
    "Huber": (Huber(0.7), lambda y, w: 0.5 * cp.huber(y - w, 0.7)),
    "squared hinge": (SquaredHinge(), lambda y, w: cp.square(cp.pos(1 - cp.multiply(y, w)))),
    "logistic": (Logistic(), lambda y, w: cp.logistic(-cp.multiply(y, w))),
}


def rounded(name, delta):
    """`smoothed(δ)` is the loss with its errors shifted by what costs shift²/2δ, at the best shift."""
    loss, exact = LOSSES[name]

    def with_shift(y, w):
        shift = cp.Variable(len(y))
        return exact(y, w + shift) + cp.square(shift) / (2 * delta)

    return loss.rounded(delta), with_shift


for _name, _delta in [
    ("absolute", 0.2),
    ("ε-insensitive", 0.05),
    ("quantile 0.3", 1e-3),
    ("hinge", 0.5),
    ("Huber", 0.3),
]:
    LOSSES[f"{_name}, δ = {_delta}"] = rounded(_name, _delta)
BOX = [name for name in LOSSES if name != "logistic"]
KINKS = ["absolute", "ε-insensitive", "quantile 0.3", "quantile 0.9", "hinge"]
SMOOTH = [name for name in LOSSES if name not in KINKS]


def is_binary(name):
    return name.startswith(("hinge", "squared", "logistic"))


def data(name, seed=0):
    """Column 1 is empty, 2 has one entry, 3 two, 4 only rows that are alike, 5 only rows of zeros, 6 is full."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((D, T))
    Y[rng.random((D, T)) < 0.4] = nan
    Y[:, 1:6] = nan
    Y[7, 2], Y[[2, 9], 3], Y[:2, 4], Y[4:6, 5] = 1.5, [-0.4, 2.0], [1.0, -0.5], [0.7, -1.2]
    Y[:, 6] = rng.standard_normal(D)
    return np.sign(Y) if is_binary(name) else Y


def position(rank, seed=2):
    """Rows 0, 1 and 6 point the same way, 3 the opposite way of 2; rows 4 and 5 are zero."""
    U = np.random.default_rng(seed).standard_normal((D, rank))
    U[1], U[6], U[3], U[4:6] = U[0], 2 * U[0], -U[2], 0
    return U / np.linalg.norm(U)


def weights(seed=1):
    rng = np.random.default_rng(seed)
    p, q = rng.uniform(0.2, 3, D), rng.uniform(0.2, 3, T)
    p[1], p[3] = p[0], p[2]  # rows that are alike stay so
    return {"row_weights": p, "column_weights": q}


def problem(name, C=2.0, weighted=False, Y=None):
    return Problem(LOSSES[name][0], Entries(data(name) if Y is None else Y), C=C, **(weights() if weighted else {}))


class State:
    """A problem at one U in plain NumPy: rows x and columns t of all entries, in the order of the dual variables."""

    def __init__(self, p, U, n_threads=1):
        self.p, self.loss, self.C = p, p.loss, p.C
        self.e = Objective(p, n_threads).evaluate(U)
        columns = p.data.columns
        self.i, self.t = columns.index, np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
        self.q = np.ones(columns.shape[1]) if p.column_weights is None else p.column_weights
        self.X = U if p.row_weights is None else U / np.sqrt(p.row_weights)[:, None]
        self.y = p.data.values.astype(float)
        self.w = np.einsum("ek,ek->e", self.X[self.i], self.e.V[self.t])
        self.z = self.e.dual().astype(float)

    def fit(self, z):
        """X_tᵀ z_t of every column."""
        out = np.zeros((len(self.q), self.X.shape[1]))
        np.add.at(out, self.t, z[:, None] * self.X[self.i])
        return out

    def primal(self):
        return self.C * np.sum(self.loss.value(self.y, self.w)) + 0.5 * np.sum(self.q[:, None] * self.e.V**2)

    def slopes(self):
        """−z/C, less what rounding may have added: outside its domain the conjugate is infinite."""
        return -self.z / self.C * (1 - 4 * np.finfo(float).eps)

    def dual(self):
        s = self.slopes()
        return -self.C * np.sum(self.loss.conjugate(self.y, s)) - 0.5 * np.sum(
            self.fit(self.C * s) ** 2 / self.q[:, None]
        )

    def gap(self):
        """Of primal and dual value, relative."""
        return (self.primal() - self.dual()) / self.primal()


def check_optimal(p, U, tol=1e-10):
    """All the conditions of optimality, which only the optimum meets; `tol` is relative to the largest numbers."""
    s = State(p, U)
    value, size = s.e.value, np.abs(s.z).max() * max(np.abs(s.X).max(), np.finfo(float).tiny)
    assert np.isfinite(value)
    np.testing.assert_allclose(s.q[:, None] * s.e.V, s.fit(s.z), rtol=0, atol=tol * size)
    assert s.primal() == pytest.approx(value, rel=tol)
    assert s.dual() == pytest.approx(value, rel=tol)
    # Fenchel–Young: −z/C is a slope of the loss at w where this vanishes, entry by entry.
    apart = s.loss.value(s.y, s.w) + s.loss.conjugate(s.y, s.slopes()) - s.slopes() * s.w
    scale = (np.abs(s.y) + np.abs(s.w) + 1 * is_like_classes(s.y)).max() * np.abs(s.slopes()).max()
    assert np.abs(apart).max() <= tol * scale
    scaled = s.z[:, None] * (1 if p.row_weights is None else 1 / np.sqrt(p.row_weights)[s.i, None])
    gradient = np.zeros(U.shape)
    np.add.at(gradient, s.i, -scaled * s.e.V[s.t])
    np.testing.assert_allclose(s.e.gradient, gradient, rtol=0, atol=tol * max(np.abs(gradient).max(), 1e-300))
    return s


def is_like_classes(y):
    return np.abs(y) == 1


def by_cvxpy(p, exact, U):
    s = State(p, U)
    V = cp.Variable((T, U.shape[1]))
    w = cp.sum(cp.multiply(s.X[s.i], V[s.t]), axis=1)
    penalty = cp.sum_squares(cp.multiply(np.sqrt(s.q / s.C)[:, None], V))
    # Multiplied by min(C, 1)/C, so that neither part is much larger than 1.
    scale = min(s.C, 1.0)
    objective = cp.Problem(cp.Minimize(scale * (cp.sum(exact(s.y, w)) + 0.5 * penalty)))
    objective.solve(solver=cp.CLARABEL, tol_gap_abs=1e-14, tol_gap_rel=1e-14, tol_feas=1e-12)
    assert objective.status in ("optimal", "optimal_inaccurate")
    return objective.value * s.C / scale, V.value


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


RANKS = [1, 3, D]  # the last one is more than any column but one has entries


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is compared, after all
@pytest.mark.parametrize("C", [0.1, 2.0, 1e3])
@pytest.mark.parametrize("name", LOSSES)
def test_against_cvxpy(name, C, weighted):
    p, U = problem(name, C, weighted), position(3)
    e = Objective(p).evaluate(U)
    value, V = by_cvxpy(p, LOSSES[name][1], U)
    assert e.value == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(e.V, V, rtol=0, atol=1e-6 * np.abs(V).max())


@pytest.mark.parametrize("C", [0.1, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_against_support_vector_regression(epsilon, C, weighted):
    """Larger C are for CVXPY: LIBLINEAR's steps, one variable each, become too many."""
    loss = EpsilonInsensitive(epsilon) if epsilon else Absolute()
    Y = data("absolute")
    p = Problem(loss, Entries(Y), C=C, **(weights() if weighted else {}))
    s = State(p, 3 * position(3))
    for t in np.unique(s.t):
        at = s.t == t
        other = LinearSVR(
            epsilon=epsilon, C=C / s.q[t], loss="epsilon_insensitive", fit_intercept=False, tol=1e-10, max_iter=10**6
        )
        other.fit(s.X[s.i[at]], s.y[at])
        np.testing.assert_allclose(s.e.V[t], other.coef_, rtol=0, atol=1e-6 * np.abs(s.e.V).max())


@pytest.mark.parametrize("C", [0.1, 2.0, 1e3])
def test_against_logistic_regression(C, weighted):
    p = problem("logistic", C, weighted)
    s = State(p, position(3))
    for t in np.unique(s.t):
        at = s.t == t
        if len(set(s.y[at])) < 2:
            continue  # scikit-learn wants both classes
        other = LogisticRegression(
            C=C / s.q[t], fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cholesky"
        )
        other.fit(s.X[s.i[at]], s.y[at])
        np.testing.assert_allclose(s.e.V[t], other.coef_[0], rtol=0, atol=1e-6 * np.abs(s.e.V).max())


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("C", [0.1, 2.0, 1e3, 1e6])
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", LOSSES)
def test_optimality(name, rank, C, weighted):
    # Rounding moves an error by 1e-16 C |x|² n, and C is up to 1e6.
    s = check_optimal(problem(name, C, weighted), position(rank), tol=1e-10 * max(1.0, C / 1e4))
    assert np.all(s.e.V[1] == 0)
    if name in BOX:
        lower, upper = s.loss.interval.bounds(s.y)
        slack = 1 + 2 * np.finfo(float).eps  # z/C is rounded twice
        assert np.all((s.z <= C * upper * slack) & (s.z >= C * lower * slack))


@pytest.mark.parametrize("name", LOSSES)
def test_the_solver_that_is_chosen(name):
    inner = Objective(problem(name)).inner
    assert isinstance(inner, Newton if name == "logistic" else CoordinateDescent)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "logistic"])
def test_newton_solves_rounded_losses_as_well(name, weighted):
    """An independent way to the same solution: Newton knows nothing of boxes."""
    p, U = problem(name, 0.5, weighted), position(3)
    ours, other = Objective(p).evaluate(U), Newton(p, 1).solve(U)
    assert other.value == pytest.approx(ours.value, rel=1e-10)
    np.testing.assert_allclose(other.V, ours.V, rtol=0, atol=1e-8 * np.abs(ours.V).max())


@pytest.mark.parametrize("name", LOSSES)
def test_coming_back_gives_the_same(name, weighted):
    objective = Objective(problem(name, 5.0, weighted))
    one, two, larger = position(3), position(3, seed=9), position(5)
    first = objective.evaluate(one)
    for other in (two, 100 * two, larger, 1e-3 * two):
        objective.evaluate(other)
        again = objective.evaluate(one)
        assert again.value == pytest.approx(first.value, rel=1e-11)
        np.testing.assert_allclose(again.V, first.V, rtol=0, atol=1e-7 * np.abs(first.V).max())


@pytest.mark.parametrize("name", BOX)
def test_after_another_objective(name):
    """The start comes from another C; the solution does not."""
    U = position(3)
    before = Objective(problem(name, 0.5))
    before.evaluate(U)
    after, alone = Objective(problem(name, 50.0), after=before).evaluate(U), Objective(problem(name, 50.0)).evaluate(U)
    assert after.value == pytest.approx(alone.value, rel=1e-11)


@pytest.mark.parametrize("C", [1.0, 100.0, 1e6])
@pytest.mark.parametrize("name", ["absolute", "ε-insensitive", "quantile 0.3", "absolute, δ = 0.2"])
def test_errors_that_vanish(name, C):
    """Data without noise: at large C most errors are 0, and many z are equally good."""
    U = position(3)
    Y = U @ np.random.default_rng(3).standard_normal((3, T)) * 10
    Y[np.isnan(data(name))] = nan
    s = State(problem(name, C, Y=Y), U)
    assert abs(s.gap()) <= 1e-10 * max(1.0, C / 1e4)  # rounding is as large as C
    if C == 1e6 and name == "absolute":
        assert np.mean(np.abs(s.y - s.w) < 1e-6) > 0.9


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("name", KINKS)
def test_tiny_rounding(name, C, delta, weighted):
    p = problem(name, C, weighted)
    rounded = Problem(p.loss.rounded(delta), p.data, C=C, **(weights() if weighted else {}))
    s = State(rounded, position(3))
    assert abs(s.gap()) <= 1e-10 * max(1.0, C / 1e4)
    # Rounding the kinks lowers the loss of an entry, by at most ½ δ max(s²).
    exact = Objective(p).evaluate(position(3)).value
    assert exact - 0.5 * C * delta * len(p.data) <= s.e.value * (1 + 1e-12)
    assert s.e.value <= exact * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("name", ["absolute", "quantile 0.3", "Huber", "absolute, δ = 0.2"])
def test_targets_of_any_size(name, scale):
    for C in (1.0, scale, min(1 / scale, 1.0)):
        # v is a sum of C z x: rounding moves an error by about 1e-16 C |x|², which is up to 1e8 times the targets.
        s = State(problem(name, C, Y=scale * data(name)), position(3))
        assert abs(s.gap()) <= 1e-15 * max(C / scale, 1e5)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3])
@pytest.mark.parametrize("name", LOSSES)
def test_rows_of_any_size(name, scale):
    # Rounding moves an error by about 1e-16 C |x|², here up to 1e-10.
    assert abs(State(problem(name, 1.0), scale * position(3)).gap()) <= 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_are_all_zero(name, weighted):
    """The best code is 0, and the dual variables are the slopes of the loss at 0."""
    s = check_optimal(problem(name, 2.0, weighted), np.zeros((D, 3)))
    assert np.all(s.e.V == 0)


@pytest.mark.parametrize("name", LOSSES)
def test_one_entry(name):
    """min_v C ℓ(y, u v) + ½ v² over a fine grid."""
    y, u, C = 1.0, 0.8, 1.7
    e = Objective(Problem(LOSSES[name][0], Entries([[y]]), C=C)).evaluate(np.array([[u]]))
    v = np.linspace(-3, 3, 60_001)  # 1e-4 apart: the value is right to about (C/δ) 1e-8
    values = C * LOSSES[name][0].value(np.full(v.shape, y), u * v) + 0.5 * v**2
    assert e.value <= values.min() * (1 + 1e-14)
    assert e.V[0, 0] == pytest.approx(v[np.argmin(values)], abs=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_single_precision(name, weighted):
    Y = data(name).astype(np.float32)
    single = Objective(problem(name, 2.0, weighted, Y)).evaluate(position(3))
    double = Objective(problem(name, 2.0, weighted, Y.astype(float))).evaluate(position(3))
    assert single.dual().dtype == (np.float64 if name == "logistic" else np.float32)  # Newton keeps what it iterates
    assert single.V.dtype == single.gradient.dtype == np.float64
    # z is stored with 2⁻²⁴ = 6e-8 of it lost.
    assert single.value == pytest.approx(double.value, rel=1e-6)
    np.testing.assert_allclose(single.V, double.V, rtol=0, atol=1e-6 * np.abs(double.V).max())
    np.testing.assert_allclose(single.gradient, double.gradient, rtol=0, atol=1e-6 * np.abs(double.gradient).max())


# ---- derivatives --------------------------------------------------------------------------------------------------


def generic(name, C, weighted):
    """A problem and a point at which g is smooth for a fiftieth of the way in some directions and along the gradient.

    The gradient has kinks where an error or a dual variable arrives at a kink of the loss, and differences across them
    mean nothing. The longest step of the checks is a twentieth, but they shorten it until that no longer helps.
    """
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        Y = rng.standard_normal((7, 4))
        Y[rng.random(Y.shape) < 0.2] = nan
        w = {"row_weights": rng.uniform(0.5, 2, 7), "column_weights": rng.uniform(0.5, 2, 4)} if weighted else {}
        p = Problem(LOSSES[name][0], Entries(np.sign(Y) if is_binary(name) else Y), C=C, **w)
        U = rng.standard_normal((7, 2))
        U /= np.linalg.norm(U)
        if name == "logistic":
            return p, U
        along = [*rng.standard_normal((5, 7, 2)), Objective(p).evaluate(U).gradient]
        here = sides(p, U)
        if all(sides(p, U + h * a / np.linalg.norm(a)) == here for a in along for h in (-0.02, 0.02)):
            return p, U
    raise AssertionError("no smooth point found")


def sides(p, U):
    """Where every dual variable is: at which end of its box, at 0, or in between."""
    s = Objective(p).evaluate(U).dual() / p.C
    lower, upper = p.loss.interval.bounds(p.data.values)
    near = 1e-12
    return [*((s <= lower + near) * 1 + (s >= upper - near) * 2 + (np.abs(s) <= near) * 4)]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("C", [0.5, 10.0])
@pytest.mark.parametrize("name", LOSSES)
def test_derivatives(name, C, weighted):
    p, U = generic(name, C, weighted)
    objective = Objective(p)
    check_gradient(objective, U)
    if name in KINKS:  # the Hessian is a limit: a curvature of 1e8 stands for an infinite one
        check_hessian(objective, U, tol=1e-5, symmetry=1e-6)
    else:
        check_hessian(objective, U)


@pytest.mark.parametrize("name", ["quantile 0.9", "Huber", "logistic"])
def test_derivatives_in_single_precision(name, weighted):
    """What is free must not depend on how the ends of a box are rounded: 0.9 and 0.7 are not numbers of 24 bits."""
    p, U = generic(name, 0.5, weighted)
    w = {"row_weights": p.row_weights, "column_weights": p.column_weights}
    rounded = p.data.values.astype(np.float32)
    single = Objective(Problem(p.loss, p.data.with_values(rounded), C=p.C, **w)).evaluate(U)
    double = Objective(Problem(p.loss, p.data.with_values(rounded.astype(float)), C=p.C, **w)).evaluate(U)
    xi = np.random.default_rng(0).standard_normal(U.shape)
    exact = double.hessian_product(xi)
    # z is stored with 2⁻²⁴ = 6e-8 of it lost.
    np.testing.assert_allclose(single.hessian_product(xi), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("name", LOSSES)
def test_preconditioner_is_symmetric_and_positive(name, weighted):
    e = Objective(problem(name, 2.0, weighted)).evaluate(position(3))
    a, b = np.random.default_rng(0).standard_normal((2, D, 3))
    Pa, Pb = e.preconditioner(a), e.preconditioner(b)
    assert np.vdot(a, Pb) == pytest.approx(np.vdot(b, Pa), rel=1e-10)
    assert np.vdot(a, Pa) > 0


@pytest.mark.parametrize("what", ["hessian_product", "dual", "preconditioner"])
@pytest.mark.parametrize("name", ["absolute", "Huber", "logistic"])
def test_released_points_refuse_the_rest(name, what):
    objective = Objective(problem(name))
    e = objective.evaluate(position(3))
    e.preconditioner(e.gradient)
    e.hessian_product(e.gradient)
    kept = e.value, e.gradient.copy(), e.V.copy()
    e.release()
    e.release()
    objective.evaluate(position(3, seed=8))
    assert e.value == kept[0]
    np.testing.assert_array_equal(e.gradient, kept[1])
    np.testing.assert_array_equal(e.V, kept[2])
    with pytest.raises(RuntimeError, match="released"):
        getattr(e, what)(*([e.gradient] if what != "dual" else []))


@pytest.mark.parametrize("name", LOSSES)
def test_an_evaluation_does_not_change_when_others_follow(name):
    objective = Objective(problem(name))
    e = objective.evaluate(position(3))
    kept = e.dual().copy(), e.V.copy(), e.hessian_product(e.U)
    f = objective.evaluate(position(3, seed=8))
    f.hessian_product(f.U)
    np.testing.assert_array_equal(e.dual(), kept[0])
    np.testing.assert_array_equal(e.V, kept[1])
    np.testing.assert_array_equal(e.hessian_product(e.U), kept[2])


@pytest.mark.parametrize("name", ["ε-insensitive", "Huber", "logistic"])
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr("rslm.inner.entries.newton.PIECE", 1 << 13)
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((300, 260))
    U = rng.standard_normal((300, 5))
    p = Problem(LOSSES[name][0], Entries(np.sign(Y) if is_binary(name) else Y), C=2.0)
    inner = Objective(p, 3).inner
    assert name != "logistic" or len(inner.pieces) > 2  # or there is nothing to share
    one, three = (Objective(p, n).evaluate(U / np.linalg.norm(U)) for n in (1, 3))
    assert one.value == three.value
    np.testing.assert_array_equal(one.gradient, three.gradient)
    np.testing.assert_array_equal(one.V, three.V)
    np.testing.assert_array_equal(one.hessian_product(U), three.hessian_product(U))
    np.testing.assert_array_equal(one.preconditioner(U), three.preconditioner(U))


# ---- losses of users ----------------------------------------------------------------------------------------------


def counts(most=6, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.integers(0, most, size=(D, T)).astype(float)
    Y[np.isnan(data("absolute"))] = nan
    return Y


def test_the_loss_itself():
    check_loss(Poisson(), y=np.arange(50.0), w=np.linspace(-2, 2, 50))


@pytest.mark.parametrize("C", [0.1, 2.0, 1e3])
def test_own_loss_against_scipy(C, weighted):
    p = Problem(Poisson(), Entries(counts()), C=C, **(weights() if weighted else {}))
    s = State(p, position(3))
    assert isinstance(Objective(p).inner, Newton)
    for t in np.unique(s.t):
        X, y, ridge = s.X[s.i[s.t == t]], s.y[s.t == t], s.q[t] / C

        def value(v, X=X, y=y, ridge=ridge):
            return np.sum(np.exp(X @ v) - y * (X @ v)) + 0.5 * ridge * v @ v

        def slope(v, X=X, y=y, ridge=ridge):
            return X.T @ (np.exp(X @ v) - y) + ridge * v

        def bend(v, X=X, ridge=ridge):
            return (X.T * np.exp(X @ v)) @ X + ridge * np.eye(3)

        other = minimize(value, np.zeros(3), jac=slope, hess=bend, method="trust-exact", options={"gtol": 1e-10})
        np.testing.assert_allclose(s.e.V[t], other.x, rtol=0, atol=1e-6 * np.abs(s.e.V).max())


def test_own_loss_is_optimal_and_its_derivatives_are_right(weighted):
    p = Problem(Poisson(), Entries(counts()), C=2.0, **(weights() if weighted else {}))
    s = State(p, position(3))
    np.testing.assert_allclose(s.q[:, None] * s.e.V, s.fit(s.z), rtol=0, atol=1e-10 * np.abs(s.z).max())
    # The value may be near 0 and the loss negative: the sizes of its parts count.
    size = s.C * np.sum(np.exp(s.w) + np.abs(s.y * s.w))
    assert abs(s.primal() - s.dual()) <= 1e-10 * size
    assert abs(s.primal() - s.e.value) <= 1e-13 * size
    objective = Objective(p)
    check_gradient(objective, position(3))
    check_hessian(objective, position(3))


@pytest.mark.parametrize("most", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_newton_from_a_bad_start(size, most):
    """The first step goes so far that exp overflows."""
    objective = Objective(Problem(Poisson(), Entries(counts(most)), C=1.0))
    for U in (size * position(3), 100 * size * position(3, seed=9), size * position(3)):
        objective.evaluate(U)  # each begins where the last one ended
    s = State(objective.problem, size * position(3))
    e = objective.evaluate(size * position(3))
    np.testing.assert_allclose(s.q[:, None] * s.e.V, s.fit(s.z), rtol=0, atol=1e-9 * np.abs(s.fit(np.abs(s.z))).max())
    assert e.value == pytest.approx(s.e.value, rel=1e-11)
    np.testing.assert_allclose(e.V, s.e.V, rtol=0, atol=1e-8 * np.abs(s.e.V).max())


@pytest.mark.parametrize("C", [1e3, 1e6, 1e9])
def test_newton_where_the_classes_can_be_told_apart(C):
    """The minimum is far out, where the loss is flat."""
    U, rng = position(3), np.random.default_rng(0)
    Y = np.sign(U @ rng.standard_normal((3, T)) + 1e-9)
    s = State(Problem(Logistic(), Entries(Y), C=C), 5 * U)
    np.testing.assert_allclose(s.e.V, s.fit(s.z), rtol=0, atol=1e-9 * np.abs(s.e.V).max())
    assert abs(s.gap()) <= 1e-9


WRONG = {
    "a number": ("hessian", lambda y, w: 1.0, ValueError, r"hessian of Odd\(\) has shape \(\)"),
    "another shape": ("value", lambda y, w: np.ones(3), ValueError, r"value of Odd\(\) has shape \(3,\)"),
    "two dimensions": ("gradient", lambda y, w: w[:, None], ValueError, r"gradient of Odd\(\) has shape"),
    "value NaN": ("value", lambda y, w: w * nan, ValueError, r"value of Odd\(\) is nan at y = "),
    "gradient NaN": ("gradient", lambda y, w: w * nan, ValueError, r"gradient of Odd\(\) is nan at y = "),
    "gradient infinite": ("gradient", lambda y, w: w + np.inf, ValueError, r"gradient of Odd\(\) is inf"),
    "hessian NaN": ("hessian", lambda y, w: w * nan, ValueError, r"hessian of Odd\(\) is nan at y = "),
    "hessian infinite": ("hessian", lambda y, w: w + np.inf, ValueError, r"hessian of Odd\(\) is inf"),
    "hessian negative": ("hessian", lambda y, w: 0 * w - 2, ValueError, r"hessian of Odd\(\) is -2\.0 at y = "),
    "complex": ("value", lambda y, w: w + 0j, TypeError, r"value of Odd\(\) has dtype complex128"),
    "objects": ("gradient", lambda y, w: w.astype(object), TypeError, r"gradient of Odd\(\) has dtype object"),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", WRONG)
def test_what_a_wrong_loss_is_told(what, threads):
    function, answer, error, message = WRONG[what]

    class Odd(Poisson):
        pass

    setattr(Odd, function, lambda self, y, w: answer(y, w))
    with pytest.raises(error, match=message):
        Objective(Problem(Odd(), Entries(counts())), threads).evaluate(position(3))


def test_a_wrong_loss_is_told_from_another_thread():
    class Odd(Poisson):
        def hessian(self, y, w):
            return np.where(y == 77, nan, np.exp(w))

    Y = np.random.default_rng(0).integers(0, 5, size=(300, 260)).astype(float)
    Y[200, 250] = 77  # in the last piece
    with pytest.raises(ValueError, match=r"hessian of Odd\(\) is nan at y = 77"):
        Objective(Problem(Odd(), Entries(Y)), 3).evaluate(np.full((300, 2), 0.05))
