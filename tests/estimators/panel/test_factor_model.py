"""Factors with random loadings: expected loadings, the maximum of the likelihood, and stacks of panels."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import approx_fprime

from panels import make_panel
from rslm.estimators.panel.factor_model import ALIKE, fit_factors, inverses, loadings_around


def fitted(Y, treated, rank, covariates=None, tol=1e-11):
    start = np.where(treated, 0.0, Y - Y.mean(axis=1, keepdims=True) - Y.mean(axis=0))
    given = Y[None], ~treated[None], treated.any(axis=1)[None], rank, start[None]
    return fit_factors(*given, covariates=covariates, tol=tol, most_steps=20_000)


def differences(y, seen, factors, mean, variance):
    """Outcomes of a unit without its effect: what is orthogonal to constants, with its mean and variance matrix."""
    K = null_space(np.ones((1, int(seen.sum())))).T @ np.eye(len(y))[seen]
    return K @ y, K @ factors @ mean, K @ (factors @ factors.T + variance * np.eye(len(y))) @ K.T, K


def penalised_likelihood(Y, treated, periods, factors, mean, variance):
    found = -0.5 * ALIKE * mean @ mean
    for y, on in zip(Y, treated, strict=True):
        left, expected, matrix, _ = differences(y - periods, ~on, factors, on.any() * mean, variance)
        away = left - expected
        found -= 0.5 * (np.linalg.slogdet(matrix)[1] + away @ np.linalg.solve(matrix, away))
    return found


def test_loadings_are_those_expected_given_the_outcomes():
    Y, treated, _ = make_panel(factors=2)
    found = fitted(Y, treated, 2)
    factors, mean, periods = found.factors[0], found.adopters[0], found.fitted.located.periods[0]
    W, variance = found.fitted.W[0], found.noise[0] ** 2
    for y, on, w, spread in zip(Y, treated, W, found.spread[0], strict=True):
        prior = on.any() * mean
        left, expected, matrix, K = differences(y - periods, ~on, factors, prior, variance)
        gain = factors.T @ K.T @ np.linalg.inv(matrix)
        np.testing.assert_allclose(w, factors @ (prior + gain @ (left - expected)), atol=1e-7)  # the last step
        np.testing.assert_allclose(spread, np.eye(2) - gain @ K @ factors, atol=1e-9)


def test_the_likelihood_is_at_its_maximum():
    Y, treated, _ = make_panel(factors=2, units=12, periods=17)
    found = fitted(Y, treated, 2)
    factors, mean, periods = found.factors[0], found.adopters[0], found.fitted.located.periods[0]
    variance = found.noise[0] ** 2

    def value(x):
        return penalised_likelihood(Y, treated, x[:17], x[19:].reshape(17, 2), x[17:19], variance)

    point = np.concatenate([periods, mean, factors.ravel()])
    slope = approx_fprime(point, value, 1e-6)
    away = approx_fprime(point + 0.01, value, 1e-6)
    assert np.abs(slope).max() < 1e-3 * np.abs(away).max()  # forward differences of some 1e3 have errors of 1e-3


def test_the_variance_of_the_noise():
    Y, treated, _ = make_panel(factors=1)
    n, T = Y.shape
    for rank in (0, 1):
        found = fitted(Y, treated, rank)
        left = np.where(treated, 0.0, Y - found.fitted.predicted[0])
        uncertain = 0.0
        for on, spread in zip(treated, found.spread[0], strict=True):
            F = found.factors[0][~on] - found.factors[0][~on].mean(axis=0)
            uncertain += np.trace(spread @ F.T @ F)
        free = (~treated).sum() - n - (rank + 1) * T + 1
        assert found.noise[0] ** 2 == pytest.approx(((left**2).sum() + uncertain) / free, rel=1e-6)


def test_effects_and_covariates_leave_nothing_of_the_residuals():
    Y, treated, _ = make_panel(factors=1)
    x = np.random.default_rng(5).standard_normal((2, *Y.shape))
    found = fitted(Y + 1.5 * x[0] - 0.5 * x[1], treated, 1, covariates=x)
    left = np.where(treated, 0.0, Y + 1.5 * x[0] - 0.5 * x[1] - found.fitted.predicted[0])
    for sums in (left.sum(axis=0), left.sum(axis=1), np.tensordot(x, left, axes=2)):
        np.testing.assert_allclose(sums, 0.0, atol=1e-10)  # rounding
    np.testing.assert_allclose(found.fitted.located.coefficients[0], [1.5, -0.5], atol=0.1)  # noise 0.3 in 400 entries


def test_a_panel_does_not_depend_on_its_stack_or_on_threads(monkeypatch):
    Y, treated, _ = make_panel(factors=2)
    observed, adopters = np.repeat(~treated[None], 5, axis=0), treated.any(axis=1)[None]
    observed[np.arange(5), np.arange(5)] = False
    stack, start = np.repeat(Y[None], 5, axis=0), (Y - Y.mean(axis=1, keepdims=True))[None]
    settings = {"tol": 1e-6, "most_steps": 500}
    whole = fit_factors(stack, observed, adopters, 2, start, **settings).fitted
    for k in range(5):
        alone = fit_factors(stack[:1], observed[k : k + 1], adopters, 2, start, **settings).fitted
        assert alone.steps[0] == whole.steps[k]
        np.testing.assert_allclose(alone.predicted[0], whole.predicted[k], atol=1e-10)  # rounding
    monkeypatch.setattr("rslm.estimators.panel.stack.BATCH", 1000)  # two panels each
    one, two = (fit_factors(stack, observed, adopters, 2, start, n_threads=n, **settings).fitted for n in (1, 2))
    assert np.array_equal(one.predicted, two.predicted)


def test_a_unit_and_a_period_without_entries_change_nothing():
    Y, treated, _ = make_panel(factors=1)
    whole = fitted(Y, treated, 1)
    Y, observed = np.pad(Y, ((0, 1), (0, 1))), np.pad(~treated, ((0, 1), (0, 1)))
    adopters = np.append(treated.any(axis=1), True)[None]
    start = np.where(observed, Y - Y.mean(axis=1, keepdims=True) - Y.mean(axis=0), 0.0)[None]
    found = fit_factors(Y[None], observed[None], adopters, 1, start, tol=1e-11, most_steps=20_000)
    np.testing.assert_allclose(found.fitted.predicted[0, :-1, :-1], whole.fitted.predicted[0], atol=1e-2)
    assert np.isfinite(found.fitted.predicted).all()


def test_weak_factors_are_not_followed_into_the_noise():
    """Without a ridge, errors are 2.4 times those of unit and period effects alone."""
    panels = [make_panel(seed, factors=1, noise=3.0) for seed in range(40)]
    Y, without, treated = np.array([p[0] for p in panels]), np.array([p[2] for p in panels]), panels[0][1]
    start = np.where(treated, 0.0, Y - Y.mean(axis=2, keepdims=True) - Y.mean(axis=1, keepdims=True))
    errors = []
    for rank in (0, 2):
        given = Y, ~treated[None], treated.any(axis=1)[None], rank, start
        found = fit_factors(*given, tol=1e-4, most_steps=300).fitted.predicted
        errors.append(np.sqrt(np.mean((found - without)[:, treated].mean(axis=1) ** 2)))
    assert errors[1] < 1.1 * errors[0]


def test_draws_of_loadings_have_the_variance_of_the_joint_model():
    """Of loadings and the adopters' mean, from the precision matrix of all of them; one factor, three units."""
    information = np.array([2.0, 0.5, 1.0])  # squares of the factor over σ², of each unit
    adopters = np.array([True, True, False])
    precision = np.diag(np.append(information + 1.0, ALIKE + 2.0))  # the last one is the mean
    precision[:2, 3] = precision[3, :2] = -1.0
    expected = np.linalg.inv(precision)[:3, :3]
    spread = (1.0 / (information + 1.0))[:, None, None]
    drawn = loadings_around(spread, adopters, 100_000, np.random.default_rng(0))[:, :, 0]
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.02)  # 100,000 draws: a standard error of 0.004


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_inverses(size):
    X = np.random.default_rng(size).standard_normal((3, 4, size, size + 2))
    A = np.matmul(X, X.swapaxes(2, 3))
    np.testing.assert_allclose(inverses(A), np.linalg.inv(A), rtol=1e-6, atol=1e-9)  # conditions of some 1e4
