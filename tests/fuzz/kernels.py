"""The compiled kernels on random patterns, numbers, threads and instruction sets.

Tame numbers give what the NumPy twins give. Wild ones, of any size and not always numbers, give something, and the same
bits for any number of threads. Arguments of a wrong type, shape or range are refused by a sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from rslm import kernels
from rslm.kernels import LANES, Columns, Factors, FeatureRows, _native, bound, reference

EPS = np.finfo(float).eps
KINDS = ("tame", "wild", "wrong")
BOXES = [
    (-0.75, 1.0, False, 0.0, 0.0),
    (-1.0, 1.0, False, 0.25, 0.0),
    (0.0, 1.0, True, 0.0, 0.0),
    (-1.0, 0.5, False, 0.0, 0.5),
]
BOXES += [(-1.0, 1.0, False, 0.25, 1e-6), (0.0, np.inf, True, 0.0, 0.5), (-np.inf, np.inf, False, 0.125, 0.5)]


def case(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernels.use_instruction_set(str(rng.choice(kernels.instruction_sets())))
    kind = KINDS[rng.choice(3, p=[0.4, 0.3, 0.3])]
    with np.errstate(all="ignore"), threadpool_limits(1, user_api="blas"):
        problem = Problem(rng, kind == "wild")
        if kind == "wrong":
            check_refusals(problem)
            return
        for name in rng.permutation(list(problem.calls()))[:6]:
            check_threads(problem, name)
        if kind == "tame":
            check_squares(problem)
            check_others(problem)
            check_tasks(problem)
            check_box(problem)
            check_bound(problem)


class Problem:
    """A pattern, and numbers for all kernels on it."""

    def __init__(self, rng: np.random.Generator, wild: bool) -> None:
        self.rng, self.wild = rng, wild
        large = rng.random() < 0.1  # so large that there is work for several threads
        self.rank = rank = int(rng.choice([1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 20, 33, 40, 64, 65, 96, 128]))
        few = 9 if rank > 20 else 40
        rows = int(rng.choice([200, 500])) if large else int(rng.choice([0, 1, 2, 3, 7, 8, 9, 17, 60]))
        columns = int(rng.choice([9, 3 * few] if large else [0, 1, 2, 7, 8, 9, 17, few]))
        self.c = c = self.pattern(rows, columns, large)
        self.dtype = np.dtype(rng.choice(["f8", "f4"]))
        self.y, self.s = (self.numbers(c.entries).astype(self.dtype) for _ in range(2))
        self.weight = np.abs(self.numbers(c.entries)).astype(self.dtype)
        self.weight[rng.random(c.entries) < 0.2] = 0
        self.U, self.dU = (self.numbers(rows, rank) for _ in range(2))
        self.V, self.rhs = (self.numbers(columns, rank) for _ in range(2))
        self.ridge = np.abs(self.numbers(columns)) + 10.0 ** rng.integers(-4, 3)
        self.ridges = self.ridge[:, None] * rng.uniform(0.5, 2.0, (columns, rank))
        self.ridges[rng.random(self.ridges.shape) < 0.1] = np.inf  # these coordinates are held at 0
        self.pinned = bool(rng.random() < 0.5)
        if self.pinned:
            self.ridges[:, -1:] = np.inf
        self.features = int(rng.choice([0, 1, 5, 8, 9, 40]))
        X = self.numbers(rows, self.features)
        self.X = sparse.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0)) if rng.random() < 0.5 else X
        self.coefficients, self.direction = (self.numbers(self.features, rank) for _ in range(2))
        self.box = BOXES[rng.integers(len(BOXES))]
        # c|x|² up to 10: far beyond that it takes thousands of rounds, and the gap says how far they got.
        self.c_of_box = np.minimum(self.ridge, 10.0) / rank
        # Where many stiff bounds meet at a large rank, steps end before the minimum is reached to that accuracy.
        stiff = 1e8 if wild else 1e5 if rank <= 20 else 1e3
        self.stiffness = float(rng.choice([0.3, 1e3, stiff, np.inf]))
        shape = [(), (rows, 1), (1, columns), (rows, columns)][rng.integers(4)]
        self.lower = np.broadcast_to(-np.abs(self.numbers(*shape)), (rows, columns))
        self.upper = np.broadcast_to(np.abs(self.numbers(*shape)), (rows, columns))
        if rng.random() < 0.3:
            self.upper = np.broadcast_to(np.inf, (rows, columns))
        self.threads = int(rng.choice([2, 3, 7, 300]))

    def pattern(self, rows: int, columns: int, large: bool) -> Columns:
        rng = self.rng
        if rng.random() < 0.2:  # no row twice
            ends = np.sort(rng.integers(0, rows + 1, columns + 1))
            return Columns(ends - ends[0], rng.permutation(rows)[: ends[-1] - ends[0]].astype(np.int32), rows)
        most = rows if large else int(rng.choice([0, 1, 3, rows, 2 * rows])) if rows else 0
        counts = rng.integers(0, most + 1, columns)
        counts[rng.random(columns) < 0.2] = 0
        index = rng.integers(0, max(rows, 1), int(counts.sum())).astype(np.int32)
        return Columns(np.concatenate([[0], np.cumsum(counts)]), index, rows)

    def numbers(self, *shape: int) -> Any:
        """Of about 1 if tame; else of any size, some of them not finite."""
        rng = self.rng
        a = rng.standard_normal(shape)
        if not self.wild or rng.random() < 0.3:
            return np.asarray(a)
        way = rng.integers(5)
        if way == 0:
            a = a * 10.0 ** rng.choice([-310, -150, -20, 20, 150, 300])
        elif way == 1:
            a = a * 10.0 ** rng.integers(-200, 200, shape)
        elif way == 2:
            a = a * 0.0
        elif way == 3:
            a = np.where(rng.random(shape) < 0.05, rng.choice([np.inf, -np.inf, np.nan, 1e308, 5e-324], shape), a)
        else:
            a = np.where(rng.random(shape) < 0.5, 0.0, a)
        return np.asarray(a)

    def rows_of_features(self) -> FeatureRows:
        X = self.X
        return FeatureRows(X.data, X.shape, (X.indptr, X.indices)) if sparse.issparse(X) else FeatureRows(X, X.shape)

    def dense_features(self) -> Any:
        return self.X.toarray() if sparse.issparse(self.X) else self.X

    def calls(self) -> dict[str, tuple[Any, list[Any]]]:
        """Every kernel with arguments that fit: results are overwritten, the last one is the number of threads."""
        (rows, columns), rank, n = self.c.shape, self.rank, self.c.entries
        c, x, threads = self.c._native, self.rows_of_features()._native, self.threads

        def out(*shape: int, dtype: Any = np.float64) -> Any:
            return np.full(shape, -7, dtype=dtype)

        V, F, values = out(columns, rank), Factors.scratch(columns, rank).data, out(n, dtype=self.dtype)
        F[:] = 1.0
        by_rows, by_features = out(rows, rank), out(self.features, rank)
        some, i, t = out(n), *(a.astype(np.int64) for a in self.c.places())
        empty, none = np.zeros(columns + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        order = self.rng.permutation(n)
        box = (*self.box[:-1], max(self.box[-1], 1e-3))
        least = int(self.rng.choice([0, 3, 2**62]))
        bounds = [
            self.U,
            self.V.copy(),
            F,
            self.lower,
            self.upper,
            self.stiffness,
            empty,
            none,
            empty,
            none,
            np.zeros(0),
        ]
        bounds += [
            self.V,
            np.full(columns, -np.inf),
            0.0,
            none,
            out(columns),
            out(columns + 1, dtype=np.int64),
            least,
            threads,
        ]
        numbers, rounds = out(columns), out(columns, dtype=np.int32)
        grams, by_columns = out(columns, rank, rank), out(columns, self.features)
        solve_box = [
            self.y,
            self.U,
            self.c_of_box,
            *self.box,
            self.s,
            values,
            V,
            numbers,
            numbers.copy(),
            rounds,
            threads,
        ]
        return {
            "evaluate": (c.evaluate, [self.y, None, self.U, self.ridge, False, False, V, F, values, by_rows, threads]),
            "evaluate with ridges": (
                c.evaluate,
                [self.y, self.weight, self.U, self.ridges, self.pinned, False, V, F, values, by_rows, threads],
            ),
            "evaluate in single precision": (
                c.evaluate,
                [self.y, self.weight, self.U, self.ridges, self.pinned, True, V, F, values, by_rows, threads],
            ),
            "regress": (c.regress, [self.y, self.weight, self.U, self.ridges, self.pinned, V, F, threads]),
            "residuals": (c.residuals, [self.y, None, self.U, self.V, values, by_rows, threads]),
            "weighted residuals": (c.residuals, [self.y, self.weight, self.U, self.V, values, by_rows, threads]),
            "derivative": (c.derivative, [self.y, None, self.U, False, self.V, F, self.dU, V, by_rows, threads]),
            "weighted": (
                c.derivative,
                [self.y, self.weight, self.U, False, self.V, F, self.dU, None, by_rows, threads],
            ),
            "derivative in single precision": (
                c.derivative,
                [self.y, self.weight, self.U, True, self.V, F, self.dU, V, by_rows, threads],
            ),
            "evaluate_tasks": (
                c.evaluate_tasks,
                [x, True, self.y, self.coefficients, self.ridge, False, V, F, values, by_features, threads],
            ),
            "evaluate_tasks with ridges": (
                c.evaluate_tasks,
                [x, False, self.y, self.coefficients, self.ridges, self.pinned, V, F, values, by_features, threads],
            ),
            "derivative_tasks": (
                c.derivative_tasks,
                [x, True, self.y, self.coefficients, self.V, F, self.direction, by_features, threads],
            ),
            "predict_tasks": (c.predict_tasks, [x, self.coefficients, self.V, some, threads]),
            "features_of_tasks": (c.features_of_tasks, [x, self.y, by_columns, threads]),
            "factorise": (c.factorise, [self.U, self.weight, None, None, self.ridge, F, threads]),
            "factorise with ridges": (c.factorise, [self.U, self.weight, None, None, self.ridges, F, threads]),
            "factorise more": (c.factorise, [self.U, None, c, self.weight, self.ridge, F, threads]),
            "scatter": (c.scatter, [self.y, self.V, by_rows, threads]),
            "gather": (c.gather, [self.y, self.U, V, threads]),
            "grams": (c.grams, [self.U, self.weight, grams, threads]),
            "gram": (c.gram, [self.y, self.U, V, by_rows, threads]),
            "predict": (c.predict, [self.U, self.V, some, threads]),
            "predict_pairs": (_native.predict_pairs, [i, t, self.U, self.V, some, threads]),
            "solve": (_native.solve, [False, F, self.rhs, V, threads]),
            "back_substitute": (_native.solve, [True, F, self.rhs, V, threads]),
            "box": (c.box, solve_box),
            "box_curvature": (_native.box_curvature, [self.y, self.s, order, *box, values, threads]),
            "bound": (_native.bound, bounds),
        }


def check_threads(problem: Problem, name: str) -> None:
    """What a kernel writes and returns does not depend on the number of threads; what it reads stays as it is."""
    call, arguments = problem.calls()[name]
    results = []
    for threads in (1, problem.threads):
        given = [a.copy() if isinstance(a, np.ndarray) and a.flags.writeable else a for a in arguments[:-1]]
        returned = call(*given, threads)
        if name == "bound" and np.isinf(given[15]).all():  # too much beyond the bounds: the rest has no meaning
            given = given[15:17]
        results.append(
            [meant(problem, a).tobytes() for a in [*given, *np.atleast_1d(returned)] if isinstance(a, np.ndarray)]
        )
    assert results[0] == results[1], f"{name} depends on the number of threads"


def meant(problem: Problem, a: Any) -> Any:
    """Without the factors of columns that are not there, which fill up the last eight."""
    groups, triangle = -(-problem.c.shape[1] // LANES), problem.rank * (problem.rank + 1) // 2
    if a.shape != (groups * triangle * LANES,) or not groups:
        return a
    lanes = a.reshape(groups, triangle, LANES).transpose(0, 2, 1).reshape(groups * LANES, triangle)
    return lanes[: problem.c.shape[1]].copy()


# ---- tame numbers: the NumPy twins ----------------------------------------------------------------------------


def largest(a: Any) -> float:
    return float(np.abs(a).max(initial=0.0))


def close(a: Any, b: Any, tolerance: float) -> None:
    assert np.isfinite(a).all()
    assert largest(np.asarray(a) - b) <= tolerance, (largest(np.asarray(a) - b), tolerance)


def scales(c: Columns, U: Any, ridge: Any, weight: Any = None) -> tuple[float, float, float]:
    """Rounding in a solution beside its size, the norm of the inverses, and the most entries of a column."""
    most = float(np.diff(c.indptr).max(initial=0))
    values = np.linalg.eigvalsh(reference.systems(c, U, ridge, weight)) if c.shape[1] else np.ones((1, 1))
    condition = float((values[:, -1] / values[:, 0]).max())
    # A dozen: of the kernel, of the twin, and of sums whose terms cancel.
    return 12 * EPS * (U.shape[1] + most + LANES) * condition, float((1 / values[:, 0]).max()), most


def check_squares(p: Problem) -> None:
    c, threads = p.c, p.threads
    y, u = p.y.astype(np.float64), largest(p.U) * np.sqrt(p.rank)
    unit, inverse, most = scales(c, p.U, p.ridge)
    solved = c.evaluate(p.y, p.U, p.ridge, threads)
    squares, V, residual, by_rows = reference.evaluate(c, y, p.U, p.ridge)
    v = inverse * most * u * largest(y)
    r = largest(y) + u * v
    stored = 2.0**-23 * r if p.dtype == np.float32 else 0.0
    close(solved.V, V, unit * v)
    close(solved.residual, residual, unit * r + stored)
    close(solved.squares, squares, unit * c.entries * r**2)
    close(solved.by_rows, by_rows, unit * c.entries * r * v)
    exact = p.weight.astype(np.float64)
    located = c.evaluate(p.y, p.U, p.ridges, threads, weight=p.weight, pinned=p.pinned)
    expected = reference.evaluate(c, y, p.U, p.ridges, exact, p.pinned)
    least, most_weight = float(p.ridges.min(initial=1.0)), 1.0 + largest(exact)
    own = scales(c, p.U, np.full(c.shape[1], min(least, 1.0)), exact)
    of_v = 1.0 + own[1] * own[2] * u * most_weight * (largest(y) + u)
    close(located.V, expected[1], own[0] * of_v * most_weight)
    close(located.squares, expected[0], own[0] * c.entries * most_weight**2 * (largest(y) + u * of_v) ** 2)
    V, factors = c.regress(p.y, p.U, p.ridge, threads)
    close(V, solved.V, unit * v)
    close(c.residuals(p.y, p.U, solved.V, threads)[2], by_rows, unit * c.entries * r * v)
    close(
        factors.solve(p.rhs, threads),
        reference.solve_with_factors(c, p.U, p.ridge, p.rhs),
        unit * inverse * largest(p.rhs) * p.rank,
    )

    z, d = p.s.astype(np.float64), largest(p.dU) * np.sqrt(p.rank)
    for weight in (None, p.weight):
        w = np.ones(c.entries) if weight is None else weight.astype(np.float64)
        unit, inverse, most = scales(c, p.U, p.ridge, w)
        factors = c.factorise(p.U, p.ridge, threads, weight)
        v, top = largest(p.V) * np.sqrt(p.rank), max(largest(w), 1.0)
        dv = inverse * most * d * (largest(z) + u * top * v)
        expected = reference.weighted_derivative(c, z, w, p.U, p.V, p.ridge, p.dU)
        size = c.entries * (top * (d * v + u * dv) * v + largest(z) * dv)
        close(c.weighted_derivative(p.s, weight, p.U, p.V, factors, p.dU, threads), expected, unit * size)
        none = np.zeros(c.shape[1])
        close(c.grams(p.U, threads, weight), reference.systems(c, p.U, none, w), unit * most * u**2 * top)


def check_others(p: Problem) -> None:
    c, y, size = p.c, p.y.astype(np.float64), 8 * EPS * (p.c.entries + p.rank)
    u, v = largest(p.U) * np.sqrt(p.rank), largest(p.V) * np.sqrt(p.rank)
    close(c.scatter(p.y, p.V, p.threads), reference.scatter(c, y, p.V), size * c.entries * v * largest(y))
    close(c.gather(p.y, p.U, p.threads), reference.gather(c, y, p.U), size * c.entries * u * largest(y))
    close(c.gram(p.y, p.U, p.threads), reference.gram(c, y, p.U), size * c.entries**2 * u * largest(y) ** 2)
    close(c.predict(p.U, p.V, p.threads), reference.predict(c, p.U, p.V), size * u * v)


def check_tasks(p: Problem) -> None:
    c, X, x, y = p.c, p.dense_features(), p.rows_of_features(), p.y.astype(np.float64)
    U = X @ p.coefficients
    unit, inverse, most = scales(c, U, p.ridge)
    unit *= 1 + p.features
    solved = c.evaluate_tasks(x, p.y, p.coefficients, p.ridge, p.threads)
    V = reference.evaluate(c, y, U, p.ridge)[1]
    close(solved.V, V, unit * inverse * most * largest(U) * p.rank * largest(y))
    close(
        c.predict_tasks(x, p.coefficients, p.V, p.threads),
        reference.predict(c, U, p.V),
        unit * (1 + largest(U)) * largest(p.V) * p.rank,
    )
    close(c.features_of_tasks(x, p.y, p.threads), reference.gather(c, y, X), unit * most * largest(X) * largest(y))


def check_box(p: Problem) -> None:
    c, y, s, error = p.c, p.y.astype(np.float64), p.s.copy(), np.empty_like(p.s)
    found = c.solve_box(p.y, p.U, p.c_of_box, p.box, s, error, p.threads)
    implied, primal, dual = reference.box_values(c, y, p.U, p.c_of_box, p.box, s.astype(np.float64), found.V)
    size = 1e-9 if p.dtype == np.float64 else 1e-4  # s is stored rounded
    assert (found.gap >= 0).all()
    close(found.value, primal, 1e-9 * (1 + largest(primal)))
    close(found.V, implied, size * (1 + c.entries * largest(p.c_of_box) * largest(p.U) * (1 + largest(s))))
    assert (dual <= primal + 1e-9 * (1 + largest(primal))).all()
    if p.dtype == np.float64:
        assert (primal - dual <= found.gap + 1e-9 * (1 + largest(primal))).all()


def check_bound(p: Problem) -> None:
    c = p.c
    factors = c.factorise(p.U, p.ridge, p.threads)
    b = bound(p.U, p.V, factors, p.lower, p.upper, p.stiffness, p.threads)
    W, M = p.U @ b.V.T, reference.systems(c, p.U, p.ridge)
    beyond = W - np.clip(W, p.lower, p.upper)
    settled = b.excess == 0
    assert np.isfinite(b.V).all()
    scale = 1 + largest(W) + largest(p.U @ p.V.T)
    before = p.U @ p.V.T
    inside = ((before >= p.lower) & (before <= p.upper)).all(axis=0)
    close(b.V[inside], p.V[inside], 0.0)
    if p.stiffness == np.inf:
        assert largest(beyond[:, settled]) <= 1e-9 * scale
        return
    assert settled.all()
    gradient = np.einsum("tkl,tl->tk", M, b.V - p.V) + p.stiffness * beyond.T @ p.U
    curved = M + p.stiffness * np.einsum("jt,jk,jl->tkl", beyond != 0, p.U, p.U, optimize=True)
    step = np.linalg.solve(curved, gradient[:, :, None])
    assert largest(step) <= 1e-6 * (largest(b.V) + largest(p.V))


# ---- wrong arguments -------------------------------------------------------------------------------------------


def check_refusals(problem: Problem) -> None:
    rng, c = problem.rng, problem.c
    calls = problem.calls()
    calls["columns"] = (_native.Columns, [c.indptr, c.index, c.shape[0]])
    X = problem.X
    if sparse.issparse(X):
        given = [X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, *X.shape]
    else:
        given = [None, None, X.reshape(-1), *X.shape]
    calls["features"] = (_native.Features, given)
    for name in rng.permutation(list(calls))[:8]:
        call, arguments = calls[name]
        given = [a.copy() if isinstance(a, np.ndarray) and a.flags.writeable else a for a in arguments]
        at = int(rng.integers(len(given)))
        given[at] = spoilt(rng, given[at])
        try:
            call(*given)
        except (ValueError, TypeError) as refusal:
            said = str(refusal)
        else:
            continue
        assert len(said) > 10, f"{name} says nothing of argument {at}: {said!r}"


def spoilt(rng: np.random.Generator, a: Any) -> Any:
    """Something of another type, shape, layout or range; some of it may still be right."""
    others = [
        None,
        "2",
        1.5,
        [],
        np.zeros(0),
        np.zeros((0, 0)),
        np.float64(3.0),
        np.zeros(3, dtype=object),
        -1,
        0,
        True,
    ]
    if rng.random() < 0.2:
        return others[rng.integers(len(others))]
    if isinstance(a, bool) or a is None:
        return others[rng.integers(len(others))]
    if isinstance(a, int):
        return [0, -1, 1, 10**6, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**100][rng.integers(11)]
    if isinstance(a, float):
        return [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, 5e-324][rng.integers(7)]
    if not isinstance(a, np.ndarray):
        return others[rng.integers(len(others))]
    way = rng.integers(10)
    if way == 0:
        return a[:-1]
    if way == 1:
        return np.concatenate([a, a[:1]]) if len(a) else np.zeros((1, *a.shape[1:]), a.dtype)
    if way == 2:
        return a[..., None]
    if way == 3:
        return a.reshape(-1)
    if way == 4:
        return a.astype(rng.choice(["i8", "i4", "f4", "f2", "c16", "?", ">f8", ">i8", "u1"]))
    if way == 5:
        return np.repeat(a, 2, axis=0)[::2]
    if way == 6:
        return np.asfortranarray(a)[::-1]
    if way == 7:
        b = a.copy()
        b.flags.writeable = False
        return b
    if way == 8:
        return a.T if a.ndim > 1 else a[::-1]
    if a.size and a.flags.writeable:  # a number that is out of range
        extremes = (
            [np.iinfo(a.dtype).min, np.iinfo(a.dtype).max, -1] if a.dtype.kind in "iu" else [np.nan, np.inf, -1e308]
        )
        a.reshape(-1)[rng.integers(a.size)] = extremes[rng.integers(3)]
    return a
