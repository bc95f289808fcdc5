"""Rankings against sorted rows of the product, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import rslm
from plain import WITH_EFFECTS, plain_completion
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.datasets import make_ratings
from rslm.evaluate import Ranking, holdout_users, largest, rank_factors, rank_items, rank_new_users

RNG = np.random.default_rng(0)
ROWS, COLS = RNG.integers(-2, 3, (40, 2)).astype(float), RNG.integers(-2, 3, (25, 2)).astype(float)  # with many ties
DENSE = np.where(RNG.random((40, 25)) < 0.3, 1.0, np.nan)
DENSE[3] = 1.0  # everything is known
DENSE[4, :23] = 1.0
KNOWN = ObservedMatrix.from_any(DENSE)
MADE = make_ratings(60, 45, 900, rank=2, noise=0.3, random_state=0).data


def sorted_rows(W, known, k):
    """Best first, the smaller column first where entries are equal, and −1 for what is known."""
    W = W.copy()
    W[known.rows_of_entries(), known.index] = -np.inf
    order = np.argsort(-W, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(W, order, axis=1) > -np.inf, order, -1)


@pytest.mark.parametrize("cells", [1, 100, 1 << 19])  # a row, four rows, all rows at a time
@pytest.mark.parametrize("k", [1, 7, 25])
def test_all_users_are_ranked_exactly(monkeypatch, cells, k):
    """Products of small integers are exact, so that ties are ties."""
    monkeypatch.setattr(largest, "CELLS", cells)
    ranking = rank_factors(ROWS, COLS, k, known=KNOWN, n_threads=2)
    np.testing.assert_array_equal(ranking.items, sorted_rows(ROWS @ COLS.T, KNOWN, k))
    np.testing.assert_array_equal(ranking.counts, np.minimum(k, 25 - KNOWN.row_counts()))


def test_some_users():
    at = [7, 3, 7]
    ranking = rank_factors(ROWS, COLS, 4, known=KNOWN, users=at)
    np.testing.assert_array_equal(ranking.items, sorted_rows(ROWS @ COLS.T, KNOWN, 4)[at])
    np.testing.assert_array_equal(ranking.users, at)


def test_all_items_are_equal():
    ranking = rank_factors(np.zeros((3, 2)), np.ones((9, 2)), 4)
    np.testing.assert_array_equal(ranking.items, np.tile(np.arange(4), (3, 1)))


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(largest, "CELLS", 500)
    rows, cols = RNG.standard_normal((200, 9)), RNG.standard_normal((100, 9))
    one, many = (largest.largest(rows, cols, 20, None, np.arange(200), threads) for threads in (1, 4))
    np.testing.assert_array_equal(one[0], many[0])
    np.testing.assert_array_equal(one[1], many[1])


@pytest.mark.parametrize("options", [{}, WITH_EFFECTS])
def test_models_are_ranked_as_they_recommend(options):
    model = plain_completion(3, 20.0, random_state=0, **options).fit(MADE)
    ranking = rank_items(model, 40)
    for items, count, wanted in zip(ranking.items, ranking.counts, model.recommend(range(60), 40)[0], strict=True):
        np.testing.assert_array_equal(items[:count], wanted)
    everything = rank_items(model, 45, known=None)
    assert (everything.counts == 45).all()
    given = rank_items(model, 45, known=MADE.to_csr())
    np.testing.assert_array_equal(given.counts, 45 - MADE.row_counts())


def test_ids_of_users():
    named = ObservedMatrix.from_ratings([f"u{i}" for i in MADE.rows_of_entries()], MADE.index, MADE.values)
    model = plain_completion(3, 20.0, random_state=0).fit(named)
    ranking = rank_items(model, 5, users=["u7", "u30"])
    np.testing.assert_array_equal(named.row_ids[ranking.users], ["u7", "u30"])
    np.testing.assert_array_equal(named.col_ids[ranking.items], np.stack(model.recommend(["u7", "u30"], 5)[0]))


@pytest.mark.parametrize("ids", [False, True])
def test_new_users(ids):
    data = MADE
    if ids:
        data = ObservedMatrix.from_ratings(data.rows_of_entries(), [f"i{j}" for j in data.index], data.values)
    train, fold_in, held_out = holdout_users(data, 0.3, random_state=0)
    model = plain_completion(3, 20.0, random_state=0).fit(train)
    ranking = rank_new_users(model, fold_in, 40)
    columns = model.recommend_for(fold_in, 40)[0]
    assert ranking.shape == held_out.shape
    for items, count, wanted in zip(ranking.items, ranking.counts, columns, strict=True):
        found = items[:count] if not ids else data.col_ids[items[:count]]
        np.testing.assert_array_equal(found, wanted)
        assert (items[count:] == -1).all()
    assert ranking.counts.min() < 40  # some users have rated more than five items


def test_new_users_with_some_items():
    """Items are found by their ids; positions in the ranking are those of the model."""
    data = ObservedMatrix.from_ratings(MADE.rows_of_entries(), [f"i{j}" for j in MADE.index], np.ones(len(MADE)))
    model = ImplicitCompletion(rank=2, C=5.0, alpha0=0.3, weighting=0.0, random_state=0).fit(data)
    some = ObservedMatrix.from_ratings([0, 0], ["i3", "i1"], [1.0, 1.0])
    ranking = rank_new_users(model, some, 2)
    assert ranking.shape == (1, 45)
    np.testing.assert_array_equal(data.col_ids[ranking.items[0]], model.recommend_for(some, 2)[0][0])
    other = ObservedMatrix.from_ratings([0, 0], ["i3", "new"], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"1 of 2 entries of fold_in are of users or items .*unknown to the model"):
        rank_new_users(model, other, 2)
    left = rank_new_users(model, other.subset(np.isin(other.col_ids, model.col_ids_)[other.index]), 2)
    assert len(left.known) == 1


def test_a_model_without_its_entries_says_so(tmp_path):
    model = plain_completion(3, 20.0, random_state=0).fit(MADE)
    model.save(tmp_path / "without")
    loaded = rslm.load(tmp_path / "without")
    with pytest.raises(ValueError, match=r"does not hold the entries.*known=train"):
        rank_items(loaded, 5)
    np.testing.assert_array_equal(rank_items(loaded, 5, known=MADE).items, rank_items(model, 5).items)
    model.save(tmp_path / "with", known=MADE)
    np.testing.assert_array_equal(rank_items(rslm.load(tmp_path / "with"), 5).items, rank_items(model, 5).items)


class Factors:
    row_factors_, col_factors_ = ROWS, COLS


class WithColumnEffects(Factors):
    col_effects_, intercept_ = np.arange(25.0), 1e3


def test_any_model_with_factors():
    np.testing.assert_array_equal(rank_items(Factors(), 5, known=KNOWN).items, sorted_rows(ROWS @ COLS.T, KNOWN, 5))
    found = rank_items(WithColumnEffects(), 5, known=KNOWN).items
    np.testing.assert_array_equal(found, sorted_rows(ROWS @ COLS.T + np.arange(25.0), KNOWN, 5))


@pytest.mark.parametrize(
    ("k", "options", "message"),
    [
        (26, {}, "k is 26, but there are only 25 items"),
        (0, {}, "k must be a whole number ≥ 1; got 0"),
        (-3, {}, "k must be a whole number ≥ 1; got -3"),
        (2.5, {}, "k must be a whole number"),
        (True, {}, "k must be a whole number"),
        (3, {"known": MADE}, r"known has shape \(60, 45\), but there are 40 users and 25 items"),
        (3, {"users": [40]}, "40, but positions from 0 to 39"),
        (3, {"n_threads": 0}, "n_threads"),
    ],
)
def test_bad_wishes(k, options, message):
    with pytest.raises(ValueError, match=message):
        rank_factors(ROWS, COLS, k, **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_factors_that_are_no_numbers(bad):
    rows, cols = ROWS.copy(), COLS.copy()
    rows[3], cols[6] = bad, [1.0, -1.0]
    with pytest.raises(ValueError, match=r"scores are NaN.*factors"):
        rank_factors(rows, cols, 3)


@pytest.mark.parametrize("shapes", [((4, 2), (5, 3)), ((4,), (5, 2)), ((4, 2), (0, 2))])
def test_factors_that_do_not_fit(shapes):
    with pytest.raises(ValueError, match=r"\(users, rank\) and \(items, rank\)"):
        rank_factors(*map(np.ones, shapes), 1)


def test_no_model():
    with pytest.raises(TypeError, match="dict has no row_factors_"):
        rank_items({}, 3)
    with pytest.raises(ValueError, match="known must be a matrix, 'fitted' or None; got 'train'"):
        rank_items(Factors(), 3, known="train")


def test_lists_of_other_tools():
    ranking = Ranking.from_lists([[3, 1], [], [0]], n_items=5)
    np.testing.assert_array_equal(ranking.items, [[3, 1], [-1, -1], [0, -1]])
    np.testing.assert_array_equal(ranking.counts, [2, 0, 1])
    assert (ranking.shape, ranking.k) == ((3, 5), 2)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[0], [5]], "list 1 has item 5, but items are positions from 0 to 4"),
        ([[-1]], "list 0 has item -1"),
        ([[2, 2]], "list 0 has an item more than once"),
        ([[], [1.5, 2.0]], "list 1 has items of type float64, but positions of items are needed"),
        ([["song"]], "list 0 has items of type <U4"),
        ([[], []], "no item in any of the lists"),
    ],
)
def test_bad_lists(lists, message):
    with pytest.raises(ValueError, match=message):
        Ranking.from_lists(lists, n_items=5)


def test_known_may_be_sparse():
    known = sparse.csr_array((np.ones(1), ([0], [0])), shape=(40, 25))
    assert rank_factors(ROWS, COLS, 25, known=known).counts.tolist() == [24] + [25] * 39
