"""The metrics by which settings are compared, and the split."""

import numpy as np
import pytest

from rslm import ObservedMatrix
from rslm.estimators.implicit import ranking
from rslm.estimators.implicit.ranking import Metric, held_out_items

NAN = np.nan


def observed(rows):
    """A matrix of five columns with these ones."""
    dense = np.full((len(rows), 5), NAN)
    for i, columns in enumerate(rows):
        dense[i, columns] = 1.0
    return ObservedMatrix.from_any(dense)


def test_by_hand():
    """All users rank the items 4, 3, 2, 1, 0, but for those that they know."""
    users, items = np.ones((3, 1)), np.arange(5.0)[:, None]
    known, held_out = observed([[4], [], [0]]), observed([[3, 0, 1], [3], []])
    # User 0: 3, 2, 1, 0, with hits at 1 and 3 of the first 3. User 1: 4, 3, … User 2 has nothing held out.
    assert Metric.of("recall@2").score(users, items, known, held_out) == pytest.approx((1 / 2 + 1) / 2)
    assert Metric.of("recall@3").score(users, items, known, held_out) == pytest.approx((2 / 3 + 1) / 2)
    gain = 1 / np.log2([2, 3, 4])
    first, second = (gain[0] + gain[2]) / gain.sum(), gain[1] / gain[0]
    assert Metric.of("ndcg@3").score(users, items, known, held_out) == pytest.approx((first + second) / 2)


def test_k_above_the_number_of_items():
    users, items = np.ones((1, 1)), np.arange(5.0)[:, None]
    assert Metric.of("recall@100").score(users, items, observed([[4]]), observed([[0, 1]])) == 1.0


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((30, 2)), rng.standard_normal((5, 2))
    known, held_out = held_out_items(observed([np.flatnonzero(row) for row in rng.random((30, 5)) < 0.6]), rng)
    whole = Metric.of("ndcg@3").score(users, items, known, held_out)
    monkeypatch.setattr(ranking, "CELLS", 7 * 5)
    assert Metric.of("ndcg@3").score(users, items, known, held_out) == pytest.approx(whole, rel=1e-12)  # other sums


def test_the_split():
    rng = np.random.default_rng(0)
    data = ObservedMatrix.from_any(np.where(rng.random((50, 30)) < 0.5, rng.random((50, 30)), NAN))
    train, held_out = held_out_items(data, np.random.default_rng(1))
    np.testing.assert_array_equal(held_out.row_counts(), np.floor(0.2 * data.row_counts()))
    both = np.nan_to_num(train.to_dense()) + np.nan_to_num(held_out.to_dense())
    np.testing.assert_array_equal(both, np.nan_to_num(data.to_dense()))
    few = observed([[0], [0, 1], []])
    assert list(held_out_items(few, rng)[1].row_counts()) == [0, 1, 0]
