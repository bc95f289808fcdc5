"""What `score` means: in units of the features where they have their own, and by ids where there are any."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score, train_test_split

import rslm
from rslm import MatrixCompletion, ObservedMatrix
from rslm.evaluate import align


def table(n=200, seed=0, common=0.0):
    """Columns of different units and means, with `common` of their standard deviation in common."""
    rng = np.random.default_rng(seed)
    z = common * rng.standard_normal((n, 1)) + np.sqrt(1 - common**2) * rng.standard_normal((n, 4))
    made = pd.DataFrame(z * [10.0, 1e4, 1.0, 0.01] + [40.0, 5e4, 0.0, 3.0], columns=["age", "income", "score", "share"])
    return made.mask(rng.random(made.shape) < 0.1)


def test_nothing_learned_of_columns_in_their_own_units_scores_about_0(tmp_path):
    noise = table()
    model = MatrixCompletion(random_state=0).fit(noise)
    assert model.rank_ == 0
    assert abs(model.score(noise)) < 0.05
    assert abs(cross_val_score(model, noise, cv=3).mean()) < 0.08
    assert abs(model.score(noise.iloc[:1])) < 1.0  # a single sample has no mean of its own
    model.save(tmp_path / "model.rslm")
    assert rslm.load(tmp_path / "model.rslm").score(noise) == model.score(noise)


def test_what_columns_have_in_common_is_the_score_whatever_their_units():
    given = table(common=0.9)
    scores = cross_val_score(MatrixCompletion(random_state=0), given, cv=3)
    other = given * [1.0, 1e-3, 50.0, 7.0] + [0.0, 9.0, 1e4, 0.0]
    assert 0.5 < scores.mean() < 0.9
    assert scores.mean() == pytest.approx(
        cross_val_score(MatrixCompletion(scale=True, random_state=0), other, cv=3).mean(), abs=0.03
    )


def test_one_unit_for_all_is_scored_about_the_common_mean():
    X = matrix(ratings())
    model = MatrixCompletion(2, 100.0, random_state=0).fit(X)
    dense = model.row_factors_ @ model.col_factors_.T + model.row_effects_[:, None] + model.col_effects_
    values, found = X.values, (dense + model.intercept_)[X.rows_of_entries(), X.index]
    expected = 1 - np.sum((values - found) ** 2) / np.sum((values - values.mean()) ** 2)
    assert model.score(X) == pytest.approx(expected, rel=1e-9)


def ratings(n=900, seed=0):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 40, n), rng.integers(0, 25, n)
    made = pd.DataFrame({"user": users + 100, "item": items + 500, "rating": 3.0 + users % 3 - items % 2})
    return made.drop_duplicates(["user", "item"]).sample(frac=1.0, random_state=0)


def matrix(given):
    return ObservedMatrix.from_ratings(given["user"], given["item"], given["rating"])


def test_held_out_ratings_are_found_by_their_ids():
    given = ratings()
    test, train = given[:60], given[60:]
    model = MatrixCompletion(2, 10.0, random_state=0).fit(matrix(train))
    held = matrix(test)
    assert held.shape[1] < model.n_features_in_
    found = model.predict(test["user"], test["item"])
    expected = 1 - ((test["rating"] - found) ** 2).sum() / ((test["rating"] - test["rating"].mean()) ** 2).sum()
    assert model.score(held) == pytest.approx(expected, rel=1e-9)
    weights = held.with_values(np.arange(1.0, len(held) + 1.0))
    assert model.score(held, sample_weight=weights) == pytest.approx(model.score(held.weighted(weights)), rel=1e-12)
    with pytest.raises(ValueError, match=r"X\.with_columns\(model\.col_ids_\) has the columns"):
        model.transform(held)  # whose result has columns by position
    assert model.transform(held.with_columns(model.col_ids_)).shape == (held.shape[0], model.n_features_in_)


def test_unknown_ids_are_named():
    given = ratings()
    known = given[(given["item"] < 520) & (given["user"] < 135)]
    model = MatrixCompletion(2, 10.0, random_state=0).fit(matrix(known))
    with pytest.raises(ValueError, match=r"5 of 25 columns of X are unknown.*first is 520.*align.*holdout"):
        model.score(matrix(given))
    with pytest.raises(ValueError, match=r"5 of 40 rows of X are unknown.*first is 135.*align.*apart"):
        model.score(matrix(given[given["item"] < 520]))
    assert model.score(align(matrix(given), model)) == pytest.approx(model.score(matrix(known)), rel=1e-9)


def test_scikit_learn_splits_the_rows_of_observed_matrices():
    X = matrix(ratings())
    model = MatrixCompletion(2, 10.0, random_state=0)
    dense = cross_val_score(model, X.to_dense(), cv=3)
    np.testing.assert_allclose(cross_val_score(model, X, cv=3), dense)
    np.testing.assert_allclose(cross_val_score(model, X.to_csr(), cv=3), dense)
    train, test = train_test_split(X, random_state=0)
    assert len(train) + len(test) == X.shape[0]
