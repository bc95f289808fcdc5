"""Zeros at all entries, with the observed entries on the workers of a Dask cluster: the numbers of one process."""

import json
import sys

import numpy as np
import pytest
from clusters import kill_one
from scipy import sparse

from rslm import ImplicitCompletion, ObservedMatrix, Problem, load, solve
from rslm.cli import main
from rslm.data.prepared.write import prepare
from rslm.distributed import distribute
from rslm.distributed.matrix import shard_of_arrays
from rslm.estimators.implicit.ranking import Metric
from rslm.evaluation.objective import Objective
from rslm.location import Location
from rslm.losses import Huber, Square
from rslm.measurements import AllEntries, Entries
from rslm.structures import Box

N, M = 60, 25  # users and items
SAME_OBJECTIVE, SAME_W = 1e-9, 1e-6  # what is promised of converged fits: of the objective, and of W relative to it
SETTINGS = {"rank": 3, "C": 1.0, "alpha0": 0.2, "weighting": 0.5, "random_state": 0, "tol": 1e-7}
TRACE = {"row_weights": np.linspace(0.5, 2, M), "column_weights": np.linspace(2, 0.5, N)}


def plays(n=N, m=M, seed=0):
    """Counts of users and items of three kinds; every user took two items at least, and every item was taken."""
    rng = np.random.default_rng(seed)
    likes = np.arange(n)[:, None] % 3 == np.arange(m) % 3
    counts = rng.poisson(np.where(likes, 1.2, 0.15))
    counts[np.arange(n), np.arange(n) % m] += 1
    counts[np.arange(n), (np.arange(n) + 3) % m] += 1
    return ObservedMatrix.from_any(sparse.csr_array(counts.astype(np.float64)))


def confidences(data):
    return data.with_values(np.ones(len(data))).weighted(np.log2(1.0 + data.values))


def both(client, alpha0=0.2, **settings):
    """The same problem here and there."""
    data = confidences(plays())
    here = AllEntries.of(Entries.of_transposed(data), alpha0)
    there = distribute(data, client).measurement(alpha0=alpha0)
    return [Problem(Square(), where, **({"C": 0.5} | settings)) for where in (here, there)]


def assert_same(a, b):
    """Sums are made in another order there, so the path may be another; the answer is not."""
    assert a.converged
    assert b.outcome is a.outcome
    W = a.U @ a.V.T
    np.testing.assert_allclose(b.U @ b.V.T, W, rtol=0, atol=SAME_W * np.abs(W).max())
    assert b.certificate.primal == pytest.approx(a.certificate.primal, rel=SAME_OBJECTIVE)
    # The dual value moves with the gradient, not with its square, so it is as accurate as W.
    assert b.certificate.dual == pytest.approx(a.certificate.dual, rel=SAME_W)


@pytest.mark.parametrize("settings", [{}, TRACE, {"C": 300.0}], ids=["plain", "weighted", "by way of smaller C"])
def test_the_answer_is_that_of_one_process(client, settings):
    here, there = both(client, **settings)
    assert_same(*(solve(problem, 3, random_state=0, tol=1e-7) for problem in (here, there)))


def test_one_point(client):
    """Value, derivatives and the sums of a certificate, to rounding errors."""
    rng, problems = np.random.default_rng(0), both(client, **TRACE)
    U = rng.standard_normal((M, 3))
    U, xi = U / np.linalg.norm(U), rng.standard_normal((M, 3))
    a, b = (Objective(problem, 1).evaluate(U) for problem in problems)
    assert b.value == pytest.approx(a.value, rel=1e-12)
    pairs = [(a.gradient, b.gradient), (a.hessian_product(xi), b.hessian_product(xi)), (a.V, b.V)]
    pairs += [(a.preconditioner(xi), b.preconditioner(xi))]
    duals = [e.duals(problem) for e, problem in zip((a, b), problems, strict=True)]
    pairs += [tuple(each.gram(xi) for each in duals)]
    pairs += [tuple(Objective(problem, 1).guess(1.0)(xi) for problem in problems)]
    for one, other in pairs:  # rounding errors times the conditioning of the systems
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * np.abs(one).max())
    for alpha in (0.3, 1.0):
        assert duals[1].conjugate_part(alpha) == pytest.approx(duals[0].conjugate_part(alpha), rel=1e-12)
    assert duals[1].largest() == pytest.approx(duals[0].largest(), rel=1e-9)
    exact = sum(float(np.vdot(unit, duals[0].gram(unit))) for unit in np.eye(M)[:, :, None])
    assert exact * (1 - 1e-12) <= duals[1].frobenius_squared() <= 4 * duals[0].frobenius_squared()  # upper bounds
    assert b.primal(problems[1]) == pytest.approx(a.primal(problems[0]), rel=1e-12)
    assert b.least_loss(problems[1]) == pytest.approx(a.least_loss(problems[0]), rel=1e-12)


def test_blocks_of_rows_are_those_of_the_preconditioner():
    """In one process it is made from factors of the same blocks."""
    data = AllEntries.of(Entries.of_transposed(confidences(plays())), 0.2)
    U = np.random.default_rng(0).standard_normal((M, 3))
    point = Objective(Problem(Square(), data, C=0.5, **TRACE), 1).evaluate(U / np.linalg.norm(U))
    blocks, more = point.row_curvature()
    eta = np.random.default_rng(1).standard_normal(U.shape)
    solved = np.linalg.solve(blocks + more * np.eye(3), eta[:, :, None])[:, :, 0]
    np.testing.assert_allclose(point.preconditioner(eta), solved, rtol=1e-9)  # rounding errors of small systems


def test_what_cannot_be_combined_is_refused_at_once(client):
    shards = distribute(plays(), client).measurement(alpha0=0.2)
    with pytest.raises(ValueError, match="need the square loss"):
        Problem(Huber(0.5), shards)
    with pytest.raises(ValueError, match="cannot be combined with Box"):
        Problem(Square(), shards, Box(0, 1))
    with pytest.raises(ValueError, match="cannot be combined with a location"):
        Problem(Square(), shards, location=Location())
    with pytest.raises(ValueError, match="alpha0 is 0"):
        distribute(plays(), client).measurement(alpha0=0.0)


def test_a_fingerprint_tells_weights_of_zeros_and_not_shards(client, monkeypatch):
    data = confidences(plays())
    one = distribute(data, client).measurement(alpha0=0.2).fingerprint()
    assert distribute(data, client).measurement(alpha0=0.3).fingerprint() != one
    monkeypatch.setattr("rslm.distributed.matrix.cuts_of", lambda indptr, count: np.array([0, 7, len(indptr) - 1]))
    assert distribute(data, client).measurement(alpha0=0.2).fingerprint() == one
    # Confidences are made by shards, of which one may have ones alone.
    counts = plays()
    few = counts.with_values(np.where(np.arange(len(counts)) < counts.indptr[7], 1.0, counts.values))
    there = distribute(few, client).converted(_taken)
    assert there.cluster.each("weighted") == [False, True]
    assert there.measurement().fingerprint() == distribute(confidences(few), client).measurement().fingerprint()
    np.testing.assert_array_equal(there.some_rows(np.arange(N)).weights, confidences(few).weights)


def _taken(data):
    from rslm.estimators.implicit.confidence import interactions

    return interactions(data, "log")


def test_a_worker_that_is_killed_changes_nothing(processes):
    killed = []
    here, there = both(processes)

    def kill(progress):
        if progress.iteration >= 2 and not killed:
            killed.append(kill_one(processes))

    b = solve(there, 3, random_state=0, tol=1e-7, callback=kill)
    assert killed
    assert_same(solve(here, 3, random_state=0, tol=1e-7), b)


def test_converted_shards_survive_a_worker_and_a_move(processes):
    matrix = distribute(plays(), processes).converted(_taken)
    kill_one(processes)
    np.testing.assert_array_equal(matrix.some_rows(np.arange(N)).weights, confidences(plays()).weights)


def test_a_converted_shard_in_another_process():
    import pickle
    from unittest.mock import patch

    from rslm.distributed.matrix import shard_converted

    data = plays()
    with patch("rslm.distributed.matrix.threads_here", lambda: 1):
        arrays = data.indptr, data.index, data.values, None
        shard = shard_converted(shard_of_arrays(arrays, M, 0, (0.3, 0)), _taken, (None, None))
        moved = pickle.loads(pickle.dumps(shard))
    np.testing.assert_array_equal(moved.data.weights, shard.data.weights)
    for one, other in zip(moved.held, shard.held, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(shard.held[2]) == {1.0}
    assert len(shard.held[2]) + len(shard.data) == len(data)


# ---- the estimator and the command line ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The same counts as a text table and as prepared data."""
    folder, data = tmp_path_factory.mktemp("plays"), plays()
    entries = zip(data.rows_of_entries(), data.index, data.values, strict=True)
    lines = ["user,song,plays", *(f"user{i:02d},song{j:02d},{v:g}" for i, j, v in entries)]
    (folder / "plays.csv").write_text("\n".join(lines))
    prepare(folder / "plays.csv", folder / "plays")
    return folder


@pytest.mark.parametrize("kind", ["memory", "prepared", "Parquet", "DataFrame", "distributed"])
def test_sources(client, table, kind):
    import polars as pl

    here = ImplicitCompletion(**SETTINGS).fit(table / "plays.csv")
    source = table / "plays"
    if kind == "memory":
        source = ObservedMatrix.read(table / "plays.csv")
    elif kind == "Parquet":
        pl.read_csv(table / "plays.csv").write_parquet(source := table / "plays.parquet")
    elif kind == "DataFrame":
        import dask.dataframe as dd
        import pandas as pd

        source = dd.from_pandas(pd.read_csv(table / "plays.csv"), npartitions=3)
    elif kind == "distributed":
        source = distribute(source, client)
    there = ImplicitCompletion(**SETTINGS).fit(source, client=client)
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=SAME_OBJECTIVE)
    W = here.row_factors_ @ here.col_factors_.T
    np.testing.assert_allclose(there.row_factors_ @ there.col_factors_.T, W, rtol=0, atol=SAME_W * np.abs(W).max())
    assert there.row_ids_.tolist() == here.row_ids_.tolist()
    assert there.n_features_in_ == here.n_features_in_


def test_a_time_is_no_count(client, tmp_path):
    """A log of events would be fitted to its times, if it had every pair once."""
    import dask.dataframe as dd
    import pandas as pd

    log = pd.DataFrame(
        {"user": [0, 1, 2], "song": [1, 0, 1], "timestamp": [1_700_000_000, 1_700_000_001, 1_700_000_002]}
    )
    log[log.user != 1].to_parquet(tmp_path / "log.parquet")  # with its index, as a column
    for source in (dd.from_pandas(log, npartitions=1), tmp_path / "log.parquet"):
        with pytest.raises(ValueError, match="timestamp is a time: prepare a log of events first"):
            ImplicitCompletion(**SETTINGS).fit(source, client=client)


def test_a_model_of_a_cluster(client, tmp_path):
    data = plays()
    here = ImplicitCompletion(**SETTINGS).fit(data)
    there = ImplicitCompletion(**SETTINGS).fit(data, client=client)
    assert there.known_ is None
    np.testing.assert_array_equal(there.recommend([0], top=3, known=data)[0], here.recommend([0], top=3)[0])
    assert len(there.recommend([0], top=M)[0][0]) == M
    with pytest.raises(ValueError, match="fitted by a cluster does not know what users took"):
        there.explain(0, 1)
    with pytest.raises(ValueError, match="does not hold what users took"):
        there.score(data)
    assert there.score(data.some_rows(np.arange(9))) == here.score(data.some_rows(np.arange(9)))  # as of new users
    there.save(tmp_path / "m.rslm")
    again, new = load(tmp_path / "m.rslm"), data.some_rows(np.array([3, 4]))
    empty = sparse.csr_array((1, M))
    for model in (there, again):
        for X in (new, empty):
            for one, other in zip(model.recommend_for(X, top=3), here.recommend_for(X, top=3), strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)  # items, and scores as accurate as W
    assert again.known_ is None


def test_settings_are_found_as_in_one_process(client):
    here, there = (ImplicitCompletion(rank=3, random_state=0).fit(plays(), client=c) for c in (None, client))
    assert here.held_out_ == there.held_out_
    for name in ("rank", "C", "alpha0", "weighting", "score"):
        np.testing.assert_array_equal(there.path_[name], here.path_[name])
    assert (there.C_, there.alpha0_, there.weighting_) == (here.C_, here.alpha0_, here.weighting_)


def test_settings_from_a_sample_of_the_users(client, monkeypatch):
    monkeypatch.setattr("rslm.estimators.implicit.search.ENTRIES", 150)
    here, there = (ImplicitCompletion(rank=3, random_state=0).fit(plays(), client=c) for c in (None, client))
    np.testing.assert_array_equal(there.path_["score"], here.path_["score"])
    assert there.C_ == here.C_


def test_empty_users_and_items_are_told(client):
    counts = plays().to_csr().toarray()
    counts[5], counts[:, 7] = 0.0, 0.0
    with pytest.warns(UserWarning, match="1 of 60 users took nothing"), pytest.warns(UserWarning, match="1 of 25"):
        model = ImplicitCompletion(**SETTINGS).fit(sparse.csr_array(counts), client=client)
    np.testing.assert_allclose(model.row_factors_[5], np.delete(model.row_factors_, 5, axis=0).mean(axis=0))
    assert not model.col_factors_[7].any()


@pytest.mark.parametrize("ids", [False, True], ids=["positions", "ids"])
def test_a_negative_count_is_named(client, ids):
    data = plays()
    values, at = data.values.copy(), int(data.indptr[50])  # of the second shard
    values[at] *= -1
    wrong, place = data.with_values(values), f"row 50, column {data.index[at]}"
    if ids:
        names = [f"u{i:02d}" for i in data.rows_of_entries()], [f"c{j:02d}" for j in data.index]
        wrong, place = ObservedMatrix.from_ratings(*names, values), f"row 'u50', column 'c{data.index[at]:02d}'"
    with pytest.raises(ValueError, match=f"Negative values in data: .* at {place}"):
        ImplicitCompletion(**SETTINGS).fit(distribute(wrong, client), client=client)


def test_nothing_was_taken(client):
    nothing = distribute(plays().with_values(np.zeros(len(plays()))), client)
    with pytest.raises(ValueError, match="X has no positive entry"):
        ImplicitCompletion(**SETTINGS).fit(nothing, client=client)


def test_held_out_items_are_ranked_by_workers(client):
    """The metric is that of one process for the same held-out entries."""
    matrix = distribute(plays(), client, holdout=0.2, seed=1).converted(_taken)
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    known = matrix.some_rows(np.arange(N))
    left = np.nan_to_num(plays().to_dense())
    left[known.rows_of_entries(), known.index] = 0.0
    held = ObservedMatrix.from_any(sparse.csr_array(left))
    for name in ("recall@5", "ndcg@10"):
        wanted = Metric.of(name).score(users, items, known, held)
        assert matrix.ranked(users, items, Metric.of(name)) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="no entries were held out"):
        distribute(plays(), client).ranked(users, items, Metric.of("recall@5"))


def test_the_command_line(client, table, tmp_path, monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rslm", *map(str, words)])
        try:
            main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr()
        return 0, capsys.readouterr()

    words = ("complete", table / "plays", "--implicit", "--rank", 3, "--C", 1, "--alpha0", 0.2, "--weighting", 0)
    words += ("--scheduler", client.scheduler.address)
    code, shown = run(*words, "--model", tmp_path / "m.rslm", "--json")
    assert code in (0, None)
    facts = json.loads(shown.out)
    assert facts["workers"] == 2
    for metric in ("recall@20", "ndcg@100"):
        assert min(facts[f"held_out_{metric}"], facts[f"{metric}_of_the_most_popular"]) > 0
    assert facts["outcome"] in ("certified", "stationary")
    assert load(tmp_path / "m.rslm").known_ is None
    assert "--rows cannot be combined with --scheduler" in run(*words, "--rows", 1)[0]
