"""Where the formulas of the paper do not hold as printed: one test for each entry of docs/corrections.md.

A test shows why the printed form does not do and that the corrected one holds. Both are written out here from the
paper, for a matrix Y of which every entry is observed, unless something else is needed; the package is used last, to
show that it has the corrected one.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from rslm import Objective, ObservedMatrix, Problem, solve
from rslm.certificate.certify import certify
from rslm.losses import Square
from rslm.measurements import Entries, Samples
from rslm.solvers.manifold import Tangent
from rslm.structures import Hankel

D, T, RANK, C = 5, 8, 2, 0.7


@pytest.fixture
def Y():
    return np.random.default_rng(0).standard_normal((D, T))


def point(seed=1, rank=RANK):
    """A U of norm 1, and a direction."""
    rng = np.random.default_rng(seed)
    U, xi = rng.standard_normal((D, rank)), rng.standard_normal((D, rank))
    return U / np.linalg.norm(U), xi


def dual_matrix(Y, U):
    """Z at U, which maximises ⟨Y, Z⟩ − ‖Z‖²/4C − ½‖UᵀZ‖²: Z/2C + U UᵀZ = Y."""
    return np.linalg.solve(np.eye(D) / (2 * C) + U @ U.T, Y)


def along(f, U, xi, h=1e-5):
    """The derivative of f at U along ξ, by central differences: errors of h² and of rounding over h, 1e-10."""
    return (f(U + h * xi) - f(U - h * xi)) / (2 * h)


def observed(Y):
    return Problem(Square(), Entries(ObservedMatrix.from_any(Y)), C=C)


def relative(found, right):
    return np.linalg.norm(found - right) / np.linalg.norm(right)


def test_one_half_of_the_squared_trace_norm(Y):
    """The partial dual of the first theorem, minimised over Θ, is the optimum of C L + ½‖W‖_*², not of C L + ‖W‖_*²."""
    W = cp.Variable((D, T))
    for factor, holds in ((0.5, True), (1.0, False)):
        primal = cp.Problem(cp.Minimize(C * cp.sum_squares(W - Y) + factor * cp.square(cp.normNuc(W))))
        primal.solve(solver=cp.CLARABEL)
        # The best Θ for this W, (W Wᵀ)^½ over its trace, as given in the paper. At an optimum it is the best of all.
        left, s, _ = np.linalg.svd(W.value, full_matrices=False)
        U = left * np.sqrt(s / s.sum())
        g = 0.5 * np.sum(Y * dual_matrix(Y, U))
        assert (g == pytest.approx(primal.value, rel=1e-6)) == holds  # CLARABEL solves to 1e-8
    result = solve(observed(Y), D, tol=1e-10, random_state=0)
    W.value = result.U @ result.V.T
    assert C * np.sum((W.value - Y) ** 2) + 0.5 * np.linalg.norm(W.value, "nuc") ** 2 == pytest.approx(
        result.certificate.dual, rel=1e-8
    )


def test_signs_in_the_derivative_of_the_gradient(Y):
    U, xi = point()
    Z, dZ = dual_matrix(Y, U), along(lambda U: dual_matrix(Y, U), U, xi)
    differences = along(lambda U: -dual_matrix(Y, U) @ dual_matrix(Y, U).T @ U, U, xi)
    printed = dZ @ Z.T @ U + Z @ (dZ.T @ U - Z.T @ xi)
    right = -dZ @ Z.T @ U - Z @ (dZ.T @ U + Z.T @ xi)
    assert relative(printed, differences) > 0.1
    assert relative(right, differences) < 1e-7
    evaluation = Objective(observed(Y), n_threads=1).evaluate(U)
    assert relative(evaluation.hessian_product(xi), differences) < 1e-7


def test_the_factor_in_the_system_of_the_derivative_of_the_dual_matrix(Y):
    """D∇L*(−Z/C)[Ż], read as the second derivative of L* along Ż, lacks the −1/C of the chain rule."""
    U, xi = point()
    Z = dual_matrix(Y, U)
    bend = (U @ xi.T + xi @ U.T) @ Z
    second = 0.5 * np.eye(D)  # of the conjugate of the square loss, L*(X) = ⟨Y, X⟩ + ‖X‖²/4
    printed = np.linalg.solve(second - U @ U.T, bend)
    right = np.linalg.solve(-second / C - U @ U.T, bend)
    differences = along(lambda U: dual_matrix(Y, U), U, xi)
    assert relative(printed, differences) > 0.1
    assert relative(right, differences) < 1e-7


def test_the_gap_of_inexact_dual_variables_flatters(Y):
    """Δ = ½(σ₁² − ‖UᵀZ‖²) is a bound at the exact Z only; with a part of it, it is smaller than the true distance."""
    U, _ = point()
    Z = dual_matrix(Y, U)
    W = U @ (U.T @ Z)
    value = C * np.sum((Y - W) ** 2) + 0.5 * np.linalg.norm(U.T @ Z) ** 2  # g(U)
    best = solve(observed(Y), D, tol=1e-10, random_state=0).certificate.primal
    distance = value - best

    def printed(Z):
        return 0.5 * (np.linalg.norm(Z, 2) ** 2 - np.linalg.norm(U.T @ Z) ** 2)

    def two_sided(Z):
        """From the value itself and the dual function at Z, whatever Z is."""
        return value - (np.sum(Y * Z) - np.sum(Z**2) / (4 * C) - 0.5 * np.linalg.norm(Z, 2) ** 2)

    assert printed(Z) == pytest.approx(two_sided(Z), rel=1e-9)  # exact: both are the gap
    assert printed(Z) >= distance
    for part in (0.0, 0.3):  # inner solvers that were stopped early
        assert printed(part * Z) < 0.5 * distance
        assert two_sided(part * Z) >= distance

    # σ₁ by a step of the power method is too small, and the gap with it.
    x = Z.T @ (Z @ np.random.default_rng(3).standard_normal(T))
    short = np.linalg.norm(Z @ x) / np.linalg.norm(x)
    assert 0.5 * (short**2 - np.linalg.norm(U.T @ Z) ** 2) < 0.995 * printed(Z)


def test_the_certificate_does_not_flatter(Y):
    """That of the package at the same point bounds the distance of W's objective."""
    U, _ = point()
    problem = observed(Y)
    best = solve(problem, D, tol=1e-10, random_state=0).certificate.primal
    evaluation = Objective(problem, n_threads=1).evaluate(U)
    certificate = certify(problem, evaluation, 1e-6, stationary=False)
    assert certificate.dual <= best * (1 + 1e-9)
    assert certificate.primal - certificate.dual >= (certificate.primal - best) * (1 - 1e-9)


def test_a_limit_on_the_rank_leaves_a_gap_at_its_optimum(Y):
    """Of a full matrix the best W of rank 1 is known: σ₁ shrunk by 2C/(1 + 2C). It is found, and the gap is large."""
    left, s, right = np.linalg.svd(Y)
    result = solve(observed(Y), 1, tol=1e-9, random_state=0)
    best = 2 * C / (1 + 2 * C) * s[0] * np.outer(left[:, 0], right[0])
    np.testing.assert_allclose(result.U @ result.V.T, best, atol=1e-6)
    assert result.converged
    assert result.certificate.relative_gap > 0.1


def antidiagonal_sums(S):
    d, T = S.shape
    return np.bincount(np.add.outer(np.arange(d), np.arange(T)).ravel(), S.ravel(), d + T - 1)


def hankel(h, d):
    return np.lib.stride_tricks.sliding_window_view(h, len(h) - d + 1)


def test_the_hankel_problem_is_degenerate():
    """At a generic U no Hankel matrix but 0 has its columns in the span of U; so g = C‖y‖² and the gradient is 0."""
    d, T = 6, 9
    n, rng = d + T - 1, np.random.default_rng(0)
    y = np.exp(-0.1 * np.arange(n)) * np.cos(0.9 * np.arange(n)) + 0.05 * rng.standard_normal(n)
    U = np.linalg.qr(rng.standard_normal((d, 2)))[0] / np.sqrt(2)
    outside = np.eye(d) - 2 * U @ U.T  # projects on what is orthogonal to U
    map_ = np.column_stack([(outside @ hankel(e, d)).ravel() for e in np.eye(n)])
    assert np.linalg.svd(map_, compute_uv=False)[-1] > 0.1  # h = 0 alone is mapped to 0

    def image(S):
        """The second derivative of the dual in S, ⟨y, z⟩ − ‖z‖²/4C − ½‖UᵀS‖² with z = H*(S), with the sign changed."""
        return hankel(antidiagonal_sums(S), d) / (2 * C) + U @ (U.T @ S)

    def seen(S):
        """The value of the dual relative to C‖y‖², and the norm of the gradient of g that follows from S."""
        z = antidiagonal_sums(S)
        value = y @ z - z @ z / (4 * C) - 0.5 * np.sum((U.T @ S) ** 2)
        return value / (C * y @ y), np.linalg.norm(S @ (S.T @ U))

    matrix = np.column_stack([image(e.reshape(d, T)).ravel() for e in np.eye(d * T)])
    exact = seen(np.linalg.lstsq(matrix, hankel(y, d).ravel(), rcond=None)[0].reshape(d, T))
    assert exact[0] == pytest.approx(1.0, rel=1e-9)  # rounding errors
    assert exact[1] < 1e-9

    # A few steps of conjugate gradients, as in the paper: now it looks like a function of U, with a gradient.
    S, residual = np.zeros((d, T)), hankel(y, d)
    direction = residual
    for _ in range(3):
        square, turned = np.sum(residual**2), image(direction)
        step = square / np.sum(direction * turned)
        S, residual = S + step * direction, residual - step * turned
        direction = residual + np.sum(residual**2) / square * direction
    assert seen(S)[0] < 0.9
    assert seen(S)[1] > 0.1

    # With Θ = U Uᵀ + δI, as in the package, the answer is a Hankel matrix near y, of low rank.
    result = solve(Problem(Square(), Samples(y), Hankel(d, T), C=1e3), 2, random_state=0)
    h = np.asarray(result.parameters).ravel()
    assert relative(h, y) < 0.2
    s = np.linalg.svd(hankel(h, d), compute_uv=False)
    assert s[2] < 1e-2 * s[0]


def test_horizontal_projection_where_u_has_not_full_rank():
    """Λ from UᵀU Λ + Λ UᵀU = Uᵀξ − ξᵀU: there the equation is singular, and there the optimum often is."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((D, 2)) @ rng.standard_normal((2, 4))
    U /= np.linalg.norm(U)
    gram, eye = U.T @ U, np.eye(4)
    values = np.linalg.svd(np.kron(gram, eye) + np.kron(eye, gram), compute_uv=False)
    assert values[-1] < 1e-15 * values[0]  # as a system of equations for the elements of Λ

    xi = rng.standard_normal((D, 4))
    found = Tangent(U).project(xi)
    np.testing.assert_allclose(U.T @ found, found.T @ U, atol=1e-14)  # horizontal
    assert abs(np.sum(U * found)) < 1e-14  # tangent
    np.testing.assert_allclose(Tangent(U).project(found), found, atol=1e-14)
