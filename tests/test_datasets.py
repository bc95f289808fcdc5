"""Synthetic data are what they claim to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rslm.data import ObservedMatrix
from rslm.datasets import _choose, _shares, make_low_rank, make_ratings


def check_pattern(data: ObservedMatrix, count: int) -> None:
    """Canonical: every pair once, columns ascending."""
    assert (data.indptr.dtype, data.index.dtype) == (np.int64, np.int32)
    assert len(data) == len(data.values) == data.indptr[-1] == count
    key = data.rows_of_entries().astype(np.int64) * data.shape[1] + data.index
    assert np.all(np.diff(key) > 0)
    assert data.index.min() >= 0
    assert data.index.max() < data.shape[1]


def test_ratings_look_like_ratings() -> None:
    made = make_ratings(1500, 1000, 100_000, rank=4, noise=0.7, random_state=0)
    data = made.data
    check_pattern(data, 100_000)
    assert data.row_counts().min() >= 1
    for counts in data.row_counts(), data.col_counts():
        assert np.mean(counts) > 1.3 * np.median(counts)  # skewed
    assert abs(data.values.mean() - 3.5) < 0.15
    error = data.values - made.truth(data.rows_of_entries(), data.index)
    assert made.noise_floor == 0.7
    assert abs(error.std() / 0.7 - 1) < 0.02
    assert abs(error.mean()) < 0.01
    taste = made.user_taste @ made.item_taste.T
    assert np.linalg.matrix_rank(taste) == 4
    assert 0.5 < taste.std() / made.item_bias.std() < 2


def test_truth_at_pairs() -> None:
    made = make_ratings(20, 10, 50, rank=2, random_state=1)
    whole = made.mean + made.user_bias[:, None] + made.item_bias + made.user_taste @ made.item_taste.T
    users, items = np.array([3, 19, 3]), np.array([0, 9, 0])
    np.testing.assert_allclose(made.truth(users, items), whole[users, items])


@pytest.mark.parametrize(
    ("users", "items", "count"),
    [(1, 1, 1), (30, 20, 600), (30, 20, 599), (30, 20, 30), (30, 20, 7), (1, 50, 49), (50, 1, 20), (300, 7, 1500)],
)
def test_any_number_of_ratings(users: int, items: int, count: int) -> None:
    data = make_ratings(users, items, count, random_state=0).data
    check_pattern(data, count)
    if count >= users:
        assert data.row_counts().min() >= 1


def test_seed_and_precision() -> None:
    a, b, c = (make_ratings(50, 40, 500, random_state=seed) for seed in (5, np.random.default_rng(5), 6))
    np.testing.assert_array_equal(a.data.index, b.data.index)
    np.testing.assert_array_equal(a.data.values, b.data.values)
    assert not np.array_equal(a.data.values, c.data.values)
    single = make_ratings(50, 40, 500, random_state=5, dtype=np.float32)
    np.testing.assert_array_equal(single.data.values, a.data.values.astype(np.float32))


def test_shares_are_proportional_within_limits() -> None:
    weights = np.array([0.01, 1.0, 2.0, 3.0, 1000.0])
    assert _shares(weights, 73, 60).tolist() == [1, 2, 4, 6, 60]
    assert _shares(np.ones(4), 2, 9).sum() == 2


def test_choice_follows_popularity() -> None:
    popularity = np.array([1.0, 2.0, 5.0])
    once = _choose(np.ones(20_000, np.int64), popularity, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(once) / 20_000, popularity / 8, atol=0.015)
    # Two of three: item k is left out if the other two come first, in either order.
    twice = _choose(np.full(20_000, 2), popularity, np.random.default_rng(0))
    left_out = [2 / 8 * 5 / 6 + 5 / 8 * 2 / 3, 1 / 8 * 5 / 7 + 5 / 8 * 1 / 3, 1 / 8 * 2 / 7 + 2 / 8 * 1 / 6]
    np.testing.assert_allclose(1 - np.bincount(twice) / 20_000, left_out, atol=0.015)


@pytest.mark.parametrize("count", [1, 300, 4000, 11_900, 12_000])
def test_low_rank(count: int) -> None:
    data, left, right = make_low_rank(100, 120, 3, count, random_state=0)
    check_pattern(data, count)
    assert data.shape == (100, 120)
    np.testing.assert_allclose(data.values, (left @ right.T)[data.rows_of_entries(), data.index], atol=1e-12)
    if count == 4000:
        assert abs(data.row_counts() - 40).max() < 30
        assert abs(left.std() - 1) < 0.15
        again = make_low_rank(100, 120, 3, count, random_state=0)[0]
        np.testing.assert_array_equal(again.values, data.values)


def test_low_rank_of_a_huge_matrix() -> None:
    check_pattern(make_low_rank(100_000, 200_000, 2, 5000, random_state=0)[0], 5000)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_ratings": 201}, ValueError, "n_ratings is 201.*20 × 10.*1 to 200"),
        ({"n_ratings": 0}, ValueError, "n_ratings is 0"),
        ({"rank": 0}, ValueError, "rank 0.*at least 1"),
        ({"noise": -1}, ValueError, "noise is -1"),
        ({"dtype": int}, TypeError, "dtype is int64.*float64 or float32"),
    ],
)
def test_errors(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_ratings(**{"n_users": 20, "n_items": 10, "n_ratings": 50, **options})


def test_low_rank_errors() -> None:
    with pytest.raises(ValueError, match=r"n_observed is 7.*2 × 3"):
        make_low_rank(2, 3, 1, 7)
