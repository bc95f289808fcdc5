"""Synthetic data are what they claim to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import hankel

from rslm.data import ObservedMatrix
from rslm.datasets import make_low_rank, make_ratings, make_series, make_tasks
from rslm.datasets.ratings import _choose, _shares


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


def test_series_is_what_its_parts_say() -> None:
    made = make_series(400, [0.11, 0.03], dampings=[0.0, 0.01], trend=-2.0, noise=0.3, missing=0.25, random_state=0)
    assert made.frequencies.tolist() == [0.11, 0.03]
    assert made.dampings.tolist() == [0.0, 0.01]
    t = np.arange(400)
    parts = [
        a * np.exp(-d * t) * np.cos(2 * np.pi * f * t + p)
        for a, d, f, p in zip(made.amplitudes, made.dampings, made.frequencies, made.phases, strict=True)
    ]
    np.testing.assert_allclose(made.truth, parts[0] + parts[1] - 2.0 * t / 399, atol=1e-12)  # rounding only
    assert np.count_nonzero(np.isnan(made.y)) == 100
    seen = ~np.isnan(made.y)
    error = (made.y - made.truth)[seen]
    assert made.noise_floor == 0.3
    assert abs(error.std() / 0.3 - 1) < 0.15  # three standard deviations of it are 0.12
    assert abs(error.mean()) < 0.06  # nearly four of them


@pytest.mark.parametrize(
    ("options", "rank"),
    [
        ({"frequencies": 0}, 0),
        ({"frequencies": 0, "trend": 1.0}, 2),
        ({"frequencies": 3, "dampings": 0.005}, 6),
        ({"frequencies": [0.1, 0.2], "trend": 0.5}, 6),
        ({"frequencies": [0.1, 0.1], "dampings": [0.0, 0.02]}, 4),
        ({"frequencies": [0.1, 0.1]}, 2),
    ],
)
def test_rank_of_a_series(options: dict[str, Any], rank: int) -> None:
    made = make_series(200, noise=0.0, random_state=1, **options)
    np.testing.assert_array_equal(made.y, made.truth)
    assert made.rank == rank
    values = np.linalg.svd(hankel(made.truth[:100], made.truth[99:]), compute_uv=False)
    assert np.count_nonzero(values > 1e-9) == rank  # rounding leaves 1e-13, the signal more than 1e-3


def test_drawn_frequencies_are_apart() -> None:
    for seed in range(20):
        f = make_series(100, 20, random_state=seed).frequencies
        assert np.diff(f, prepend=0.0, append=0.5).min() >= 2 / 100 - 1e-12  # rounding
    a, b, c = (make_series(100, 3, random_state=s) for s in (4, np.random.default_rng(4), 5))
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y)
    np.testing.assert_array_equal(make_series(50, np.array([0.1])).frequencies, [0.1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_samples": 1}, ValueError, "n_samples is 1.*at least 2"),
        ({"frequencies": 25}, ValueError, "25 frequencies.*100 samples can distinguish 0 to 24"),
        ({"frequencies": -1}, ValueError, "-1 frequencies"),
        ({"frequencies": 0.1}, TypeError, "float"),
        ({"frequencies": [0.1, 0.5]}, ValueError, r"\[0.1, 0.5\].*below 0.5"),
        ({"dampings": [0.1]}, ValueError, r"shape \(1,\).*or 2: one per oscillation"),
        ({"dampings": -0.1}, ValueError, "-0.1.*0 or more"),
        ({"noise": -1}, ValueError, "noise is -1"),
        ({"missing": 1}, ValueError, "missing is 1.*below 1"),
    ],
)
def test_series_errors(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_series(**{"n_samples": 100, **options})


def test_most_frequencies() -> None:
    assert len(make_series(100, 24).frequencies) == 24


def test_tasks_share_a_subspace() -> None:
    rows = [5, 1, 400, 30, 7, 9, 20, 3]
    made = make_tasks(8, 6, rows, rank=2, noise=0.2, random_state=0)
    assert made.X.shape == (475, 6)
    assert np.bincount(made.tasks).tolist() == rows
    assert made.coef.shape == (8, 6)
    np.testing.assert_allclose(made.subspace.T @ made.subspace, np.eye(2), atol=1e-14)  # rounding only
    np.testing.assert_allclose(made.coef @ made.subspace @ made.subspace.T, made.coef, atol=1e-14)
    assert np.linalg.matrix_rank(made.coef) == 2
    error = made.y - (made.X * made.coef[made.tasks]).sum(axis=1) - made.intercept[made.tasks]
    assert made.noise_floor == 0.2
    assert abs(error.std() / 0.2 - 1) < 0.12  # three standard deviations of it are 0.1
    assert np.ptp(made.intercept) > 0.5


def test_tasks_seed_and_noise() -> None:
    a, b, c = (make_tasks(4, 5, 3, random_state=s) for s in (1, np.random.default_rng(1), 2))
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y)
    assert np.bincount(a.tasks).tolist() == [3, 3, 3, 3]
    exact = make_tasks(4, 5, 3, noise=0.0, random_state=1)
    np.testing.assert_allclose(
        exact.y, (exact.X * exact.coef[exact.tasks]).sum(axis=1) + exact.intercept[exact.tasks], atol=1e-14
    )  # rounding only


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank is 0.*1 to 4"),
        ({"rank": 5}, "rank is 5.*4 tasks with 6 features allow 1 to 4"),
        ({"noise": -1}, "noise is -1"),
        ({"n_rows": 0}, "n_rows is 0.*1 or more"),
        ({"n_rows": [1, 2]}, r"n_rows is \[1, 2\].*or 4 of them"),
        ({"n_rows": 2.5}, "n_rows is 2.5"),
    ],
)
def test_tasks_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_tasks(**{"n_tasks": 4, "n_features": 6, **options})
