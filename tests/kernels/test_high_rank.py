"""Ranks above those of the compiled widths: systems that are solved without factors."""

import numpy as np
import pytest

from rslm import kernels
from rslm.kernels import Columns, Unfactored, high_rank, reference
from rslm.kernels.high_rank import rooms

RANKS = [130, 200, 300]


@pytest.fixture(params=kernels.instruction_sets(), autouse=True)
def instruction_set(request):
    before = kernels.instruction_set()
    kernels.use_instruction_set(request.param)
    yield
    kernels.use_instruction_set(before)


def columns(rows=350, seed=0):
    """Columns without entries, with one, with fewer than any of the ranks, with about as many, and with more."""
    rng = np.random.default_rng(seed)
    counts = np.array([0, 1, 2, 7, 0, 40, 129, 131, 199, 201, rows, 300, 0, 8, 64, 340, 5, 100])
    index = np.concatenate([rng.choice(rows, n, replace=False) for n in counts])
    return Columns(np.concatenate([[0], np.cumsum(counts)]), index.astype(np.int32), rows)


def exact(c, X, ridge, rhs, weight=None):
    return reference.solve_with_factors(c, X, ridge, rhs, weight)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("ridge", [1e3, 1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("rank", RANKS)
def test_every_way_finds_the_solution(rank, ridge):
    """With a large ridge conjugate gradients are the fastest, with a small one factorisations are."""
    c, rng = columns(), np.random.default_rng(1)
    X = rng.standard_normal((c.shape[0], rank)) / np.sqrt(rank)
    weight = rng.uniform(0.1, 2.0, c.entries)
    weight[::9] = 0.0
    ridges = ridge * rng.uniform(0.5, 2.0, c.shape[1])
    V = rng.standard_normal((c.shape[1], rank))
    rhs = np.einsum("tkl,tl->tk", reference.systems(c, X, ridges, weight), V)
    systems = Unfactored(c, X, weight, ridges)
    for _ in range(3):  # the second time factors are written, the third time they are read
        found = systems.solve(rhs, 1)
        assert np.linalg.norm(found - V) <= 1e-13 * np.linalg.norm(V) * (10 + 100 / ridge)  # by the condition number


def test_a_ridge_that_is_zero_or_infinite():
    """Without a ridge the dual has no system; an infinite one keeps a coordinate at 0."""
    c, rng = columns(), np.random.default_rng(1)
    X = rng.standard_normal((c.shape[0], 130))
    ridges = np.ones((c.shape[1], 130))
    ridges[:, 3] = np.inf
    ridges[7:, 5] = 0.0
    empty = np.diff(c.indptr) == 0
    ridges[empty, 5] = 1.0
    rhs = rng.standard_normal(ridges.shape)
    systems = Unfactored(c, X, None, ridges)
    for _ in range(3):
        found = systems.solve(rhs, 2)
        np.testing.assert_array_equal(found[:, 3], 0.0)
        assert relative(found, exact(c, X, ridges, rhs)) < 1e-10


@pytest.mark.parametrize("factor", [1e-140, 1e140])
def test_right_hand_sides_whose_squares_are_no_numbers(factor):
    c, rng = columns(), np.random.default_rng(1)
    X, ridge = rng.standard_normal((c.shape[0], 130)), np.ones(c.shape[1])
    rhs = rng.standard_normal((c.shape[1], 130))
    systems = Unfactored(c, X, None, ridge)
    assert relative(systems.solve(rhs * factor, 1) / factor, systems.solve(rhs, 1)) < 1e-10


def test_a_right_hand_side_of_zero():
    c = columns()
    systems = Unfactored(c, np.ones((c.shape[0], 130)), None, np.ones(c.shape[1]))
    assert not systems.solve(np.zeros((c.shape[1], 130)), 1).any()


@pytest.mark.parametrize("ridge", [1.0, 1e-6])
def test_the_number_of_threads_makes_no_difference(ridge):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 150, 300)
    index = np.concatenate([rng.choice(200, n, replace=False) for n in counts]).astype(np.int32)
    c = Columns(np.concatenate([[0], np.cumsum(counts)]), index, 200)
    U, dU = rng.standard_normal((2, 200, 140)) / 12
    y, ridges = rng.standard_normal(c.entries), np.full(300, ridge)
    found = []
    for threads in (1, 2, 3):
        s = c.evaluate(y, U, ridges, threads)
        found.append([s.V, s.residual, s.by_rows, np.array(s.squares), c.derivative(s, U, dU, threads)])
        found[-1] += [c.derivative(s, U, dU, threads), s.factors.leverages(threads)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_factors_are_kept_as_far_as_there_is_room(share, monkeypatch):
    """Those of the columns with most entries first; what is solved does not depend on it beyond rounding."""
    c, rng = columns(), np.random.default_rng(6)
    X, ridge = rng.standard_normal((c.shape[0], 130)), np.ones(c.shape[1])
    counts, numbers = np.diff(c.indptr), c.entries + sum(c.shape) * 130
    needed = rooms(counts, c.shape[0], 130)[-1]
    monkeypatch.setattr(high_rank, "KEPT", share * needed / numbers)
    kept = np.diff(rooms(counts, c.shape[0], 130)) > 0
    assert kept.sum() == {0.0: 0, 1.0: np.count_nonzero(counts)}.get(share, kept.sum())
    assert counts[kept].min(initial=c.shape[0]) >= counts[~kept].max(initial=0)
    systems, rhs = Unfactored(c, X, None, ridge), rng.standard_normal((c.shape[1], 130))
    for _ in range(3):
        assert relative(systems.solve(rhs, 2), exact(c, X, ridge, rhs)) < 1e-11


def test_leverages():
    c, rng = columns(), np.random.default_rng(4)
    X, weight = rng.standard_normal((c.shape[0], 130)), rng.uniform(0.0, 2.0, c.entries)
    ridge = rng.uniform(0.5, 2.0, c.shape[1])
    inverses = np.linalg.inv(reference.systems(c, X, ridge, weight))
    i, t = c.places()
    expected = np.einsum("pa,pab,pb->p", X[i], inverses[t], X[i], optimize=True)
    assert relative(Unfactored(c, X, weight, ridge).leverages(2), expected) < 1e-12
