"""The metrics by which settings are compared."""

import numpy as np
import pytest

from rslm import ObservedMatrix
from rslm.estimators.implicit.ranking import Metric
from rslm.estimators.implicit.search import ranked_users


def observed(rows):
    """A matrix of five columns with these ones."""
    dense = np.full((len(rows), 5), np.nan)
    for i, columns in enumerate(rows):
        dense[i, columns] = 1.0
    return ObservedMatrix.from_any(dense)


def test_by_hand():
    """All users rank the items 4, 3, 2, 1, 0, but for those that they know."""
    users, items = np.ones((3, 1)), np.arange(5.0)[:, None]
    known, held_out = observed([[4], [], [0]]), observed([[3, 0, 1], [3], []])
    # User 0: 3, 2, 1, 0, with hits at 1 and 3 of the first 3. User 1: 4, 3, … User 2 has nothing held out.
    assert Metric.of("recall@2").score(users, items, known, held_out) == pytest.approx((1 / 3 + 1) / 2)
    assert Metric.of("capped_recall@2").score(users, items, known, held_out) == pytest.approx((1 / 2 + 1) / 2)
    gain = 1 / np.log2([2, 3, 4])
    first, second = (gain[0] + gain[2]) / gain.sum(), gain[1] / gain[0]
    assert Metric.of("ndcg@3").score(users, items, known, held_out) == pytest.approx((first + second) / 2)


def test_k_above_the_number_of_items():
    users, items = np.ones((1, 1)), np.arange(5.0)[:, None]
    assert Metric.of("recall@100").score(users, items, observed([[4]]), observed([[0, 1]])) == 1.0


@pytest.mark.parametrize("metric", ["recall", "recall@0", "recall@1.5", "auc@5", 5, None])
def test_what_is_no_metric(metric):
    with pytest.raises(ValueError, match="recall@k"):
        Metric.of(metric)


def test_users_are_ranked_as_far_as_the_items_allow(monkeypatch):
    counts = np.array([1, 0, 2, 1, 3])
    held_out = ObservedMatrix.from_triplets(np.repeat(np.arange(5), counts), [0, 0, 1, 0, 0, 1, 2], np.ones(7), (5, 10))
    assert ranked_users(held_out).tolist() == [0, 2, 3, 4]
    monkeypatch.setattr("rslm.estimators.implicit.search.SCORES", 29)
    some = ranked_users(held_out).tolist()
    assert len(some) == 2
    assert set(some) < {0, 2, 3, 4}
    monkeypatch.setattr("rslm.estimators.implicit.search.SCORES", 1)
    assert len(ranked_users(held_out)) == 1
