"""HankelModel with robust losses: spikes, the width of Huber's loss, units, files, and losses that are refused."""

import numpy as np
import pytest

import rslm
from rslm import HankelModel
from rslm.estimators.series.first_samples import reconsidered
from rslm.estimators.series.loss import Units, mean_curvature
from rslm.estimators.series.spikes import find_spikes
from rslm.losses import Absolute, EpsilonInsensitive, Huber, Loss, Square
from rslm.testing import check_loss

NOISE = 0.05


def spiked(seed, n=120, share=20):
    """A clean series of order 3, noisy, and noisy with spikes of ten times its size in 5 % of the samples."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    truth = 0.99**t * np.cos(0.4 * t + seed) + 0.5 * 0.98**t
    y = truth + NOISE * rng.standard_normal(n)
    at = rng.choice(n, n // share, replace=False)
    wrong = y.copy()
    wrong[at] += 10 * np.sqrt(np.mean(truth**2)) * rng.choice([-1, 1], len(at))
    return truth, y, wrong, np.sort(at)


def error(model, truth):
    return np.sqrt(np.mean((model.signal_ - truth) ** 2))


class LogCosh(Loss):
    """A loss of a user's own, smooth and of the difference."""

    def value(self, y, w):
        return np.logaddexp(y - w, w - y) - np.log(2.0)

    def gradient(self, y, w):
        return -np.tanh(y - w)

    def hessian(self, y, w):
        return 1.0 - np.tanh(y - w) ** 2

    def conjugate(self, y, s):
        inside = np.clip(s, -1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = [np.where(a > 0, a * np.log(a), 0.0) for a in (1.0 + inside, 1.0 - inside)]
        return np.where(np.abs(s) > 1.0, np.inf, y * inside + 0.5 * (sides[0] + sides[1]))


class OfLevels(LogCosh):
    """Not a loss of the difference."""

    def value(self, y, w):
        return super().value(y, 2.0 * w)


def test_with_default_settings_spikes_hardly_matter():
    ratios = []
    for seed in range(3):
        truth, y, wrong, at = spiked(seed)
        clean, robust = HankelModel().fit(y), HankelModel(loss="huber").fit(wrong)
        ratios.append(error(robust, truth) / error(clean, truth))
        assert robust.rank_ == 3
        assert robust.noise_ == pytest.approx(NOISE, rel=0.25)
        assert set(at) <= set(np.flatnonzero(robust.outlier_scores_ > 5))
        assert robust.loss_.delta == pytest.approx(1.345 * robust.noise_, rel=0.1)
        assert robust.converged_
    assert np.median(ratios) <= 1.3


@pytest.mark.parametrize("loss", ["absolute", "huber:0.1", EpsilonInsensitive(0.03), LogCosh()], ids=repr)
def test_other_robust_losses(loss):
    truth, _, wrong, _ = spiked(0)
    scale = 10.0 if isinstance(loss, LogCosh) else 1.0  # linear for errors above 1 only
    model = HankelModel(loss=loss).fit(scale * wrong)
    assert model.rank_ == 3
    assert error(model, scale * truth) < scale * NOISE * 0.5


def test_without_spikes_nothing_is_lost():
    truth, y, _, _ = spiked(1)
    assert error(HankelModel(loss="huber").fit(y), truth) < 1.2 * error(HankelModel().fit(y), truth)


def test_missing_samples_and_channels():
    truth, y, wrong, _ = spiked(2)
    wrong[30:40] = np.nan
    model = HankelModel(loss="huber").fit(np.stack([wrong, 2 * y], axis=1))
    assert model.rank_ == 3
    assert np.isfinite(model.signal_).all()
    assert error(model, np.stack([truth, 2 * truth], axis=1)) < NOISE
    assert np.array_equal(np.isnan(model.residuals_[:, 0]), np.isnan(wrong))
    assert model.outlier_scores_.shape == (120, 2)


def test_spikes_of_a_series_without_noise():
    truth, _, _, at = spiked(3, n=60)
    y = truth.copy()
    y[at] += 8.0
    model = HankelModel(3, loss="absolute").fit(y)
    assert error(model, truth) < 1e-3
    assert set(at) <= set(np.flatnonzero(model.outlier_scores_ > 5))


def test_nothing_but_spikes():
    y = np.zeros(60)
    y[[3, 40]] = 5.0
    model = HankelModel(loss="huber").fit(y)
    assert model.rank_ == 0
    assert not model.signal_.any()
    assert np.array_equal(model.residuals_, y)
    assert HankelModel(loss="huber").fit(np.zeros(9)).rank_ == 0


def test_epsilon_follows_from_the_noise():
    truth, _, wrong, _ = spiked(0)
    for unit in (1e-3, 1e3):
        model = HankelModel(loss="epsilon_insensitive").fit(unit * wrong)
        assert model.loss_.epsilon == pytest.approx(0.3 * NOISE * unit, rel=0.2)
        assert error(model, unit * truth) < 0.5 * NOISE * unit
    assert HankelModel(loss="epsilon_insensitive:0.02").fit(wrong).loss_ == EpsilonInsensitive(0.02)
    given = HankelModel(3, C=10.0, loss="epsilon_insensitive").fit(wrong)  # the noise is that around a first signal
    assert 0.1 * NOISE < given.loss_.epsilon < NOISE


@pytest.mark.parametrize("loss", ["huber", "absolute", "epsilon_insensitive"])
def test_scale_does_not_matter(loss):
    _, _, wrong, _ = spiked(0, n=60)
    one = HankelModel(3, loss=loss).fit(wrong)
    for scale in (1e-200, 1e200):
        other = HankelModel(3, loss=loss).fit(wrong * scale)
        assert np.allclose(other.signal_ / scale, one.signal_, atol=1e-4)
        assert np.allclose(other.predict_interval(3)[1] / scale, one.predict_interval(3)[1], atol=1e-3)


def test_a_given_rank_and_c_are_those_of_the_data_as_they_are():
    """In the units of the data: the objective that the core solves."""
    _, _, wrong, _ = spiked(0, n=60)
    y = 7.0 * wrong
    for loss, C in ((Huber(0.5), 300.0), (Absolute(), 200.0)):
        model = HankelModel(3, C=C, loss=loss, tol=1e-6).fit(y)
        assert np.isclose(model.C_, C)
        structure = rslm.structures.Hankel(30, 31)
        problem = rslm.Problem(loss, rslm.measurements.Samples(y), structure, C=C)
        wanted = rslm.solve(problem, 3, random_state=0, tol=1e-6).parameters
        assert objective(problem, structure, model.signal_) <= 1.001 * objective(problem, structure, wanted)


def objective(problem, structure, h):
    trace_norm = np.linalg.svd(structure.matrix(h), compute_uv=False).sum()
    return problem.C * problem.loss.value(problem.data.values, h).sum() + 0.5 * trace_norm**2


def test_intervals_are_for_samples_that_are_no_spikes():
    inside = []
    for seed in range(4):
        _, y, wrong, _ = spiked(seed, n=140)
        lower, upper = HankelModel(3, loss="huber").fit(wrong[:110]).predict_interval(30)
        inside.append(np.mean((lower <= y[110:]) & (y[110:] <= upper)))
    assert 0.8 < np.mean(inside) < 0.99


@pytest.mark.parametrize(
    "loss", ["square", "huber", "epsilon_insensitive", "absolute", Huber(0.1), LogCosh()], ids=repr
)
def test_files(tmp_path, loss):
    _, y, wrong, _ = spiked(0, n=60)
    model = HankelModel(3, loss=loss).fit(y if loss == "square" else wrong)
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    assert np.array_equal(back.signal_, model.signal_)
    assert back.noise_ == model.noise_
    if isinstance(loss, LogCosh):
        with pytest.raises(ValueError, match="names its loss, LogCosh, but does not contain it"):
            back.fit(wrong)
    else:
        assert back.loss == model.loss
        assert back.loss_ == model.loss_
        assert np.allclose(back.predict_interval(5), model.predict_interval(5))
    with pytest.raises(AttributeError, match="loaded from a file has no residuals"):
        _ = back.outlier_scores_


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("logistic", "loss='logistic' is for two classes, but a series has real numbers"),
        ("hinge", "for two classes"),
        ("robust", "loss must be one of"),
        ("huber:a", "must be a number"),
        (OfLevels(), "is not a loss of the difference y − w"),
    ],
)
def test_losses_that_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        HankelModel(loss=loss).fit(np.cos(np.arange(30.0)))


@pytest.mark.parametrize("settings", [{}, {"C": 1.0}, {"C": 1.0, "rank": 3}], ids=str)
def test_time_runs_out(monkeypatch, settings):
    monkeypatch.setattr("rslm.runtime.interrupts.PATIENCE", 0.0)  # otherwise a quick fit ends before it is stopped
    _, _, wrong, _ = spiked(0)
    with pytest.warns(UserWarning, match="not converged within max_time"):
        model = HankelModel(loss="huber", max_time=1e-9, **settings).fit(wrong)
    assert np.isfinite(model.signal_).all()
    assert model.residuals_.shape == wrong.shape


# ---- the parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "size"), [(0, 1.0), (1, 3.0), (0, 1000.0)])
def test_spikes_are_found(seed, size):
    truth, y, wrong, at = spiked(seed, n=80)
    found = find_spikes((y + size * (wrong - y))[None], 12)
    assert set(at) <= set(np.flatnonzero(found.spikes[0]))
    assert found.spikes.sum() <= len(at) + 2
    assert np.sqrt(np.mean((found.signal[0] - truth) ** 2)) < NOISE


def test_a_spike_in_the_first_sample_is_found():
    truth, y, _, _ = spiked(0)
    y[0] = truth[0] + 10.0
    assert np.flatnonzero(find_spikes(y[None], 12).spikes[0]).tolist() == [0]


def test_first_samples_are_spikes_or_quick_decay():
    t, none = np.arange(150), np.zeros((1, 150), dtype=bool)
    noise = NOISE * np.random.default_rng(1).standard_normal(150)
    quick = 2 * (-0.6) ** t + 0.98**t + noise
    wrong = none.copy()
    wrong[0, [0, 2, 4]] = True
    assert not reconsidered(quick[None], wrong, 12).any()
    slow = np.cos(0.4 * t) * 0.98**t + noise
    slow[[2, 4]] += 3.0
    assert np.flatnonzero(reconsidered(slow[None], none, 12)).tolist() == [2, 4]


def test_a_signal_that_decays_quickly_is_no_spike():
    t = np.arange(120)
    y = 0.7**t + NOISE * np.random.default_rng(0).standard_normal(120)
    assert not find_spikes(y[None], 12).spikes[0, :5].any()
    assert HankelModel(loss="huber").fit(y).rank_ == 1


@pytest.mark.parametrize("loss", [Huber(0.3), Absolute(), EpsilonInsensitive(0.2), LogCosh()], ids=repr)
def test_a_loss_in_other_units(loss):
    units = Units(3.0, 0.7)
    other = units.of(loss)
    y, w = np.random.default_rng(0).standard_normal((2, 50))
    assert np.allclose(other.value(y, w), 0.7 * loss.value(3 * y, 3 * w) / 9)
    assert np.allclose(other.gradient(y, w), 0.7 * loss.gradient(3 * y, 3 * w) / 3)
    s = other.gradient(y, w)
    assert np.allclose(other.conjugate(y, s), s * w - other.value(y, w))
    check_loss(other)


def test_what_normal_noise_does_to_a_loss():
    assert mean_curvature(Square(), 0.2) == 2.0
    assert mean_curvature(Huber(1.345 * 0.2), 0.2) == pytest.approx(0.8214, abs=1e-3)
    assert mean_curvature(Absolute(), 0.2) == pytest.approx(np.sqrt(2 / np.pi) / 0.2, rel=1e-3)
    assert mean_curvature(Units.for_noise(Absolute(), 5.0, 0.2).of(Absolute()), 0.2) == pytest.approx(2.0)


@pytest.mark.parametrize("loss", ["huber", "absolute"])
def test_channels_may_have_different_units_and_noise(loss):
    truth, y, wrong, _at = spiked(0)
    other = y + NOISE * np.random.default_rng(9).standard_normal(len(y))
    alike, apart = (HankelModel(loss=loss).fit(np.column_stack([wrong, unit * other])) for unit in (1.0, 1e4))
    assert np.allclose(apart.signal_[:, 0], alike.signal_[:, 0], atol=0.1 * NOISE)
    assert np.sqrt(np.mean((apart.signal_[:, 0] - truth) ** 2)) < 0.5 * NOISE


def test_a_noisy_channel_does_not_spoil_another_with_a_robust_loss():
    t, errors = np.arange(200), []
    truth = np.column_stack([np.cos(0.3 * t), 2 * np.cos(0.3 * t + 1)])
    for seed in range(4):
        noise = np.array([0.05, 2.0]) * np.random.default_rng(seed).standard_normal(truth.shape)
        errors.append(np.sqrt(np.mean((HankelModel(loss="huber").fit(truth + noise).signal_ - truth)[:, 0] ** 2)))
    assert np.mean(errors) < 1.5 * 0.05 * np.sqrt(3 / 200)  # of the good channel alone, for 3 parameters


def test_the_width_of_hubers_loss_does_not_depend_on_an_offset():
    _truth, y, _wrong, _at = spiked(0)
    near, far = (HankelModel(loss="huber").fit(y + offset).loss_.delta for offset in (0.0, 1e5))
    assert far == pytest.approx(near, rel=0.2)
