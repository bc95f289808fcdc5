"""MovieLens-1M, by the protocol of the data folder: the first 80 % of a permutation train, the rest test, seed 0."""

import numpy as np
import pytest

from plain import plain_completion
from rslm import ObservedMatrix


@pytest.fixture(scope="module")
def split(shared_data):
    """Users × movies for training; users, movies and ratings to test."""
    with np.load(shared_data("ml-1m/ml-1m.npz")) as file:
        user, movie, rating = file["col"], file["row"], file["value"].astype(np.float64)
    assert len(rating) == 1_000_209
    order = np.random.default_rng(0).permutation(len(rating))
    train, test = np.split(order, [int(0.8 * len(rating))])
    data = ObservedMatrix.from_triplets(user[train], movie[train], rating[train], shape=(6040, 3706))
    return data, (user[test].astype(np.int64), movie[test].astype(np.int64), rating[test])


# Movies without a rating in the training part are no surprise here.
pytestmark = pytest.mark.filterwarnings("ignore:.*have no observed entry:UserWarning")


@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
def test_rmse(split, solver):
    data, (user, movie, rating) = split
    m = plain_completion(rank=10, C=1e3, solver=solver, tol=1e-3, random_state=0).fit(data)
    assert m.converged_
    rmse = np.sqrt(np.mean((m.predict(user, movie) - rating) ** 2))
    assert rmse <= 0.8570
    assert m.certificate_.primal > m.certificate_.dual > 0


def test_certified(split):
    data, _ = split
    m = plain_completion(rank=10, C=1.0, random_state=0, tol=1e-8).fit(data)
    assert m.outcome_ == "certified"
    assert m.certificate_.relative_gap <= 1e-8
    assert m.rank_ < 10


def test_users_who_arrive_over_time(split):
    """One pass in random order: near the batch fit, in objective and on test data; two passes nearer."""
    data, (user, movie, rating) = split
    place = np.random.default_rng(1).permutation(6040)
    rows = place[data.rows_of_entries()]
    shuffled = ObservedMatrix.from_triplets(rows, data.index, data.values, shape=data.shape)
    batch = plain_completion(rank=10, C=1e3, tol=1e-3, random_state=0).fit(shuffled)
    stream = plain_completion(rank=10, C=1e3, random_state=0)
    above, error = [], []
    for _ in range(2):
        stream.partial_fit(shuffled)
        error.append(np.sqrt(np.mean((stream.predict(place[user], movie) - rating) ** 2)))
        above.append(stream.certificate_.primal / batch.certificate_.primal - 1)
    best = np.sqrt(np.mean((batch.predict(place[user], movie) - rating) ** 2))
    assert 0 < above[1] < above[0] < 0.05
    assert error[1] < error[0] < best + 0.02
