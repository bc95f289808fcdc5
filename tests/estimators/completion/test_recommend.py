"""Recommendations against the sorted rows of the learned matrix."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import rslm
from plain import WITH_EFFECTS, plain_completion
from rslm import ObservedMatrix
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.evaluate import largest

MADE = make_ratings(60, 45, 900, rank=2, noise=0.3, random_state=0).data
TRAIN, TEST = holdout(MADE, 0.2, 0)
MODEL = plain_completion(3, 20.0, random_state=0).fit(TRAIN)


def expected(rows, top, known):
    W = MODEL.row_factors_ @ MODEL.col_factors_.T
    W[known.rows_of_entries(), known.index] = -np.inf
    return best_of(W[rows], top)


def best_of(W, top):
    """The columns of the largest entries of each row, and these, but for those that are −∞."""
    order = [[j for j in np.argsort(-row)[:top] if np.isfinite(row[j])] for row in W]
    return order, [row[at] for row, at in zip(W, order, strict=True)]


def assert_same(found, wanted, **tolerance):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("cells", [1, 100, 1 << 22])  # a row, two rows, all rows at a time
def test_the_best_unknown_columns_in_order(monkeypatch, cells):
    monkeypatch.setattr(largest, "CELLS", cells)
    rows = np.array([7, 3, 7, 59, 0])
    columns, scores = MODEL.recommend(rows, 6)
    order, values = expected(rows, 6, TRAIN)
    assert_same(columns, order)
    assert_same(scores, values, atol=1e-12)


def test_known_entries_can_be_given():
    columns, _ = MODEL.recommend(np.arange(60), 5, known=MADE)
    assert_same(columns, expected(np.arange(60), 5, MADE)[0])


def test_a_file_can_keep_them(tmp_path):
    MODEL.save(tmp_path / "with", known=MADE)
    MODEL.save(tmp_path / "without")
    with_known, without = rslm.load(tmp_path / "with"), rslm.load(tmp_path / "without")
    assert_same(with_known.recommend(range(60), 5)[0], expected(np.arange(60), 5, MADE)[0])
    nothing = ObservedMatrix(np.zeros(61, np.int64), np.zeros(0, np.int32), np.zeros(0), (60, 45))
    assert_same(without.recommend(range(60), 5)[0], expected(np.arange(60), 5, nothing)[0])


def test_known_entries_are_never_among_them():
    """Not even where fewer columns are left than asked for; `top` may be larger than the number of columns."""
    dense = np.full((60, 45), np.nan)
    dense[0] = dense[1, :40] = dense[2, 3] = 1.0
    columns, scores = MODEL.recommend([0, 1, 2, 3], 100, known=ObservedMatrix.from_any(dense))
    assert [len(c) for c in columns] == [len(s) for s in scores] == [0, 5, 44, 45]
    for row, (found, values) in enumerate(zip(columns, scores, strict=True)):
        assert np.isnan(dense[row, found]).all()
        np.testing.assert_allclose(values, MODEL.predict([row] * len(found), found), atol=1e-12)
    assert columns[0].dtype == columns[3].dtype


def test_known_entries_of_new_samples_are_never_among_them():
    new = np.full((3, 45), np.nan)
    new[0], new[1, 2:] = 3.0, 3.0
    inductive = rslm.InductiveCompletion(3, 20.0, random_state=0).fit(TRAIN, row_features=np.ones((60, 1)))
    for columns, scores in MODEL.recommend_for(new, 10), inductive.recommend_for(new, 10, row_features=np.ones((3, 1))):
        assert [len(c) for c in columns] == [len(s) for s in scores] == [0, 2, 10]
        assert set(columns[1]) == {0, 1}


def test_ids_in_ids_out():
    named = ObservedMatrix.from_ratings(
        [f"u{i}" for i in TRAIN.rows_of_entries()], [f"i{j}" for j in TRAIN.index], TRAIN.values
    )
    model = plain_completion(3, 20.0, random_state=0).fit(named)
    columns, scores = model.recommend(["u7", "u3"], 4)
    assert len(columns) == 2
    for user, items, values in zip(("u7", "u3"), columns, scores, strict=True):
        np.testing.assert_allclose(model.predict([user] * 4, items), values, atol=1e-12)
        seen = named.col_ids[named.index[slice(*named.indptr[[k := list(named.row_ids).index(user), k + 1]])]]
        assert not set(items) & set(seen)
    ((rest,), _) = model.recommend(["u7"], 45)
    seen = named.col_ids[named.index[slice(*named.indptr[[k := list(named.row_ids).index("u7"), k + 1]])]]
    assert set(rest) == set(named.col_ids) - set(seen)


@pytest.mark.parametrize(
    ("rows", "top", "known", "message"),
    [
        ([60], 3, None, "60"),
        ([0], 0, None, "top must be"),
        ([0], 2.5, None, "top must be"),
        ([0], 3, ObservedMatrix.from_any(np.ones((3, 45))), r"shape that fit was given, \(60, 45\); got \(3, 45\)"),
    ],
)
def test_bad_wishes(rows, top, known, message):
    with pytest.raises((ValueError, IndexError), match=message):
        MODEL.recommend(rows, top, known)


def test_known_entries_of_other_ids():
    named = ObservedMatrix.from_ratings(["a", "b"], ["x", "y"], [1.0, 2.0])
    other = ObservedMatrix.from_ratings(["a", "c"], ["x", "y"], [1.0, 2.0])
    model = plain_completion(1, 1.0, random_state=0).fit(named)
    with pytest.raises(ValueError, match="other ids"):
        model.recommend(["a"], 1, known=other)


def test_recommendations_are_within_the_bounds():
    model = plain_completion(3, 20.0, bounds=(0, 3.6), random_state=0)
    with pytest.warns(UserWarning, match="beyond the bounds"):
        model.fit(TRAIN)
    scores = np.concatenate(model.recommend(range(60), 45)[1])
    assert scores.max() <= 3.6
    assert (scores == 3.6).any()


@pytest.mark.parametrize("options", [{}, {"weighting": 0.5}, {"loss": "huber"}, {"bounds": (-2, 9)}, WITH_EFFECTS])
def test_new_samples(options):
    """As `transform` fills them, those without an entry like an average one; their own entries are left out."""
    model = plain_completion(3, 20.0, random_state=0, **options).fit(TRAIN)
    new = make_ratings(12, 45, 150, rank=2, noise=0.3, random_state=5).data.to_dense()
    new[3] = np.nan
    filled = model.transform(new)
    filled[~np.isnan(new)] = -np.inf
    columns, scores = model.recommend_for(new, 5)
    order, values = best_of(filled, 5)
    assert_same(columns, order)
    assert_same(scores, values, atol=1e-9)
    average = model.row_factors_.mean(axis=0) @ model.col_factors_.T
    if model.effects is not None:  # then the location is all that is known
        average = model.intercept_ + model.col_effects_
    np.testing.assert_allclose(model.transform(new)[3], average, atol=1e-9)


def test_new_samples_with_features():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 2))
    model = rslm.InductiveCompletion(3, 20.0, random_state=0).fit(TRAIN, row_features=features)
    new, known = np.full((4, 45), np.nan), rng.standard_normal((4, 2))
    new[:, 7] = 3.0
    filled = model.transform(new, row_features=known)
    filled[:, 7] = -np.inf
    columns, _ = model.recommend_for(new, 3, row_features=known)
    assert_same(columns, best_of(filled, 3)[0])


def test_new_samples_keep_bounds_of_their_own():
    """Bounds that differ between samples are those of the sample itself, not those of the first one."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((12, 8)) < 0.6, rng.uniform(2.0, 3.0, (12, 8)), np.nan)
    upper = np.where(np.arange(12) < 1, 2.1, 5.0)[:, None]
    with pytest.warns(UserWarning, match="beyond the bounds"):
        model = plain_completion(2, 100.0, bounds=(None, upper), random_state=0).fit(X)
    columns, predictions = model.recommend_for(X, 3)
    W = model.predict(X)
    for k, (at, found) in enumerate(zip(columns, predictions, strict=True)):
        np.testing.assert_allclose(found, W[k, at], rtol=1e-12)


def test_entries_of_unknown_columns_are_left_out():
    """New rows are kept, and are fitted to what is known of them."""
    names = [f"item {j}" for j in TRAIN.index]
    model = plain_completion(3, 20.0, random_state=0).fit(
        ObservedMatrix.from_ratings(TRAIN.rows_of_entries(), names, TRAIN.values)
    )
    known = ObservedMatrix.from_ratings(["me", "me"], ["item 3", "item 5"], [5.0, 1.0])
    more = ObservedMatrix.from_ratings(["me"] * 3, ["item 3", "item 5", "new"], [5.0, 1.0, 4.0])
    with pytest.warns(
        UserWarning, match="1 of 3 entries of X are left out: .*unknown to the model, the first is 'new'"
    ):
        found = model.recommend_for(more, 4)
    assert_same(found[1], model.recommend_for(known, 4)[1])
    np.testing.assert_array_equal(found[0], model.recommend_for(known, 4)[0])
    with pytest.raises(ValueError, match=r"1 of 1 columns of X are unknown to the model.*to keep new rows, build X of"):
        model.recommend_for(ObservedMatrix.from_ratings(["me"], ["new"], [4.0]))
    with pytest.raises(ValueError, match="1 of 3 columns of X are unknown to the model"):
        model.score(more)


@pytest.mark.parametrize("known", [False, [], np.ones((60, 45))])
def test_known_must_be_an_observed_matrix(known):
    with pytest.raises(
        TypeError, match=r"known must be an ObservedMatrix .*\(60, 45\), or None; got .*allow_empty=True"
    ):
        MODEL.recommend([1], known=known)


def test_known_columns_are_recommended_with_an_empty_matrix():
    nothing = ObservedMatrix.from_any(sparse.csr_array((60, 45)), allow_empty=True)
    assert len(MODEL.recommend([1], 45, known=nothing)[0][0]) == 45


@pytest.mark.parametrize(
    "pairs", [[[1, 2], [3, 4]], np.array([[1, 2]]), pd.DataFrame({"user": ["a", "b"], "item": [1, 2]})]
)
def test_pairs_in_one_table(pairs):
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 45 .*predict\(rows, cols\)"):
        MODEL.predict(pairs)
