import numpy as np
import pytest
from scipy.signal import lfilter

from rslm.estimators.series.dynamics import Dynamics, fit_dynamics
from rslm.estimators.series.dynamics.autoregression import burg, coefficients
from rslm.estimators.series.dynamics.seasons import find_season
from rslm.estimators.series.dynamics.volatility import recent_variance


def season(n, seed, noise=0.3):
    t = np.arange(n)
    wave = 2 * np.cos(2 * np.pi * t / 12) + np.sin(2 * np.pi * t / 6)
    return 10 + wave + noise * np.random.default_rng(seed).standard_normal(n)


def local_level(n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n).cumsum() * 0.4 + rng.standard_normal(n)


def autoregressive(n, seed):
    return lfilter([1.0], [1.0, -0.7], np.random.default_rng(seed).standard_normal(n + 100))[100:]


@pytest.mark.parametrize("make", [local_level, autoregressive])
def test_intervals_cover(make):
    inside = []
    for seed in range(25):
        y = make(70, seed)
        lower, upper = fit_dynamics(y[:60]).interval(10, 0.9)
        inside.append(np.mean((lower <= y[60:]) & (y[60:] <= upper)))
    # 25 forecasts whose ten errors are alike: the standard error of their mean coverage is about 0.04
    assert 0.8 < np.mean(inside) < 0.98


def test_a_season_is_found_and_continued():
    y = season(130, 0)
    d = fit_dynamics(y[:106])
    periods = 2 * np.pi / np.angle(d.poles[d.poles.imag > 0])
    assert {12, 6} <= set(np.round(periods, 6))
    t = np.arange(106, 130)
    clean = 10 + 2 * np.cos(2 * np.pi * t / 12) + np.sin(2 * np.pi * t / 6)
    assert np.abs(d.forecast(24) - clean).max() < 0.3
    assert d.noise == pytest.approx(0.3, rel=0.15)


def test_missing_samples_change_little():
    y = season(150, 1)
    holes = y.copy()
    holes[np.random.default_rng(2).random(150) < 0.15] = np.nan
    whole, part = fit_dynamics(y), fit_dynamics(holes)
    assert np.abs(whole.forecast(12) - part.forecast(12)).max() < 0.3


def test_candidates_are_used_if_they_explain_more():
    t = np.arange(160)
    z = 0.985 * np.exp(2j * np.pi * 0.237)
    clean = 3 * (z**t).real
    y = clean[:120] + 0.1 * np.random.default_rng(0).standard_normal(120)
    d = fit_dynamics(y, [np.array([z, z.conjugate()])])
    assert np.isclose(d.poles, z).any()
    assert np.abs(d.forecast(40) - clean[120:]).max() < 0.15


def test_white_noise_has_no_season():
    found = [find_season(np.random.default_rng(seed).standard_normal(200)) for seed in range(60)]
    assert sum(one is not None for one in found) <= 3


def test_a_period_that_is_not_whole_is_found():
    t = np.arange(300)
    wave = np.cos(2 * np.pi * t / 17.4) + np.cos(4 * np.pi * t / 17.4 + 1)
    found = find_season(wave + np.random.default_rng(0).standard_normal(300))
    assert found is not None
    assert found.period == pytest.approx(17.4, abs=0.15)
    assert set(found.harmonics) == {1, 2}


def test_volatility():
    e = np.random.default_rng(0).standard_normal(400)
    assert recent_variance(e) < 1.2
    e[300:] *= 4
    assert recent_variance(e) == pytest.approx(16 / np.mean(e**2), rel=0.4)
    assert recent_variance(np.zeros(9)) == 1.0


def test_burg_finds_an_autoregression():
    v = lfilter([1.0], [1.0, -0.5, 0.3, -0.2], np.random.default_rng(0).standard_normal(5000))
    np.testing.assert_allclose(coefficients(burg(v, 3)[0]), [0.5, -0.3, 0.2], atol=0.05)  # 3 standard errors


def test_arrays_hold_all():
    y = season(100, 3)
    y[7] = np.nan
    d = fit_dynamics(y)
    again = Dynamics.from_arrays(d.to_arrays())
    np.testing.assert_array_equal(again.forecast(20), d.forecast(20))
    np.testing.assert_array_equal(again.interval(20, 0.8), d.interval(20, 0.8))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("dynamics_structure", np.array([99])),
        ("dynamics_unknowns", np.array([np.inf])),
        ("dynamics_y", np.array([np.inf, 1.0])),
        ("dynamics_weights", np.array(["x"])),
    ],
)
def test_arrays_that_are_wrong_are_refused(part, value):
    arrays = fit_dynamics(season(60, 3)).to_arrays() | {part: value}
    with pytest.raises(ValueError, match=r"^dynamics_"):
        Dynamics.from_arrays(arrays)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.full(30, 7.0), np.full(5, 7.0)),
        (np.zeros(30), np.zeros(5)),
        (3.0 + 2.0 * np.arange(30), 3.0 + 2.0 * np.arange(30, 35)),
        (np.array([4.0]), np.full(5, 4.0)),
        (np.array([np.nan, 1.0, np.nan, 1.0]), np.ones(5)),
    ],
)
def test_series_without_noise_are_continued(y, expected):
    d = fit_dynamics(y)
    np.testing.assert_allclose(d.forecast(5), expected, atol=1e-6)
    assert np.isfinite(d.deviations(5)).all()
