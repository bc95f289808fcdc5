import numpy as np
import pytest

import rslm
from rslm import HankelModel
from rslm.estimators.series import rolling
from rslm.estimators.series.rolling import RollingErrors, rolling_errors


def season(n, seed, noise=0.3):
    t = np.arange(n)
    return (
        np.cos(2 * np.pi * t / 12)
        + 0.5 * np.sin(2 * np.pi * t / 5)
        + noise * np.random.default_rng(seed).standard_normal(n)
    )


def correlated(n, seed, phi=0.8):
    e = np.random.default_rng(seed).standard_normal(n + 100)
    x = np.zeros(n + 100)
    for k in range(1, n + 100):
        x[k] = phi * x[k - 1] + e[k]
    return np.cos(2 * np.pi * np.arange(n) / 12) * 3 + 0.3 * x[100:]


def covered(model, later, coverage=0.9):
    lower, upper = model.predict_interval(len(later), coverage)
    return np.mean((lower <= later) & (later <= upper))


@pytest.fixture(scope="module")
def seasons():
    """Models, and what came later."""
    every = [season(200, seed) for seed in range(12)]
    return [(HankelModel(8).fit(y[:160]), y[160:]) for y in every]


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover_independent_noise(seasons, coverage):
    found = np.mean([covered(model, later, coverage) for model, later in seasons])
    # 480 samples: three binomial standard deviations, and once more for quantiles that are estimated from 80 samples.
    assert abs(found - coverage) < 2 * 3 * np.sqrt(coverage * (1 - coverage) / 480)


def test_intervals_cover_correlated_noise():
    """Intervals from white noise alone cover about two thirds of these."""
    every = [correlated(184, seed) for seed in range(12)]
    found = np.mean([covered(HankelModel(8).fit(y[:160]), y[160:]) for y in every])
    assert 0.8 < found < 0.98  # 12 series, whose samples are correlated: a standard deviation of about 0.04


def test_channels_have_widths_of_their_own():
    t, rng = np.arange(150), np.random.default_rng(0)
    y = np.stack([np.cos(0.3 * t), np.sin(0.3 * t)], axis=1) + rng.standard_normal((150, 2)) * [0.05, 0.5]
    y[20:30, 0] = np.nan
    lower, upper = HankelModel(4).fit(y).predict_interval(3)
    ratio = (upper - lower)[:, 1] / (upper - lower)[:, 0]
    assert ((ratio > 6) & (ratio < 15)).all()  # of the noise: 10; sizes of residuals are within a tenth or so


def test_a_forecast_sees_only_what_is_before_its_origin(monkeypatch):
    y = season(80, 0)[None]
    monkeypatch.setattr(rolling, "ORIGINS", 1)  # at sample 40
    before = rolling_errors(y, 4, 20)
    changed = y.copy()
    changed[0, 60:] += 100.0
    after = rolling_errors(changed, 4, 20)
    early = before.horizons <= 20
    assert np.array_equal(before.scores[early], after.scores[early])
    assert (after.scores[~early] > 50).all()


def test_missing_samples_have_no_scores():
    y = season(80, 0)
    y[50:70] = np.nan
    found = rolling_errors(y[None], 4, 20)
    assert found.samples == 20
    assert np.isfinite(found.scores).all()
    assert len(found.scores) == len(found.horizons)


def test_errors_that_are_alike_count_less():
    """The same quantile; but all errors of an origin have the same sign and size in the second case."""
    rng = np.random.default_rng(0)
    free = rolling._redundancy(rng.standard_normal((12, 1, 64)))
    alike = rolling._redundancy(rng.standard_normal((12, 1, 1)) * np.ones((12, 1, 64)))
    assert free < 1.5  # 1 but for chance
    assert alike == pytest.approx(1 + 2 * 31, rel=0.05)  # ρ = 1 at 31 lags on both sides, less 1/pairs
    scores, horizons = np.sort(np.abs(rng.standard_normal(400))), np.full(400, 1.0)
    narrow, wide = (RollingErrors(scores, horizons, 100, np.array([r])).factors(1, 0.9)[0] for r in (free, alike))
    assert narrow < 1.1 * np.quantile(scores, 0.9)
    assert wide == pytest.approx(np.quantile(scores, 0.9) * 2.353 / 1.645, rel=0.02)  # Student's, three degrees


def test_a_horizon_learns_from_similar_ones():
    horizons = np.tile(np.arange(1.0, 65.0), 12)
    found = RollingErrors(np.sqrt(horizons), horizons, 64, np.ones(7)).factors(200, 0.9)
    assert found[0] < 2 < 5 < found[63]
    assert (np.diff(found[:48]) > -1e-12).all()
    assert np.allclose(found[64:], found[63])  # beyond the longest horizon the factor stays


def test_files_hold_the_errors(tmp_path):
    y = season(100, 0)
    y[7] = np.nan
    model = HankelModel(4).fit(y)
    model.save(tmp_path / "model.rslm")  # before the first interval
    back = rslm.load(tmp_path / "model.rslm")
    for a, b in zip(back.predict_interval(9, 0.8), model.predict_interval(9, 0.8), strict=True):
        assert np.array_equal(a, b)
    back.save(tmp_path / "again.rslm")
    assert np.array_equal(rslm.load(tmp_path / "again.rslm").predict_interval(9)[0], model.predict_interval(9)[0])


def test_files_of_older_versions_have_no_errors():
    y = season(60, 0)
    arrays, facts = HankelModel(4).fit(y)._to_file()
    older = {
        name: values for name, values in arrays.items() if not name.startswith("rolling") and name != "channel_noise"
    }
    model = HankelModel._from_file({"rank": 4}, older, facts)
    with pytest.raises(ValueError, match="fit it again to get intervals"):
        model.predict_interval(2)
    with pytest.raises(ValueError, match="rolling_scores"):
        HankelModel._from_file({"rank": 4}, arrays | {"rolling_scores": -arrays["rolling_scores"]}, facts)


def test_too_few_samples():
    model = HankelModel(2).fit(np.cos(0.5 * np.arange(16)) + 0.01 * np.random.default_rng(0).standard_normal(16))
    with pytest.raises(ValueError, match=r"coverage=0.9 needs at least 9 observed samples .* there are 8"):
        model.predict_interval(3)
    assert (np.subtract(*model.predict_interval(3, 0.8)) < 0).all()


def test_as_many_parameters_as_samples():
    y = season(24, 0)
    y[1::2] = np.nan
    model = HankelModel(8, C=10.0).fit(y)
    assert np.isnan(model.noise_)
    with pytest.raises(ValueError, match=r"as many parameters as there are observed samples, 12, or more"):
        model.predict_interval(3)


def test_without_noise_intervals_are_tiny():
    lower, upper = HankelModel().fit(np.full(30, 7.0)).predict_interval(5)
    assert (upper - lower < 1e-6).all()
    lower, upper = HankelModel().fit(np.zeros(30)).predict_interval(5)
    assert not lower.any()
    assert not upper.any()
