"""Projections, retraction and derivatives on the spectrahedron, at full and at deficient rank."""

import numpy as np
import pytest

from rslm.solvers.manifold import Tangent, inner, norm
from rslm.testing import difference


def orthogonal(r, seed=7):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((r, r)))[0]


def point(d, singular_values):
    """U with these singular values, normalised, in no special basis."""
    r = len(singular_values)
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((d, r)))[0] * singular_values @ orthogonal(r)
    return U / norm(U)


# Nothing is lost where singular values are small or zero: the projection is a matter of angles between vectors.
ROUNDING = 1e-13  # some hundred times the precision of numbers, for sums of a few dozen of them
POINTS = {
    "full rank": point(9, [3, 2, 1.0]),
    "equal singular values": point(9, [1, 1, 1.0]),
    "one zero": point(9, [2, 1, 0.0]),
    "two zeros": point(9, [1, 0, 0.0]),
    "three zeros": point(9, [2, 1, 0, 0, 0.0]),
    "two at 1e-3": point(9, [1, 1e-3, 1e-3]),
    "two at 1e-6": point(9, [1, 1e-6, 1e-6]),
    "two at 3e-8": point(9, [1, 3e-8, 3e-8]),
    "two at 1e-9": point(9, [1, 1e-9, 1e-9]),
    "zero columns": np.eye(9)[:, :4] * [0, 0.6, 0, 0.8],
    "one column": point(9, [1.0]),
    "square": point(3, [3, 2, 1.0]),
    "one number": np.array([[1.0]]),
}


@pytest.fixture(params=POINTS)
def case(request):
    U = POINTS[request.param]
    rng = np.random.default_rng(3)
    return U, rng.standard_normal(U.shape), rng.standard_normal(U.shape)


def test_projection(case):
    U, X, Y = case
    tangent = Tangent(U)
    PX, PY = tangent.project(X), tangent.project(Y)
    tolerance = ROUNDING * norm(X) * norm(Y)
    assert norm(tangent.project(PX) - PX) <= tolerance  # idempotent
    assert abs(inner(PX, Y) - inner(X, PY)) <= tolerance  # self-adjoint, so the projection is orthogonal
    assert abs(inner(X - PX, PY)) <= tolerance
    assert abs(inner(PX, U)) <= tolerance  # tangent to the sphere
    assert np.abs(U.T @ PX - PX.T @ U).max() <= tolerance  # horizontal


def test_what_is_projected_away(case):
    """The position itself and the rotations, to their last part; nothing that is orthogonal to both."""
    U, X, _ = case
    tangent, r = Tangent(U), U.shape[1]
    skew = X[:r] - X[:r].T if len(X) >= r else np.zeros((r, r))
    assert norm(tangent.project(U)) <= 10 * ROUNDING
    assert norm(tangent.project(U @ skew)) <= 10 * ROUNDING * max(norm(skew), 1)
    if len(U) > r:
        basis = np.linalg.qr(U)[0]
        outside = X - basis @ (basis.T @ X)
        # A direction of size σ is known to ε/σ: 7e-9 for the smallest one here that is not a rounding error itself.
        assert norm(tangent.project(outside) - outside) <= 1e-8 * norm(X)
        assert norm(outside) > 0.1 * norm(X)


def test_input_is_not_changed(case):
    U, X, _ = case
    before, position = X.copy(), U.copy()
    tangent = Tangent(U)
    tangent.project(X)
    tangent.retract(X)
    tangent.hessian(X, X, X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(U, position)


def test_retraction(case):
    U, X, _ = case
    tangent = Tangent(U)
    xi = tangent.project(X)
    for length in (1e-8, 1e-2, 1.0, 1e3):
        assert abs(norm(tangent.retract(length * xi)) - 1) <= 1e-15
    np.testing.assert_allclose(tangent.retract(0 * xi), U, atol=1e-15)
    np.testing.assert_allclose(difference(lambda h: tangent.retract(h * xi), 0.1), xi, atol=1e-9)
    # Second order: the curve's acceleration points to the centre of the sphere.
    bend = (tangent.retract(1e-3 * xi) + tangent.retract(-1e-3 * xi) - 2 * U) / 1e-6
    np.testing.assert_allclose(bend, -inner(xi, xi) * U, atol=2e-5 * max(1, norm(xi)) ** 4)  # h²‖ξ‖⁴ and rounding / h²


class Quartic:
    """f(U) = ½⟨U, A U⟩ + ¼‖Uᵀ K U‖², a function of U Uᵀ."""

    def __init__(self, d):
        rng = np.random.default_rng(5)
        A, K = rng.standard_normal((2, d, d))
        self.A, self.K = A + A.T, K + K.T

    def value(self, U):
        return 0.5 * inner(U, self.A @ U) + 0.25 * norm(U.T @ self.K @ U) ** 2

    def gradient(self, U):
        return self.A @ U + self.K @ U @ (U.T @ self.K @ U)

    def derivative(self, U, xi):
        KU, Kxi = self.K @ U, self.K @ xi
        return self.A @ xi + Kxi @ (U.T @ KU) + KU @ (xi.T @ KU + KU.T @ xi)


def test_riemannian_gradient(case):
    U, X, _ = case
    f, tangent = Quartic(len(U)), Tangent(U)
    xi = tangent.project(X)
    gradient = tangent.gradient(f.gradient(U))
    slope = difference(lambda h: f.value(tangent.retract(h * xi)), 0.1)
    size = norm(f.gradient(U)) * max(norm(xi), 1)
    assert abs(slope - inner(gradient, xi)) <= 1e-10 * size  # 1e-10: the differences
    assert abs(inner(gradient, U)) <= ROUNDING * size
    # f does not change along rotations, so its Euclidean gradient is horizontal but for its radial part.
    np.testing.assert_allclose(gradient, f.gradient(U) - inner(f.gradient(U), U) * U, atol=ROUNDING * size)


def test_riemannian_hessian(case):
    U, X, Y = case
    f, tangent = Quartic(len(U)), Tangent(U)
    xi, eta = tangent.project(X), tangent.project(Y)

    def hessian(zeta):
        return tangent.hessian(f.gradient(U), f.derivative(U, zeta), zeta)

    def gradient(h):
        there = tangent.retract(h * xi)
        return Tangent(there).gradient(f.gradient(there))

    size = (norm(f.gradient(U)) + norm(f.derivative(U, xi)) + 1) * max(norm(xi), 1)
    numeric = tangent.project(difference(gradient, 0.05))
    assert norm(hessian(xi) - numeric) <= 1e-8 * size  # the differences
    assert abs(inner(eta, hessian(xi)) - inner(xi, hessian(eta))) <= ROUNDING * size * max(norm(eta), 1)
    second = difference(lambda h: float(difference(lambda k: f.value(tangent.retract((h + k) * xi)), 0.05)), 0.05)
    assert abs(second - inner(xi, hessian(xi))) <= 1e-6 * size * max(norm(xi), 1)  # differences of differences


def test_norm_and_inner():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [-1.0, 2.0]])
    assert inner(a, b) == 6.0
    assert abs(norm(a) - np.sqrt(30)) < 1e-15
