"""The order of a series in white and coloured noise, growth, channels, complex series; bounds and components."""

import numpy as np
import pytest
from scipy.signal import lfilter

from rslm import HankelModel
from rslm.estimators.series.bound import least_squares_bound
from rslm.estimators.series.components import w_correlations
from rslm.estimators.series.order_search import OrderSearch


def found(y, largest=20):
    Y = np.atleast_2d(y)
    return OrderSearch(Y / np.sqrt(np.nanmean(np.abs(Y) ** 2)), largest, 3).run()


def coloured(rng, n, phi):
    return lfilter([np.sqrt(1 - phi**2)], [1.0, -phi], rng.standard_normal(n + 100))[100:]


def test_coloured_noise_is_not_read_as_exponentials():
    t, orders, largest = np.arange(300), [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = np.cos(0.3 * t + seed) + 0.6 * np.cos(0.9 * t) + 0.3 * coloured(rng, 300, 0.7)
        one = found(y)
        orders.append(one.order)
        largest.append(np.abs(one.fit.modes.poles()).max())
    assert sum(order == 4 for order in orders) >= 5
    assert max(largest) <= 1.0 + 1e-12


@pytest.mark.parametrize("phi", [0.0, 0.8, 1.0])
def test_noise_alone_has_no_order(phi):
    orders = []
    for seed in range(6):
        rng = np.random.default_rng(100 + seed)
        orders.append(found(np.cumsum(rng.standard_normal(200)) if phi == 1 else coloured(rng, 200, phi)).order)
    assert sum(order == 0 for order in orders) >= 5


def test_trends_levels_and_seasons_are_undamped():
    t = np.arange(120)
    y = 5 + 0.03 * t + np.cos(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).standard_normal(120)
    model = HankelModel().fit(y)
    assert model.rank_ == 4
    assert np.allclose(np.abs(model.poles_), 1.0, atol=1e-12)
    assert np.sum(np.abs(model.poles_ - 1.0) < 1e-12) == 2
    first = np.flatnonzero(np.abs(model.poles_ - 1.0) < 1e-12)
    assert model.amplitudes_[first[0]].real == pytest.approx(5.0, abs=0.1)  # the level at t = 0
    assert model.amplitudes_[first[1]].real == pytest.approx(0.03, abs=0.002)  # the slope


def test_growth_in_noise_is_found_if_it_is_there():
    t = np.arange(100)
    y = 1.03**t + 0.1 * np.random.default_rng(0).standard_normal(100)
    one = found(y)
    assert one.order == 1
    assert one.fit.modes.poles()[0] == pytest.approx(1.03, abs=1e-3)


@pytest.mark.parametrize(
    "y", [1.05 ** np.arange(120), np.exp((0.3j - 0.01) * np.arange(200))], ids=["growth", "complex"]
)
def test_an_exponential_without_noise_is_found_and_converged(y):
    model = HankelModel().fit(y)
    assert model.rank_ == 1
    assert np.allclose(model.signal_, y, rtol=1e-9)
    assert model.converged_
    assert "best one when" not in model.verdict_


def test_growth_with_a_channel_that_has_only_the_last_samples():
    t = np.arange(200)
    y = np.column_stack([1.02**t + 0.01 * np.random.default_rng(3).standard_normal(200), 1.02**t])
    y[:-8, 1] = np.nan
    assert HankelModel().fit(y).score(y) > 0.999


def test_a_channel_with_much_noise_does_not_spoil_another():
    t, errors = np.arange(300), []
    truth = np.stack([0.99**t * np.cos(0.3 * t), 0.99**t * np.sin(0.3 * t)], axis=1)
    for seed in range(4):
        noise = np.array([0.05, 2.0]) * np.random.default_rng(seed).standard_normal((300, 2))
        model = HankelModel().fit(truth + noise)
        assert np.allclose(model.channel_noise_, [0.05, 2.0], rtol=0.15)
        errors.append(np.sqrt(np.mean((model.signal_ - truth)[:, 0] ** 2)))
    assert np.mean(errors) < 1.3 * 0.05 * np.sqrt(4 / 300)  # the Cramér–Rao level of the good channel alone


def test_complex_series():
    t, rng = np.arange(256), np.random.default_rng(0)
    z = np.exp(-np.array([0.01, 0.02, 0.015]) + 1j * np.array([0.3, -0.7, 0.36]))
    a = np.array([1.0, 2j, 1.0])
    truth = z ** t[:, None] @ a
    y = truth + 0.05 * (rng.standard_normal(256) + 1j * rng.standard_normal(256))
    y[20:25] = np.nan
    model = HankelModel().fit(y)
    assert model.rank_ == 3
    for pole, amplitude in zip(z, a, strict=True):
        nearest = np.argmin(np.abs(model.poles_ - pole))
        assert abs(model.poles_[nearest] - pole) < 2e-3
        assert abs(model.amplitudes_[nearest] - amplitude) < 0.1
    assert np.sqrt(np.mean(np.abs(model.signal_ - truth) ** 2)) < 1.5 * 0.05 * np.sqrt(2 * 2 * 3 / 256)
    assert model.noise_ == pytest.approx(0.05, rel=0.1)  # of each part
    assert np.iscomplexobj(model.forecast(3))
    assert model.score(truth) > 0.99


@pytest.mark.parametrize("order", [1, 3])
def test_no_signal_of_the_order_is_below_the_bound(order):
    rng = np.random.default_rng(order)
    y = np.cos(0.3 * np.arange(60)) + 0.5 * rng.standard_normal(60)
    bound = least_squares_bound(y[None], order)
    assert bound > 0
    for _ in range(200):
        z = rng.uniform(-1, 1, order) if order == 1 else np.append(np.exp([0.3j, -0.3j]) * rng.uniform(0.9, 1), 0.9)
        B = (np.asarray(z, dtype=complex) ** np.arange(60)[:, None]) @ np.eye(order)
        left = y - B @ np.linalg.lstsq(B, y.astype(complex), rcond=None)[0]
        assert np.sum(np.abs(left) ** 2) >= bound


def test_the_bound_says_something():
    t = np.arange(1000)
    y = np.cos(0.3 * t) + 0.5 * np.random.default_rng(0).standard_normal(1000)
    assert 0 < HankelModel().fit(y).excess_ < 0.3
    y[4] = np.nan
    assert HankelModel().fit(y).excess_ == np.inf


def test_the_bound_is_not_made_of_rounding_errors():
    y = 1e8 + np.cos(0.3 * np.arange(200)) + 0.05 * np.random.default_rng(1).standard_normal(200)
    assert least_squares_bound(y[None], 3) <= np.sum((y - HankelModel().fit(y).signal_) ** 2)


def test_components_of_huge_samples():
    t = np.arange(200)
    y = np.cos(0.3 * t) + 2 * np.cos(0.7 * t) + 0.1 * np.random.default_rng(0).standard_normal(200)
    assert [round(one.period) for one in HankelModel().fit(1e300 * y).components_] == [9, 21]  # the largest first


def test_components_add_up():
    t = np.arange(144)
    y = 10 + 0.05 * t + np.cos(2 * np.pi * t / 12) + 0.5 * np.cos(2 * np.pi * t / 6 + 1) + 2 * 0.7**t
    y = y + 0.05 * np.random.default_rng(0).standard_normal(144)
    model = HankelModel().fit(y)
    parts = model.components_
    assert [one.kind for one in parts] == ["trend", "oscillation", "oscillation", "decay"]
    assert [round(one.period, 1) for one in parts[1:3]] == [12.0, 6.0]
    assert np.allclose(sum(one.signal for one in parts), model.signal_)
    assert np.abs(parts[0].signal - 10 - 0.05 * t).max() < 0.1
    correlations = w_correlations(parts, 72)
    assert np.allclose(np.diag(correlations), 1.0)
    assert np.abs(correlations - np.eye(4)).max() < 0.15
