"""HankelModel: the signal, its order and poles, missing samples, channels, forecasts and bad input."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import rslm
from rslm import HankelModel

NOISE = 0.05


def damped(n, seed=0, *, angles=(0.4, 1.3), sizes=(0.99, 0.97), decay=0.98):
    """Two oscillations and a decay, order 5, without and with noise."""
    t = np.arange(n)
    truth = sum(s**t * np.cos(a * t + a) for s, a in zip(sizes, angles, strict=True)) + decay**t
    return truth, truth + NOISE * np.random.default_rng(seed).standard_normal(n)


def error(model, truth):
    return np.sqrt(np.mean((model.signal_ - truth) ** 2))


def test_a_noisy_series_is_denoised_and_its_order_found():
    errors = []
    for seed in range(4):
        truth, y = damped(199, seed)
        model = HankelModel().fit(y)
        assert model.rank_ == 5
        assert model.converged_
        assert model.noise_ == pytest.approx(NOISE, rel=0.15)
        assert model.score(truth) > 0.998
        errors.append(error(model, truth))
    assert np.mean(errors) < 1.2 * NOISE * np.sqrt(10 / 199)  # the Cramér–Rao level


def test_poles_of_a_noiseless_system():
    truth, _ = damped(120)
    model = HankelModel(5).fit(truth)
    wanted = [0.99 * np.exp(0.4j), 0.99 * np.exp(-0.4j), 0.97 * np.exp(1.3j), 0.97 * np.exp(-1.3j), 0.98]
    for z in wanted:
        assert np.abs(model.poles_ - z).min() < 1e-6
    assert model.rank_ == 5
    t = np.arange(120)[:, None]
    assert np.allclose((model.amplitudes_ * model.poles_**t).sum(axis=1).real, truth, atol=1e-6)
    assert np.allclose(np.sort(np.abs(model.frequencies_)), np.sort([0, 0.4, 0.4, 1.3, 1.3]) / (2 * np.pi), atol=1e-6)
    assert np.allclose(np.sort(model.dampings_), np.sort(-np.log(np.abs(wanted))), atol=1e-6)
    later = np.arange(120, 150)
    forecast = sum(s**later * np.cos(a * later + a) for s, a in ((0.99, 0.4), (0.97, 1.3))) + 0.98**later
    assert np.allclose(model.forecast(30), forecast, atol=1e-6)


def test_a_rank_that_is_too_large_does_no_harm():
    truth, y = damped(199)
    assert error(HankelModel(20).fit(y), truth) <= 1.3 * error(HankelModel(5).fit(y), truth)


def test_missing_samples_are_filled():
    truth, y = damped(199)
    complete = error(HankelModel(5).fit(y), truth)
    gone = np.random.default_rng(1).random(199) < 0.3
    y[gone] = np.nan
    model = HankelModel(5).fit(y)
    assert error(model, truth) <= 1.4 * complete
    assert np.isfinite(model.signal_).all()


def test_a_long_gap():
    truth, y = damped(300, sizes=(0.999, 0.998), decay=0.999)
    y[100:160] = np.nan
    model = HankelModel().fit(y)
    assert np.sqrt(np.mean((model.signal_ - truth)[100:160] ** 2)) < 3 * NOISE


def test_channels_share_their_poles():
    t = np.arange(150)
    one, other = 0.99**t * np.cos(0.5 * t), 0.99**t * np.cos(0.5 * t + 1.0) * 0.7
    rng = np.random.default_rng(0)
    truth = np.stack([one, other], axis=1)
    y = truth + NOISE * rng.standard_normal(truth.shape)
    y[10:20, 1] = np.nan
    model = HankelModel().fit(y)
    alone = HankelModel().fit(y[:, 0])
    assert model.rank_ == 2
    assert model.signal_.shape == (150, 2)
    assert model.amplitudes_.shape == (2, 2)
    assert model.forecast(4).shape == (4, 2)
    assert all(a.shape == (4, 2) for a in model.predict_interval(4))
    assert error(model, truth) < NOISE * np.sqrt(6 / 290) * 1.5
    wanted = 0.99 * np.exp(0.5j)
    assert np.abs(model.poles_ - wanted).min() < max(np.abs(alone.poles_ - wanted).min(), 1e-3)


def test_a_given_c_and_rank_are_used():
    _, y = damped(120)
    loose, tight = (HankelModel(5, C=C).fit(y) for C in (1e4, 1.0))
    assert loose.C_ == 1e4
    assert loose.rank_ == 5 > tight.rank_
    assert np.linalg.norm(tight.signal_) < 0.9 * np.linalg.norm(loose.signal_)  # the trace norm pulls
    by_order = HankelModel("auto", C=1e4).fit(y)
    assert by_order.rank_ == 5
    assert by_order.path_["rank"][np.argmin(by_order.path_["criterion"])] == 5
    assert by_order.C_ == 1e4
    assert loose.path_ is None  # there was nothing to find


@pytest.mark.parametrize("size", [0.3, 3.0])
def test_an_outlier_at_the_end_does_not_make_forecasts_explode(size):
    t = np.arange(120)
    for seed in range(3):
        y = np.cos(0.3 * t) + 0.1 * np.random.default_rng(seed).standard_normal(120)
        y[-1] += size
        model = HankelModel().fit(y)
        assert np.abs(model.forecast(24)).max() < 1.0 + size  # the outlier may be the first sample of a change
        assert np.abs(model.poles_).max() <= 1.0 + 1e-12


def test_growth_without_noise_is_found():
    for z in (1.05, 1.5):
        model = HankelModel().fit(z ** np.arange(60))
        assert np.abs(model.poles_ - z).min() < 1e-6
        assert model.forecast(1) == pytest.approx(z**60, rel=1e-6)


@pytest.mark.parametrize("n", [20, 40])
def test_a_rank_near_half_of_a_short_series_does_no_harm(n):
    t, wrong = np.arange(n), []
    for seed in range(6):
        y = np.cos(0.7 * t) + 0.1 * np.random.default_rng(seed).standard_normal(n)
        wrong.append(HankelModel((n + 1) // 2 - 1).fit(y).rank_ != 2)
    assert sum(wrong) <= 2


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_noise_is_told_beside_a_large_mean(offset):
    t, ratios = np.arange(120), []
    for seed in range(3):
        y = offset + np.cos(0.3 * t) + 0.1 * np.random.default_rng(seed).standard_normal(120)
        ratios.append(HankelModel().fit(y).noise_ / 0.1)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize("C", [1e12, 1e13, 1e15])  # some of these fits stall
def test_too_large_a_c_is_told(C):
    _, y = damped(60)
    with pytest.warns(UserWarning, match="so large that the signal follows the noise; lower C"):
        HankelModel(3, C=C).fit(y)


def test_masked_samples_are_missing():
    _, y = damped(60)
    masked = np.ma.array(y, mask=np.arange(60) == 7)
    y[7] = 1e6
    masked.data[7] = 1e6
    one = HankelModel(5).fit(masked)
    y[7] = np.nan
    assert np.array_equal(one.signal_, HankelModel(5).fit(y).signal_)


def test_a_callback_that_stops_keeps_the_best_so_far():
    _, y = damped(80)

    class Stop:
        count = 0

        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            self.count += 1
            return self.count == 6

    model = HankelModel(8).set_callbacks(Stop())
    with pytest.warns(UserWarning, match="not converged within max_time"):
        model.fit(y)
    assert not model.converged_
    assert model.rank_ == 5


def test_scale_does_not_matter():
    _, y = damped(80)
    one = HankelModel(5).fit(y)
    for scale in (1e-200, 1e-6, 1e8, 1e200):
        other = HankelModel(5).fit(y * scale)
        assert np.allclose(other.signal_, one.signal_ * scale, atol=1e-6 * scale)
        assert other.noise_ == pytest.approx(one.noise_ * scale, rel=1e-5)
        assert np.allclose(other.forecast(3), one.forecast(3) * scale, atol=1e-6 * scale)


def test_trend_and_season():
    t = np.arange(120)
    truth = 5 + 0.03 * t + np.sin(2 * np.pi * t / 12)
    y = truth + 0.02 * np.random.default_rng(0).standard_normal(120)
    model = HankelModel().fit(y)
    ahead = np.arange(120, 144)
    wanted = 5 + 0.03 * ahead + np.sin(2 * np.pi * ahead / 12)
    assert np.sqrt(np.mean((model.forecast(24) - wanted) ** 2)) < 0.05


def test_intervals_cover_as_often_as_they_say():
    hits = {0.5: [], 0.9: []}
    for seed in range(15):
        _, y = damped(130, seed, sizes=(0.999, 0.995), decay=0.99)
        model = HankelModel(5).fit(y[:100])
        for level, found in hits.items():
            lower, upper = model.predict_interval(30, level)
            found.append(np.mean((lower <= y[100:]) & (y[100:] <= upper)))
    for level, found in hits.items():
        assert level - 0.1 < np.mean(found) < level + 0.1


def test_intervals_grow():
    _, y = damped(100, sizes=(0.999, 0.995), decay=0.99)
    model = HankelModel(5).fit(y)
    forecast, (lower, upper) = model.forecast(50), model.predict_interval(50)
    assert np.all(lower < forecast)
    assert np.all(forecast < upper)
    assert (upper - lower)[-1] > (upper - lower)[0] > 2 * 1.64 * NOISE * 0.8


def test_a_constant_and_zeros():
    model = HankelModel().fit(np.full(30, 7.0))
    assert np.allclose(model.signal_, 7.0, atol=1e-6)
    assert model.rank_ == 1
    assert np.allclose(model.poles_, 1.0, atol=1e-8)
    assert np.allclose(model.forecast(5), 7.0, atol=1e-5)
    zero = HankelModel().fit(np.zeros(30))
    assert zero.rank_ == 0
    assert not zero.signal_.any()
    assert not zero.forecast(3).any()
    assert len(zero.poles_) == len(zero.amplitudes_) == len(zero.singular_values_) == 0


def test_noise_alone_is_told():
    y = np.random.default_rng(3).standard_normal(200)
    with pytest.warns(UserWarning, match="no order up to 4 explains the series better than noise alone"):
        model = HankelModel(4).fit(y)
    assert model.rank_ == 0
    assert model.certificate_ is None
    lower, upper = model.predict_interval(2)
    assert np.allclose(upper - lower, 2 * 1.645 * model.noise_, rtol=0.15)


def test_the_signal_is_hankel_of_low_rank():
    _, y = damped(150)
    model = HankelModel(5, window=40).fit(y)
    s = np.linalg.svd(np.lib.stride_tricks.sliding_window_view(model.signal_, 40), compute_uv=False)
    assert model.window_ == 40
    assert np.allclose(model.singular_values_, s[:5], rtol=1e-8)
    assert s[5] < 1e-12 * s[0]


def test_the_window_hardly_matters():
    _, y = damped(199)
    signals = [HankelModel(5, window=w).fit(y).signal_ for w in (20, 100, 160)]
    for other in signals[1:]:
        assert np.sqrt(np.mean((other - signals[0]) ** 2)) < 0.1 * NOISE


def test_input_is_not_changed_and_the_answer_repeats():
    _, y = damped(100)
    before = y.copy()
    one = HankelModel(6).fit(y)
    assert np.array_equal(y, before)
    assert np.array_equal(one.signal_, clone(one).fit(list(y)).signal_)


def test_files(tmp_path):
    _, y = damped(100)
    y[5] = np.nan
    model = HankelModel(6).fit(y)
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    for name in ("signal_", "poles_", "amplitudes_", "singular_values_"):
        assert np.array_equal(getattr(back, name), getattr(model, name))
    assert all(np.array_equal(back.path_[name], model.path_[name]) for name in ("rank", "criterion"))
    assert back.certificate_ == model.certificate_
    assert np.array_equal(back.forecast(5), model.forecast(5))


def test_progress_is_logged(caplog):
    _, y = damped(60)
    with caplog.at_level("INFO", logger="rslm"):
        HankelModel(5, verbose=1).fit(y)
        HankelModel(5, C=100.0, verbose=1).fit(y)
    assert "order 5 tried, criterion" in caplog.text
    assert "rank 5  iteration" in caplog.text


def test_time_runs_out():
    _, y = damped(199)
    with pytest.warns(UserWarning, match="not converged within max_time"):
        model = HankelModel(5, C=1e3, max_time=1e-9).fit(y)
    assert not model.converged_
    assert np.isfinite(model.signal_).all()


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (
            HankelModel(window=30),
            np.ones(20),
            "window .* from 2 to 19, less than the 20 samples; got 30",
        ),
        (HankelModel(window=1), np.ones(20), "window must be a whole number from 2 to 19"),
        (HankelModel(window=2.5), np.ones(20), "window must be a whole number"),
        (HankelModel(10, window=10), np.ones(30), "rank must be a whole number from 1 to 9, .* which are 10 and 21"),
        (HankelModel(0), np.ones(30), "rank must be a whole number from 1"),
        (HankelModel("all"), np.ones(30), "\"auto\"; got 'all'"),
        (HankelModel(), np.full(30, np.nan), "all samples of y are missing; at least 4 are needed"),
        (HankelModel(), np.stack([np.ones(9), np.full(9, np.nan)], 1), "all samples of channel 1 of y are missing"),
        (HankelModel(), [1.0, *[np.nan] * 20, 2.0], "all but 2 samples of y are missing"),
        (HankelModel(2, max_time=0), np.ones(9), "max_time must be None or a positive finite number; got 0"),
        (HankelModel(2, max_time="a"), np.ones(9), "max_time must be None or a positive finite number; got 'a'"),
        (HankelModel(), np.array([1, 2, np.inf, 3, 4]), r"y\[2, 0\] is infinite"),
        (HankelModel(), np.ones(3), "at least 4 samples"),
        (HankelModel(), np.ones((3, 3, 3)), r"shape \(n,\) or \(n, channels\)"),
        (HankelModel(), ["a", "b", "c", "d"], "dtype <U1, but numbers are needed, real or complex"),
        (HankelModel(C=1.0), np.ones(9) * 1j, r"C=1\.0 is for real series, and y is complex; leave C at its default"),
        (HankelModel(loss="huber"), np.ones(9) * 1j, "loss='huber' is for real series, and y is complex"),
        (HankelModel(2, C=-1.0), np.ones(9), "C must be 'auto' or a positive finite number; got -1.0"),
        (HankelModel(2, C=np.inf), np.ones(9), "C must be 'auto'"),
        (HankelModel(2, C=None), np.ones(9), "C must be 'auto' or a positive finite number; got None"),
    ],
)
def test_bad_input(model, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(y)


def test_bad_questions():
    _, y = damped(60)
    model = HankelModel(5).fit(y)
    with pytest.raises(ValueError, match="steps must be a whole number ≥ 0; got -1"):
        model.forecast(-1)
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        model.predict_interval(2, coverage=90)
    with pytest.raises(ValueError, match=r"steps must be a whole number ≥ 0; got 2\.5"):
        model.predict_interval(2.5)
    with pytest.raises(ValueError, match=r"y must have the shape of the fitted series, \(60,\); got \(59,\)"):
        model.score(y[:-1])
    assert model.forecast(0).shape == (0,)


def test_air_passengers(shared_data):
    """The last two years of a well-known series, clearly better than the last year, twice."""
    text = shared_data("series/air_passengers.csv").read_text().splitlines()[1:]
    y = np.log([float(line.split(",")[1]) for line in text])
    forecast = HankelModel().fit(y[:-24]).forecast(24)
    naive = np.tile(y[-36:-24], 2)
    assert np.sqrt(np.mean((forecast - y[-24:]) ** 2)) < 0.7 * np.sqrt(np.mean((naive - y[-24:]) ** 2))


def test_a_forecast_beyond_all_floats_is_refused():
    model = HankelModel(1).fit(2.0 ** np.arange(20))
    assert np.allclose(model.forecast(3), 2.0 ** np.arange(20, 23), rtol=1e-3)
    with pytest.raises(ValueError, match=r"overflows within 5000 steps, because the largest pole has the modulus 2"):
        model.forecast(5000)


@pytest.mark.parametrize(
    "options",
    [
        {"rank": 2, "C": 1e3, "max_iter": 1, "tol": 1e-12},
        {"rank": 2, "C": 1e3, "max_time": 1e-9},
        {},
        {"rank": 3, "C": 1e15},
    ],
)
def test_warnings_point_at_the_line_of_the_user(options):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(60) + (np.cos(0.3 * np.arange(60)) if options else 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HankelModel(**options).fit(y)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_answer_does_not_depend_on_the_unit(factor):
    _, y = damped(120)
    one, other = HankelModel().fit(y), HankelModel().fit(factor * y)
    assert one.rank_ == other.rank_
    assert np.allclose(other.signal_, factor * one.signal_, rtol=0, atol=1e-6 * factor * np.abs(y).max())
    assert np.allclose(other.forecast(5), factor * one.forecast(5), rtol=0, atol=1e-6 * factor * np.abs(y).max())


def test_a_large_level_is_found():
    t = np.arange(150)
    y = np.cos(0.3 * t) + 0.3 * np.random.default_rng(0).standard_normal(150)
    plain, high = HankelModel().fit(y[:120]), HankelModel().fit(y[:120] + 1e4)
    assert high.rank_ == plain.rank_ + 1  # the level is one more exponential
    assert np.abs(high.poles_ - 1.0).min() < 1e-3
    for signal in (plain.signal_, high.signal_ - 1e4):
        assert np.sqrt(np.mean((signal - np.cos(0.3 * t[:120])) ** 2)) < 0.3 * np.sqrt(8 / 120) * 1.2
    ahead = high.forecast(30) - 1e4 - np.cos(0.3 * t[120:])
    assert np.sqrt(np.mean(ahead**2)) < 0.2  # 0.7 for the mean of the series


def test_a_fit_that_leaves_nothing_known_of_the_noise_is_saved(tmp_path):
    y = np.full(20, np.nan)
    y[::4] = [1.0, -1.0, 0.5, 2.0, 0.3]
    model = HankelModel(rank=9, C=1.0).fit(y)
    assert np.isnan(model.noise_)
    model.save(tmp_path / "model.rslm")
    loaded = rslm.load(tmp_path / "model.rslm")
    assert np.isnan(loaded.noise_)
    assert np.array_equal(loaded.forecast(5), model.forecast(5))


def test_r2_of_a_constant_series_is_1_or_0():
    model = HankelModel().fit(np.full(50, 3.0))
    assert model.score(np.full(50, 3.0)) == 1.0
    assert model.score(np.full(50, 4.0)) == 0.0
