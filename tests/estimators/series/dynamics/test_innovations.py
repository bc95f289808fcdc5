"""The likelihood against dense covariance matrices; errors and forecasts against a loop over states."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov, toeplitz

from rslm.estimators.series.dynamics import autoregression
from rslm.estimators.series.dynamics.estimate import at_unknowns, translated
from rslm.estimators.series.dynamics.innovations import Group, Likelihood, basis
from rslm.estimators.series.dynamics.prediction import impulse_response, predict


def group(*poles, evolves=True):
    return Group(np.array(poles, dtype=complex), evolves)


SEASON = np.exp(2j * np.pi / 7), np.exp(4j * np.pi / 7)
STRUCTURES = {
    "constant": (group(1, evolves=False),),
    "walk": (group(1),),
    "slope": (group(1), group(1)),
    "drift and season": (group(1), group(1, evolves=False), group(*SEASON)),
    "fixed season": (group(1), group(*SEASON, evolves=False)),
    "damped": (group(1, evolves=False), group(0.9 * SEASON[0], -0.8)),
}
UNKNOWNS = {0: [], 1: [0.8], 3: [1.5, -0.9, 0.4]}  # of autoregressions


def some(name, order, n=40, missing=()):
    groups = STRUCTURES[name]
    y = 5 + np.random.default_rng(3).standard_normal(n).cumsum()
    y[list(missing)] = np.nan
    likelihood = Likelihood(y, groups)
    memories = [0.4, -0.5, 1.2][: sum(g.evolves for g in groups)]
    return y, likelihood, np.array(memories + UNKNOWNS[order])


def polynomials(likelihood, memories):
    """Coefficients of the numerator and denominator of ψ without its autoregression, in powers of q."""
    above, below = np.ones(1), np.ones(1)
    for g, rho in zip(likelihood.groups, memories, strict=True):
        for z in g.poles if rho < 1 else ():
            for w in {complex(z), complex(z).conjugate()}:
                above, below = np.convolve(above, [1, -rho * w]), np.convolve(below, [1, -w])
    return above.real, below.real


def lower(coefficients, n):
    return toeplitz(np.append(coefficients, np.zeros(n))[:n], np.zeros(n))


def covariance(likelihood, memories, partial):
    """Of the series, in units of the variance of innovations."""
    n, p = likelihood.n, len(partial)
    noise = np.eye(n)
    if p:
        phi = autoregression.coefficients(partial)
        F = np.eye(p, k=-1)
        F[0] = phi
        states = solve_discrete_lyapunov(F, np.diag(np.eye(p)[0]))
        lags = [(np.linalg.matrix_power(F, k) @ states)[0, 0] for k in range(n)]
        noise = toeplitz(lags)
    above, below = polynomials(likelihood, memories)
    respond = np.linalg.solve(lower(below, n), lower(above, n))
    return respond @ noise @ respond.T


@pytest.mark.parametrize("missing", [(), (0, 7, 8, 39)])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("name", STRUCTURES)
def test_likelihood_is_that_of_the_dense_covariance(name, order, missing):
    y, likelihood, unknowns = some(name, order, missing=missing)
    memories, partial = translated(likelihood, unknowns)
    found = likelihood.evaluate(memories, partial)
    seen = ~np.isnan(y)
    C = covariance(likelihood, memories, partial)[np.ix_(seen, seen)]
    B = basis(likelihood.groups, len(y), len(y))[:, seen].T
    information = B.T @ np.linalg.solve(C, B)
    beta = np.linalg.solve(information, B.T @ np.linalg.solve(C, y[seen]))
    rest = y[seen] - B @ beta
    squares, m, k = rest @ np.linalg.solve(C, rest), seen.sum(), B.shape[1]
    log_det = np.linalg.slogdet(C)[1]
    of_states = np.linalg.slogdet(information)[1] - np.linalg.slogdet(B.T @ B)[1]
    # 1e-6: the dense matrices have condition numbers of up to 1e8
    assert found.squares == pytest.approx(squares, rel=1e-6)
    assert found.deviance == pytest.approx(m * np.log(squares / m) + log_det, rel=1e-6, abs=1e-5)
    restricted = (m - k) * np.log(squares / (m - k)) + log_det + of_states
    assert found.restricted == pytest.approx(restricted, rel=1e-6, abs=1e-5)
    scaled = found.scaled @ found.scaled
    assert (m - k) * np.log(scaled / (m - k)) == pytest.approx(restricted, rel=1e-6, abs=1e-5)
    np.testing.assert_allclose(found.coefficients, beta, rtol=1e-5, atol=1e-6)


def state_space(likelihood, memories, partial):
    """F, k and h = (1, 0, …) of x_{t+1} = F x_t + k e_t, y_t = h x_t + e_t, deterministic exponentials left out."""
    above, below = polynomials(likelihood, memories)
    below = np.convolve(below, np.append(1.0, -autoregression.coefficients(partial)))
    m = len(below) - 1
    F = np.eye(m, k=1)
    F[:, :1] = -below[1:, None]
    return F, np.append(above, np.zeros(m))[1 : m + 1] - below[1:]


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("name", STRUCTURES)
def test_forecasts_are_those_of_a_loop_over_states(name, order):
    y, likelihood, unknowns = some(name, order)
    memories, partial = translated(likelihood, unknowns)
    estimate, steps, n = at_unknowns(likelihood, unknowns), 9, len(y)
    exponentials = estimate.found.coefficients @ basis(likelihood.groups, n, n + steps)
    F, k = state_space(likelihood, memories, partial)
    x, errors = np.zeros(len(k)), []
    for t in range(n):
        ahead = exponentials[t] + (x[0] if len(x) else 0.0)
        errors.append(y[t] - ahead)
        x = F @ x + k * errors[-1]
    expected = [exponentials[n + h] + (np.linalg.matrix_power(F, h) @ x)[:1].sum() for h in range(steps)]
    np.testing.assert_allclose(predict(estimate, steps).ahead, expected, rtol=1e-8)
    np.testing.assert_allclose(estimate.found.errors[order:], errors[order:], rtol=1e-7, atol=1e-8)
    psi = [1.0, *((np.linalg.matrix_power(F, h) @ k)[:1].sum() for h in range(steps - 1))]
    np.testing.assert_allclose(impulse_response(estimate, steps), psi, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("missing", [(), (0, 20, 38, 39)])
@pytest.mark.parametrize("name", STRUCTURES)
def test_variances_are_those_of_the_best_linear_prediction(name, missing):
    y, likelihood, unknowns = some(name, 1, missing=missing)
    unknowns = np.zeros(len(unknowns))
    memories, partial = translated(likelihood, unknowns)
    estimate, steps, n = at_unknowns(likelihood, unknowns), 6, len(y)
    longer = Likelihood(np.append(y, np.zeros(steps)), likelihood.groups)
    seen = np.append(~np.isnan(y), np.zeros(steps, dtype=bool))
    C, B = covariance(longer, memories, partial), basis(likelihood.groups, n, n + steps).T
    gain = np.linalg.solve(C[np.ix_(seen, seen)], C[seen][:, n:]).T
    left = B[n:] - gain @ B[seen]
    of_states = left @ np.linalg.solve(B[seen].T @ np.linalg.solve(C[np.ix_(seen, seen)], B[seen]), left.T)
    expected = estimate.variance * np.diag(C[n:, n:] - gain @ C[seen][:, n:] + of_states)
    # Unknown memories and autoregressions only add to these.
    found = predict(estimate, steps).variance
    assert (found >= expected * (1 - 1e-6)).all()
    without = predict(_certain(estimate), steps).variance
    np.testing.assert_allclose(without, expected, rtol=1e-5)


def _certain(estimate):
    """The same with a Jacobian that leaves no doubt about the unknowns."""
    return replace(estimate, jacobian=1e9 * np.eye(len(estimate.jacobian), len(estimate.unknowns)))
