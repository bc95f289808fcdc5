"""`average`: means over draws in every prediction, reproducible, and kept when the fit is stopped."""

import signal

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from rslm import MatrixCompletion, load
from rslm.data import ObservedMatrix
from rslm.estimators.completion.averaging.drawing import Drawing

N = 12


def ratings(seed=0, shape=(60, 40), noise=0.5):
    """Effects, rank 2 and noise; half of the entries. Returns the data with NaN, and the matrix without noise."""
    rng = np.random.default_rng(seed)
    truth = 3.0 + 0.5 * (rng.standard_normal((shape[0], 1)) + rng.standard_normal((1, shape[1])))
    truth = truth + 0.6 * rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X = truth + noise * rng.standard_normal(shape)
    X[rng.random(shape) < 0.5] = np.nan
    return X, truth


def averaged(X, n=N, C=5.0, **params):
    return MatrixCompletion(**({"rank": 3, "C": C, "average": n, "random_state": 0} | params)).fit(X)


def everywhere(model):
    shape = len(model.row_factors_), len(model.col_factors_)
    return tuple(a.ravel() for a in np.indices(shape)), shape


SETTINGS = {
    "effects": {},
    "no effects": {"effects": None},
    "one side": {"effects": (5.0, None)},
    "the other": {"effects": (None, 5.0)},
    "mean alone": {"effects": (None, None)},
    "units": {"scale": True},
    "weighting": {"weighting": 0.5},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("shape", [(60, 40), (30, 45)])
def test_predictions_are_means_of_draws_and_nearer_the_truth(name, shape, tmp_path):
    X, truth = ratings(shape=shape)
    missing = np.isnan(X)
    fitted = averaged(X, None, **SETTINGS[name])
    m = averaged(X, 60, **SETTINGS[name])
    (i, j), _ = everywhere(m)
    W = m.predict(i, j)
    error, before = (np.sqrt(np.mean((p.predict(i, j) - truth[i, j])[missing.ravel()] ** 2)) for p in (m, fitted))
    assert error < before  # the noise is half of the spread, and C was not chosen with care
    # What the attributes say is what is predicted.
    whole = m.intercept_ + m.row_effects_[:, None] + m.col_effects_ + m.row_factors_ @ m.col_factors_.T
    np.testing.assert_allclose(W, whole.ravel(), atol=1e-12)  # another order of sums, of numbers below 10
    # Draws one by one.
    draws, width = m._draws, m.row_factors_.shape[1] // 60
    one = [
        60 * m.row_factors_[:, s : s + width] @ m.col_factors_[:, s : s + width].T
        + draws.row_effects[k][:, None]
        + draws.col_effects[k]
        for k, s in enumerate(range(0, 60 * width, width))
    ]
    np.testing.assert_allclose(W, np.mean(one, axis=0).ravel(), atol=1e-12)
    np.testing.assert_allclose(m.predict_spread(i, j), np.std(one, axis=0).ravel(), rtol=1e-8)  # of differences
    if name in ("effects", "weighting"):  # else rank 3 does not hold all effects, or noise is in deviations
        assert m.noise_ == pytest.approx(0.5, rel=0.15)  # 1200 or 675 entries, up to 400 coefficients: some 5 %
    m.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(i, j), W)
    np.testing.assert_array_equal(again.predict_spread(i, j), m.predict_spread(i, j))
    np.testing.assert_array_equal(again.transform(X), m.transform(X))
    assert (again.n_draws_, again.noise_, again.average) == (60, m.noise_, 60)


@pytest.mark.parametrize("name", SETTINGS)
def test_new_samples(name):
    """They are predicted about as well as samples of the fit, and as a sample with the same entries is."""
    X, truth = ratings(shape=(120, 40))
    m = averaged(X[:90], 40, **SETTINGS[name])
    new, missing = X[90:], np.isnan(X[90:])
    filled = m.transform(new)
    np.testing.assert_array_equal(filled[~missing], new[~missing])
    error = np.sqrt(np.mean((filled - truth[90:])[missing] ** 2))
    assert error < 0.5 * truth.std()
    # The entries of the fit, folded in again: the mean given the columns of a draw, instead of what was drawn.
    (i, j), _ = everywhere(m)
    apart = m.predict(i, j).reshape(90, 40) - m.predict(X[:90])
    spread = m.predict_spread(i, j)
    assert np.sqrt(np.mean(apart**2)) < 0.5 * np.sqrt(np.mean(spread**2))  # 1 / √40 of it, times a few
    assert 0.5 < m.score(new) < m.score(X[:90])  # each entry is left out of its own prediction
    columns, values = m.recommend_for(new[:3], top=2)
    np.testing.assert_allclose(values[0], m.predict(new[:1])[0, columns[0]], rtol=1e-12)


def test_the_same_seed_gives_the_same_draws_whatever_the_threads():
    X, _ = ratings()
    one = averaged(X, n_threads=1)
    for threads in (2, 3):
        assert averaged(X, n_threads=threads).row_factors_.tobytes() == one.row_factors_.tobytes()
    other = averaged(X, random_state=1)
    assert not np.array_equal(other.row_factors_, one.row_factors_)
    assert averaged(X, random_state=np.random.RandomState(3)).n_draws_ == N
    assert averaged(X, random_state=np.random.default_rng(3)).n_draws_ == N


def test_weights_are_precisions():
    """Noise of three sizes: with the weights, the error is smaller; their common factor does not matter."""
    rng = np.random.default_rng(0)
    _, truth = ratings()
    size = rng.choice([0.1, 0.5, 2.5], truth.shape)
    X = truth + size * rng.standard_normal(truth.shape)
    X[missing := rng.random(truth.shape) < 0.5] = np.nan
    (i, j), _ = everywhere(averaged(X))

    def error(model):
        return np.sqrt(np.mean((model.predict(i, j) - truth.ravel())[missing.ravel()] ** 2))

    def fit(weight):
        settings = {"rank": 3, "C": 5.0, "average": 60, "random_state": 0}
        return MatrixCompletion(**settings).fit(X, sample_weight=weight)

    weighted, scaled = fit(size**-2), fit(100 * size**-2)
    assert error(weighted) < 0.7 * error(fit(None))
    assert weighted.noise_ == pytest.approx(1.0, rel=0.15)  # that of weight 1; 1200 entries, 400 coefficients
    assert scaled.noise_ == pytest.approx(10 * weighted.noise_, rel=0.1)  # the fits, where the chains start, differ
    assert error(scaled) == pytest.approx(error(weighted), rel=0.1)


def test_rows_and_columns_without_entries():
    X, _ = ratings()
    X[4], X[:, 7] = np.nan, np.nan
    with pytest.warns(UserWarning, match="no observed entry"):
        m = averaged(X, 60)
    rows, cols = np.full(40, 4), np.arange(40)
    (i, j), _ = everywhere(m)
    usual = np.median(m.predict_spread(i, j))
    assert np.median(m.predict_spread(rows, cols)) > 2 * usual  # nothing is known of them
    assert np.abs(m.predict(rows, cols) - m.intercept_).max() < 3 * np.nanstd(X)


def test_rank_zero_is_averaged_with_one_factor():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + rng.standard_normal((1, 30)) + rng.standard_normal((40, 30))
    X[rng.random(X.shape) < 0.5] = np.nan
    m = MatrixCompletion(average=20, random_state=0).fit(X)
    assert (m.rank_, m.n_draws_, m.row_factors_.shape) == (0, 20, (40, 20))
    assert (m.predict_spread([0], [0]) > 0).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_units_of_the_values_do_not_matter(scale):
    X, _ = ratings()
    (i, j), _ = everywhere(averaged(X))
    one, other = averaged(X, C=5.0), averaged(X * scale, C=5.0)
    # With another scale, the square loss weighs more or less against the trace norm, and the chain starts elsewhere.
    apart = other.predict(i, j) / scale - one.predict(i, j)
    assert np.isfinite(apart).all()
    assert np.sqrt(np.mean(apart**2)) < 0.5
    assert other.noise_ / scale == pytest.approx(one.noise_, rel=0.2)


def test_values_without_noise_or_variation():
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    seen = np.where(rng.random((30, 20)) < 0.7, low_rank, np.nan)
    m = averaged(seen, 30, rank=2, C=1e4)
    (i, j), _ = everywhere(m)
    assert np.abs(m.predict(i, j) - low_rank.ravel()).max() < 0.05  # the prior of the noise is 1e-3 of the values
    same = averaged(np.where(np.isnan(seen), np.nan, 2.0))
    np.testing.assert_allclose(same.predict(i, j), 2.0, atol=0.05)


def test_stopping_keeps_the_draws_so_far(monkeypatch):
    X, _ = ratings()
    whole, plain, drawn = averaged(X), averaged(X, None), Drawing.draw

    def pressed(self):
        if len(self.collected) == 5:
            signal.raise_signal(signal.SIGINT)
        drawn(self)

    monkeypatch.setattr(Drawing, "draw", pressed)
    with pytest.warns(ConvergenceWarning, match="after 6 of average=12 draws; predictions are means of these"):
        m = averaged(X)
    assert (m.n_draws_, m.outcome_, m.converged_) == (6, "interrupted", False)
    width = whole.row_factors_.shape[1] // N
    np.testing.assert_allclose(
        m.row_factors_ * np.sqrt(6), whole.row_factors_[:, : 6 * width] * np.sqrt(N), rtol=1e-12
    )  # two roundings
    assert len(m.residuals_) == len(whole.residuals_)

    def at_once(self):
        signal.raise_signal(signal.SIGINT)
        raise_stopped()

    from rslm.kernels import Stopped

    def raise_stopped():
        raise Stopped

    monkeypatch.setattr(Drawing, "draw", at_once)
    with pytest.warns(ConvergenceWarning, match="after 0 of average=12 draws; predictions are those of the fitted"):
        m = averaged(X)
    np.testing.assert_array_equal(m.predict([0, 1], [1, 2]), plain.predict([0, 1], [1, 2]))
    assert m.n_draws_ == 0


def test_time_is_limited():
    X, _ = ratings(shape=(300, 200))
    with pytest.warns(ConvergenceWarning, match="draws"):
        m = averaged(X, 10**5, max_time=1.0)
    assert m.outcome_ == "time"
    assert 0 < m.n_draws_ < 10**5


class Stops:
    """A callback that stops the fit after a given number of draws."""

    def __init__(self, most):
        self.most, self.seen = most, []

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is None or not hasattr(fitted_estimator, "_drawing"):
            return False
        self.seen.append((*fitted_estimator._drawing, fitted_estimator.n_draws_))
        return fitted_estimator.n_draws_ >= self.most

    def teardown(self, estimator, context): ...


def test_callbacks_and_log(caplog):
    X, _ = ratings()
    stops = Stops(4)
    model = MatrixCompletion(3, 5.0, average=40, random_state=0, verbose=1).set_callbacks(stops)
    with pytest.warns(ConvergenceWarning, match="after 4 of average=40"):
        model.fit(X)
    assert stops.seen == [(2, 40, 2), (4, 40, 4)]  # every second one of 40
    assert any(line.startswith("draw 4 of 40") for line in caplog.messages)
    assert not hasattr(model, "_drawing")


def test_a_later_fit_forgets_the_draws():
    X, _ = ratings()
    m = averaged(X)
    m.set_params(average=None).fit(X)
    assert m.n_draws_ == 0
    with pytest.raises(ValueError, match="fit with average=100"):
        m.predict_spread([0], [0])
    with pytest.raises(AttributeError, match="fit with average=100"):
        _ = m.noise_
    assert m.row_factors_.shape[1] == 3


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"average": 1}, ValueError, "whole number of draws ≥ 2; got 1"),
        ({"average": 2.5}, ValueError, "whole number of draws ≥ 2; got 2.5"),
        ({"average": True}, ValueError, "got True"),
        ({"average": "auto"}, ValueError, "got 'auto'"),
        ({"average": 5, "loss": "huber"}, ValueError, "needs normal noise"),
        ({"average": 5, "bounds": (1, 5)}, ValueError, "do not satisfy bounds"),
    ],
)
def test_refused(params, error, match):
    with pytest.raises(error, match=match):
        MatrixCompletion(**params).fit(ratings()[0])


def test_a_cluster_and_a_stream_are_refused():
    model = MatrixCompletion(average=5)
    with pytest.raises(ValueError, match="in this process"):
        model.fit(ratings()[0], client=object())
    assert not hasattr(model, "partial_fit")


def test_other_lengths_and_files(tmp_path):
    m = averaged(ratings()[0])
    with pytest.raises(ValueError, match="same length; got 1 and 2"):
        m.predict_spread([0], [0, 1])
    ids = ObservedMatrix.from_any(ratings()[0])
    assert averaged(ids).predict_spread([0], [0]).shape == (1,)
    arrays, _ = m._to_file()
    assert arrays["draws_noise"].shape == (N,)
