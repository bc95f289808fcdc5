"""Derivatives by U, row effects, mean and coefficients, for every inner solver; preconditioners and points."""

import numpy as np
import pytest
from locations import LOCATIONS
from scipy import sparse

from rslm import Objective, Problem
from rslm.inner.generic import Generic
from rslm.location import Effects, Location
from rslm.location.packing import Packing
from rslm.losses import Hinge, Huber, Logistic, Loss, Square
from rslm.measurements import Entries, Measurement, Tasks
from rslm.structures import Box, SoftBox
from rslm.testing import check_gradient, check_hessian

D, T, RANK = 7, 6, 2


class Averages(Measurement):
    """A measurement of one's own: means of two entries of a column, so effects of columns are added to them."""

    couples_columns = False
    locatable = True

    def __init__(self, first, second, column, values, shape):
        self.first, self.second, self.column = first, second, column
        self.values, self._shape = values, shape

    @property
    def shape(self):
        return self._shape

    def apply(self, X, V, threads=1):
        return 0.5 * np.einsum("pk,pk->p", X[self.first] + X[self.second], V[self.column])

    def adjoint(self, z):
        rows, columns = np.concatenate([self.first, self.second]), np.tile(self.column, 2)
        return sparse.coo_array((0.5 * np.tile(z, 2), (rows, columns)), shape=self.shape).tocsr()

    def located(self):
        return self, np.ones(self.shape[0])

    def groups(self, side):
        if side == 0:
            raise TypeError("a mean belongs to two rows")
        return self.column


class LogCosh(Loss):
    """A loss of one's own."""

    def value(self, y, w):
        return np.logaddexp(y - w, w - y) - np.log(2.0)

    def gradient(self, y, w):
        return np.tanh(w - y)

    def hessian(self, y, w):
        return 1.0 - np.tanh(w - y) ** 2

    def conjugate(self, y, s):
        t = np.clip(s, -1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [np.where(1 + u > 0, (1 + u) * np.log1p(u), 0.0) for u in (t, -t)]
        return np.where(np.abs(s) <= 1.0, s * y + 0.5 * (parts[0] + parts[1]), np.inf)


def values(loss, rng):
    Y = 3.0 + rng.standard_normal((D, T)) + rng.standard_normal((D, 1))
    Y = np.sign(Y - 3.0) if loss.binary else Y
    return np.where(rng.random((D, T)) < 0.3, np.nan, Y)


def data_of(name, loss, rng):
    if name == "entries":
        return Entries(values(loss, rng))
    n = 40
    if name == "own":
        of = rng.integers(0, T, n)
        return Averages(rng.integers(0, D, n), rng.integers(0, D, n), of, 3.0 + rng.standard_normal(n), (D, T))
    X, of = rng.standard_normal((n, D)), np.concatenate([np.arange(T), rng.integers(0, T, n - T)])
    y = X[:, 0] + 3.0 + rng.standard_normal(n)
    if name == "sparse tasks":
        X = sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    return Tasks(X, np.sign(y - 3.0) if loss.binary else y, of)


def problem_of(loss, data_name, location, weights, structure=None, covariates=False):
    rng = np.random.default_rng(0)
    data, location = data_of(data_name, loss, rng), LOCATIONS[location]
    if weights:
        data.weights = rng.uniform(0.5, 2.0, len(data))
    if covariates:
        X = rng.standard_normal((len(data), 2)) * [1.0, 30.0]
        location = Location(location.mean, location.rows, location.columns, X)
    p = rng.uniform(0.5, 2.0, D) if weights and data_name == "entries" else None
    q = rng.uniform(0.5, 2.0, T) if weights else None
    return Problem(loss, data, structure, 0.8, p, q, location)


def point_of(objective, rng):
    location, shape = objective.problem.location, objective.problem.shape
    U = rng.standard_normal((shape[0], RANK))
    b = 0.3 * rng.standard_normal(shape[0]) * (location.rows is not None)
    start = 0.0 if objective.problem.loss.binary else 2.9
    effects = Effects(start * location.mean, b, np.zeros(shape[1]), 0.01 * rng.standard_normal(location.n_covariates))
    return objective.point(U / np.linalg.norm(U), effects)


def moves(objective):
    """Which numbers of a point are variables."""
    location, d = objective.problem.location, objective.problem.shape[0]
    free = objective.point(np.ones((d, RANK)), None) != 0
    free[:d, -1], free[d, -1], free[d + 1 :, -1] = location.rows is not None, location.mean, True
    return free


def check_derivatives(problem, tol=1e-7, h=1e-5):
    """Along random directions: U, b, μ and β together, and each alone."""
    objective, rng = Objective(problem, 1), np.random.default_rng(1)
    x, free = point_of(objective, rng), moves(objective)
    d = problem.shape[0]  # truncation is about h² = 1e-10, rounding about 1e-16/h
    parts = {"U": np.s_[:d, :-1], "rows": np.s_[:d, -1], "mean": np.s_[d : d + 1, -1], "β": np.s_[d + 1 :, -1]}
    here = objective.evaluate(x)
    here_gradient, size = here.gradient.copy(), np.linalg.norm(here.gradient)
    assert not here_gradient[~free].any()

    def at(xi):
        objective.forget()
        return objective.evaluate(x + xi)

    for name in ("all", *parts):
        xi = np.where(free, rng.standard_normal(x.shape), 0.0)
        if name != "all":
            only = np.zeros_like(xi)
            only[parts[name]] = xi[parts[name]]
            xi = only
        if not xi.any():
            continue
        if objective.inner.sum_is_zero:  # moving a constant between rows and columns changes nothing
            xi[:d, -1] -= xi[:d, -1].mean()
        ahead, behind = at(h * xi), at(-h * xi)
        slope = (ahead.value - behind.value) / (2 * h)
        scale = np.linalg.norm(xi) * (size + abs(here.value))
        assert abs(slope - np.vdot(here_gradient, xi)) <= tol * scale, name
        moved = (ahead.gradient - behind.gradient) / (2 * h)
        product = here.hessian_product(xi)
        assert np.linalg.norm(moved - product) <= 10 * tol * (np.linalg.norm(moved) + size), name
        assert not product[~free].any()
    check_preconditioner(here, free, objective.inner.sum_is_zero)


def check_preconditioner(evaluation, free, sum_is_zero=False):
    """Symmetric and positive definite on the variables, and 0 on the rest."""
    P, at = evaluation.preconditioner, np.argwhere(free)
    matrix = np.empty((len(at), len(at)))
    for k, (i, j) in enumerate(at):
        unit = np.zeros(free.shape)
        unit[i, j] = 1.0
        out = P(unit)
        assert not out[~free].any()
        matrix[:, k] = out[free]
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12 * np.abs(matrix).max())
    least = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    # The sum of row effects that have no penalty, as column effects have none, does not move.
    assert least[int(sum_is_zero)] > 1e-14 * least[-1]


LOSSES = {"square": Square(), "huber": Huber(0.5), "logistic": Logistic()}


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("data", ["entries", "tasks"])
@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives(loss, data, location, weights):
    check_derivatives(problem_of(LOSSES[loss], data, location, weights))


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("data", ["entries", "tasks", "sparse tasks"])
@pytest.mark.parametrize("loss", LOSSES)
def test_covariates(loss, data, weights):
    for location in ("all", "columns free"):
        check_derivatives(problem_of(LOSSES[loss], data, location, weights, covariates=True))


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_soft_bounds(loss, location, weights):
    box = Box(-0.02, 0.02) if LOSSES[loss].binary else Box(2.9, 2.95)
    problem = problem_of(LOSSES[loss], "entries", location, weights, SoftBox(box, 0.3))
    assert Objective(problem, 1).evaluate(point_of(Objective(problem, 1), np.random.default_rng(1))).violation_cost > 0
    check_derivatives(problem)


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("location", ["mean", "all", "columns free", "columns", "rows"])
def test_own_measurement_and_loss(location, weights):
    problem = problem_of(LogCosh(), "own", location, weights)
    assert isinstance(Objective(problem, 1).inner.solver, Generic)
    check_derivatives(problem)
    check_derivatives(problem_of(LogCosh(), "own", location, weights, covariates=True))


@pytest.mark.parametrize("location", ["mean", "all", "columns free"])
def test_own_measurement_within_soft_bounds(location):
    check_derivatives(
        problem_of(LogCosh(), "own", location, False, SoftBox(Box(2.5, 3.5), 0.3)), h=1e-6
    )  # no bound becomes active


@pytest.mark.parametrize("location", ["all", "columns free"])
@pytest.mark.parametrize("loss", ["square", "huber"])
def test_generic_solver_on_entries_agrees_with_the_specialised_one(loss, location):
    problem = problem_of(LOSSES[loss], "entries", location, True)
    one, other = Objective(problem, 1), Objective(problem, 1)
    other.inner.solver = Generic(problem.extended, 1)
    x = point_of(one, np.random.default_rng(1))
    a, b = one.evaluate(x), other.evaluate(x)
    # Generic holds column effects without penalty by a ridge of 1e-9 per observation.
    assert a.value == pytest.approx(b.value, rel=1e-7)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-6 * np.abs(a.gradient).max())
    xi = np.where(moves(one), np.random.default_rng(2).standard_normal(x.shape), 0.0)
    product = a.hessian_product(xi)
    np.testing.assert_allclose(product, b.hessian_product(xi), atol=1e-5 * np.abs(product).max())


def test_rounded_kinks():
    problem = problem_of(Hinge(), "entries", "all", True)
    check_derivatives(Problem(Hinge().rounded(0.3), problem.data, C=0.8, location=problem.location))


def test_public_checks_take_points_with_a_location():
    objective = Objective(problem_of(Square(), "entries", "all", True), 1)
    x = point_of(objective, np.random.default_rng(1))
    d = objective.problem.shape[0]
    # Where all parts of a location are there, only the zeros below U are no variables.
    gradient = objective.evaluate(x).gradient
    assert not gradient[d:, :-1].any()
    check_gradient(objective, x)
    check_hessian(objective, x)


@pytest.mark.parametrize("data", ["entries", "tasks"])
@pytest.mark.parametrize("loss", [Huber(1e-6), Hinge().rounded(1e-6)], ids=["huber", "hinge"])
def test_preconditioner_without_curvature(loss, data):
    """With all errors in the linear part of the loss there is no curvature by the mean, and none by coefficients."""
    for covariates in (False, True):
        problem = problem_of(loss, data, "mean", False, covariates=covariates)
        objective = Objective(problem, 1)
        x = point_of(objective, np.random.default_rng(1))
        check_preconditioner(objective.evaluate(x), moves(objective))


@pytest.mark.parametrize("covariates", [False, True])
def test_packing_round_trips(covariates):
    problem = problem_of(Square(), "entries", "all", False, covariates=covariates)
    packing, rng, k = Packing.of(problem), np.random.default_rng(3), 2 * covariates
    U = rng.standard_normal((D, RANK))
    effects = Effects(3.0, rng.standard_normal(D), rng.standard_normal(T), rng.standard_normal(k))
    point = packing.packed(U, effects)
    assert point.shape == (D + 1 + k, RANK + 1)
    found = packing.parts(point)
    np.testing.assert_array_equal(found[0], U)
    for one, other in zip(found[1:], (effects.rows, effects.mean, effects.coefficients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15)
    # A derivative and its parts: ⟨derivative, point⟩ is the sum of the inner products of the parts.
    G, g_rows, g_mean, g_k = rng.standard_normal((D, RANK)), rng.standard_normal(D), 0.7, rng.standard_normal(k)
    gradient = packing.derivative(G, g_rows, g_mean, g_k)
    total = np.vdot(G, U) + g_rows @ effects.rows + g_mean * effects.mean + g_k @ effects.coefficients
    assert np.vdot(gradient, point) == pytest.approx(total, rel=1e-13)
    for one, other in zip(packing.gradient_parts(gradient), (G, g_rows, g_mean, g_k), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    other = packing.with_U(point, 2.0 * U)
    np.testing.assert_array_equal(packing.parts(other)[0], 2.0 * U)
    np.testing.assert_array_equal(other[:, -1], point[:, -1])
    assert not packing.packed(U)[:, -1].any()


def test_points_of_a_wrong_shape_are_refused():
    objective = Objective(problem_of(Square(), "entries", "all", False), 1)
    with pytest.raises(ValueError, match=r"use Objective.point\(U, effects\)"):
        objective.evaluate(np.ones((D, RANK)))
    evaluation = objective.evaluate(point_of(objective, np.random.default_rng(1)))
    with pytest.raises(ValueError, match="shape of the point"):
        evaluation.hessian_product(np.ones((D, RANK)))
