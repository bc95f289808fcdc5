"""Settings that are found for data on the workers of a cluster: as in one process, or from a sample of the rows."""

import numpy as np
import pytest
from distributed import Client, LocalCluster

from rslm import MatrixCompletion, ObservedMatrix
from rslm.distributed import distribute
from rslm.estimators.automatic.sample import C_of_more_rows, sampled_rows
from rslm.structures import Box

ENTRIES = "rslm.estimators.completion.matrix_completion.ENTRIES"


@pytest.fixture(scope="module")
def client():
    settings = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        yield client


def ratings(n=80, m=30, share=0.3, rank=2, noise=0.3, weighted=False):
    rng = np.random.default_rng(0)
    W = 3 + 0.5 * rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal(m)
    W = W + 0.5 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    i, j = np.nonzero(rng.random((n, m)) < share)
    data = ObservedMatrix.from_triplets(i, j, W[i, j] + noise * rng.standard_normal(len(i)), (n, m))
    return data.weighted(rng.random(len(data)) + 0.5) if weighted else data


@pytest.mark.parametrize(
    ("options", "weighted"),
    [
        ({"rank": 2, "weighting": 0}, False),
        ({"C": 3.0}, True),
        ({"rank": 1, "effects": None, "loss": "huber"}, False),
        ({"rank": 1, "weighting": 0, "bounds": (np.linspace(0, 0.5, 80)[:, None], None)}, False),
    ],
    ids=["C", "rank, weights", "no effects", "bounds of rows"],
)
def test_small_data_are_searched_as_in_one_process(client, options, weighted):
    data = ratings(weighted=weighted)
    here = MatrixCompletion(random_state=0, **options).fit(data)
    there = MatrixCompletion(random_state=0, **options).fit(data, client=client)
    assert here.held_out_ == there.held_out_
    for name in ("rank", "C", "weighting", "row_effects", "error"):
        np.testing.assert_array_equal(here.path_[name], there.path_[name])
    assert (here.C_, here.rank_, here.weighting_, here._ridges) == (
        there.C_,
        there.rank_,
        there.weighting_,
        there._ridges,
    )
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=1e-6)


def test_given_numbers_are_not_searched_and_ridges_are_estimated(client):
    data = ratings()
    here, there = (MatrixCompletion(2, 3.0, random_state=0).fit(data, client=c) for c in (None, client))
    assert there.path_ is None
    assert here._ridges == there._ridges
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=1e-9)


def test_effects_alone(client):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + rng.standard_normal(20) + 0.5 * rng.standard_normal((40, 20))
    here, there = (MatrixCompletion(random_state=0).fit(X, client=c) for c in (None, client))
    assert here.rank_ == there.rank_ == 0
    np.testing.assert_allclose(there.row_effects_, here.row_effects_, atol=1e-5)


def test_a_sample_of_the_rows_finds_almost_the_same(client, monkeypatch):
    data = ratings(n=1000, m=40)
    held = np.random.default_rng(1).random(len(data)) < 0.2
    train, test = data.subset(~held), data.subset(held)
    options = {"rank": 2, "weighting": 0, "random_state": 0, "tol": 1e-4}
    here = MatrixCompletion(**options).fit(train)
    monkeypatch.setattr(ENTRIES, len(train) // 5)
    there = MatrixCompletion(**options).fit(train, client=client)
    assert 0.5 < there.C_ / here.C_ < 2.0
    assert there.path_["C"].min() < there.C_ < there.path_["C"].max()
    own, of_all = ([m._ridges.rows, m._ridges.columns] for m in (there, here))
    np.testing.assert_allclose(own, of_all, rtol=0.5)
    errors = [np.std(test.values - m.predict(test.rows_of_entries(), test.index)) for m in (here, there)]
    assert errors[1] < 1.01 * errors[0]
    given = MatrixCompletion(C=here.C_, weighting=0, random_state=0, tol=1e-4).fit(train, client=client)
    assert given.C_ == here.C_  # which is that of all rows
    assert 2 <= given.rank_ <= 4


def test_rows_that_are_sent(client):
    data = ratings(weighted=True)
    at = np.array([0, 7, 39, 40, 41, 79])
    found = distribute(data, client).some_rows(at)
    dense, weights = data.to_dense(), data.weights_to_csr()
    np.testing.assert_array_equal(found.to_dense(), dense[at])
    np.testing.assert_array_equal(found.weights_to_csr().toarray(), weights[at].toarray())


def test_sampled_rows():
    counts = np.random.default_rng(0).integers(0, 50, 1000)
    every = sampled_rows(counts, int(counts.sum()))
    np.testing.assert_array_equal(every, np.arange(1000))
    some = sampled_rows(counts, 5000)
    assert 4900 < counts[some].sum() <= 5000
    assert (np.diff(some) > 0).all()
    assert abs(counts[some].mean() - counts[counts > 0].mean()) < 3.0  # rows are as long as all of them
    np.testing.assert_array_equal(sampled_rows(np.array([10, 10]), 5), sampled_rows(np.array([10, 10]), 5))
    assert len(sampled_rows(np.array([10, 10]), 5)) == 1


def test_C_of_more_rows():
    assert C_of_more_rows(100, 50, 50) == 1.0
    assert C_of_more_rows(1, 1e8, 10**6) == pytest.approx(1.0, rel=1e-2)  # columns are known
    assert C_of_more_rows(10**12, 400, 100) == pytest.approx(2.0, rel=1e-3)  # nothing is known of them
    assert C_of_more_rows(100, np.inf, 100) == pytest.approx(2.0)


def test_units_of_features(client):
    data = ratings()
    units = np.geomspace(1e-3, 1e3, data.shape[1])
    with pytest.raises(ValueError, match="workers do not standardise features"):
        MatrixCompletion(scale=True).fit(data, client=client)
    with pytest.warns(UserWarning, match="very different standard deviations"):
        MatrixCompletion(1, 1.0, random_state=0, tol=1e-2).fit(
            data.with_values(data.values * units[data.index]), client=client
        )


def test_some_rows_of_bounds():
    box = Box(np.arange(5.0)[:, None], None)
    np.testing.assert_array_equal(box.part(np.array([1, 3])).planes((2, 1))[0][:, 0], [1.0, 3.0])


def test_a_search_goes_on_from_a_checkpoint(client, tmp_path, monkeypatch):
    data, calls = ratings(n=40, m=20), iter(range(12))
    options = {"rank": 2, "weighting": 0, "random_state": 0}
    whole = MatrixCompletion(**options).fit(data, client=client, checkpoint=tmp_path / "whole")
    monkeypatch.setattr("rslm.estimators.completion.finding.stop_when", lambda *a: lambda: next(calls, None) is None)
    MatrixCompletion(**options).fit(data, client=client, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    found = MatrixCompletion(**options).fit(data, client=client, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(found.row_factors_, whole.row_factors_)
    np.testing.assert_array_equal(found.path_["error"], whole.path_["error"])
    with pytest.raises(ValueError, match="written by a fit on a cluster, and this fit is without a client"):
        MatrixCompletion(**options).fit(data, checkpoint=tmp_path / "c")
