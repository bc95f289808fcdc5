"""InductiveCompletion without any setting: what it finds, and that it is never worse than effects alone."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rslm
from rslm import InductiveCompletion, MatrixCompletion
from rslm.estimators.automatic import search


def table(*, offset=3.0, factor=1.0, interaction=1.0, seed=0, shape=(50, 40)):
    """Effects, and an interaction of features and of each row's own; 5 rows and 3 columns have no entry."""
    rng = np.random.default_rng(seed)
    n, m = shape
    A, B = rng.standard_normal((n, 3)), rng.standard_normal((m, 2))
    W = 0.5 * rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal((1, m))
    by_features = np.outer(A @ rng.standard_normal(3), B @ rng.standard_normal(2))
    W = W + interaction * (by_features + np.outer(rng.standard_normal(n), rng.standard_normal(m)))
    W = offset + factor * W
    X = W + factor * 0.4 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.6] = np.nan
    X[:5], X[:, :3] = np.nan, np.nan
    return X, A, B, W


@cache
def automatic(**options):
    X, A, B, _ = table(**options)
    return InductiveCompletion(random_state=0).fit(X, row_features=A, column_features=B)


def matrix_of(model):
    effects = model.intercept_ + model.row_effects_[:, None] + model.col_effects_
    return effects + model.row_factors_ @ model.col_factors_.T


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def test_it_finds_what_predicts_best():
    X, A, B, W = table()
    model, missing = automatic(), np.isnan(X)
    assert model.held_out_["model"] < 0.7 * model.held_out_["effects"] < 0.7 * model.held_out_["mean"]
    best = np.argmin(model.path_["error"])
    assert pytest.approx(model.path_["C"][best], rel=2.0) == model.C_
    assert model.feature_weight_ in model.path_["feature_weight"]
    assert len(np.unique(model.path_["feature_weight"])) > 1
    with pytest.warns(UserWarning, match="no observed entry"):
        plain = MatrixCompletion(random_state=0).fit(X)
    for part in (missing, np.s_[:5], np.s_[:, :3]):  # what is missing, rows and columns of which nothing is known
        assert rmse(matrix_of(model)[part], W[part]) < 0.85 * rmse(matrix_of(plain)[part], W[part])
    tuned = [
        rmse(
            matrix_of(
                InductiveCompletion(3, C, feature_weight=w, weighting=0, random_state=0).fit(
                    X, row_features=A, column_features=B
                )
            )[missing],
            W[missing],
        )
        for C in (3.0, 10.0, 30.0)
        for w in (0.2, 0.8, 3.2)
    ]
    assert rmse(matrix_of(model)[missing], W[missing]) < 1.1 * min(tuned)


@pytest.mark.parametrize("options", [{"factor": 1e3, "offset": 1e4}])
def test_neither_level_nor_unit_matters(options):
    one, other = automatic(), automatic(**options)
    assert pytest.approx(other.C_, rel=1e-6) == one.C_
    assert (one.rank_, one.weighting_, one.feature_weight_) == (other.rank_, other.weighting_, other.feature_weight_)
    level, unit = options["offset"], options.get("factor", 1.0)
    level -= 3.0 * unit
    np.testing.assert_allclose((matrix_of(other) - level) / unit, matrix_of(one), atol=1e-5)


def test_effects_alone_where_nothing_else_helps(tmp_path, monkeypatch):
    X, A, B, W = table(interaction=0.0)
    monkeypatch.setattr(search, "BETTER", 1.0)  # effects are a part of W, which may be as good
    model = InductiveCompletion(random_state=0).fit(X, row_features=A, column_features=B)
    assert model.rank_ == 0
    assert not model.row_factors_.any()
    assert model.held_out_["model"] == model.held_out_["effects"] < model.held_out_["mean"]
    assert rmse(matrix_of(model), W) < 0.5 * W.std()
    missing, every = np.isnan(X), tuple(k.ravel() for k in np.indices(X.shape))
    np.testing.assert_allclose(model.predict(*every).reshape(X.shape), matrix_of(model))
    np.testing.assert_allclose(model.transform(X)[missing], matrix_of(model)[missing])
    new = model.predict([0], [7], row_features=A[:1])
    assert new == pytest.approx(model.intercept_ + model.col_effects_[7], abs=1e-9)
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    assert back.rank_ == 0
    np.testing.assert_array_equal(back.predict(*every), model.predict(*every))
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    assert back.score(X[40:45] + 1.0) == model.score(X[40:45] + 1.0)  # samples that it has not seen


def test_a_file_holds_what_was_found(tmp_path):
    model = automatic()
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    for name in ("C_", "weighting_", "feature_weight_", "rank_", "intercept_", "held_out_"):
        assert getattr(back, name) == getattr(model, name)
    assert all(np.array_equal(back.path_[name], values) for name, values in model.path_.items())
    X, A, _, _ = table()
    np.testing.assert_array_equal(back.transform(X, row_features=A), model.transform(X, row_features=A))


def test_numbers_are_one_fit():
    X, A, B, _ = table()
    model = InductiveCompletion(2, 10.0, random_state=0).fit(X, row_features=A, column_features=B)
    assert (model.C_, model.weighting_, model.feature_weight_) == (10.0, 0.0, 0.2)
    assert model.path_ is None
    assert model.held_out_ is None


def test_the_same_seed_gives_the_same_answer():
    X, A, B, _ = table()
    again = InductiveCompletion(random_state=0, n_threads=1).fit(X, row_features=A, column_features=B)
    assert np.array_equal(again.row_factors_, automatic().row_factors_)


@pytest.mark.parametrize(
    ("loss", "given_settings"),
    [("huber", {}), ("absolute", {"rank": 3, "feature_weight": 0.8, "weighting": 0}), ("logistic", {})],
)
def test_other_losses(loss, given_settings):
    X, A, B, W = table(shape=(35, 28))
    given = np.where(np.isnan(X), np.nan, X > 3.0) if loss == "logistic" else X
    # With kinks the search would take half a minute: it is stopped, and what it has found then depends on the machine.
    stopped = loss == "absolute"
    model = InductiveCompletion(**given_settings, loss=loss, max_time=5.0 if stopped else None, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="max_time=5.0 has ended the search", category=ConvergenceWarning)
        model.fit(given, row_features=A, column_features=B)
    if stopped and model.held_out_ is None:  # not even time for one setting
        return
    assert model.held_out_["model"] <= (1.0 if stopped else 0.95) * model.held_out_["effects"]
    if loss == "logistic":
        assert np.mean((matrix_of(model) > 0) == (W > 3.0)) > 0.7
    else:
        assert rmse(matrix_of(model), W) < 0.8 * W.std()


@pytest.mark.parametrize(
    "X", [[[2.0, np.nan], [np.nan, 5.0]], [[1.0, 2.0, 3.0, 4.0]], [[1.0], [2.0], [3.0]], np.full((6, 5), 7.0)]
)
def test_few_or_equal_values(X):
    X = np.array(X)
    model = InductiveCompletion(random_state=0).fit(X, row_features=np.arange(len(X))[:, None])
    assert np.isfinite(matrix_of(model)).all()
    if np.ptp(X[~np.isnan(X)]) == 0:
        np.testing.assert_allclose(matrix_of(model), 7.0, rtol=1e-6)
