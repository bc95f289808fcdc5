"""Splits by user and by time keep every entry once; who is held out follows the stated rule."""

import numpy as np
import pytest

from rslm import ObservedMatrix
from rslm.evaluate import holdout, holdout_after, holdout_last, holdout_per_user, holdout_users

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((40, 30)) < 0.3, RNG.integers(1, 6, (40, 30)), np.nan)
DENSE[0], DENSE[1] = np.nan, np.nan
DENSE[1, 3] = 4.0  # user 0 has no entry, user 1 a single one
DATA = ObservedMatrix.from_any(DENSE).weighted(np.arange(1.0, np.count_nonzero(~np.isnan(DENSE)) + 1))
TIMES = RNG.integers(0, 50, len(DATA))  # with ties


def assert_whole(train, held, whole=DENSE):
    a, b = train.to_dense(), held.to_dense()
    assert not np.any(~np.isnan(a) & ~np.isnan(b))
    np.testing.assert_array_equal(np.where(np.isnan(a), b, a), whole)


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
def test_a_share_of_every_user(fraction):
    train, held = holdout_per_user(DATA, fraction, 0)
    assert_whole(train, held)
    counts = DATA.row_counts()
    wanted = np.where(counts > 1, np.clip(np.round(fraction * counts), 1, np.maximum(counts - 1, 1)), 0)
    np.testing.assert_array_equal(held.row_counts(), wanted)
    np.testing.assert_array_equal(np.sort([*train.weights, *held.weights]), DATA.weights)


def test_every_entry_of_a_user_is_equally_likely():
    data = ObservedMatrix.from_any(np.ones((1, 5)))
    often = sum(np.nan_to_num(holdout_per_user(data, 0.4, seed)[1].to_dense()) for seed in range(2000))
    assert np.all(np.abs(often / 2000 - 0.4) < 0.05)  # more than four standard deviations, of 0.011


def test_seeds():
    def held(seed):
        return [
            part.values.tolist()
            for part in (holdout_per_user(DATA, 0.3, seed)[1], holdout_users(DATA, 0.3, 0.5, seed)[2])
        ]

    assert held(3) == held(3)
    assert all(a != b for a, b in zip(held(3), held(4), strict=True))


@pytest.mark.parametrize("n", [1, 3])
def test_the_last_of_every_user(n):
    train, held = holdout_last(DATA, TIMES, n)
    assert_whole(train, held)
    for row in range(40):
        own = slice(*DATA.indptr[row : row + 2])
        order = sorted(zip(TIMES[own], DATA.index[own], strict=True))
        last = order[-n:] if len(order) > n else []
        found = held.index[slice(*held.indptr[row : row + 2])]
        assert found.tolist() == sorted(column for _, column in last)


def test_from_a_time_on():
    train, held = holdout_after(DATA, TIMES, 40)
    assert_whole(train, held)
    np.testing.assert_array_equal(held.values, DATA.values[TIMES >= 40])
    np.testing.assert_array_equal(holdout_after(DATA, TIMES, 39.5)[1].values, held.values)  # as a quantile may be


@pytest.mark.parametrize("kind", ["matrix", "dates", "text"])
def test_times_of_other_kinds(kind):
    times = DATA.with_values(TIMES.astype(float))
    start = 40
    if kind != "matrix":
        days = np.timedelta64(1, "D") * np.append(TIMES, 40)
        *times, start = np.datetime64("2020-01-01") + days
        times = np.array(times)
        start = start if kind == "dates" else str(start)
    for found, wanted in zip(holdout_after(DATA, times, start), holdout_after(DATA, TIMES, 40), strict=True):
        np.testing.assert_array_equal(found.to_dense(), wanted.to_dense())
    np.testing.assert_array_equal(holdout_last(DATA, times)[1].to_dense(), holdout_last(DATA, TIMES)[1].to_dense())


@pytest.mark.parametrize("ids", [None, [f"user {i}" for i in range(40)]])
def test_new_users(ids):
    rows = DATA.rows_of_entries()
    data = DATA
    if ids is not None:
        data = ObservedMatrix.from_ratings([ids[i] for i in rows], DATA.index, DATA.values)
    train, fold_in, held = holdout_users(data, 0.25, fold_in=0.6, random_state=0)
    assert train.shape[0] + fold_in.shape[0] == data.shape[0]
    assert fold_in.shape == held.shape == (round(0.25 * data.shape[0]), data.shape[1])
    np.testing.assert_array_equal(fold_in.row_ids, held.row_ids)
    whole = data.to_dense()
    names = list(range(40)) if ids is None else list(data.row_ids)
    assert sorted([*train.row_ids, *held.row_ids]) == sorted(names)
    np.testing.assert_array_equal(train.to_dense(), whole[[names.index(u) for u in train.row_ids]])
    assert_whole(fold_in, held, whole[[names.index(u) for u in held.row_ids]])
    assert fold_in.row_counts().min() >= 1
    assert held.row_counts().min() >= 1
    counts = fold_in.row_counts() + held.row_counts()
    assert np.abs(fold_in.row_counts() - 0.6 * counts).max() <= 0.5 + 1e-12  # a whole number, and rounding


def test_entries_at_random_are_those_of_data():
    assert_whole(*holdout(DATA, 0.2, 0))


ONE_EACH = np.where(np.eye(4) > 0, 1.0, np.nan)


@pytest.mark.parametrize(
    ("split", "arguments", "message"),
    [
        (holdout_per_user, (DATA, 1.0), "fraction is 1.0, but a number between 0 and 1"),
        (holdout_per_user, (DATA, float("nan")), "fraction is nan"),
        (holdout_per_user, (ONE_EACH, 0.5), "no row has enough entries"),
        (holdout_last, (ONE_EACH, [1, 2, 3, 4]), "no row has enough entries"),
        (holdout_last, (DATA, TIMES, 0), "n must be a whole number ≥ 1; got 0"),
        (holdout_last, (DATA, TIMES[1:]), r"times has shape \(\d+,\), but data has \d+ entries"),
        (holdout_last, (ONE_EACH, ["a"] * 4), "numbers or dates of NumPy"),
        (holdout_last, (ONE_EACH, [1, np.nan, 3, 4]), "none of them missing; got dtype float64, with 1 missing"),
        (holdout_last, (ONE_EACH, np.array(["2020", "NaT", "2020", "2021"], "M8[D]")), "with 1 missing"),
        (holdout_last, (DATA, ObservedMatrix.from_any(np.ones((40, 30)))), "times has other entries than data"),
        (holdout_after, (DATA, TIMES, 50), "start is 50, but the times are from 0 to 49"),
        (holdout_after, (DATA, TIMES, "May"), "start is 'May', but a number is needed"),
        (holdout_after, (DATA, TIMES.astype("M8[D]"), "May"), "start is 'May', but a date, such as '2024-05-01', is"),
        (holdout_after, (DATA, TIMES, 0), "one part would be empty"),
        (holdout_users, (DATA, 0.001), "leaves one part empty"),
        (holdout_users, (ONE_EACH, 0.5), "0 of them with two entries or more"),
        (holdout_users, (DATA, 0.2, 1.5), "fold_in is 1.5"),
    ],
)
def test_bad_wishes(split, arguments, message):
    with pytest.raises(ValueError, match=message):
        split(*arguments)
