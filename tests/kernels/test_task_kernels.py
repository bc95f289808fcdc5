"""The kernels for tasks against the NumPy twins of those for entries, with the rows of X U in place of those of U."""

import numpy as np
import pytest
from scipy import sparse

from rslm.kernels import Columns, FeatureRows, _native, reference

TOL = 1e-11


def tasks_of(lengths, rows, seed=0):
    """Tasks of these lengths; their rows are drawn without replacement as long as there are some."""
    rng = np.random.default_rng(seed)
    total = int(np.sum(lengths))
    index = rng.permutation(rows)[:total] if total <= rows else rng.integers(0, rows, total)
    return Columns(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), index.astype(np.int32), rows)


SHAPES = {
    "several tasks": lambda: tasks_of([9, 3, 8, 16, 1, 0, 7, 20, 17], 90),
    "rows that several tasks share": lambda: tasks_of([9, 3, 8, 16, 1, 0, 7, 20, 17], 20),
    "one task": lambda: tasks_of([30], 30),
    "one row": lambda: tasks_of([1], 1),
    "no rows": lambda: tasks_of([0, 0, 0], 5),
    "no tasks": lambda: tasks_of([], 5),
    "many tasks": lambda: tasks_of(np.arange(300) % 9, 1300),
}


def features(rows, d, kind, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    if kind == "dense":
        return X
    thin = sparse.csr_array(np.where(rng.random((rows, d)) < 0.4, X, 0.0))
    if kind == "sparse, unsorted with repeated features":
        thin = sparse.csr_array(
            (
                np.tile(thin.data, 2),
                np.concatenate([thin.indices[::-1], thin.indices])[: 2 * thin.nnz],
                np.linspace(0, 2 * thin.nnz, rows + 1).astype(np.int32),
            ),
            shape=(rows, d),
        )
    return thin.astype(np.float32) if kind == "sparse, single precision" else thin


KINDS = ["dense", "sparse", "sparse, single precision", "sparse, unsorted with repeated features"]


def rows_of(X):
    if not sparse.issparse(X):
        return FeatureRows(X, X.shape)
    return FeatureRows(X.data, X.shape, (X.indptr, X.indices))


def separate(c, X, y):
    """The same tasks with rows of their own, centred task by task: the entries of these are what is to be computed."""
    full = X.toarray().astype(np.float64) if sparse.issparse(X) else X
    tasks = [(full[rows], y[at].astype(np.float64)) for rows, at in reference._columns(c)]
    parts = [(x - x.mean(axis=0), v) if len(x) else (x, v) for x, v in tasks]
    rows = np.vstack([x for x, _ in parts]) if parts else np.zeros((0, full.shape[1]))
    return Columns(c.indptr, np.arange(c.entries, dtype=np.int32), c.entries), rows


def close(a, b, tol=TOL):
    np.testing.assert_allclose(a, b, atol=tol * max(1.0, np.abs(b).max(initial=0.0)), rtol=tol)


def check(c, X, rank, dtype=np.float64, threads=2):
    rng = np.random.default_rng(2)
    full = X.toarray().astype(np.float64) if sparse.issparse(X) else X
    y, ridge = rng.standard_normal(c.entries).astype(dtype), rng.uniform(0.5, 2.0, c.shape[1])
    U, dU = rng.standard_normal((2, full.shape[1], rank))
    x = rows_of(X)
    means = np.array([y[at].mean() if len(rows) else 0.0 for rows, at in reference._columns(c)])
    centred_y = (y - np.repeat(means, np.diff(c.indptr))).astype(dtype)
    for centred, targets, (pattern, rows) in (
        (False, y, (c, full)),
        (True, centred_y, separate(c, X, y)),
    ):
        solved = c.evaluate_tasks(x, targets, U, ridge, threads, centred=centred)
        exact = targets.astype(np.float64)
        squares, V, residual, by_rows = reference.evaluate(pattern, exact, rows @ U, ridge)
        close(solved.squares, squares)
        close(solved.V, V)
        close(solved.residual, residual, TOL if dtype == np.float64 else 1e-5)
        single = 1e-5 if dtype == np.float32 and centred else TOL  # rounded targets have a mean again
        close(solved.by_rows, rows.T @ by_rows, single)
        rhs = rng.standard_normal(V.shape)
        close(solved.factors.solve(rhs, 1), reference.solve_with_factors(pattern, rows @ U, ridge, rhs))
        expected = rows.T @ reference.derivative(pattern, exact, rows @ U, ridge, rows @ dU)
        moved = c.derivative_tasks(x, solved, U, dU, threads, centred=centred)
        close(moved, expected, 10 * TOL if dtype == np.float64 else 1e-4)
        again = c.evaluate_tasks(x, targets, U, ridge, 1, scratch=solved, centred=centred)  # into the same memory
        close(again.V, V)
    close(c.predict_tasks(x, U, V, threads), reference.predict(c, full @ U, V))
    thin = np.array([full[rows].T @ y[at].astype(np.float64) for rows, at in reference._columns(c)])
    close(c.features_of_tasks(x, y, threads), thin.reshape(c.shape[1], full.shape[1]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, kind):
    c = SHAPES[shape]()
    check(c, features(c.shape[0], 11, kind), 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [1, 2, 4, 5, 8, 9, 13, 20, 33, 40, 70, 100, 128, 150])
def test_ranks(rank, dtype):
    c = SHAPES["several tasks"]()
    check(c, features(90, 17, "dense"), rank, dtype)
    check(c, features(90, 17, "sparse"), rank, dtype)


@pytest.mark.parametrize("d", [1, 7, 8, 9, 64])
def test_numbers_of_features(d):
    c = SHAPES["several tasks"]()
    for kind in ("dense", "sparse"):
        check(c, features(90, d, kind), 4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_number_of_threads_does_not_change_a_bit(kind):
    c = tasks_of(np.arange(2000) % 50, 50_000)
    X = features(50_000, 20, kind)
    rng = np.random.default_rng(0)
    y, ridge = rng.standard_normal(c.entries), np.ones(2000)
    U, dU = rng.standard_normal((2, 20, 6))
    x = rows_of(X)

    def results(threads):
        solved = c.evaluate_tasks(x, y, U, ridge, threads, centred=True)
        yield from (np.array(solved.squares), solved.V, solved.residual, solved.by_rows)
        yield c.derivative_tasks(x, solved, U, dU, threads, centred=True)
        yield from (c.predict_tasks(x, U, solved.V, threads), c.features_of_tasks(x, y, threads))

    one = [a.tobytes() for a in results(1)]
    for threads in (2, 3):
        assert [a.tobytes() for a in results(threads)] == one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones((3, 2))}, "features of every row"),
        ({"X": np.ones((4, 2), dtype=np.float32)}, "must be float64"),
        ({"y": np.ones(2)}, "one value for every entry"),
        ({"U": np.ones((3, 1))}, "wrong shape"),
        ({"U": np.ones((2, 0))}, "rank must be between"),
        ({"ridge": np.ones(3)}, "one ridge for every column"),
    ],
)
def test_wrong_shapes_are_refused(change, message):
    a = {"X": np.ones((4, 2)), "y": np.ones(3), "U": np.ones((2, 1)), "ridge": np.ones(2)} | change
    with pytest.raises(ValueError, match=message):
        tasks_of([2, 1], 4).evaluate_tasks(rows_of(a["X"]), a["y"], a["U"], a["ridge"], 1)


def test_a_shape_beyond_all_memory():
    """Found by the fuzzer: one more than the number of rows was one too many for it."""
    with pytest.raises(ValueError, match="the shape is out of range"):
        _native.Features(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0), 2**63 - 1, 1)
