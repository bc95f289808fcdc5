"""Scorers: what they measure, and that scikit-learn's searches take them."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from plain import plain_completion
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.datasets import make_ratings
from rslm.evaluate import (
    ErrorScorer,
    RankingScorer,
    holdout_per_user,
    mae,
    map_at_k,
    rank_items,
    rank_new_users,
    recall_at_k,
    rmse,
    scorers,
)

MADE = make_ratings(90, 40, 1800, rank=2, noise=0.3, random_state=0).data
TRAIN, TEST = holdout_per_user(MADE, 0.2, 0)
NEW = make_ratings(30, 40, 500, rank=2, noise=0.3, random_state=1).data
MODEL = plain_completion(3, 20.0, random_state=0).fit(TRAIN)


def test_held_out_items_of_fitted_users():
    ranking = rank_items(MODEL, 10)
    assert RankingScorer("recall", k=10)(MODEL, TEST) == recall_at_k(ranking, TEST, 10)
    assert RankingScorer("map", k=5, relevant_from=4)(MODEL, TEST) == map_at_k(ranking, TEST, 5, relevant_from=4)
    assert ErrorScorer()(MODEL, TEST) == -rmse(MODEL, TEST)
    assert ErrorScorer("mae")(MODEL, TEST) == -mae(MODEL, TEST)


def test_ids():
    def named(data):
        ids = [f"u{i:02}" for i in range(90)]
        return ObservedMatrix(data.indptr, data.index, data.values, data.shape, np.array(ids))

    model = plain_completion(3, 20.0, random_state=0).fit(named(TRAIN))
    for scorer in RankingScorer("recall"), ErrorScorer():
        assert scorer(model, named(TEST)) == scorer(MODEL, TEST)


@pytest.mark.parametrize("scorer", [RankingScorer("recall"), ErrorScorer()])
def test_a_table_of_its_own_is_matched_by_ids(scorer):
    def named(data):
        ids = [f"u{i:02}" for i in data.rows_of_entries()]
        return ObservedMatrix.from_ratings(ids, 100 - data.index, data.values)

    model = plain_completion(3, 20.0, random_state=0).fit(named(TRAIN))
    part = TEST.subset((TEST.rows_of_entries() < 60) & (TEST.index < 35))
    own = named(part)
    assert own.shape != part.shape
    assert scorer(model, own) == pytest.approx(scorer(MODEL, part), rel=1e-6)
    other = ObservedMatrix.from_ratings(["u01", "u02"], [100, 7], [5.0, 5.0])
    with pytest.raises(
        ValueError, match=r"1 of 2 entries of X are of users or items .* rslm\.evaluate\.align\(X, model"
    ):
        scorer(model, other)
    new = ObservedMatrix.from_ratings(["new", "too"], [100, 99], [5.0, 5.0])
    with pytest.raises(ValueError, match=r"none of the 2 rows of X is a row of the model; .*fold_in=0\.8"):
        scorer(model, new)


@pytest.mark.parametrize("rows", [7, 256])
def test_new_users(monkeypatch, rows):
    monkeypatch.setattr(scorers, "ROWS", rows)
    shown, hidden = holdout_per_user(NEW, 1.0 - 0.75, 5)
    found = RankingScorer("recall", k=10, fold_in=0.75, random_state=5)(MODEL, NEW)
    assert found == recall_at_k(rank_new_users(MODEL, shown, 10), hidden, 10)
    missed = MODEL.transform(shown)[hidden.rows_of_entries(), hidden.index] - hidden.values
    for name, wanted in (("rmse", np.sqrt(np.mean(missed**2))), ("mae", np.mean(np.abs(missed)))):
        error = -ErrorScorer(name, fold_in=0.75, random_state=5)(MODEL, NEW)
        assert error == pytest.approx(wanted, rel=1e-9)  # fold-ins of other groups of rows


@pytest.mark.parametrize("scorer", [RankingScorer("ndcg", 10, fold_in=0.8, relevant_from=4), ErrorScorer(fold_in=0.8)])
def test_grid_search_over_new_users(scorer):
    """The C that hardly fits anything is worse than the good one."""
    search = GridSearchCV(plain_completion(2, 1.0, random_state=0), {"C": [0.001, 20.0]}, scoring=scorer, cv=3)
    search.fit(MADE.to_dense())
    assert search.best_params_ == {"C": 20.0}
    assert (np.diff(search.cv_results_["mean_test_score"]) > 0).all()


@pytest.mark.parametrize("scorer", [RankingScorer("ndcg", k=10), ErrorScorer()])
def test_grid_search_over_held_out_items(scorer):
    """Training and held-out entries of the same users, one below the other, and one fold that says which is which."""
    both, n = sparse.vstack([TRAIN.to_csr(), TEST.to_csr()]).tocsr(), len(TRAIN.indptr) - 1
    fold = [(np.arange(n), np.arange(n, 2 * n))]
    search = GridSearchCV(plain_completion(2, 1.0, random_state=0), {"C": [0.001, 20.0]}, scoring=scorer, cv=fold)
    search.set_params(refit=False).fit(both)
    good = plain_completion(2, 20.0, random_state=0).fit(TRAIN)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scorer(good, TEST), rel=1e-12)


def test_scorers_travel_to_other_processes():
    scorer = RankingScorer("recall", k=3)
    assert pickle.loads(pickle.dumps(scorer)) == scorer


def test_bad_wishes():
    with pytest.raises(ValueError, match=r"metric must be one of 'recall'.*got 'auc'"):
        RankingScorer("auc")
    with pytest.raises(ValueError, match="metric must be one of 'rmse', 'mae'; got 'mse'"):
        ErrorScorer("mse")
    for scorer in RankingScorer(), ErrorScorer():
        with pytest.raises(ValueError, match=r"X has 30 rows, but the model was fitted to 90.*fold_in=0.8"):
            scorer(MODEL, NEW)
    with pytest.raises(ValueError, match="k is 50, but there are only 40 items"):
        RankingScorer(k=50)(MODEL, TEST)
    with pytest.raises(ValueError, match=r"fold_in is 1\.5, but a number between 0 and 1"):
        RankingScorer(fold_in=1.5)
    with pytest.raises(TypeError, match=r"ImplicitCompletion has no transform.*use RankingScorer"):
        ErrorScorer(fold_in=0.8)(ImplicitCompletion(), NEW)


def test_grid_search_over_what_people_took():
    """A C that hardly fits anything ranks new users' items no better than popularity; the good one does."""
    likes = np.arange(60)[:, None] % 3 == np.arange(30) % 3
    plays = sparse.csr_array(np.random.default_rng(0).poisson(np.where(likes, 0.9, 0.05)))
    model = ImplicitCompletion(rank=4, C=1.0, alpha0=0.2, weighting=0.5, random_state=0)
    scorer = RankingScorer("recall", k=5, fold_in=0.7)
    search = GridSearchCV(model, {"C": [0.1, 5.0]}, scoring=scorer, cv=3).fit(plays)
    assert (np.diff(search.cv_results_["mean_test_score"]) > 0.2).all()  # 0.19 and 0.68, of at most 1
