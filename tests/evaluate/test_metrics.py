"""Metrics: equal to ranx's, and to their definitions on rankings by hand."""

import warnings

import numpy as np
import pytest

import rslm.evaluate as evaluate
from rslm import ObservedMatrix
from rslm.evaluate import Ranking, judged, rank_factors, ranking_per_user, ranking_report, unseen

RNG = np.random.default_rng(0)
USERS, ITEMS, K = 200, 40, 15
# Scores with many ties. Everything is known of user 0, nearly everything of user 1; nothing of user 2 is held out, and
# all of user 3 that is not known.
SCORES = RNG.integers(-2, 3, (USERS, 3)).astype(float), RNG.integers(-1, 2, (ITEMS, 3)).astype(float)
STATE = RNG.choice(3, (USERS, ITEMS), p=[0.6, 0.2, 0.2])
STATE[:4] = 1
STATE[1, :7] = STATE[3, 9:] = 2
STATE[2, :20] = 0
GRADES = RNG.integers(1, 6, (USERS, ITEMS)).astype(float)
TRAIN = ObservedMatrix.from_any(np.where(STATE == 1, GRADES, np.nan))
HELD_OUT = ObservedMatrix.from_any(np.where(STATE == 2, GRADES, np.nan))
RANKING = rank_factors(*SCORES, K, known=TRAIN)
RANKING.items[5] = -1  # as of another tool, which has nothing for user 5
NAMES = {
    "recall": "recall",
    "precision": "precision",
    "map": "average_precision",
    "mrr": "reciprocal_rank",
    "hit_rate": "hit_rate",
}
TOLERANCE = 1e-12  # sums of at most 40 terms below 31, in another order


@pytest.fixture(scope="module")
def ranx():
    """The metrics of ranx, as Python: compiling them takes a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it imports
            return pytest.importorskip("ranx.metrics")


def for_ranx(least, binary=False):
    """Relevant items with their grades, best first, and ranked items with scores, of every user."""
    relevant = []
    for user in range(USERS):
        items = np.flatnonzero((STATE[user] == 2) & (GRADES[user] >= least))
        grades = np.ones(len(items)) if binary else GRADES[user, items]
        order = np.argsort(-grades)
        relevant.append(np.column_stack([items[order], grades[order]]))
    places = np.arange(K, 0, -1)
    ranked = [np.column_stack([r[:n], places[:n]]) for r, n in zip(RANKING.items, RANKING.counts, strict=True)]
    return relevant, ranked


def assert_equal(found, mean, wanted, relevant):
    """ranx has 0 for users without relevant items, where our metrics are not defined."""
    empty = np.array([not len(items) for items in relevant])
    assert empty[2]
    assert np.isnan(found[empty]).all()
    np.testing.assert_allclose(found[~empty], wanted[~empty], rtol=0, atol=TOLERANCE)
    assert mean == pytest.approx(wanted[~empty].mean(), rel=0, abs=TOLERANCE)


@pytest.mark.parametrize("k", [1, 4, K])
@pytest.mark.parametrize("least", [1, 4])
@pytest.mark.parametrize(("name", "theirs"), [*NAMES.items()])
def test_equal_to_ranx(ranx, name, theirs, k, least):
    relevant, ranked = for_ranx(least)
    found = ranking_per_user(RANKING, HELD_OUT, k, relevant_from=least)[f"{name}@{k}"]
    mean = getattr(evaluate, f"{name}_at_k")(RANKING, HELD_OUT, k, relevant_from=least)
    assert_equal(found, mean, getattr(ranx, theirs)(relevant, ranked, k), relevant)


@pytest.mark.parametrize("k", [1, 4, K])
@pytest.mark.parametrize(("gain", "theirs"), [("binary", "ndcg"), ("linear", "ndcg"), ("exponential", "ndcg_burges")])
def test_ndcg_is_that_of_ranx(ranx, gain, theirs, k):
    relevant, ranked = for_ranx(1, binary=gain == "binary")
    found = ranking_per_user(RANKING, HELD_OUT, k, gain=gain)[f"ndcg@{k}"]
    mean = evaluate.ndcg_at_k(RANKING, HELD_OUT, k, gain=gain)
    assert_equal(found, mean, getattr(ranx, theirs)(relevant, ranked, k), relevant)


def test_the_rankings_have_what_is_asked_of_them():
    """Empty and short lists, ties at the last place, and users with more relevant items than places."""
    assert RANKING.counts[[0, 1, 2, 5]].tolist() == [0, 7, K, 0]
    assert HELD_OUT.row_counts()[[0, 1, 2, 5]].tolist() == [0, 7, 0, 6]
    scores = SCORES[0] @ SCORES[1].T
    left = np.where(STATE == 1, -np.inf, scores)
    full = np.flatnonzero(RANKING.counts == K)
    last = scores[full, RANKING.items[full, -1]]
    assert (np.count_nonzero(left[full] >= last[:, None], axis=1) > K).any()
    assert (HELD_OUT.row_counts() > K).any()


HAND = Ranking.from_lists([[3, 0, 4], [1, 2], []], n_items=6)
WANTED = np.full((3, 6), np.nan)
WANTED[0, [0, 4, 5, 1]], WANTED[1, 5], WANTED[2, 0] = 1.0, 1.0, 1.0


@pytest.mark.parametrize(
    ("name", "k", "values"),
    [
        ("recall", 3, [2 / 4, 0, 0]),
        ("capped_recall", 3, [2 / 3, 0, 0]),
        ("capped_recall", 1, [0, 0, 0]),
        ("precision", 3, [2 / 3, 0, 0]),
        ("map", 3, [(1 / 2 + 2 / 3) / 4, 0, 0]),
        ("mrr", 3, [1 / 2, 0, 0]),
        ("hit_rate", 2, [1, 0, 0]),
        ("ndcg", 3, [(1 / np.log2(3) + 1 / 2) / (1 + 1 / np.log2(3) + 1 / 2), 0, 0]),
    ],
)
def test_by_hand(name, k, values):
    found = ranking_per_user(HAND, WANTED, k)[f"{name}@{k}"]
    np.testing.assert_allclose(found, values, rtol=1e-15)  # a few roundings
    assert getattr(evaluate, f"{name}_at_k")(HAND, WANTED, k) == pytest.approx(np.mean(values), rel=1e-15)


def test_catalogue_by_hand():
    assert evaluate.coverage_at_k(HAND) == 5 / 6
    assert evaluate.coverage_at_k(HAND, 1) == 2 / 6
    train = np.full((8, 6), np.nan)
    train[:4, 3], train[:1, 1] = 1.0, 1.0
    assert evaluate.novelty_at_k(HAND, train, 1) == (1 + 3) / 2  # bits: half of the users, one of eight
    train[:, 0] = 1.0
    # Items 3, 0, 4, 1, 2; nobody has 2 and 4, which count as if one user had them.
    assert evaluate.novelty_at_k(HAND, train) == (1 + 0 + 3 + 3 + 3) / 5


def test_a_report_has_all_of_them():
    report = ranking_report(RANKING, HELD_OUT, (5, 10), train=TRAIN)
    names = ["recall", "capped_recall", "precision", "ndcg", "map", "mrr", "hit_rate", "coverage", "novelty"]
    assert set(report) == {"users", *(f"{name}@{k}" for name in names for k in (5, 10))}
    assert report["users"] == USERS - 2
    assert ranking_report(RANKING, HELD_OUT, np.array([5, 10]), train=TRAIN) == report
    for name in names[:7]:
        assert report[f"{name}@5"] == getattr(evaluate, f"{name}_at_k")(RANKING, HELD_OUT, 5)
    assert report["coverage@10"] == evaluate.coverage_at_k(RANKING, 10)
    assert report["novelty@10"] == evaluate.novelty_at_k(RANKING, TRAIN, 10)
    assert set(ranking_report(RANKING, HELD_OUT)) == {"users", *(f"{name}@{K}" for name in names[:8])}


def test_blocks_of_users_do_not_matter(monkeypatch):
    wanted = ranking_per_user(RANKING, HELD_OUT, gain="linear")
    monkeypatch.setattr(judged, "CELLS", 7 * K)
    for name, values in ranking_per_user(RANKING, HELD_OUT, gain="linear").items():
        np.testing.assert_array_equal(values, wanted[name])


def test_some_users_alone():
    at = np.array([50, 3, 2, 7])
    some = rank_factors(*SCORES, K, known=TRAIN, users=at)
    for name, values in ranking_per_user(some, HELD_OUT).items():
        np.testing.assert_array_equal(values, ranking_per_user(RANKING, HELD_OUT)[name][at])


def test_entries_that_are_not_positive_are_not_relevant():
    """A stored zero, or the negative class."""
    held_out = np.where(WANTED == 1, [[-1.0], [0.0], [1.0]], np.nan)
    found = ranking_per_user(HAND, held_out)["recall@3"]
    np.testing.assert_array_equal(found, [np.nan, np.nan, 0.0])


def test_known_items_among_the_held_out():
    both = ObservedMatrix.from_any(np.where(STATE > 0, GRADES, np.nan))
    with pytest.raises(ValueError, match=r"are among the known ones.*item 0 of user 0.*unseen\(held_out, known\)"):
        evaluate.recall_at_k(RANKING, both)
    left = unseen(both, TRAIN)
    np.testing.assert_array_equal(left.to_dense(), HELD_OUT.to_dense())
    assert ranking_report(RANKING, left) == ranking_report(RANKING, HELD_OUT)
    np.testing.assert_array_equal(unseen(both.to_csr(), TRAIN.to_csr()).to_dense(), HELD_OUT.to_dense())


@pytest.mark.parametrize(
    ("held_out", "k", "options", "message"),
    [
        (HELD_OUT, 16, {}, "k is 16, but only the first 15 items of every user were ranked"),
        (HELD_OUT, 41, {}, "k is 41, but there are only 40 items"),
        (HELD_OUT, -1, {}, "k must be a whole number ≥ 1; got -1"),
        (HELD_OUT, 5, {"relevant_from": 6}, "no user of the ranking has a relevant item"),
        (np.full((USERS, ITEMS), np.nan), 5, {}, "no user of the ranking has a relevant item"),
        (np.ones((3, ITEMS)), 5, {}, r"held_out has shape \(3, 40\), but there are 200 users and 40 items"),
        (HELD_OUT, 5, {"gain": "square"}, "gain must be one of 'binary', 'linear', 'exponential'; got 'square'"),
        (
            HELD_OUT.with_values(-HELD_OUT.values),
            5,
            {"gain": "linear", "relevant_from": -3},
            "above 0, but the smallest is -3",
        ),
        (HELD_OUT.with_values(2000 * HELD_OUT.values), 5, {"gain": "exponential"}, "overflows for an entry of 10000"),
    ],
)
def test_bad_wishes(held_out, k, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate.ndcg_at_k(RANKING, held_out, k, **options)


def test_ids_are_matched():
    named = ObservedMatrix.from_ratings(["a", "b"], ["x", "y"], [1.0, 2.0])
    ranking = Ranking(np.array([[1], [0]], np.int32), np.arange(2), (2, 2), None, named.row_ids, named.col_ids)
    assert evaluate.recall_at_k(ranking, named) == 0.0
    found = ObservedMatrix.from_ratings(["b"], ["x"], [1.0])  # a table of its own, with one user and one item
    assert evaluate.recall_at_k(ranking, found) == 1.0
    assert evaluate.ranking_report(ranking, found, train=found)["novelty@1"] == 0.0  # one user, who has one of the two
    other = ObservedMatrix.from_ratings(["b", "b", "c"], ["x", "z", "x"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"2 of 3 entries of held_out are .*align\(held_out, ranking\)"):
        evaluate.recall_at_k(ranking, other)
    assert evaluate.recall_at_k(ranking, evaluate.align(other, ranking)) == 1.0
    with pytest.raises(
        ValueError, match=r"1 of 3 entries of train are .*train\.subset\(np\.isin\(train\.col_ids, model"
    ):
        evaluate.novelty_at_k(ranking, other)
    with pytest.raises(ValueError, match=r"held_out has shape \(1, 1\).* or ids on both sides.*rslm\.evaluate\.align"):
        evaluate.recall_at_k(ranking, np.ones((1, 1)))


def test_empty_wishes():
    with pytest.raises(ValueError, match="at is empty"):
        ranking_report(RANKING, HELD_OUT, [])
    nothing = rank_factors(*SCORES, 5, known=np.ones((USERS, ITEMS)))
    with pytest.raises(ValueError, match="every user already has all items"):
        evaluate.novelty_at_k(nothing, TRAIN)
    assert evaluate.coverage_at_k(nothing) == 0.0
