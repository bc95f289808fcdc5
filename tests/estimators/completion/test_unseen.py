"""Rows and columns that fit has not seen: errors, or predicted by what is known; and columns that are found by id."""

import numpy as np
import pandas as pd
import pytest

from rslm import ImplicitCompletion, InductiveCompletion, MatrixCompletion, ObservedMatrix
from rslm.datasets import make_ratings
from rslm.evaluate import align, mae, rmse

MADE = make_ratings(60, 30, 900, rank=2, noise=0.3, random_state=0).data
USERS = np.array([f"u{i}" for i in range(60)])
X = ObservedMatrix.from_ratings(USERS[MADE.rows_of_entries()], 100 + MADE.index, np.clip(MADE.values, 1, 5))
OPTIONS = {"rank": 2, "C": 5.0, "random_state": 0}


def test_the_known_side_is_used():
    model = MatrixCompletion(**OPTIONS).fit(X)
    found = model.predict(["u3", "new", "new", "u3"], [100, 100, 7, 7], unseen="mean")
    row, col = X.row_of("u3")[0], X.col_of(100)[0]
    mean, of_row, of_col = model.intercept_, model.row_effects_[row], model.col_effects_[col]
    np.testing.assert_allclose(found, [model.predict(["u3"], [100])[0], mean + of_col, mean, mean + of_row], rtol=1e-12)


def test_an_unseen_row_is_like_one_without_an_entry():
    empty = MADE.subset(MADE.rows_of_entries() != 59)
    for effects in ("auto", None):
        with pytest.warns(UserWarning, match="no observed entry"):
            model = MatrixCompletion(**OPTIONS, effects=effects).fit(empty)
        found = model.predict([60, 99], [3, 3], unseen="mean")
        if effects is not None:
            np.testing.assert_allclose(found, model.predict([59, 59], [3, 3]), rtol=1e-12)
        np.testing.assert_allclose(found, found[0], rtol=1e-12)
    assert found[0] == pytest.approx(model.row_factors_.mean(axis=0) @ model.col_factors_[3])


def test_what_is_said():
    model = MatrixCompletion(**OPTIONS).fit(X)
    with pytest.raises(ValueError, match=r"Unknown row id 'new' at position 1.*unseen=\"mean\""):
        model.predict(["u3", "new"], [100, 100])
    with pytest.raises(ValueError, match="100 and '100' are different ids"):
        model.predict(["u3"], ["100"])
    with pytest.raises(ValueError, match="unseen must be"):
        model.predict(["u3"], [100], unseen="zero")
    plain = MatrixCompletion(**OPTIONS).fit(MADE)
    with pytest.raises(ValueError, match=r"row positions\[0\] is 1500, but positions from 0 to 59 are known; leave"):
        plain.recommend([1500])
    with pytest.raises(ValueError, match="is -1, but positions from 0"):
        plain.predict([-1], [0], unseen="mean")


def test_bounds_of_an_unseen_row():
    model = MatrixCompletion(**OPTIONS, bounds=(1, 5)).fit(X)
    model.intercept_ = 9.0
    np.testing.assert_array_equal(model.predict(["new", "u1", "new"], [100, 7, 7], unseen="mean"), 5.0)
    own = MatrixCompletion(**OPTIONS, bounds=(1, np.full((60, 1), 5))).fit(X)
    own.intercept_ = 9.0
    found = own.predict(["u1", "new", "u1"], [100, 7, 7], unseen="mean")
    assert (found[0], found[1], found[2]) == (5.0, 9.0, 5.0)  # a new row has no bounds of its own


def test_features_in_units_of_their_own():
    A = np.random.default_rng(0).normal(size=(40, 6)) * 10.0 ** np.arange(6)
    model = MatrixCompletion(**OPTIONS).fit(A)
    assert model.predict([99], [0], unseen="mean").shape == (1,)
    with pytest.raises(ValueError, match="divided by their standard deviations"):
        model.predict([0], [6], unseen="mean")


def test_errors_of_held_out_entries():
    model = MatrixCompletion(**OPTIONS).fit(X)
    test = ObservedMatrix.from_ratings(["u1", "u2", "new"], [100, 101, 100], [3.0, 4.0, 5.0])
    with pytest.raises(ValueError, match="unseen"):
        rmse(model, test)
    assert rmse(model, test, unseen="mean") > 0
    assert mae(model, test, unseen="mean") > 0
    assert rmse(model, align(test, model)) == rmse(model, align(test, model), unseen="mean")


def test_other_models():
    implicit = ImplicitCompletion(2, 50.0, 0.2, 0.5, random_state=0).fit(X)
    found = implicit.predict(["u1", "new", "new"], [100, 100, 7], unseen="mean")
    item = implicit.col_factors_[X.col_of(100)[0]]
    np.testing.assert_allclose(found[1:], [implicit._average_user @ item, 0.0], atol=1e-12)
    features = np.random.default_rng(0).normal(size=(60, 2))
    inductive = InductiveCompletion(2, 5.0, random_state=0).fit(MADE, row_features=features)
    assert np.isfinite(inductive.predict([3, 99], [4, 99], unseen="mean")).all()
    with pytest.raises(ValueError, match="unseen"):
        inductive.predict([99], [4])


@pytest.mark.parametrize("model", [MatrixCompletion(**OPTIONS), ImplicitCompletion(2, 50.0, 0.2, 0.5, random_state=0)])
def test_new_users_by_the_ids_of_their_columns(model):
    model.fit(X)
    new = ObservedMatrix.from_ratings(["me"] * 3, [120, 100, 110], [5.0, 1.0, 4.0])
    full = new.with_columns(X.col_ids)
    assert full.shape == (1, 30)
    for one, other in zip(model.recommend_for(new, 5), model.recommend_for(full, 5), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not set(model.recommend_for(new, 5)[0][0]) & {100, 110, 120}


def test_columns_of_a_table_are_those_of_fit():
    table = pd.DataFrame(X.to_dense(), columns=X.col_ids)
    other = table.rename(columns=lambda name: name + 1)
    for fitted in (MatrixCompletion(**OPTIONS).fit(X), MatrixCompletion(**OPTIONS).fit(table)):
        for use in (fitted.score, fitted.transform, fitted.recommend_for, fitted.certify):
            use(table)
            with pytest.raises(ValueError, match="other column ids than fit was given, or in another order"):
                use(other)
        fitted.transform(table.to_numpy())  # by position


def test_ones_are_better_off_elsewhere():
    ones = X.with_values(np.ones(len(X)))
    for given in (ones, ones.to_csr()):
        with pytest.warns(UserWarning, match="all observed values are 1.*use ImplicitCompletion"):
            MatrixCompletion(**OPTIONS).fit(given)
    MatrixCompletion(**OPTIONS).fit(ones.to_dense())  # NaN is missing, not zero
    MatrixCompletion(**OPTIONS, loss="logistic").fit(X.with_values((X.values > 3.0) * 1.0))


def test_ids_of_another_type_are_not_unseen():
    model = MatrixCompletion(1, 1.0).fit(ObservedMatrix.from_ratings([1, 1, 2], [1, 2, 1], [3.0, 4.0, 5.0]))
    with pytest.raises(ValueError, match="different ids"):
        model.predict(["1"], ["2"], unseen="mean")
