"""Bounds as a user gives them to an estimator, and what comes back."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import rslm
from plain import plain_completion
from rslm import ObservedMatrix
from rslm.structures import Box


def ratings(samples=100, features=25):
    rng = np.random.default_rng(0)
    W = 3 + 2 * rng.standard_normal((samples, 2)) @ rng.standard_normal((2, features))
    X = np.clip(np.round(W + 0.3 * rng.standard_normal(W.shape)), 1, 5)
    X[rng.random(X.shape) < 0.6] = np.nan
    return X


X, OTHERS = ratings()[:60], ratings()[60:]


def model(**options):
    return plain_completion(**{"rank": 3, "C": 10.0, "random_state": 0} | options)


def full(m):
    return m.row_factors_ @ m.col_factors_.T


@pytest.mark.parametrize("turned", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("weighting", [0.0, 0.5])
@pytest.mark.parametrize(
    "bounds", [(0, None), (1, 5), [None, 4], (1.5, np.inf), (np.linspace(0.5, 1.5, 25), 5), (0, np.full((60, 1), 5.0))]
)
def test_every_entry_is_within(bounds, weighting, turned):
    given, shape = (X.T, (25, 60)) if turned else (X, (60, 25))
    lower, upper = (
        np.broadcast_to(np.asarray(none if b is None else b, dtype=float), (60, 25))
        for b, none in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    if turned:
        bounds = tuple(None if b is None else np.atleast_2d(b).T if np.ndim(b) else b for b in bounds)
        lower, upper = lower.T, upper.T
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*beyond the bounds")
        m = model(bounds=bounds, weighting=weighting).fit(given)
    W = full(m)
    assert W.shape == shape
    assert (lower - W).max() <= 1e-9
    assert (W - upper).max() <= 1e-9
    assert m.converged_
    i, j = np.indices(shape).reshape(2, -1)
    w = m.predict(i, j).reshape(shape)
    assert (w >= lower).all() & (w <= upper).all()  # without rounding errors
    np.testing.assert_allclose(w, W, atol=1e-9)


def test_bounds_help_where_they_are_true():
    truth = np.clip(3 + 2 * np.random.default_rng(3).standard_normal((80, 2)) @ np.ones((2, 30)), 1, 5)
    rng = np.random.default_rng(4)
    noisy = np.clip(truth + rng.standard_normal(truth.shape), 1, 5)
    noisy[rng.random(truth.shape) < 0.8] = np.nan
    errors = [
        np.sqrt(np.mean((np.clip(full(model(bounds=b, C=3.0).fit(noisy)), 1, 5) - truth) ** 2)) for b in (None, (1, 5))
    ]
    assert errors[1] < errors[0]


def test_new_samples_are_within_too():
    m = model(bounds=(1, 5)).fit(X)
    new = OTHERS
    filled, all_of_it = m.transform(new), m.predict(new)
    assert (all_of_it >= 1).all() & (all_of_it <= 5).all()
    known = ~np.isnan(new)
    np.testing.assert_array_equal(filled[known], new[known])
    np.testing.assert_array_equal(filled[~known], all_of_it[~known])
    assert m.score(new) > 0.2  # every entry from the others of its sample
    np.testing.assert_allclose(m.predict(X), full(m), atol=2e-3)  # the fitted samples get their own values back


def test_bounds_of_single_samples_are_not_known_of_others():
    m = model(bounds=(np.zeros((60, 1)), None)).fit(X)
    assert m.predict(X).min() >= 0
    with pytest.raises(ValueError, match="those of 60 samples, one by one; for 40 other samples they are not known"):
        m.transform(OTHERS)


def test_features_without_an_observation_keep_their_own_bounds():
    given = X.copy()
    given[:, 3] = np.nan
    lower = np.zeros(25)
    lower[3] = 4.5
    with pytest.warns(UserWarning, match="their own bounds"):
        m = model(bounds=(lower, None)).fit(given)
    assert full(m)[:, 3].min() >= 4.5 - 1e-9
    with pytest.warns(UserWarning, match="like an average one"):
        m = model(bounds=(0, None)).fit(given)
    np.testing.assert_allclose(full(m)[:, 3], np.delete(full(m), 3, axis=1).mean(axis=1))


def test_observed_values_beyond_the_bounds():
    given = X.copy()
    given[2, 7], given[5, 1] = 9.0, 5.5
    with pytest.warns(
        UserWarning,
        match=r"2 of \d+ observed values are beyond the bounds; the worst one, 9 at row 2, column 7, is 4 above",
    ):
        m = model(bounds=(1, 5)).fit(given)
    assert full(m).max() <= 5 + 1e-9
    with pytest.raises(ValueError, match=r"worst one, 9 at row 2, column 7, is 4 above the upper bound. Correct them"):
        model(bounds=Box(1, 5, strict=True)).fit(given)
    model(bounds=Box(1, 9, strict=True)).fit(given)
    frame = pd.DataFrame(given, index=[f"u{i}" for i in range(60)], columns=[f"f{j}" for j in range(25)])
    with pytest.raises(ValueError, match="at row 'u2', column 'f7'"):
        model(bounds=Box(1, 5, strict=True)).fit(ObservedMatrix.from_any(frame))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((5, 1), "the lower bound is above the upper one: 5 > 1"),
        ((np.arange(25.0), 20), "above the upper one for feature 21: 21 > 20"),
        ((np.zeros((60, 1)), np.linspace(1, -1, 25)), "for feature 13 of sample 0: 0 > -0.08"),
        ((np.zeros(24), None), "the lower bound has 24 numbers, but X has 25 features"),
        ((None, np.ones((25, 1))), r"bounds of shape \(25, 1\) do not go with 60 samples of 25 features"),
        ((np.nan, 1), "the lower bound is NaN"),
        ((0, [1.0] * 4 + [np.nan] + [1.0] * 20), "the upper bound is NaN for feature 4"),
        (("a", 1), "the lower one is 'a'"),
        (5, "bounds must be None, .*got 5"),
        ((1, 2, 3), "got "),
        (("0", "1", "2"), "got "),
        (Box(np.zeros(7)), r"bounds of shape \(1, 7\)"),
    ],
)
def test_bad_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        model(bounds=bounds).fit(X)


def test_features_are_named_by_their_names():
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(25)])
    with pytest.raises(ValueError, match="for feature 'f21': 21 > 20"):
        model(bounds=(np.arange(25.0), 20)).fit(frame)


def test_no_bounds_at_all():
    free = model().fit(X)
    for none in ((None, None), (-np.inf, np.inf), Box()):
        np.testing.assert_array_equal(full(model(bounds=none).fit(X)), full(free))


def test_what_is_zero_everywhere_is_named():
    with pytest.warns(UserWarning, match="zero everywhere"), pytest.warns(UserWarning, match="beyond the bounds"):
        m = model(bounds=(0, None)).fit(-np.ones((6, 5)))
    assert np.abs(full(m)).max() <= 1e-9


def test_bounds_that_no_matrix_of_the_rank_keeps():
    with pytest.warns(UserWarning, match="raise the rank, or widen the bounds"):
        m = model(rank=1, bounds=(np.eye(6), np.eye(6)), max_iter=100).fit(np.eye(6))
    assert not m.converged_
    assert m.outcome_ == "failed"


@pytest.mark.parametrize("bounds", [(1, 5), (0, None), (np.zeros(25), None), Box(1, np.full(25, 5.0), strict=True)])
def test_saving_and_cloning(bounds, tmp_path):
    m = model(bounds=bounds).fit(X)
    m.save(tmp_path / "m.rslm")
    again = rslm.load(tmp_path / "m.rslm")
    new = OTHERS[:10]
    np.testing.assert_array_equal(again.predict(new), m.predict(new))
    np.testing.assert_array_equal(full(again), full(m))
    assert again.certificate_ == m.certificate_
    np.testing.assert_array_equal(full(clone(m).fit(X)), full(m))
    np.testing.assert_allclose(full(clone(again).fit(X)), full(m))


def test_a_search_over_bounds():
    found = GridSearchCV(model(), {"bounds": [None, (1, 5)]}, cv=2).fit(X)
    assert found.best_params_["bounds"] in (None, (1, 5))


@pytest.mark.parametrize("loss", ["absolute", "huber", "epsilon_insensitive", "logistic"])
def test_other_losses(loss):
    given = X if loss != "logistic" else np.where(np.isnan(X), np.nan, X > 3)
    bounds = (1, 5) if loss != "logistic" else (-2, 2)
    m = model(loss=loss, bounds=bounds, C=3.0).fit(given)
    assert full(m).min() >= bounds[0] - 1e-9
    assert full(m).max() <= bounds[1] + 1e-9
    assert m.transform(given).shape == X.shape


def test_the_log_tells_of_soft_bounds(caplog):
    with caplog.at_level("INFO", logger="rslm"):
        model(bounds=(1, 5), verbose=1).fit(X)
    assert "bounds softened by" in caplog.text


def test_the_certificate_tells_of_soft_bounds():
    c = model(rank=1, C=100.0, bounds=(1, 5)).fit(X).certificate_
    assert c.relaxed("bounds") > 0
    assert "the bound says nothing here" in str(c)
    near = replace(c, relative_gap=0.5)
    assert "the limit on the rank and the softness of the bounds together cost" in str(near)
    assert "W keeps them" in str(c)


def test_extreme_scales():
    m = model(bounds=(1e200, 5e200)).fit(X * 1e200)
    np.testing.assert_allclose(full(m) / 1e200, full(model(bounds=(1, 5)).fit(X)), rtol=1e-6)
