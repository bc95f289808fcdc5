"""Kernels with a ridge for every column and coordinate, coordinates that are fixed, and weights of entries.

This is what a location needs: a column effect with a ridge of its own, and row effects in a coordinate that is 1.
"""

import numpy as np
import pytest
from test_kernels import DOUBLE, SINGLE, apart, assert_close, derivatives, mixed, newton_steps, numbers, pattern
from test_task_kernels import features, rows_of, tasks_of

from rslm.kernels import Factors, reference
from rslm.kernels.high_rank import WIDTH

RANKS = [1, 2, 8, 17, 128, 140]


def ridges_of(kind, columns, rank, seed=6):
    """Ridges for every column and coordinate, and whether the last coordinate is pinned."""
    rng = np.random.default_rng(seed)
    ridge = rng.uniform(0.5, 2.0, (columns, rank))
    if kind == "pinned":
        ridge[:, -1] = np.inf
    if kind == "held at 0":
        ridge[:, -1] = np.inf
    if kind == "one in the middle held":
        ridge[:, rank // 2] = np.inf
    if kind == "some held":  # not the same ones in all columns of a group
        ridge[rng.random(ridge.shape) < 0.3] = np.inf
    if kind == "all held":
        ridge[:] = np.inf
    if kind == "an effect without penalty":
        ridge[:, -1] = 0.0
    return ridge, kind == "pinned"


KINDS = ["penalised", "pinned", "held at 0", "one in the middle held", "some held", "all held"]


def check_ridges(c, rank, kind, dtype=np.float64, weighted=True, threads=2):
    y, U, _, dU = numbers(c, rank, dtype)
    ridge, pinned = ridges_of(kind, c.shape[1], rank)
    weight = np.random.default_rng(7).uniform(0.2, 3.0, c.entries).astype(dtype) if weighted else None
    exact = y.astype(np.float64)
    exact_weight = None if weight is None else weight.astype(np.float64)
    stored = DOUBLE if dtype == np.float64 else SINGLE

    s = c.evaluate(y, U, ridge, threads, weight=weight, pinned=pinned)
    squares, V, residual, by_rows = reference.evaluate(c, exact, U, ridge, exact_weight, pinned)
    assert s.residual.dtype == dtype
    assert_close(s.residual, residual, stored)
    assert_close(s.squares, squares, DOUBLE)
    assert_close(s.V, V, DOUBLE)
    assert_close(s.by_rows, by_rows, DOUBLE)
    fixed = np.isinf(ridge)
    np.testing.assert_array_equal(s.V[fixed], np.broadcast_to(float(pinned), fixed.sum()))
    expected = reference.derivative(c, exact, U, ridge, dU, exact_weight, pinned)
    assert_close(c.derivative(s, U, dU, threads, weight), expected, 10 * stored)

    half, factors = c.regress(y, U, ridge, threads, weight=weight, pinned=pinned)
    rhs = np.random.default_rng(2).normal(size=V.shape)
    if rank <= WIDTH:
        np.testing.assert_array_equal(half, s.V)
        np.testing.assert_array_equal(factors.solve(rhs, 1), s.factors.solve(rhs, 1))
    else:  # the two are solved in different ways
        assert_close(half, s.V, DOUBLE)
        assert_close(factors.solve(rhs, 1), s.factors.solve(rhs, 1), DOUBLE)
    rest = c.residuals(y, U, s.V, threads, weight=weight)
    for one, other in zip(rest, (s.squares, s.residual, s.by_rows), strict=True):
        assert_close(one, other, stored)  # the halves add up products in another order than both together
    other = np.random.default_rng(8).normal(size=V.shape)  # any V will do
    found = c.residuals(y, U, other, threads, weight=weight)
    error = exact - reference.predict(c, U, other)
    own = error if exact_weight is None else exact_weight * error
    assert_close(found[0], own @ error, DOUBLE)
    assert_close(found[1], own, stored)
    assert_close(found[2], reference.scatter(c, own, other), DOUBLE)

    solution = reference.solve_with_factors(c, U, ridge, rhs, exact_weight)
    assert_close(s.factors.solve(rhs, threads), solution, DOUBLE)
    assert_close(c.factorise(U, ridge, threads, weight).solve(rhs, threads), solution, DOUBLE)

    z, curvature = derivatives(c, dtype)
    z64, curvature64 = z.astype(np.float64), curvature.astype(np.float64)
    step, decrement, factors, _ = newton_steps(c, U, z, curvature, rhs, ridge, entries=100)
    expected, expected_decrement = reference.newton_step(c, U, z64, curvature64, rhs, ridge)
    assert_close(step, expected, DOUBLE)
    assert_close(decrement, expected_decrement, DOUBLE)
    np.testing.assert_array_equal(step[fixed], 0.0)  # a coordinate that is fixed stays exactly where it is
    moved = c.weighted_derivative(z, curvature, U, rhs, factors, dU, threads)
    assert_close(moved, reference.weighted_derivative(c, z64, curvature64, U, rhs, ridge, dU), 10 * DOUBLE)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("kind", KINDS)
def test_ranks(kind, rank):
    check_ridges(mixed(), rank, kind)


@pytest.mark.parametrize("rank", [1, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind, rank):
    check_ridges(mixed(), rank, kind, np.float32)


SHAPES = {
    "no entries": lambda: pattern(6, [0, 0, 0]),
    "no columns": lambda: pattern(6, []),
    "no rows": lambda: pattern(0, [0, 0]),
    "one number": lambda: pattern(1, [1]),
    "nine columns": lambda: pattern(20, [9, 3, 8, 16, 1, 0, 7, 20, 17]),
    "few entries a column": lambda: pattern(40, [1, 2, 3, 4] * 5),
    "rows that recur in a column": lambda: pattern(4, [9, 17, 0, 5, 30]),
    "no row twice": lambda: apart(90, 40),
}


@pytest.mark.parametrize("kind", ["penalised", "pinned", "some held"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, kind):
    for rank in (1, 9):
        check_ridges(SHAPES[shape](), rank, kind, threads=3)
        check_ridges(SHAPES[shape](), rank, kind, weighted=False, threads=1)


@pytest.mark.parametrize("rank", [1, 2, 5, 9, 20, 128, 140])
def test_an_effect_without_penalty(rank):
    """A ridge of 0 for a coordinate that all entries of a column share; the systems are as well conditioned."""
    c = pattern(50, [1, 7, 50, 20, 3, 9, 33, 2, 16])
    y, U, _, dU = numbers(c, rank)
    U[:, -1], dU[:, -1] = 1.0, 0.0
    ridge, _ = ridges_of("an effect without penalty", c.shape[1], rank)
    weight = np.random.default_rng(7).uniform(0.2, 3.0, c.entries)
    s = c.evaluate(y, U, ridge, 2, weight=weight)
    _, V, _, by_rows = reference.evaluate(c, y, U, ridge, weight)
    assert_close(s.V, V, DOUBLE)
    assert_close(s.by_rows, by_rows, DOUBLE)
    assert_close(np.add.reduceat(s.residual, c.indptr[:-1]) + 1.0, np.ones(c.shape[1]), DOUBLE)  # it takes the means
    assert_close(c.derivative(s, U, dU, 2, weight), reference.derivative(c, y, U, ridge, dU, weight), 10 * DOUBLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [1, 6, 40])
def test_weight_2_is_the_entry_twice(rank, dtype):
    once, twice = pattern(20, [9, 3, 0, 16]), pattern(20, [18, 6, 0, 32])
    order = np.concatenate([np.tile(np.arange(a, b), 2) for a, b in zip(once.indptr, once.indptr[1:], strict=False)])
    twice = type(once)(twice.indptr, once.index[order.astype(int)], 20)
    y, U, ridge, _ = numbers(once, rank, dtype)
    two = once.evaluate(y, U, ridge, 1, weight=np.full(once.entries, 2.0, dtype))
    both = twice.evaluate(y[order.astype(int)], U, ridge, 1)
    assert_close(two.squares, both.squares, 1e-13)
    assert_close(two.V, both.V, 1e-12)
    assert_close(two.by_rows, both.by_rows, 1e-12)


@pytest.mark.parametrize("rank", [1, 2, 7, 20])
def test_pinned_factors_are_set_by_hand(rank):
    """`Factors.pin` sets the inverse of the last diagonal element, where no other coordinate is coupled to it."""
    c = mixed()
    _, U, ridge, _ = numbers(c, rank)
    U[:, -1] = 0.0
    factors, rhs = c.factorise(U, ridge, 1), np.random.default_rng(2).normal(size=(c.shape[1], rank))
    expected = reference.solve_with_factors(c, U, ridge, rhs)
    assert_close(factors.solve(rhs, 1), expected, DOUBLE)
    factors.pin(0.0)
    expected[:, -1] = 0.0
    assert_close(factors.solve(rhs, 1), expected, DOUBLE)
    factors.pin(1.0)
    expected[:, -1] = rhs[:, -1]
    assert_close(factors.solve(rhs, 1), expected, DOUBLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [3, 12])
def test_the_number_of_threads_does_not_change_a_bit(rank, dtype):
    c = pattern(60, np.random.default_rng(5).integers(0, 60, size=900))
    y, U, _, dU = numbers(c, rank, dtype)
    ridge, _ = ridges_of("pinned", c.shape[1], rank)
    rhs = np.random.default_rng(2).normal(size=ridge.shape)
    weight = np.random.default_rng(7).uniform(0.2, 3.0, c.entries).astype(dtype)

    def results(threads):
        s = c.evaluate(y, U, ridge, threads, weight=weight, pinned=True)
        yield from (np.array(s.squares), s.V, s.residual, s.by_rows, s.factors.solve(rhs, 1))
        yield c.derivative(s, U, dU, threads, weight)
        yield c.factorise(U, ridge, threads, weight).solve(rhs, 1)

    one = [a.tobytes() for a in results(1)]
    for threads in (2, 3):
        assert [a.tobytes() for a in results(threads)] == one


def test_memory_of_an_earlier_result_is_used_again():
    c = mixed()
    y, U, _, dU = numbers(c, 10)
    ridge, _ = ridges_of("pinned", c.shape[1], 10)
    weight = np.random.default_rng(7).uniform(0.2, 3.0, c.entries)
    first = c.evaluate(y, dU, ridge, 1, weight=weight, pinned=True)
    fresh = c.evaluate(y, U, ridge, 1, weight=weight, pinned=True)
    again = c.evaluate(y, U, ridge, 1, first, weight=weight, pinned=True)
    assert again.residual is first.residual
    np.testing.assert_array_equal(again.residual, fresh.residual)
    np.testing.assert_array_equal(again.factors.solve(fresh.V, 1), fresh.factors.solve(fresh.V, 1))


TASKS = {
    "several tasks": lambda: tasks_of([9, 3, 8, 16, 1, 0, 7, 20, 17], 90),
    "rows that several tasks share": lambda: tasks_of([9, 3, 8, 16, 1, 0, 7, 20, 17], 20),
    "one row": lambda: tasks_of([1], 1),
    "no tasks": lambda: tasks_of([], 5),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("of_features", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["penalised", "pinned", "some held"])
@pytest.mark.parametrize("shape", TASKS)
def test_tasks(shape, kind, of_features, dtype):
    c = TASKS[shape]()
    X = features(c.shape[0], 11, of_features)
    full = X if of_features == "dense" else X.toarray()
    stored = DOUBLE if dtype == np.float64 else 10 * SINGLE  # the residual is read again as it is stored
    for rank in (1, 9, 128, 140) if shape == "several tasks" else (1, 5):
        rng = np.random.default_rng(2)
        y = rng.standard_normal(c.entries).astype(dtype)
        U, dU = rng.standard_normal((2, 11, rank)) / np.sqrt(rank)
        ridge, pinned = ridges_of(kind, c.shape[1], rank)
        ridge *= 11  # as large as the rows of X U
        solved = c.evaluate_tasks(rows_of(X), y, U, ridge, 2, pinned=pinned)
        exact = y.astype(np.float64)
        squares, V, residual, by_rows = reference.evaluate(c, exact, full @ U, ridge, None, pinned)
        assert_close(solved.squares, squares, DOUBLE)
        assert_close(solved.V, V, DOUBLE)
        assert_close(solved.residual, residual, stored)
        assert_close(solved.by_rows, full.T @ by_rows, DOUBLE)
        expected = full.T @ reference.derivative(c, exact, full @ U, ridge, full @ dU, None, pinned)
        assert_close(c.derivative_tasks(rows_of(X), solved, U, dU, 2), expected, 10 * stored)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": np.ones((2, 3))}, "one ridge for every coordinate"),
        ({"ridge": np.ones((3, 2))}, "one ridge for every column"),
        ({"ridge": np.ones((2, 2, 1))}, "one ridge for every column"),
        ({"weight": np.ones(2)}, "one value for every entry"),
        ({"weight": np.ones(3, dtype=np.int64)}, "incompatible|float"),
    ],
)
def test_wrong_shapes_are_refused(change, message):
    a = {"ridge": np.ones((2, 2)), "weight": np.ones(3)} | change
    with pytest.raises((ValueError, TypeError), match=message):
        pattern(4, [2, 1]).evaluate(np.ones(3), np.ones((4, 2)), a["ridge"], 1, weight=a["weight"])


def test_factors_know_their_size():
    assert Factors.scratch(9, 3).data.shape == (2 * 8 * 6,)
