"""Whitening of noise with memory, against its covariance matrix."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from rslm.estimators.series.likelihood import channels_of, scored
from rslm.estimators.series.modes import NO_POLES, modes_of
from rslm.estimators.series.variable_projection import fitted
from rslm.estimators.series.whitening import Whitening, reflections_of

REFLECTIONS = [[], [0.7], [0.5, -0.3], [0.9, 0.2, -0.4]]


def covariance(phi, n):
    """Of autoregressive noise with innovations of variance 1, from its impulse response."""
    response = lfilter([1.0], np.append(1.0, -phi), np.eye(1, 5000)[0])
    return toeplitz([response[: 5000 - k] @ response[k:] for k in range(n)])


@pytest.mark.parametrize("reflections", REFLECTIONS)
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
def test_squares_and_determinant_are_those_of_the_covariance(reflections, missing):
    rng = np.random.default_rng(0)
    n = 30
    seen = rng.random(n) >= missing
    whitening = Whitening(seen, np.array(reflections))
    S = covariance(whitening.coefficients, n)[np.ix_(seen, seen)]
    X = rng.standard_normal((n, 2))
    white = whitening(X)
    wanted = X[seen].T @ np.linalg.solve(S, X[seen])
    assert np.allclose(white.T @ white, wanted, rtol=1e-9)  # 5,000 terms of the response leave less than that
    assert whitening.log_determinant == pytest.approx(np.linalg.slogdet(S)[1], abs=1e-9)
    X[~seen] = 1e6
    assert np.allclose(whitening(X), white, atol=1e-9)
    assert np.allclose(whitening(X[:, 0]), white[:, 0], atol=1e-9)


def test_reflections_of_a_long_series():
    rng = np.random.default_rng(1)
    whitening = Whitening(np.ones(1, dtype=bool), np.array([0.6, -0.4, 0.2]))
    e = lfilter([1.0], np.append(1.0, -whitening.coefficients), rng.standard_normal(40_000))
    e[rng.random(len(e)) < 0.2] = np.nan
    assert np.allclose(reflections_of(e, 3), [0.6, -0.4, 0.2], atol=0.03)  # four standard deviations of 1/√n
    assert len(reflections_of(e[:3], 3)) == 2


def test_reflections_of_nothing():
    assert np.array_equal(reflections_of(np.zeros(9), 2), [0.0, 0.0])
    assert (np.abs(reflections_of(np.arange(9.0), 2)) < 1).all()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_criterion_is_that_of_the_covariance(missing):
    rng = np.random.default_rng(2)
    n = 60
    y = lfilter([1.0], [1.0, -0.9], rng.standard_normal(n))
    y[rng.random(n) < missing] = np.nan
    found = scored(y[None], fitted(channels_of(y[None]), modes_of(NO_POLES, n, False)))
    whitening, seen = found.whitenings[0], ~np.isnan(y)
    S, N, p = covariance(whitening.coefficients, n)[np.ix_(seen, seen)], int(seen.sum()), found.memory
    squares = y[seen] @ np.linalg.solve(S, y[seen])
    wanted = N * np.log(squares / N) + np.linalg.slogdet(S)[1] + p * np.log(N) * N / (N - p - 2)
    assert p > 0
    assert found.criterion == pytest.approx(wanted, rel=1e-9)
