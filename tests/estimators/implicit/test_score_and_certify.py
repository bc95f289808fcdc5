"""How good a model of what people took is, on other data: its score, and its certificate."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from clicks import clicks
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.evaluate import RankingScorer, holdout_per_user, holdout_users, ndcg_at_k, rank_items, rank_new_users

GIVEN = {"rank": 3, "C": 5.0, "alpha0": 0.2, "weighting": 0.5, "random_state": 0}
X = clicks(60, 30)
TRAIN, TEST = holdout_per_user(X, 0.2, 1)
MODEL = ImplicitCompletion(**GIVEN).fit(TRAIN)


def named(data):
    """With ids, and users in another order than they are sorted."""
    rows, cols = [f"u{i}" for i in data.rows_of_entries()], [f"i{j}" for j in data.index]
    return ObservedMatrix.from_ratings(rows, cols, data.values)


def test_items_that_were_held_out():
    wanted = ndcg_at_k(rank_items(MODEL, 30), TEST)
    assert MODEL.score(TEST) == wanted  # ndcg@100, but there are 30 items
    assert MODEL.score(TEST.to_csr()) == wanted
    recall = ImplicitCompletion(**GIVEN, metric="recall@5").fit(TRAIN)
    assert recall.score(TEST) == RankingScorer("recall", k=5)(recall, TEST)


def test_ids_tell_who_they_are():
    """Some users, in any order; what the model was fitted to is left out."""
    model = ImplicitCompletion(**GIVEN).fit(named(TRAIN))
    assert model.score(named(TEST)) == pytest.approx(MODEL.score(TEST), abs=1e-12)  # sums in another order
    assert model.score(named(ObservedMatrix.from_any(X))) == model.score(named(TEST))
    some = ObservedMatrix.from_ratings(["u7"], ["i2"], [1.0])
    assert model.score(some) in (0.0, *(1 / np.log2(np.arange(30) + 2)))


def test_new_users_are_shown_a_part():
    train, fold_in, held_out = holdout_users(X, 0.3, random_state=0)
    model = ImplicitCompletion(**GIVEN).fit(train)
    new = X[[int(i) for i in fold_in.row_ids]]
    shown, hidden = holdout_per_user(new, 0.2, 0)
    assert model.score(new) == ndcg_at_k(rank_new_users(model, shown, 30), hidden)
    assert len(held_out) > 0


@pytest.mark.parametrize("folds", [2, 3])  # with two, there are as many new users as fitted ones
def test_cross_validation(folds):
    scores = cross_val_score(ImplicitCompletion(**GIVEN), X, cv=folds)
    scorer = RankingScorer("ndcg", k=30, fold_in=0.8)
    np.testing.assert_array_equal(scores, cross_val_score(ImplicitCompletion(**GIVEN), X, cv=folds, scoring=scorer))
    table = pd.DataFrame(X.toarray(), index=[f"u{i}" for i in range(60)])
    np.testing.assert_array_equal(cross_val_score(ImplicitCompletion(**GIVEN), table, cv=folds), scores)


def test_the_data_of_the_fit_are_scored_like_new_users():
    assert 0 < MODEL.score(TRAIN) <= 1


def test_the_certificate_of_the_same_data_is_that_of_the_fit():
    model = ImplicitCompletion(**GIVEN | {"tol": 1e-9}).fit(X)
    found = model.certify(X)
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)  # at a relative gradient of 1e-9
    assert found.dual == pytest.approx(model.certificate_.dual, rel=1e-6)  # the gradient moves it by its square root


def test_the_certificate_of_other_data():
    other = clicks(50, 30, seed=3)
    best = ImplicitCompletion(**GIVEN).fit(other).certificate_
    found = MODEL.certify(other)
    assert found.dual <= best.primal <= found.primal * (1 + 1e-9)  # no factors of other items are better
    with pytest.raises(ValueError, match="X has 2 users, but a model of rank 3 needs at least 3"):
        MODEL.certify(X[:2])
    with pytest.raises(ValueError, match="X has no positive entry"):
        MODEL.certify(np.zeros((5, 30)))


def test_nothing_to_score():
    with pytest.raises(ValueError, match="X has no positive entry: 60 × 30"):
        MODEL.score(np.zeros((60, 30)))
    with pytest.raises(ValueError, match="no row has enough entries to hold one out"):
        MODEL.score(np.eye(7, 30))
