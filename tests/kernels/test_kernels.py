"""The compiled kernels against their NumPy twins, on every instruction set of this machine."""

import numpy as np
import pytest

from rslm import kernels
from rslm.kernels import Columns, predict_pairs, reference

RANKS = [1, 2, 3, 5, 8, 10, 12, 16, 17, 20, 24, 31, 32, 33, 40, 64, 65, 100, 128]

# The systems below have condition numbers under 100: rounding, about rank × condition × 2⁻⁵³, stays below 2e-12.
DOUBLE = 1e-11
# Values in single precision are rounded once when they are stored, by at most 2⁻²⁴ = 6e-8 of themselves.
SINGLE = 1e-7


@pytest.fixture(params=kernels.instruction_sets(), autouse=True)
def instruction_set(request):
    default = kernels.instruction_set()
    kernels.use_instruction_set(request.param)
    yield request.param
    kernels.use_instruction_set(default)


def pattern(rows, counts, seed=0, dtype=np.int64):
    """Columns with `counts` entries each, at distinct rows as long as there are enough of them."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(dtype)
    index = [rng.choice(rows, n, replace=n > rows) for n in counts if n]
    return Columns(indptr, np.concatenate([*index, np.empty(0)]).astype(np.int32), rows)


def mixed(rows=50, seed=0):
    """Thirty-three columns: some empty, some full, the rest in between."""
    counts = np.random.default_rng(seed).integers(0, rows + 1, size=33)
    counts[[0, 7, 20]], counts[[3, 32]] = 0, rows
    return pattern(rows, counts, seed)


def numbers(c, rank, dtype=np.float64, seed=1):
    """y, U, ridge, dU"""
    rng = np.random.default_rng(seed)
    U, dU = rng.normal(size=(2, c.shape[0], rank)) / np.sqrt(rank)
    return rng.normal(size=c.entries).astype(dtype), U, rng.uniform(0.5, 2, c.shape[1]), dU


def assert_close(a, b, tolerance):
    """Relative to the largest number of b; where b is zero, so is a."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.isfinite(a).all()
    assert np.abs(a - b).max(initial=0) <= tolerance * np.abs(b).max(initial=0)


def check_all(c, rank, dtype=np.float64, threads=2):
    y, U, ridge, dU = numbers(c, rank, dtype)
    exact = y.astype(np.float64)
    stored = DOUBLE if dtype == np.float64 else SINGLE

    s = c.evaluate(y, U, ridge, threads)
    squares, V, residual, by_rows = reference.evaluate(c, exact, U, ridge)
    assert s.residual.dtype == dtype
    assert_close(s.residual, residual, stored)
    # All the rest comes from the residual before it is rounded.
    assert_close(s.squares, squares, DOUBLE)
    assert_close(s.V, V, DOUBLE)
    assert_close(s.by_rows, by_rows, DOUBLE)
    # The derivative reads the stored residual; it multiplies both signs of it, hence some cancellation.
    assert_close(c.derivative(s, U, dU, threads), reference.derivative(c, exact, U, ridge, dU), 10 * stored)

    rhs = np.random.default_rng(2).normal(size=V.shape)
    solution = reference.solve_with_factors(c, U, ridge, rhs)
    assert_close(s.factors.solve(rhs, threads), solution, DOUBLE)
    assert_close(c.factorise(U, ridge, threads).solve(rhs, threads), solution, DOUBLE)

    assert_close(c.gram(y, dU, threads), reference.gram(c, exact, dU), DOUBLE)
    prediction = reference.predict(c, U, V)
    assert_close(c.predict(U, V, threads), prediction, DOUBLE)
    t = np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))
    assert_close(predict_pairs(c.index, t, U, V, threads), prediction, DOUBLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", RANKS)
def test_ranks(rank, dtype):
    check_all(mixed(), rank, dtype)


SHAPES = {
    "no entries": lambda: pattern(6, [0, 0, 0]),
    "no columns": lambda: pattern(6, []),
    "no rows": lambda: pattern(0, [0, 0]),
    "nothing": lambda: pattern(0, []),
    "one entry": lambda: pattern(7, [0, 1, 0]),
    "one number": lambda: pattern(1, [1]),
    "one row": lambda: pattern(1, [1, 0, 1, 1, 1, 0, 1, 1, 1, 1]),
    "one column": lambda: pattern(30, [20]),
    "one full column": lambda: pattern(30, [30]),
    "eight columns and one": lambda: pattern(20, [9, 3, 8, 16, 1, 0, 7, 20, 17]),
    "seven columns": lambda: pattern(20, [9, 3, 8, 16, 1, 0, 7]),
    "many more rows than columns": lambda: pattern(3000, [40, 2, 9]),
    "many more columns than rows": lambda: pattern(3, [1, 2, 3, 0] * 250),
    "few entries a column": lambda: pattern(40, [1, 2, 3, 4] * 5),
    "rows that recur in a column": lambda: pattern(4, [9, 17, 0, 5, 30]),
    "nothing in the last columns": lambda: pattern(20, [5, 20, 8] + [0] * 15),
    "nothing in the first columns": lambda: pattern(20, [0] * 15 + [5, 20, 8]),
    "all in one column": lambda: pattern(200, [0] * 9 + [200] + [0] * 9),
    "one entry beyond eight": lambda: pattern(40, [9, 17, 25, 33, 23, 24, 25, 15]),
    "32-bit indptr": lambda: pattern(20, [5, 20, 8], dtype=np.int32),
}


@pytest.mark.parametrize("rank", [1, 4, 5, 8, 20, 30, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, rank):
    check_all(SHAPES[shape](), rank, threads=3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [3, 10, 20, 40])
def test_the_number_of_threads_does_not_change_a_bit(rank, dtype):
    c = pattern(60, np.random.default_rng(5).integers(0, 60, size=400))
    assert c.shard_count > 3  # or there is nothing to share
    y, U, ridge, dU = numbers(c, rank, dtype)
    V = np.random.default_rng(2).normal(size=(c.shape[1], rank))
    t = np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))

    def results(threads):
        s = c.evaluate(y, U, ridge, threads)
        yield from (np.array(s.squares), s.V, s.residual, s.by_rows, s.factors.solve(V, threads))
        yield c.derivative(s, U, dU, threads)
        yield c.factorise(U, ridge, threads).solve(V, threads)
        yield from (c.gram(y, dU, threads), c.predict(U, V, threads), predict_pairs(c.index, t, U, V, threads))

    one = [a.tobytes() for a in results(1)]
    for threads in (2, 3):
        assert [a.tobytes() for a in results(threads)] == one


@pytest.mark.parametrize("rank", [1, 3, 10, 17, 40])
def test_derivative_is_minus_that_of_by_rows(rank):
    c = mixed()
    y, U, ridge, dU = numbers(c, rank)
    h = 1e-5  # truncation about h² = 1e-10, rounding about 1e-16 / h = 1e-11
    after, before = (c.evaluate(y, U + step * dU, ridge, 1).by_rows for step in (h, -h))
    derivative = c.derivative(c.evaluate(y, U, ridge, 1), U, dU, 1)
    assert_close((before - after) / (2 * h), derivative, 1e-7)


@pytest.mark.parametrize("rank", RANKS)
def test_what_was_in_memory_before_does_not_matter(rank):
    c = mixed()
    y, U, ridge, dU = numbers(c, rank)
    expected = reference.evaluate(c, y, U, ridge)[3]
    for _ in range(3):
        # Memory that is handed back full of NaN, in the sizes of the kernels' own buffers.
        del [np.full(n, np.nan) for n in range(128, 3000, 64) for _ in range(10)][:]
        s = c.evaluate(y, U, ridge, 1)
        assert_close(s.by_rows, expected, DOUBLE)
        assert np.isfinite(c.derivative(s, U, dU, 1)).all()


def test_room_is_used_again():
    c = mixed()
    y, U, ridge, dU = numbers(c, 10)
    first = c.evaluate(y, dU, ridge, 1)
    fresh, again = c.evaluate(y, U, ridge, 1), c.evaluate(y, U, ridge, 1, room=first)
    assert again.residual is first.residual
    assert again.factors is first.factors
    np.testing.assert_array_equal(again.residual, fresh.residual)
    np.testing.assert_array_equal(again.by_rows, fresh.by_rows)


def test_input_may_have_any_layout():
    c = mixed()
    y, U, ridge, dU = numbers(c, 10)
    s = c.evaluate(y, U, ridge, 1)
    spaced = np.repeat(y, 2)[::2]
    other = c.evaluate(spaced, np.asfortranarray(U), ridge.astype(np.float64)[::-1][::-1], 1)
    np.testing.assert_array_equal(other.by_rows, s.by_rows)
    np.testing.assert_array_equal(other.residual, s.residual)
    np.testing.assert_array_equal(
        c.derivative(s, np.asfortranarray(U), dU[:, ::-1][:, ::-1], 1), c.derivative(s, U, dU, 1)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_transposed(shape):
    c = SHAPES[shape]()
    t = c.transposed()
    assert t.shape == c.shape[::-1]
    assert t.entries == c.entries

    def dense(c):
        counts = np.zeros(c.shape, dtype=int)
        np.add.at(counts, (c.index, np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))), 1)
        return counts

    np.testing.assert_array_equal(dense(t), dense(c).T)


@pytest.mark.parametrize(
    ("indptr", "index", "rows", "message"),
    [
        ([0, 1], [2], 2, "row index is out of range"),
        ([0, 1], [-1], 2, "row index is out of range"),
        ([0, 1], [0], 0, "row index is out of range"),
        ([0, 2, 1], [0], 2, "must not decrease"),
        ([0, -1, 1], [0], 2, "must not decrease"),
        ([1, 1], [0], 2, "from 0 to the number of entries"),
        ([0, 2], [0], 2, "from 0 to the number of entries"),
        ([0, 1], [0, 1], 2, "from 0 to the number of entries"),
        ([], [], 2, "one number more"),
        ([0], [], -1, "number of rows"),
        ([0], [], 2**31, "number of rows"),
    ],
)
def test_patterns_that_are_refused(indptr, index, rows, message):
    with pytest.raises(ValueError, match=message):
        Columns(np.array(indptr, dtype=np.int64), np.array(index, dtype=np.int32), rows)


def test_a_pattern_of_two_dimensions_is_refused():
    with pytest.raises(TypeError):
        Columns(np.zeros((1, 2)), np.zeros(0), 2)


WRONG = {
    "too few values": ({"y": np.ones(2)}, "one value for every entry"),
    "whole numbers as values": ({"y": np.ones(3, dtype=int)}, "float64 or float32"),
    "half precision": ({"y": np.ones(3, dtype=np.float16)}, "float64 or float32"),
    "too few rows": ({"U": np.ones((3, 2))}, "wrong shape"),
    "too many rows": ({"U": np.ones((5, 2))}, "wrong shape"),
    "rank 0": ({"U": np.ones((4, 0))}, "between 1 and 128"),
    "rank 129": ({"U": np.ones((4, 129))}, "between 1 and 128"),
    "too few ridges": ({"ridge": np.ones(1)}, "one ridge for every column"),
    "values of two dimensions": ({"y": np.ones((3, 1))}, None),
    "one ridge": ({"ridge": 1.0}, None),
    "a fraction of a thread": ({"threads": 1.5}, None),
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_are_refused(what):
    change, message = WRONG[what]
    c = pattern(4, [1, 2])
    arguments = {"y": np.ones(3), "U": np.ones((4, 2)), "ridge": np.ones(2), "threads": 1} | change
    with pytest.raises(TypeError if message is None else ValueError, match=message):
        c.evaluate(**arguments)


MISFITS = {
    "derivative at another rank": lambda c, s: c.derivative(s, np.ones((4, 3)), np.ones((4, 3)), 1),
    "derivative along another rank": lambda c, s: c.derivative(s, np.ones((4, 2)), np.ones((4, 3)), 1),
    "derivative, too few rows": lambda c, s: c.derivative(s, np.ones((3, 2)), np.ones((3, 2)), 1),
    "solve, too many columns": lambda _, s: s.factors.solve(np.ones((3, 2)), 1),
    "solve at another rank": lambda _, s: s.factors.solve(np.ones((2, 3)), 1),
    "factorise, rank 129": lambda c, _: c.factorise(np.ones((4, 129)), np.ones(2), 1),
    "factorise, too many ridges": lambda c, _: c.factorise(np.ones((4, 2)), np.ones(3), 1),
    "gram, too many values": lambda c, _: c.gram(np.ones(4), np.ones((4, 2)), 1),
    "gram, too few rows": lambda c, _: c.gram(np.ones(3), np.ones((2, 2)), 1),
    "gram, rank 129": lambda c, _: c.gram(np.ones(3), np.ones((4, 129)), 1),
    "predict, too many columns": lambda c, _: c.predict(np.ones((4, 2)), np.ones((3, 2)), 1),
    "predict, two ranks": lambda c, _: c.predict(np.ones((4, 2)), np.ones((2, 3)), 1),
}


@pytest.mark.parametrize("what", MISFITS)
def test_misfits_are_refused(what):
    c = pattern(4, [1, 2])
    s = c.evaluate(np.ones(3), np.ones((4, 2)), np.ones(2), 1)
    with pytest.raises(ValueError, match=r"shape|between 1 and 128|too small|one ridge|one value"):
        MISFITS[what](c, s)


@pytest.mark.parametrize(
    ("i", "t", "rank", "message"),
    [
        ([4], [0], 2, "out of range"),
        ([0], [2], 2, "out of range"),
        ([-1], [0], 2, "out of range"),
        ([0, 1], [0], 2, "one length"),
        ([0], [0], 3, "one rank"),
    ],
)
def test_pairs_that_are_refused(i, t, rank, message):
    with pytest.raises(ValueError, match=message):
        predict_pairs(np.array(i), np.array(t), np.ones((4, 2)), np.ones((2, rank)), 1)


def test_an_unknown_instruction_set_is_refused():
    with pytest.raises(ValueError, match="not available"):
        kernels.use_instruction_set("mmx")
