"""Bounds of all entries: against another solver, derivatives by differences, and what an answer must keep."""

import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.data import ObservedMatrix
from rslm.losses import Absolute, Hinge, Huber, Logistic, Square
from rslm.measurements import Entries
from rslm.solvers import Outcome
from rslm.structures import Box, SoftBox
from rslm.testing import check_gradient, check_hessian

D, T = 11, 14
# How far the other solver's optimum can be off, relative to it.
ORACLE = 1e-6
KEPT = 1e-11  # rounding errors of entries of about 1


@cache
def observed():
    rng = np.random.default_rng(0)
    Y = np.abs(rng.standard_normal((D, 3))) @ np.abs(rng.standard_normal((3, T))) - 1.0
    Y += 0.3 * rng.standard_normal(Y.shape)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    Y[4], Y[:, 6] = np.nan, np.nan  # nothing is known of a row and of a column
    return Y


BOXES = {
    "not negative": lambda: (0.0, None),
    "between": lambda: (0.5, 1.5),
    "one-sided": lambda: (None, 0.7),
    "by rows": lambda: (np.linspace(-1, 1, D)[:, None], np.linspace(1.2, 3, D)[:, None]),
    "by columns": lambda: (np.linspace(-1, 1, T), None),
    "by entries": lambda: (np.add.outer(np.linspace(-1, 0.5, D), np.linspace(-0.5, 0.5, T)), None),
}
LOSSES = {
    "square": (Square(), lambda e: cp.sum_squares(e)),
    "huber": (Huber(0.5), lambda e: 0.5 * cp.sum(cp.huber(e, 0.5))),
}


@pytest.fixture(params=BOXES)
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


def problem(loss, kind, C, weighted=False):
    rng = np.random.default_rng(5)
    weights = {"row_weights": rng.uniform(0.5, 2, D), "column_weights": rng.uniform(0.5, 2, T)} if weighted else {}
    return Problem(loss, Entries(ObservedMatrix.from_any(observed())), Box(*BOXES[kind]()), C=C, **weights)


def planes(kind):
    return Box(*BOXES[kind]()).planes((D, T))


@cache
def optimum(loss, kind, C, weighted):
    Y, p = observed(), problem(LOSSES[loss][0], kind, C, weighted)
    known, (lower, upper) = ~np.isnan(Y), planes(kind)
    W = cp.Variable((D, T))
    norm = W
    if weighted:
        norm = cp.diag(np.sqrt(p.row_weights)) @ W @ cp.diag(np.sqrt(p.column_weights))
    below, above = np.isfinite(lower), np.isfinite(upper)
    inside = [W[below] >= lower[below]] if below.any() else []
    inside += [W[above] <= upper[above]] if above.any() else []
    task = cp.Minimize(C * LOSSES[loss][1](Y[known] - W[known]) + 0.5 * cp.square(cp.normNuc(norm)))
    with warnings.catch_warnings():  # of some it reaches a little less than it was asked for
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        tight = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
        return float(cp.Problem(task, inside).solve(solver=cp.CLARABEL, **tight))


def beyond(result, kind):
    lower, upper = planes(kind)
    W = result.left @ result.V.T
    return max(float((lower - W).max()), float((W - upper).max()))


def test_the_formulas_of_the_other_solver():
    for loss, formula in LOSSES.values():
        for e in np.linspace(-3, 3, 13):
            assert formula(np.array([e])).value == pytest.approx(loss.value(np.array([e]), np.zeros(1))[0], rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "C", "weighted"),
    [("square", 0.3, False), ("square", 3.0, True), ("huber", 0.3, True), ("huber", 3.0, False)],
)
def test_the_global_optimum_is_found_and_certified(loss, kind, C, weighted):
    best = optimum(loss, kind, C, weighted)
    result = solve(problem(LOSSES[loss][0], kind, C, weighted), D, random_state=0, tol=1e-6)
    assert result.converged
    assert (
        result.certificate.relative_gap <= 3e-6
    )  # nearly all are below 1e-6; the last softness is tried for 300 steps
    assert result.certificate.primal == pytest.approx(best, rel=1e-6)
    assert result.certificate.dual <= best * (1 + ORACLE)
    assert beyond(result, kind) <= KEPT


@pytest.mark.parametrize(("loss", "weighted"), [("square", True), ("huber", False)])
@pytest.mark.parametrize("rank", [1, 3])
def test_both_sides_of_the_certificate_hold_at_low_rank(loss, kind, rank, weighted):
    if rank == 1 and kind == "by entries":
        pytest.skip("no matrix of rank 1 may be within these")
    best = optimum(loss, kind, 10.0, weighted)
    result = solve(problem(LOSSES[loss][0], kind, 10.0, weighted), rank, random_state=0, max_iter=300)
    assert result.certificate.dual <= best * (1 + ORACLE)
    assert result.certificate.primal >= best * (1 - ORACLE)
    assert beyond(result, kind) <= KEPT


@pytest.mark.parametrize("softness", [0.5, 1e-2])
def test_multipliers_bound_the_optimum_anywhere(kind, softness, weighted):
    """The dual value of any point is a bound, whatever its own bounds are softened by."""
    p, best = problem(Square(), kind, 2.0, weighted), optimum("square", kind, 2.0, weighted)
    for seed in range(3):
        U = np.random.default_rng(seed).standard_normal((D, 4))
        soft = Problem(
            p.loss, p.data, SoftBox(p.structure, softness), p.C, p.row_weights, p.column_weights
        )  # the same problem with soft bounds
        e = Objective(soft).evaluate(U / np.linalg.norm(U))
        assert certify(p, e, 1e-6, False).dual <= best * (1 + ORACLE)


# Not all: where bounds are stiff or the loss has a jump in its curvature, a difference soon goes across one.
DIFFERENTIABLE = [
    *((Square(), structure) for structure in ("hard", "soft", "stiff", "expected")),
    *((Logistic(), structure) for structure in ("soft", "expected")),
    (Huber(0.5), "soft"),
]


@pytest.mark.parametrize(("loss", "structure"), DIFFERENTIABLE, ids=lambda x: str(x))
def test_derivatives(loss, structure, kind, weighted):
    p = problem(Square(), kind, 2.0, weighted)
    data = p.data if not loss.binary else p.data.with_values(np.where(p.data.values > 0.5, 1.0, -1.0))
    box = p.structure
    rng = np.random.default_rng(3)
    U = rng.standard_normal((D, 5))
    U[:, 0] = 1.0 + 0.1 * rng.random(D)  # so that there is a v within the bounds
    U /= np.linalg.norm(U)
    if structure == "hard" and kind == "by entries":
        box = Box(np.minimum(box.planes((D, T))[0], 0.0), None)
    chosen = {
        "hard": box,
        "soft": SoftBox(box, 0.1),
        "stiff": SoftBox(box, 1e-4),
        "expected": SoftBox(
            box, 0.1, Objective(Problem(loss, data, SoftBox(box, 0.05), 2.0)).evaluate(U).multipliers()
        ),
    }[structure]
    objective = Objective(Problem(loss, data, chosen, 2.0, p.row_weights, p.column_weights))
    check_gradient(objective, U)
    if structure != "hard":  # whose Hessian has an error of 1e-8 of its stiffness; see the next test
        check_hessian(objective, U)


def test_the_hessian_of_hard_bounds(kind):
    p = problem(Square(), kind if kind != "by entries" else "not negative", 2.0)
    rng = np.random.default_rng(3)
    U, xi = rng.standard_normal((2, D, 5))
    U[:, 0] = 1.0 + 0.1 * rng.random(D)
    objective, h = Objective(p), 1e-6
    by_difference = (objective.evaluate(U + h * xi).gradient - objective.evaluate(U - h * xi).gradient) / (2 * h)
    exact = objective.evaluate(U).hessian_product(xi)
    assert np.linalg.norm(by_difference - exact) <= 1e-4 * np.linalg.norm(exact)  # hard bounds are a stiff limit


def test_expected_multipliers_make_soft_bounds_exact():
    """The method of multipliers: with those of the solution, bounds are kept whatever their softness."""
    p = problem(Square(), "not negative", 10.0)
    U = np.random.default_rng(1).standard_normal((D, 4))
    U[:, 0] = 1.0
    hard = Objective(p).evaluate(U)
    soft = Problem(p.loss, p.data, SoftBox(p.structure, 0.5, hard.multipliers()), C=10.0)
    e = Objective(soft).evaluate(U)
    np.testing.assert_allclose(e.V, hard.V, atol=1e-9)
    assert e.value == pytest.approx(hard.value, rel=1e-9)


@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
@pytest.mark.parametrize("loss", [Absolute(), Hinge(), Logistic()], ids=["absolute", "hinge", "logistic"])
def test_other_losses_keep_bounds(loss, solver):
    data = Entries(ObservedMatrix.from_any(observed()))
    data = data.with_values(np.where(data.values > 0.5, 1.0, -1.0)) if loss.binary else data
    result = solve(Problem(loss, data, Box(-0.25, 0.75), C=2.0), 3, solver=solver, random_state=0, max_iter=300)
    W = result.left @ result.V.T
    assert W.min() >= -0.25 - KEPT
    assert W.max() <= 0.75 + KEPT
    assert result.certificate.dual <= result.certificate.primal
    if not loss.binary:
        assert result.certificate.relaxed("loss") > 0


def test_sparse_data_far_from_their_bounds():
    """With 2 % of the entries, most of the first W is below 1: many times more entries than are observed."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((120, 150)) < 0.02)
    data = ObservedMatrix.from_triplets(i, j, rng.integers(1, 6, len(i)).astype(float), (120, 150))
    result = solve(Problem(Huber(0.5), Entries.of_transposed(data), Box(1, 5), C=20.0), 2, random_state=0, tol=1e-3)
    W = result.U @ result.V.T
    assert result.converged
    assert W.min() >= 1 - 1e-9
    assert W.max() <= 5 + 1e-9


def test_wide_bounds_change_nothing():
    p = problem(Square(), "not negative", 10.0)
    free = solve(Problem(p.loss, p.data, C=10.0), 3, random_state=0, tol=1e-9)
    wide = solve(Problem(p.loss, p.data, Box(-1e3, 1e3), C=10.0), 3, random_state=0, tol=1e-9)
    np.testing.assert_allclose(wide.left @ wide.V.T, free.left @ free.V.T, atol=1e-6)
    assert wide.certificate.relative_gap == pytest.approx(free.certificate.relative_gap, rel=1e-6)


def test_bounds_that_no_matrix_of_the_rank_keeps():
    """The identity and nothing else: of rank 1 there is none."""
    box = Box(np.eye(6), np.eye(6))
    data = Entries(ObservedMatrix.from_any(np.eye(6)))
    result = solve(Problem(Square(), data, box, C=1.0), 1, random_state=0, max_iter=200)
    assert result.outcome is Outcome.FAILED
    assert not result.converged
    assert "bounds are not kept" in result.certificate.method
    full = solve(Problem(Square(), data, box, C=1.0), 6, random_state=0, max_iter=500)
    np.testing.assert_allclose(full.left @ full.V.T, np.eye(6), atol=1e-9)


def test_values_below_a_lower_bound_of_zero_give_the_zero_matrix():
    data = Entries(ObservedMatrix.from_any(-np.ones((5, 6))))
    result = solve(Problem(Square(), data, Box(0, None), C=1.0), 2, random_state=0)
    assert np.abs(result.left @ result.V.T).max() <= 1e-9
    assert result.certificate.primal == pytest.approx(30.0)


def test_threads_and_repetition_change_nothing():
    p = problem(Square(), "between", 10.0)
    a, b = (solve(p, 3, random_state=0, n_threads=n) for n in (1, 2))
    np.testing.assert_allclose(a.left @ a.V.T, b.left @ b.V.T, atol=1e-10)


def test_an_early_end_still_keeps_bounds(kind):
    for stop in (0, 1, 3, 6):
        result = solve(problem(Square(), kind, 10.0), 4, random_state=0, max_iter=stop)
        if result.outcome is not Outcome.FAILED:
            assert beyond(result, kind) <= KEPT
            assert result.certificate.dual <= optimum("square", kind, 10.0, False) * (1 + ORACLE)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"lower": 2, "upper": 1}, ValueError, "lower must not be above upper; they are 2 and 1"),
        ({"lower": [0, 3, 0], "upper": 2}, ValueError, r"lower must not be above upper; at \[1\] they are 3 and 2"),
        ({"lower": np.nan}, ValueError, "lower must not be NaN"),
        ({"upper": [1, np.nan]}, ValueError, r"upper must not be NaN at \[1\]"),
        ({"lower": "low"}, TypeError, "lower must be a number"),
        ({"lower": np.inf}, ValueError, "leaves no number"),
        ({"lower": [0, 0], "upper": [1, 1, 1]}, ValueError, "do not broadcast"),
        ({"lower": np.zeros((1, 1, 1))}, ValueError, "one or two dimensions"),
    ],
)
def test_bad_boxes(given, error, message):
    with pytest.raises(error, match=message):
        Box(**given)


def test_a_box_of_another_shape():
    with pytest.raises(ValueError, match=r"bounds of shape \(1, 5\) do not broadcast to the shape \(11, 14\)"):
        Problem(Square(), Entries(ObservedMatrix.from_any(observed())), Box(np.zeros(5)))


def test_how_a_box_shows_itself():
    assert repr(Box(0, None)) == "Box(0, None)"
    assert repr(Box(1, np.ones(3), strict=True)) == "Box(1, array of shape (1, 3), strict=True)"
