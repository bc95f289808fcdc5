"""The compiled kernels against their NumPy twins, on every instruction set of this machine."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rslm import kernels
from rslm.kernels import Columns, Factors, Piece, box_curvature, padded, predict_pairs, reference

RANKS = [1, 2, 3, 5, 8, 10, 12, 16, 17, 20, 24, 31, 32, 33, 40, 64, 65, 100, 128, 129, 200, 300]

# The systems below have condition numbers under 100: rounding, about rank × condition × 2⁻⁵³, stays below 2e-12.
DOUBLE = 1e-11
# Sums of dozens of products in single precision, each rounded by 2⁻²⁴, and systems with condition numbers under 100.
COARSE = 1e-5
# Values in single precision are rounded once when they are stored, by at most 2⁻²⁴ = 6e-8 of themselves.
SINGLE = 1e-7

# (lower, upper, mirrored, ε, δ); all ends are numbers of single precision, so that rounding keeps s in its box
BOXES = {
    "kinks": (-0.75, 1.0, False, 0.0, 0.0),
    "kinks and ε": (-1.0, 1.0, False, 0.25, 0.0),
    "mirrored": (0.0, 1.0, True, 0.0, 0.0),
    "mirrored, with ε": (-0.5, 1.0, True, 0.125, 0.0),
    "rounded": (-1.0, 0.5, False, 0.0, 0.5),
    "hardly rounded, with ε": (-1.0, 1.0, False, 0.25, 1e-6),
    "no end": (0.0, np.inf, True, 0.0, 0.5),
    "no ends": (-np.inf, np.inf, False, 0.125, 0.5),
}


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


def derivatives(c, dtype=np.float64, seed=3):
    """z and the weight of every entry, some of them 0, as they come from a loss."""
    rng = np.random.default_rng(seed)
    z, weight = rng.normal(size=c.entries), rng.uniform(0, 2, c.entries)
    weight[rng.random(c.entries) < 0.2] = 0
    return z.astype(dtype), weight.astype(dtype)


def newton_steps(c, U, z, weight, V, ridge, entries):
    """Steps, decrements and factors of all columns, and the products with the steps, in pieces of so many entries."""
    x, factors = padded(U), Factors.scratch(*V.shape)
    step, decrement, product = np.full(V.shape, np.nan), np.full(len(V), np.nan), np.full(c.entries, np.nan)
    for piece in c.pieces(entries):
        active = np.ones(piece.last - piece.first, dtype=np.uint8)
        c.newton_step(piece, active, x, z, weight, V, ridge, factors, step, decrement)
        c.products(piece, active, x, step, product[piece.entries])
    return step, decrement, factors, product


def check_box(c, y, U, weight, box, threads=2):
    start = np.random.default_rng(4).normal(size=c.entries).astype(y.dtype)  # some of it outside the box
    s, error = start.copy(), np.full_like(start, np.nan)
    found = c.solve_box(y, U, weight, box, s, error, threads)
    assert_close(error + c.predict(U, found.V, 1), y, DOUBLE if y.dtype == np.float64 else SINGLE)
    if box[-1] > 0:
        order = np.random.default_rng(5).permutation(c.entries)
        expected = reference.box_curvature(y.astype(np.float64), error.astype(np.float64), box)
        np.testing.assert_array_equal(box_curvature(y, error, box, threads), expected.astype(y.dtype))
        np.testing.assert_array_equal(box_curvature(y, error, box, threads, order), expected[order].astype(y.dtype))
    exact = s.astype(np.float64)
    implied, primal, dual = reference.box_values(c, y.astype(np.float64), U, weight, box, exact, found.V)
    # V comes from s before it is rounded; here it is the sum of dozens of rounded ones.
    assert_close(found.V, implied, DOUBLE if y.dtype == np.float64 else 10 * SINGLE)
    assert_close(found.value, primal, DOUBLE)
    # Rounding an s to single precision changes the dual value by its square only: what is free has slope 0.
    assert_close(dual, primal, DOUBLE)
    assert (found.gap >= 0).all()
    assert found.gap.max(initial=0) <= DOUBLE * primal.max(initial=0)
    assert (found.rounds < 500).all()  # it did not just give up


def check_all(c, rank, dtype=np.float64, threads=2, change=lambda U: U):
    y, U, ridge, dU = numbers(c, rank, dtype)
    U = change(U)
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

    if rank <= kernels.WIDTH:  # arithmetic in single precision, weighted and not
        short, weight = y.astype(np.float32), np.random.default_rng(6).uniform(0, 2, c.entries)
        for weights in (None, weight):
            rough = c.evaluate(short, U, ridge, threads, weight=weights, single=True)
            for found, expected in zip(
                (rough.squares, rough.V, rough.residual, rough.by_rows),
                reference.evaluate(c, exact, U, ridge, weights),
                strict=True,
            ):
                assert_close(found, expected, COARSE)
            assert_close(
                c.derivative(rough, U, dU, threads, weights, single=True),
                reference.derivative(c, exact, U, ridge, dU, weights),
                10 * COARSE,
            )

    rhs = np.random.default_rng(2).normal(size=V.shape)
    solution = reference.solve_with_factors(c, U, ridge, rhs)
    assert_close(s.factors.solve(rhs, threads), solution, DOUBLE)
    factors = c.factorise(U, ridge, threads)
    assert_close(factors.solve(rhs, threads), solution, DOUBLE)
    assert_close(factors.back_substitute(rhs, threads), reference.back_substitute(c, U, ridge, rhs), DOUBLE)

    # Weighted kernels: what is stored in single precision is given as such, so nothing is lost here.
    z, weight = derivatives(c, dtype)
    z64, weight64 = z.astype(np.float64), weight.astype(np.float64)
    factors = c.factorise(U, ridge, threads, weight)
    assert_close(factors.solve(rhs, threads), reference.solve_with_factors(c, U, ridge, rhs, weight64), DOUBLE)
    assert_close(
        c.weighted_derivative(z, weight, U, rhs, factors, dU, threads),
        reference.weighted_derivative(c, z64, weight64, U, rhs, ridge, dU),
        10 * DOUBLE,
    )
    assert_close(c.scatter(z, rhs, threads), reference.scatter(c, z64, rhs), DOUBLE)
    assert_close(c.gather(z, U, threads), reference.gather(c, z64, U), DOUBLE)
    none = np.zeros(c.shape[1])
    assert_close(c.grams(U, threads), reference.systems(c, U, none), DOUBLE)
    assert_close(c.grams(U, threads, weight), reference.systems(c, U, none, weight64), DOUBLE)
    step, decrement, factors, product = newton_steps(c, U, z, weight, rhs, ridge, entries=100)
    expected, expected_decrement = reference.newton_step(c, U, z64, weight64, rhs, ridge)
    assert_close(step, expected, DOUBLE)
    assert_close(decrement, expected_decrement, DOUBLE)
    assert_close(factors.solve(rhs, threads), reference.solve_with_factors(c, U, ridge, rhs, weight64), DOUBLE)
    for piece in c.pieces(100):
        assert_close(product[piece.entries], reference.products(c, piece, U, step), DOUBLE)
    np.testing.assert_array_equal(padded(U), reference.padded(U, padded(U).shape[1]))
    names = list(BOXES)
    check_box(c, y, U, 2 / ridge, BOXES[names[rank % len(names)]], threads)

    assert_close(c.gram(y, dU, threads), reference.gram(c, exact, dU), DOUBLE)
    prediction = reference.predict(c, U, V)
    assert_close(c.predict(U, V, threads), prediction, DOUBLE)
    t = np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))
    assert_close(predict_pairs(c.index, t, U, V, threads), prediction, DOUBLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", RANKS)
def test_ranks(rank, dtype):
    check_all(mixed(), rank, dtype)


def apart(rows, columns):
    """Every row but the last three in one column, as the rows of tasks are."""
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.sort(rng.integers(0, rows - 3, size=columns - 1)), [rows - 3]])
    return Columns(indptr, rng.permutation(rows)[: rows - 3].astype(np.int32), rows)


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
    "many more columns than rows": lambda: pattern(3, [1, 2, 3, 0] * 50),
    "few entries a column": lambda: pattern(40, [1, 2, 3, 4] * 5),
    "rows that recur in a column": lambda: pattern(4, [9, 17, 0, 5, 30]),
    "nothing in the last columns": lambda: pattern(20, [5, 20, 8] + [0] * 15),
    "nothing in the first columns": lambda: pattern(20, [0] * 15 + [5, 20, 8]),
    "all in one column": lambda: pattern(200, [0] * 9 + [200] + [0] * 9),
    "one entry beyond eight": lambda: pattern(40, [9, 17, 25, 33, 23, 24, 25, 15]),
    "no row twice": lambda: apart(90, 40),
    "no row twice, many shards": lambda: apart(1000, 500),
    "32-bit indptr": lambda: pattern(20, [5, 20, 8], dtype=np.int32),
}


@pytest.mark.parametrize("rank", [1, 4, 5, 8, 20, 30, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, rank):
    check_all(SHAPES[shape](), rank, threads=3)


def doubled(U):
    """Every second row like the one before, and one of them the other way round."""
    U = U.copy()
    U[1::2] = U[: 2 * (len(U) // 2) : 2]
    U[1:2] *= -1
    return U


ROWS = {
    "rows alike": doubled,
    "some rows zero": lambda U: np.where(np.arange(len(U))[:, None] % 3 == 0, 0.0, U),
    "all rows zero": np.zeros_like,
    "all rows along one line": lambda U: U[:, :1] * np.ones(U.shape[1]) / U.shape[1],
    "some columns zero": lambda U: U * (np.arange(U.shape[1]) % 2),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [1, 4, 17, 20])
@pytest.mark.parametrize("rows", ROWS)
def test_rows_that_are_special(rows, rank, dtype):
    check_all(mixed(20), rank, dtype, change=ROWS[rows])
    check_all(pattern(4, [9, 17, 0, 5, 30]), rank, dtype, change=ROWS[rows])


@pytest.mark.parametrize("rank", [1, 3, 8, 17, 50])
@pytest.mark.parametrize("box", BOXES)
def test_boxes(box, rank):
    c = mixed()
    y, U, _, _ = numbers(c, rank)
    for weight in (0.01, 1.0, 100.0):
        check_box(c, y, U, np.full(c.shape[1], weight), BOXES[box])


def test_a_start_at_the_solution_stays_there():
    c = mixed()
    y, U, ridge, _ = numbers(c, 10)
    for box in BOXES.values():
        s, error = np.zeros(c.entries), np.zeros(c.entries)
        first = c.solve_box(y, U, 1 / ridge, box, s, error, 1)
        again = c.solve_box(y, U, 1 / ridge, box, s, error, 1)
        assert_close(again.V, first.V, DOUBLE)
        assert (again.rounds <= 2).all()


@pytest.mark.parametrize("entries", [1, 7, 100, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_are_all_columns_once(shape, entries):
    c = SHAPES[shape]()
    pieces = c.pieces(entries)
    columns = [t for piece in pieces for t in range(piece.columns.start, piece.columns.stop)]
    assert columns == list(range(c.shape[1]))
    assert [k for piece in pieces for k in range(piece.entries.start, piece.entries.stop)] == list(range(c.entries))
    for piece in pieces:
        assert piece.first < piece.last
        assert piece.columns.start == 8 * piece.first
        assert piece.entries == slice(c.indptr[piece.columns.start], c.indptr[piece.columns.stop])


def test_only_active_groups_are_touched():
    c = pattern(20, [7] * 29)  # four groups, the last one with five columns
    _, U, ridge, V = *numbers(c, 5)[:3], np.random.default_rng(2).normal(size=(29, 5))
    z, weight = derivatives(c)
    (piece,) = c.pieces(10**6)
    x, factors = padded(U), Factors.scratch(29, 5)
    factors.data[:] = np.nan
    step, decrement, product = np.full((29, 5), np.nan), np.full(29, np.nan), np.full(c.entries, np.nan)
    active = np.array([0, 1, 0, 1], dtype=np.uint8)
    c.newton_step(piece, active, x, z, weight, V, ridge, factors, step, decrement)
    c.products(piece, active, x, V, product)
    touched = np.repeat(active, 8)[:29] > 0
    for result in (step[:, 0], step[:, 4], decrement, factors.solve(V, 1)[:, 0], product.reshape(29, 7)[:, 3]):
        np.testing.assert_array_equal(np.isfinite(result), touched)
    assert_close(step[touched], reference.newton_step(c, U, z, weight, V, ridge)[0][touched], DOUBLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [3, 10, 40])
def test_the_number_of_threads_does_not_change_a_bit(rank, dtype):
    # Threads are started for half a million multiplications each, and scattering is `rank` a number.
    c = pattern(60, np.random.default_rng(5).integers(0, 60, size=900))
    few = pattern(60, np.random.default_rng(5).integers(0, 60, size=400))  # each of them is many multiplications
    assert c.shard_count > 3  # or there is nothing to share
    y, U, ridge, dU = numbers(c, rank, dtype)
    V = np.random.default_rng(2).normal(size=(c.shape[1], rank))
    t = np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))
    z, weight = derivatives(c, dtype)

    def results(threads):
        s = c.evaluate(y, U, ridge, threads)
        yield from (np.array(s.squares), s.V, s.residual, s.by_rows, s.factors.solve(V, threads))
        yield c.derivative(s, U, dU, threads)
        factors = c.factorise(U, ridge, threads)
        yield from (factors.solve(V, threads), factors.back_substitute(V, threads))
        factors = c.factorise(U, ridge, threads, weight)
        yield from (factors.solve(V, threads), c.weighted_derivative(z, weight, U, V, factors, dU, threads))
        yield from (c.scatter(z, V, threads), c.gather(z, U, threads), c.grams(U, threads, weight))
        # Pieces are what threads share here.
        step, decrement, factors, product = newton_steps(c, U, z, weight, V, ridge, entries=10**6 // threads**3)
        yield from (step, decrement, factors.solve(V, threads), product)
        for box in (BOXES["mirrored, with ε"], BOXES["rounded"]):
            dual, error = np.zeros(few.entries, dtype), np.zeros(few.entries, dtype)
            found = few.solve_box(y[: few.entries], U, 1 / ridge[:400], box, dual, error, threads)
            yield from (dual, error, found.V, found.value, found.gap, found.rounds)
        yield from (c.gram(y, dU, threads), c.predict(U, V, threads), predict_pairs(c.index, t, U, V, threads))

    one = [a.tobytes() for a in results(1)]
    for threads in (2, 3):
        assert [a.tobytes() for a in results(threads)] == one


def test_threads_may_sum_into_one_place_where_no_row_is_in_two_columns():
    c = apart(200_000, 5000)
    y, U, ridge, dU = numbers(c, 7)
    one, two = c.evaluate(y, U, ridge, 1), c.evaluate(y, U, ridge, 2)
    np.testing.assert_array_equal(one.by_rows, two.by_rows)
    np.testing.assert_array_equal(c.derivative(one, U, dU, 1), c.derivative(two, U, dU, 2))
    t = np.repeat(np.arange(5000), np.diff(c.indptr))
    expected = np.zeros_like(U)
    expected[c.index] = one.residual[:, None] * one.V[t]
    assert_close(two.by_rows, expected, DOUBLE)


@pytest.mark.parametrize("rank", [1, 3, 10, 17, 40])
def test_derivative_is_minus_that_of_by_rows(rank):
    c = mixed()
    y, U, ridge, dU = numbers(c, rank)
    h = 1e-5  # truncation about h² = 1e-10, rounding about 1e-16 / h = 1e-11
    after, before = (c.evaluate(y, U + step * dU, ridge, 1).by_rows for step in (h, -h))
    derivative = c.derivative(c.evaluate(y, U, ridge, 1), U, dU, 1)
    assert_close((before - after) / (2 * h), derivative, 1e-7)


@pytest.mark.parametrize("rank", [1, 3, 10, 17, 40])
def test_weighted_derivative_is_minus_that_of_scatter(rank):
    """With the loss log cosh(y − w), whose regressions are found by Newton's method."""
    c = mixed()
    y, U, ridge, dU = numbers(c, rank)
    t = np.repeat(np.arange(c.shape[1]), np.diff(c.indptr))

    def solve(U):
        V = np.zeros((c.shape[1], rank))
        for _ in range(30):
            z = np.tanh(y - np.einsum("ek,ek->e", U[c.index], V[t]))
            step, _, factors, _ = newton_steps(c, U, z, 1 - z**2, V, ridge, entries=10**6)
            V = V + step
        return V, z, factors

    def by_rows(U):
        V, z, _ = solve(U)
        return c.scatter(z, V, 1)

    h = 1e-5  # truncation about h² = 1e-10, rounding about 1e-16 / h = 1e-11
    V, z, factors = solve(U)
    derivative = c.weighted_derivative(z, 1 - z**2, U, V, factors, dU, 1)
    assert_close((by_rows(U - h * dU) - by_rows(U + h * dU)) / (2 * h), derivative, 1e-7)


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize(("columns", "rank"), [(1, 1), (8, 3), (21, 10)])
def test_factors_of_systems_that_are_given(columns, rank, singular):
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((columns, rank, rank))
    systems = roots @ roots.transpose(0, 2, 1)
    if singular:  # to rounding errors, which Cholesky's method may not survive
        systems[0] = np.outer(roots[0, 0], roots[0, 0])
    rhs = np.einsum("tkl,tl->tk", systems, rng.standard_normal((columns, rank)))
    found = Factors.of(systems, 2).solve(rhs, 2)
    np.testing.assert_allclose(np.einsum("tkl,tl->tk", systems, found), rhs, atol=1e-7 * np.abs(rhs).max())


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
    del [np.full(n, np.nan) for n in range(128, 3000, 64) for _ in range(10)][:]
    z, weight = derivatives(c)
    factors = c.factorise(U, ridge, 1, weight)
    assert np.isfinite(c.weighted_derivative(z, weight, U, s.V, factors, dU, 1)).all()
    assert_close(c.scatter(z, s.V, 1), reference.scatter(c, z, s.V), DOUBLE)
    step, decrement, _, product = newton_steps(c, U, z, weight, s.V, ridge, 100)
    assert all(np.isfinite(a).all() for a in (step, decrement, product))
    check_box(c, y, U, 1 / ridge, BOXES["kinks and ε"])


def test_room_is_used_again():
    c = mixed()
    y, U, ridge, dU = numbers(c, 10)
    first = c.evaluate(y, dU, ridge, 1)
    fresh, again = c.evaluate(y, U, ridge, 1), c.evaluate(y, U, ridge, 1, scratch=first)
    assert again.residual is first.residual
    assert again.factors is first.factors
    np.testing.assert_array_equal(again.residual, fresh.residual)
    np.testing.assert_array_equal(again.by_rows, fresh.by_rows)
    weight = derivatives(c)[1]
    other = c.factorise(U, ridge, 1, weight)
    assert c.factorise(U, ridge, 1, weight, scratch=first.factors) is first.factors
    np.testing.assert_array_equal(first.factors.solve(fresh.V, 1), other.solve(fresh.V, 1))
    assert c.factorise(U[:, :9], ridge, 1, weight, scratch=first.factors) is not first.factors


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
    t = c.by_rows
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
    "too few ridges": ({"ridge": np.ones(1)}, "one ridge for every column"),
    "values of two dimensions": ({"y": np.ones((3, 1))}, None),
    "one ridge": ({"ridge": 1.0}, None),
    "a fraction of a thread": ({"threads": 1.5}, None),
}


@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_kinks_that_are_hardly_rounded_at_a_large_rank(epsilon):
    """δ is 1e-9 of c|x|²: Newton's method in v does not get there, and must not undo what has been found in s."""
    rng = np.random.default_rng(0)
    U, y = rng.standard_normal((266, 40)), rng.standard_normal(266)
    c, s = pattern(266, [266]), rng.standard_normal(266)
    found = c.solve_box(y, U, np.array([10.0]), (-1.0, 1.0, False, epsilon, 1e-6), s, np.empty(266), 1)
    assert found.gap[0] <= DOUBLE * found.value[0]
    assert found.rounds[0] < 1000  # 2000 is the end


@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_are_refused(what):
    change, message = WRONG[what]
    c = pattern(4, [1, 2])
    arguments = {"y": np.ones(3), "U": np.ones((4, 2)), "ridge": np.ones(2), "threads": 1} | change
    with pytest.raises(TypeError if message is None else ValueError, match=message):
        c.evaluate(**arguments)


def weighted(c, s, **change):
    ones = {"z": np.ones(3), "weight": np.ones(3), "U": np.ones((4, 2)), "V": s.V, "factors": s.factors}
    return c.weighted_derivative(**ones | {"dU": np.ones((4, 2)), "threads": 1} | change)


def box(c, weight=None, **change):
    ones = {"y": np.ones(3), "U": np.ones((4, 2)), "dual": np.ones(3), "error": np.ones(3), "threads": 1}
    return c.solve_box(**ones | {"box": BOXES["kinks"], "c": np.ones(2) if weight is None else weight} | change)


def newton(c, **change):
    ones = {
        "x": padded(np.ones((4, 2))),
        "z": np.ones(3),
        "weight": np.ones(3),
        "V": np.ones((2, 2)),
        "ridge": np.ones(2),
    }
    out = {"factors": Factors.scratch(2, 2), "step": np.ones((2, 2)), "decrement": np.ones(2)}
    c.newton_step(**{"piece": c.pieces(9)[0], "active": np.ones(1, dtype=np.uint8)} | ones | out | change)


def products(c, **change):
    ones = {
        "active": np.ones(1, dtype=np.uint8),
        "x": padded(np.ones((4, 2))),
        "rows": np.ones((2, 2)),
        "out": np.ones(3),
    }
    c.products(**{"piece": c.pieces(9)[0]} | ones | change)


MISFITS = {
    "curvature, too few errors": lambda _, s: box_curvature(np.ones(3), np.ones(2), BOXES["rounded"], 1),
    "curvature, an order too short": lambda _, s: box_curvature(
        np.ones(3), np.ones(3), BOXES["rounded"], 1, np.arange(2)
    ),
    "curvature, an order beyond": lambda _, s: box_curvature(
        np.ones(3), np.ones(3), BOXES["rounded"], 1, np.arange(1, 4)
    ),
    "curvature of kinks": lambda _, s: box_curvature(np.ones(3), np.ones(3), BOXES["kinks"], 1),
    "derivative at another rank": lambda c, s: c.derivative(s, np.ones((4, 3)), np.ones((4, 3)), 1),
    "derivative along another rank": lambda c, s: c.derivative(s, np.ones((4, 2)), np.ones((4, 3)), 1),
    "derivative, too few rows": lambda c, s: c.derivative(s, np.ones((3, 2)), np.ones((3, 2)), 1),
    "solve, too many columns": lambda _, s: s.factors.solve(np.ones((3, 2)), 1),
    "solve at another rank": lambda _, s: s.factors.solve(np.ones((2, 3)), 1),
    "factorise, too many ridges": lambda c, _: c.factorise(np.ones((4, 2)), np.ones(3), 1),
    "factorise, too few weights": lambda c, _: c.factorise(np.ones((4, 2)), np.ones(2), 1, np.ones(2)),
    "factorise, whole weights": lambda c, _: c.factorise(np.ones((4, 2)), np.ones(2), 1, np.ones(3, dtype=int)),
    "weighted derivative, too few z": lambda c, s: weighted(c, s, z=np.ones(2)),
    "weighted derivative, too few weights": lambda c, s: weighted(c, s, weight=np.ones(2)),
    "weighted derivative, whole weights": lambda c, s: weighted(c, s, weight=np.ones(3, dtype=int)),
    "weighted derivative, too few rows": lambda c, s: weighted(c, s, U=np.ones((3, 2))),
    "weighted derivative, another rank": lambda c, s: weighted(c, s, dU=np.ones((4, 3))),
    "weighted derivative, too many columns": lambda c, s: weighted(c, s, V=np.ones((3, 2))),
    "weighted derivative, small factors": lambda c, s: weighted(c, s, factors=Factors(np.ones(3), 2, 2)),
    "gather, too few values": lambda c, _: c.gather(np.ones(2), np.ones((4, 2)), 1),
    "gather, too few rows": lambda c, _: c.gather(np.ones(3), np.ones((3, 2)), 1),
    "grams, too few weights": lambda c, _: c.grams(np.ones((4, 2)), 1, np.ones(2)),
    "grams, too few rows": lambda c, _: c.grams(np.ones((3, 2)), 1),
    "scatter, too few values": lambda c, _: c.scatter(np.ones(2), np.ones((2, 2)), 1),
    "scatter, whole numbers": lambda c, _: c.scatter(np.ones(3, dtype=int), np.ones((2, 2)), 1),
    "scatter, too many columns": lambda c, _: c.scatter(np.ones(3), np.ones((3, 2)), 1),
    "box, too few targets": lambda c, _: box(c, y=np.ones(2)),
    "box, too few dual variables": lambda c, _: box(c, dual=np.ones(2)),
    "box, whole dual variables": lambda c, _: box(c, dual=np.ones(3, dtype=int)),
    "box, too few rows": lambda c, _: box(c, U=np.ones((3, 2))),
    "box, rank 1025": lambda c, _: box(c, U=np.ones((4, 1025))),
    "box, too many weights": lambda c, _: box(c, weight=np.ones(3)),
    "box without 0": lambda c, _: box(c, box=(0.5, 1.0, False, 0.0, 0.0)),
    "box, the ends exchanged": lambda c, _: box(c, box=(1.0, -1.0, False, 0.0, 0.0)),
    "box, negative ε": lambda c, _: box(c, box=(-1.0, 1.0, False, -0.1, 0.0)),
    "box, negative δ": lambda c, _: box(c, box=(-1.0, 1.0, False, 0.0, -0.1)),
    "box without end, δ = 0": lambda c, _: box(c, box=(0.0, np.inf, True, 0.0, 0.0)),
    "box of NaN": lambda c, _: box(c, box=(np.nan, 1.0, False, 0.0, 0.0)),
    "newton, rows that are not padded": lambda c, _: newton(c, x=np.ones((4, 2))),
    "newton, another rank": lambda c, _: newton(c, V=np.ones((2, 65))),
    "newton, too few z": lambda c, _: newton(c, z=np.ones(2)),
    "newton, too few weights": lambda c, _: newton(c, weight=np.ones(2)),
    "newton, too many ridges": lambda c, _: newton(c, ridge=np.ones(3)),
    "newton, too many decrements": lambda c, _: newton(c, decrement=np.ones(3)),
    "newton, a step too many": lambda c, _: newton(c, step=np.ones((3, 2))),
    "newton, small factors": lambda c, _: newton(c, factors=Factors(np.ones(3), 2, 2)),
    "newton, a flag too many": lambda c, _: newton(c, active=np.ones(2, dtype=np.uint8)),
    "newton, a group too many": lambda c, _: newton(c, piece=Piece(0, 2, slice(0, 2), slice(0, 3))),
    "newton, groups backwards": lambda c, _: newton(c, piece=Piece(1, 0, slice(0, 2), slice(0, 3))),
    "products, rows that are not padded": lambda c, _: products(c, x=np.ones((4, 2))),
    "products, too many columns": lambda c, _: products(c, rows=np.ones((3, 2))),
    "products, too small": lambda c, _: products(c, out=np.ones(2)),
    "products, a flag too few": lambda c, _: products(c, active=np.ones(0, dtype=np.uint8)),
    "padded, one dimension": lambda c, _: padded(np.ones(4)),
    "gram, too many values": lambda c, _: c.gram(np.ones(4), np.ones((4, 2)), 1),
    "gram, too few rows": lambda c, _: c.gram(np.ones(3), np.ones((2, 2)), 1),
    "predict, too many columns": lambda c, _: c.predict(np.ones((4, 2)), np.ones((3, 2)), 1),
    "predict, two ranks": lambda c, _: c.predict(np.ones((4, 2)), np.ones((2, 3)), 1),
}


REFUSALS = (
    r"shape|every entry|needs δ|between 1 and 128|at most 1024|too small|one ridge|one value|float64 or float32"
    r"|one number for every column|must contain 0|must not be negative|without end|one flag|out of range"
    r"|one product|two dimensions"
)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda c, s: weighted(c, s, weight=np.ones((3, 1))),
        lambda c, _: c.scatter(np.ones((3, 1)), np.ones((2, 2)), 1),
        lambda c, _: box(c, weight=1.0),
        lambda c, _: box(c, box=(-1.0, "1", False, 0.0, 0.0)),
        lambda c, _: box(c, dual=read_only(np.ones(3))),
        lambda c, _: newton(c, step=read_only(np.ones((2, 2)))),
        lambda c, _: newton(c, z=None),
        lambda c, _: products(c, out=np.ones(3, dtype=np.float32)),  # a converted copy would take the result
        lambda c, _: products(c, out=np.ones(6)[::2]),
    ],
)
def test_wrong_types_are_refused(misuse):
    c = pattern(4, [1, 2])
    s = c.evaluate(np.ones(3), np.ones((4, 2)), np.ones(2), 1)
    with pytest.raises(TypeError):
        misuse(c, s)


def read_only(a):
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("what", MISFITS)
def test_misfits_are_refused(what):
    c = pattern(4, [1, 2])
    s = c.evaluate(np.ones(3), np.ones((4, 2)), np.ones(2), 1)
    with pytest.raises(ValueError, match=REFUSALS):
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
    with pytest.raises(ValueError, match=f"'mmx' is not available here; there is {kernels.instruction_sets()[0]}"):
        kernels.use_instruction_set("mmx")


@pytest.mark.parametrize("name", [*kernels.instruction_sets(), "mmx", ""])
def test_the_environment_names_an_instruction_set(name, instruction_set):
    if instruction_set != kernels.instruction_sets()[0]:
        pytest.skip("once is enough")
    code = "from rslm import kernels; print(kernels.instruction_set())"
    system = os.environ | {"RSLM_INSTRUCTION_SET": name}
    done = subprocess.run([sys.executable, "-c", code], env=system, capture_output=True, text=True, check=False)
    if name == "mmx":
        assert done.returncode == 1
        said = f"RSLM_INSTRUCTION_SET is 'mmx', and this machine has {kernels.instruction_sets()[0]}"
        assert said in done.stderr
    else:
        assert done.stdout.split() == [name or kernels.instruction_sets()[-1]]


@pytest.mark.parametrize("rank", [2, 9, 33])
def test_systems_that_rounding_makes_indefinite_have_finite_solutions(rank):
    """All rows but a few alike, with weights so large that the ridge is lost in them."""
    rng = np.random.default_rng(0)
    c = pattern(40, [20] * 17)
    U = np.tile(rng.normal(size=rank), (40, 1)) * rng.uniform(0.5, 2.0, (40, 1))
    weight = 10.0 ** rng.uniform(-9, 9, len(c.index))
    b = rng.normal(size=(17, rank))
    for ridge in (1e-12, 1e-30):
        found = c.factorise(U, np.full(17, ridge), 1, weight).solve(b, 1)
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= 10 * np.abs(b).max() / ridge  # no eigenvalue is below the ridge
