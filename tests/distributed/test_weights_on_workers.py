"""Weights of entries and rows that are on the workers of a cluster."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from rslm import MatrixCompletion, MultiTaskRegressor, ObservedMatrix
from rslm.data.prepared.write import prepare
from rslm.distributed import distribute
from rslm.distributed.tasks import distribute_tasks
from rslm.measurements import Tasks

RNG = np.random.default_rng(0)
N, M = 40, 25
KNOWN = RNG.random((N, M)) < 0.4
ROWS, COLS = np.nonzero(KNOWN)
VALUES = (RNG.standard_normal((N, 2)) @ RNG.standard_normal((2, M)))[KNOWN]
WEIGHTS = RNG.integers(0, 4, len(ROWS)).astype(float)
TABLE = pd.DataFrame({"user": ROWS, "item": COLS, "rating": VALUES, "trust": WEIGHTS})
EXPECTED = ObservedMatrix.from_ratings(ROWS, COLS, VALUES, weights=WEIGHTS)


def weights_of(shard):
    return shard.data.values, shard.data.weights, shard.data.columns.index


def on_workers(client, matrix):
    """Values, weights and rows of all observations, in their order."""
    found = client.gather([client.submit(weights_of, shard, pure=False) for shard in matrix.cluster.shards])
    return [np.concatenate(part) for part in zip(*found, strict=True)]


@pytest.fixture(params=["in memory", "prepared", "parquet", "parquets", "DataFrame"])
def distributed_matrix(request, client, tmp_path):
    kind = request.param
    if kind == "in memory":
        return distribute(EXPECTED, client)
    if kind == "DataFrame":
        return distribute(dd.from_pandas(TABLE, npartitions=4), client, weights="trust")
    TABLE.to_parquet(tmp_path / "t.parquet")
    if kind == "prepared":
        prepare(tmp_path / "t.parquet", tmp_path / "folder", weights="trust")
        return distribute(tmp_path / "folder", client)
    if kind == "parquets":
        (tmp_path / "many").mkdir()
        for k in range(3):
            TABLE.iloc[k::3].to_parquet(tmp_path / "many" / f"{k}.parquet")
        return distribute(tmp_path / "many", client, weights="trust")
    return distribute(tmp_path / "t.parquet", client, weights="4")


def test_every_source(client, distributed_matrix):
    values, weights, index = on_workers(client, distributed_matrix)
    np.testing.assert_array_equal(weights, EXPECTED.weights)
    np.testing.assert_array_equal(values, EXPECTED.values)
    np.testing.assert_array_equal(index, EXPECTED.index)
    assert len(distributed_matrix) == len(EXPECTED)
    assert distributed_matrix.indptr.tolist() == EXPECTED.indptr.tolist()


def test_fingerprints_know_the_weights(client):
    one = distribute(EXPECTED, client).measurement().fingerprint()
    assert one == distribute(EXPECTED.weighted(EXPECTED.weights), client).measurement().fingerprint()
    assert one != distribute(EXPECTED.weighted(EXPECTED.weights + 1), client).measurement().fingerprint()
    assert one != distribute(EXPECTED.weighted(None), client).measurement().fingerprint()


def test_held_out_errors_are_weighted(client):
    matrix = distribute(EXPECTED, client, holdout=0.3, seed=1)
    _, _, left = matrix.entries(np.arange(len(matrix)))
    out = ~np.isin(EXPECTED.values, left)  # the values are all different
    zero = matrix.held_out(np.zeros((N, 1)), np.zeros((M, 1)))
    y, w = EXPECTED.values, EXPECTED.weights
    mean = np.average(y[~out], weights=w[~out])
    assert zero.entries == out.sum()
    assert zero.rmse == pytest.approx(np.sqrt(np.average(y[out] ** 2, weights=w[out])))
    assert zero.rmse_of_mean == pytest.approx(np.sqrt(np.average((y[out] - mean) ** 2, weights=w[out])))
    assert zero.accuracy == pytest.approx(np.average(y[out] <= 0, weights=w[out]))
    more = np.average(y[~out] > 0, weights=w[~out]) > 0.5
    assert zero.accuracy_of_majority == pytest.approx(np.average((y[out] > 0) == more, weights=w[out]))


def test_fits(client, tmp_path):
    there = (WEIGHTS > 0).astype(float)
    model = MatrixCompletion(rank=2, C=10.0, effects=(5.0, 5.0), random_state=0)
    expected = model.fit(ObservedMatrix.from_ratings(ROWS, COLS, VALUES, weights=there))
    W = expected.row_factors_ @ expected.col_factors_.T
    TABLE.assign(trust=there).to_parquet(tmp_path / "t.parquet")
    dense = np.full((N, M), np.nan)
    dense[KNOWN] = VALUES
    for X, weights in ((tmp_path / "t.parquet", "trust"), (dense, there)):
        found = MatrixCompletion(rank=2, C=10.0, effects=(5.0, 5.0), random_state=0).fit(
            X, sample_weight=weights, client=client
        )
        # Another order of sums; both converge to tol.
        np.testing.assert_allclose(found.row_factors_ @ found.col_factors_.T, W, atol=1e-5)
    with pytest.raises(TypeError, match="sample_weight is a ndarray, but workers read these data themselves; name the"):
        model.fit(tmp_path / "t.parquet", sample_weight=there, client=client)


def test_bad_weights(client, tmp_path):
    frame = dd.from_pandas(TABLE.assign(trust=np.where(np.arange(len(TABLE)) == 7, -1.0, 1.0)), npartitions=2)
    with pytest.raises(ValueError, match=f"the first is -1 at row {ROWS[7]}, column {COLS[7]}. A weight must be"):
        distribute(frame, client, weights="trust")
    with pytest.raises(ValueError, match="all weights are zero, so nothing is observed"):
        distribute(dd.from_pandas(TABLE.assign(trust=0.0), npartitions=2), client, weights="trust")
    with pytest.raises(ValueError, match="has no column 'faith'"):
        distribute(dd.from_pandas(TABLE, npartitions=2), client, weights="faith")
    with pytest.raises(ValueError, match="weights='trust' names a column of a table, but these data are no table"):
        distribute(EXPECTED, client, weights="trust")


def test_a_part_may_have_no_weight_at_all(client):
    weights = np.where(np.arange(len(TABLE)) < len(TABLE) // 2, 0.0, 2.0)
    matrix = distribute(dd.from_pandas(TABLE.assign(trust=weights), npartitions=4), client, weights="trust")
    assert len(matrix) == np.count_nonzero(weights)
    assert matrix.shape == (N, M)


def test_tasks(client):
    tasks, X = RNG.permutation(np.repeat(np.arange(6), 10)), RNG.standard_normal((60, 4))
    y, weights = RNG.standard_normal(60), RNG.random(60) + 0.5
    data = Tasks(X, y, tasks, weights=weights)
    shards = distribute_tasks(data, client)
    _, found, _ = on_workers(client, shards)
    np.testing.assert_array_equal(found, data.weights)
    other = distribute_tasks(Tasks(X, y, tasks), client)
    assert shards.fingerprint() != other.fingerprint()
    MultiTaskRegressor(rank=2, C=1.0, effects=None).fit(X, y, tasks, weights, client=client)
