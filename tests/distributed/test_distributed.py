"""Columns on the workers of a Dask cluster: the same numbers as in one process, whatever happens to the workers."""

import json
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from clusters import kill_one, local, regressions
from distributed import Client

from rslm import (
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    ObservedMatrix,
    Problem,
    ReducedRankRegressor,
    load,
    solve,
)
from rslm.data.prepared.write import prepare
from rslm.distributed import cluster as cluster_module
from rslm.distributed import distribute
from rslm.distributed.tasks import distribute_tasks
from rslm.losses import Absolute, Huber, Logistic, Square
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Entries, Tasks
from rslm.structures import Box, Hankel

N, M = 45, 25  # samples and features; of so few features σ₁ is found in one product
TOL = 1e-6
SAME_OBJECTIVE, SAME_W = 1e-9, 1e-6  # what is promised of converged fits, relative and to the scale of W


def ratings(n=N, m=M, seed=0):
    rng = np.random.default_rng(seed)
    W = 3 + rng.standard_normal((n, 3)) @ rng.standard_normal((3, m))
    i, j = np.nonzero(rng.random((n, m)) < 0.4)
    return ObservedMatrix.from_triplets(i, j, np.clip(W[i, j] + 0.2 * rng.standard_normal(len(i)), 1, 5), (n, m))


def both(client, loss, box=None, data=None, rank=3, **settings):
    """The same problem here and there."""
    data = ratings() if data is None else data
    here = Problem(loss, Entries.of_transposed(data), box, **settings)
    there = Problem(loss, distribute(data, client).measurement(CheckedLoss(loss).targets), box, **settings)
    return solve(here, rank, random_state=0, tol=TOL), solve(there, rank, random_state=0, tol=TOL)


def assert_same_matrix(actual, W):
    np.testing.assert_allclose(actual, W, rtol=0, atol=SAME_W * np.abs(W).max())


def assert_same(a, b):
    """Sums are made in another order there, so the path may be another; the answer is not."""
    assert a.converged
    assert b.outcome is a.outcome
    assert_same_matrix(b.U @ b.V.T, a.U @ a.V.T)
    assert b.certificate.primal == pytest.approx(a.certificate.primal, rel=SAME_OBJECTIVE)
    # The dual value moves with the gradient, not with its square, so it is as accurate as W.
    assert b.certificate.dual == pytest.approx(a.certificate.dual, rel=SAME_W)


WEIGHTS = {"row_weights": np.linspace(0.5, 2, M), "column_weights": np.linspace(2, 0.5, N)}
CASES = {
    "square": (Square(), None, {"C": 2.0}),
    "weighted": (Square(), None, {"C": 2.0, **WEIGHTS}),
    "by way of smaller C": (Square(), None, {"C": 3e4}),
    "huber": (Huber(0.5), None, {"C": 5.0}),
    "absolute": (Absolute(), None, {"C": 2.0}),
    "bounds": (Square(), Box(1, 5), {"C": 20.0}),
    "bounds of columns, weighted": (Square(), Box(np.linspace(0, 1, N), None), {"C": 20.0, **WEIGHTS}),
    "huber with bounds": (Huber(0.5), Box(0, 5), {"C": 5.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_that_of_one_process(client, case):
    loss, box, settings = CASES[case]
    assert_same(*both(client, loss, box, **settings))


def test_workers_that_are_processes(processes):
    loss, box, settings = CASES["huber"]
    assert_same(*both(processes, loss, box, **settings))


def test_two_classes(client):
    data = ratings()
    assert_same(*both(client, Logistic(), data=data.with_values((data.values > 3).astype(float)), C=1.0))


def test_a_tree_of_sums_and_arrays_that_are_scattered(monkeypatch):
    monkeypatch.setattr(cluster_module, "BRANCHES", 2)
    monkeypatch.setattr(cluster_module, "INLINE", 0)
    with local(3, processes=False) as client:  # so that two branches make a tree of two levels
        assert_same(*both(client, Square(), C=2.0))


@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
@pytest.mark.parametrize("kind", ["own rows", "intercepts", "shared rows"])
def test_tasks(client, kind, loss):
    X, y, tasks = regressions(6, 10, 200)
    if kind == "shared rows":
        Y = np.full((len(X), 10), np.nan)
        Y[np.arange(len(X)), tasks] = y
        data = Tasks.shared(X, np.where(np.random.default_rng(0).random(Y.shape) < 0.5, np.nan_to_num(Y, nan=1.0), Y))
    else:
        data = Tasks(X, y, tasks, intercept=kind == "intercepts")
    a = solve(Problem(loss, data, C=1.0), 2, random_state=0, tol=TOL)
    b = solve(Problem(loss, distribute_tasks(data, client), C=1.0), 2, random_state=0, tol=TOL)
    assert_same(a, b)
    if kind == "intercepts":
        assert_same_matrix(b.intercepts, a.intercepts)


def test_structure_that_couples_columns_is_refused(client):
    data = distribute(ratings(12, 12), client).measurement()
    with pytest.raises(TypeError, match=r"couples the columns of W.*without a client"):
        Problem(Square(), data, Hankel(12, 12))


# ---- where data come from ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    import pandas as pd

    data = ratings()
    users = np.array([f"user {k:03d}" for k in range(N)])
    frame = pd.DataFrame({"user": users[data.rows_of_entries()], "item": data.index * 7, "rating": data.values})
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.mark.parametrize("kind", ["prepared", "Parquet", "folder of Parquet", "DataFrame", "memory"])
def test_sources(client, table, kind, tmp_path):
    known = ObservedMatrix.from_ratings(table.user, table.item, table.rating)
    if kind == "prepared":
        table.to_csv(tmp_path / "ratings.csv", index=False)
        prepare(tmp_path / "ratings.csv", tmp_path / "prepared")
        source = tmp_path / "prepared"
    elif kind == "DataFrame":
        import dask.dataframe as dd

        source = dd.from_pandas(table, npartitions=5)
    elif kind == "memory":
        source = known
    else:
        import polars as pl

        frame, half = pl.DataFrame({name: table[name].to_numpy() for name in table}), len(table) // 2
        (tmp_path / "parts").mkdir()
        frame.write_parquet(tmp_path / "whole.parquet")
        frame[:half].write_parquet(tmp_path / "parts" / "1.parquet")
        frame[half:].write_parquet(tmp_path / "parts" / "2.parquet")
        source = tmp_path / ("whole.parquet" if kind == "Parquet" else "parts")
    data = distribute(source, client)
    assert data.shape == known.shape
    assert len(data) == len(known)
    assert data.row_ids.tolist() == known.row_ids.tolist()
    assert data.col_ids.tolist() == known.col_ids.tolist()
    np.testing.assert_array_equal(data.row_counts(), known.row_counts())
    np.testing.assert_array_equal(data.col_counts(), known.col_counts())
    some = np.array([0, 5, len(known) // 2, len(known) - 1])
    rows, cols, values = data.entries(some)
    np.testing.assert_array_equal(rows, known.rows_of_entries()[some])
    np.testing.assert_array_equal(cols, known.index[some])
    np.testing.assert_allclose(values, known.values[some], rtol=1e-6)


def test_a_fingerprint_tells_data_and_not_shards(client, monkeypatch):
    data = ratings()
    one = distribute(data, client).measurement().fingerprint()
    monkeypatch.setattr("rslm.distributed.matrix.cuts_of", lambda indptr, count: np.array([0, 7, len(indptr) - 1]))
    assert distribute(data, client).measurement().fingerprint() == one
    values = data.values.copy()
    values[3], values[4] = values[4], values[3]
    assert distribute(data.with_values(values), client).measurement().fingerprint() != one


def test_a_fingerprint_of_tasks(client):
    X, y, tasks = regressions(6, 10, 200)
    with local(2, processes=False) as other:
        one, same = (distribute_tasks(Tasks(X, y, tasks), c).fingerprint() for c in (client, other))
    assert one == same
    moved = X.copy()
    moved[3, 2] += 1.0
    for different in (Tasks(moved, y, tasks), Tasks(X, y[::-1], tasks), Tasks(X, y, tasks[::-1])):
        assert distribute_tasks(different, client).fingerprint() != one


def test_a_text_file_is_refused(client, tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,1,5\n")
    with pytest.raises(ValueError, match=r"neither prepared data nor Parquet.*rslm prepare"):
        distribute(tmp_path / "ratings.csv", client)


def test_repeated_entries_are_refused(client, table):
    import dask.dataframe as dd
    import pandas as pd

    with pytest.raises(ValueError, match=r"repeat an earlier one.*group the table"):
        distribute(dd.from_pandas(pd.concat([table, table[:2]]), npartitions=2), client)


# ---- estimators and the command line -------------------------------------------------------------------------------


def test_matrix_completion(client, tmp_path):
    data = ratings()
    settings = {
        "rank": 3,
        "C": 20.0,
        "bounds": (1, 4.5),
        "weighting": 0.5,
        "random_state": 0,
        "tol": TOL,
        "effects": None,
    }
    here, told = MatrixCompletion(**settings), []
    with pytest.warns(UserWarning, match="beyond the bounds; the worst one") as beyond:
        here.fit(data)
    there = MatrixCompletion(**settings).set_callbacks(Iterations(told))
    with pytest.warns(UserWarning, match="beyond") as warned:
        there.fit(data, client=client)
    assert [str(w.message) for w in warned] == [str(w.message) for w in beyond]
    assert told
    assert_same_matrix(there.row_factors_ @ there.col_factors_.T, here.row_factors_ @ here.col_factors_.T)
    assert there.score(data) == pytest.approx(here.score(data), rel=SAME_W)
    assert there.transform(data.to_dense()).shape == (N, M)
    assert not hasattr(there, "residuals_")
    with pytest.raises(AttributeError, match="fitted by a cluster has no residuals"):
        _ = there.outlier_scores_
    np.testing.assert_array_equal(there.recommend([0], top=3, known=data)[0], here.recommend([0], top=3)[0])
    there.save(tmp_path / "m.rslm")
    np.testing.assert_array_equal(load(tmp_path / "m.rslm").col_factors_, there.col_factors_)


class Iterations:
    """A callback of scikit-learn's protocol that wants a fitted estimator."""

    def __init__(self, told):
        self.told = told

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.told.append(float(fitted_estimator.history_["objective"][-1]))


def test_two_classes_and_extreme_data(client):
    data = ratings()
    binary = data.with_values((data.values > 3).astype(float))
    logistic = {"rank": 2, "C": 3.0, "loss": "logistic", "effects": (5.0, 5.0), "random_state": 0, "tol": TOL}
    model = MatrixCompletion(**logistic).fit(binary, client=client)
    assert model.classes_.tolist() == [0.0, 1.0]
    assert model.score(binary) == pytest.approx(MatrixCompletion(**logistic).fit(binary).score(binary), rel=SAME_W)
    large = data.with_values(data.values * 2.0**400)
    a = MatrixCompletion(2, C=1.0, effects=None, random_state=0, tol=TOL).fit(large)
    b = MatrixCompletion(2, C=1.0, effects=None, random_state=0, tol=TOL).fit(large, client=client)
    np.testing.assert_allclose(b.predict([3], [4]), a.predict([3], [4]), rtol=SAME_W)


def test_task_estimators(client):
    X, y, tasks = regressions(6, 10, 200)
    a, b = (MultiTaskRegressor(2, C=1.0, effects=None, random_state=0, tol=TOL) for _ in range(2))
    assert_same_matrix(b.fit(X, y, tasks, client=client).coef_, a.fit(X, y, tasks).coef_)
    assert_same_matrix(b.intercept_, a.intercept_)
    signs = y > np.median(y)
    c, d = (MultiTaskClassifier(2, C=1.0, effects=None, random_state=0, tol=TOL) for _ in range(2))
    assert_same_matrix(d.fit(X, signs, client=client).coef_, c.fit(X, signs).coef_)
    Y = np.stack([y, -y, np.where(signs, np.nan, y)], axis=1)
    e, f = (ReducedRankRegressor(2, C=1.0, effects=None, random_state=0, tol=TOL) for _ in range(2))
    assert_same_matrix(f.fit(X, Y, client=client).coef_, e.fit(X, Y).coef_)


def test_entries_that_are_set_aside(client, monkeypatch):
    data = ratings()
    matrix = distribute(data, client, holdout=0.2, seed=1)
    kept = len(matrix)
    assert 0.7 * len(data) < kept < 0.9 * len(data)
    zero = matrix.held_out(np.zeros((N, 1)), np.zeros((M, 1)))
    assert zero.entries == len(data) - kept
    rows, cols, _ = matrix.entries(np.arange(kept))
    dense = data.to_dense()
    mean = dense[rows, cols].mean()
    dense[rows, cols] = np.nan
    held = dense[~np.isnan(dense)]
    assert len(held) == zero.entries  # which are all the others
    assert zero.rmse == pytest.approx(np.sqrt(np.mean(held**2)))
    assert zero.rmse_of_mean == pytest.approx(np.sqrt(np.mean((held - mean) ** 2)))
    model = MatrixCompletion(3, C=5.0, random_state=0, tol=TOL).fit(matrix, client=client)
    W = (model.row_factors_ @ model.col_factors_.T)[~np.isnan(dense)]
    assert matrix.held_out(model.row_factors_, model.col_factors_).rmse == pytest.approx(
        np.sqrt(np.mean((held - W) ** 2))
    )
    # The same entries, however the rows are shared out.
    monkeypatch.setattr("rslm.distributed.matrix.cuts_of", lambda indptr, count: np.array([0, 7, len(indptr) - 1]))
    np.testing.assert_array_equal(distribute(data, client, holdout=0.2, seed=1).entries(np.arange(kept))[1], cols)


def test_the_command(client, table, tmp_path, capsys, monkeypatch):
    from rslm.cli import main

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rslm", *map(str, words)])
        try:
            main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr()
        return 0, capsys.readouterr()

    import polars as pl

    pl.DataFrame({name: table[name].to_numpy() for name in table}).write_parquet(tmp_path / "r.parquet")
    address, model, kept = client.scheduler.address, tmp_path / "m.rslm", tmp_path / "fit.checkpoint"
    words = ("complete", tmp_path / "r.parquet", "--scheduler", address, "--rank", 3, "--loss", "huber", "--C", 10)
    code, shown = run(*words, "--model", model, "--checkpoint", kept, "--json")
    assert code in (0, None)
    facts = json.loads(shown.out)
    assert facts["held_out_RMSE"] < facts["RMSE_of_the_mean"]
    assert facts["workers"] == 2
    assert load(model).row_ids_.tolist() == sorted(set(table.user))
    code, shown = run(*words, "--checkpoint", kept)
    assert "Resuming from" in shown.out
    assert "--report cannot be combined with --scheduler" in run(*words, "--report", tmp_path / "r.html")[0]
    monkeypatch.setattr("rslm.cli.cluster.PATIENCE", 0.5)
    nobody = "tcp://127.0.0.1:1"
    assert f"no Dask scheduler answers at {nobody}" in run("complete", "r.parquet", "--scheduler", nobody)[0]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (([1, 2], ["a", "b"]), "row ids are numbers in one part of the table and text in another"),
        (([1, 2], np.array([3, 2**63 + 1], dtype=np.uint64)), "too large; write such ids as text"),
        ((["a", "b\0"], ["a", "b"]), "ends in a zero byte"),
        (([], []), "Nothing is observed: the table has no lines"),
    ],
    ids=["mixed", "large", "zero byte", "nothing"],
)
def test_ids_that_are_refused(client, tmp_path, ids, message):
    import polars as pl

    for k, some in enumerate(ids):
        size = len(some)
        frame = pl.DataFrame({"user": some, "item": [k] * size, "rating": [1.0] * size})
        frame.cast({} if size else {"user": pl.Int64, "item": pl.Int64}).write_parquet(tmp_path / f"{k}.parquet")
    with pytest.raises(ValueError, match=message):
        distribute(tmp_path, client)


def test_large_ids_of_two_kinds_stay_apart(client, tmp_path):
    import polars as pl

    for k, kind in enumerate((pl.Int64, pl.UInt64)):
        users = [2**60 + i for i in range(3)]
        frame = pl.DataFrame({"user": pl.Series(users, dtype=kind), "item": [k] * 3, "rating": [1.0, 2.0, 3.0]})
        frame.write_parquet(tmp_path / f"{k}.parquet")
    assert distribute(tmp_path, client).row_ids.tolist() == [2**60, 2**60 + 1, 2**60 + 2]


def test_columns_by_their_order(client, table):
    import dask.dataframe as dd

    unnamed = table.rename(columns={"user": 0, "item": 1, "rating": 2})
    assert distribute(dd.from_pandas(unnamed, npartitions=2), client).shape == (N, M)


@pytest.mark.parametrize("holdout", [-0.1, 1.0, 1.5])
def test_parts_to_set_aside_that_are_refused(client, holdout):
    with pytest.raises(ValueError, match="holdout must be at least 0 and less than 1"):
        distribute(ratings(), client, holdout=holdout)


def test_almost_all_entries_are_set_aside(client):
    matrix = distribute(ratings(), client, holdout=0.995)
    assert len(matrix.entries(np.arange(len(matrix)))[0]) == len(matrix) < 30
    with pytest.raises(ValueError, match="no entries were held out"):
        distribute(ratings(), client).held_out(np.zeros((N, 1)), np.zeros((M, 1)))
    with pytest.raises(ValueError, match="distributed already"):
        distribute(matrix, client, holdout=0.1)


def test_what_is_no_client(client):
    model = MatrixCompletion(2)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client.*got 'tcp"):
        model.fit(ratings(), client="tcp://127.0.0.1:8786")
    with pytest.raises(TypeError, match=r"is on the workers of a cluster; .*client=client"):
        model.fit(distribute(ratings(), client))


def test_workers_forget_what_a_fit_has_left(client, monkeypatch):
    monkeypatch.setattr("rslm.distributed.cluster.POLL", 1e-4)  # as if workers were slow: every wait is cut off
    matrix = distribute(ratings(), client)
    MatrixCompletion(2, C=20.0, bounds=(1, 5), random_state=0, tol=1e-3).fit(matrix, client=client)
    assert matrix.cluster.each("kept") == [0] * len(matrix.parts)


# ---- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "case"), [("memory", "bounds"), ("prepared", "square")])
def test_a_worker_that_is_killed_changes_nothing(processes, case, kind, tmp_path):
    loss, box, settings = CASES[case]
    data = ratings()
    source = data
    if kind == "prepared":
        lines = zip(data.rows_of_entries(), data.index, data.values, strict=True)
        (tmp_path / "r.csv").write_text("user,item,rating\n" + "\n".join(f"{i},{j},{float(v)!r}" for i, j, v in lines))
        prepare(tmp_path / "r.csv", tmp_path / "prepared")
        source = tmp_path / "prepared"
    killed = []
    rel = SAME_OBJECTIVE if kind == "memory" else 1e-6  # prepared data are in single precision

    def kill(progress):
        if progress.iteration >= 3 and not killed:
            killed.append(kill_one(processes))

    there = Problem(loss, distribute(source, processes).measurement(), box, **settings)
    b = solve(there, 4, random_state=0, tol=TOL, callback=kill)
    a = solve(Problem(loss, Entries.of_transposed(data), box, **settings), 4, random_state=0, tol=TOL)
    assert killed
    assert b.converged
    assert b.certificate.primal == pytest.approx(a.certificate.primal, rel=rel)


@pytest.mark.parametrize("case", ["absolute", "bounds"])
def test_a_fit_goes_on_bitwise_from_its_checkpoint(client, case, tmp_path):
    loss, box, settings = CASES[case]

    def fitted(name, **limits):
        problem = Problem(loss, distribute(ratings(), client).measurement(), box, **settings)
        return solve(problem, 3, random_state=0, tol=1e-3, checkpoint=tmp_path / name, **limits)

    whole = fitted("whole")
    fitted("parts", max_iter=whole.n_iter // 2)
    parts = fitted("parts")
    np.testing.assert_array_equal(parts.U, whole.U)
    np.testing.assert_array_equal(parts.history["objective"], whole.history["objective"])
    assert parts.certificate == whole.certificate


@contextmanager
def own_cluster():
    """A scheduler that can be killed."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = []
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as scheduler:
        try:
            address = next(word for line in scheduler.stderr for word in line.split() if word.startswith("tcp://"))
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
            running.append(subprocess.Popen([*worker, "--no-nanny"], **quiet))
            yield scheduler, address
        finally:
            for process in (*running, scheduler):
                process.kill()
                process.wait()


def test_all_workers_are_gone(monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    with local(1, processes=False) as client:
        matrix = distribute(ratings(), client)
        matrix.cluster.wait()
        client.cluster.scale(0)
        with pytest.raises(ConnectionError, match=r"all workers of .* are gone.*with a checkpoint it continues"):
            MatrixCompletion(2, random_state=0).fit(matrix, client=client)


def test_other_versions_are_refused(processes, monkeypatch):
    monkeypatch.setattr(cluster_module, "__version__", "9.9")
    with pytest.raises(RuntimeError, match=r"2 of 2 workers differ .* rslm 9\.9 .*Install the same versions"):
        distribute(ratings(), processes)


def test_a_scheduler_that_is_gone_is_told_and_the_checkpoint_is_whole(tmp_path):
    loss, _, settings = CASES["by way of smaller C"]
    data, path = ratings(), tmp_path / "fit.checkpoint"
    with own_cluster() as (scheduler, address):
        client = Client(address)
        try:
            client.wait_for_workers(1, timeout=30)
            problem = Problem(loss, distribute(data, client).measurement(), **settings)
            with pytest.raises(ConnectionError, match=r"scheduler at tcp.* is gone.*with a checkpoint it continues"):
                solve(
                    problem,
                    4,
                    random_state=0,
                    checkpoint=path,
                    callback=lambda progress: scheduler.kill() if progress.iteration == 5 else None,
                )
        finally:
            client.close(timeout=1)
    told = []
    with local(2, processes=False) as client:
        problem = Problem(loss, distribute(data, client).measurement(), **settings)
        b = solve(
            problem, 4, random_state=0, checkpoint=path, callback=lambda progress: told.append(progress.iteration)
        )
    assert min(told) > 0
    assert_same(solve(Problem(loss, Entries.of_transposed(data), **settings), 4, random_state=0), b)
