"""Both solvers: the same optimum, honest outcomes and histories, and nothing that depends on threads or chance."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from rslm import Objective, Problem, solve
from rslm.continuation.start import initial_point
from rslm.datasets import make_low_rank
from rslm.losses import Absolute, Logistic, Square
from rslm.measurements import Entries
from rslm.solvers import SOLVERS, Outcome
from rslm.solvers.point import Point
from rslm.solvers.stopping import NoProgress, Progress
from rslm.solvers.trust_region import agreement, shortening, truncated_cg


def noisy(d=30, T=45, seed=0, weighted=False, C=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((d, 3)) @ rng.standard_normal((3, T)) + 0.5 * rng.standard_normal((d, T))
    Y[rng.random((d, T)) < 0.5] = np.nan
    weights = {"row_weights": rng.uniform(0.5, 2, d), "column_weights": rng.uniform(0.5, 2, T)} if weighted else {}
    return Problem(Square(), Entries(Y.astype(dtype)), C=C, **weights)


@pytest.fixture(params=sorted(SOLVERS))
def solver(request):
    return request.param


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rank", "C"), [(1, 1.0), (3, 0.1), (3, 10.0), (30, 0.5)])
def test_both_find_the_same_optimum(rank, C, weighted):
    p = noisy(C=C, weighted=weighted)
    # 1e-7: a line search cannot tell values apart that differ by ε, which is where the gradient is about √ε = 1.5e-8.
    results = [solve(p, rank, solver=s, tol=1e-7, max_iter=3000, random_state=0) for s in sorted(SOLVERS)]
    for r in results:
        assert r.outcome in (Outcome.CERTIFIED, Outcome.STATIONARY)
        assert r.converged
    # The value differs from the optimum by the square of the gradient.
    assert results[0].value == pytest.approx(results[1].value, rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_history(solver, weighted):
    p, seen = noisy(weighted=weighted), []
    result = solve(p, 4, solver=solver, tol=1e-7, max_iter=500, random_state=0, callback=seen.append)
    h = result.history
    names = {
        "objective",
        "gradient_norm",
        "relative_gradient",
        "seconds",
        "evaluations",
        "hessian_products",
        "C",
        "relaxations",
    }
    assert set(h) == names
    assert {len(v) for v in h.values()} == {result.n_iter + 1} == {len(seen)}
    # Near the end a step counts as no ascent within the rounding of the objective, 1000 ε.
    assert np.all(np.diff(h["objective"]) <= 1e3 * np.finfo(float).eps * h["objective"][0])
    assert h["objective"][-1] < h["objective"][0]
    assert h["objective"][-1] == result.value
    for name in ("seconds", "evaluations", "hessian_products"):
        assert np.all(np.diff(h[name]) >= 0)
    assert np.all(np.diff(h["evaluations"]) >= 1)
    assert h["evaluations"][0] == 1
    assert h["hessian_products"][0] == 0
    assert (h["hessian_products"][-1] > 0) == (solver == "trust-region")
    assert h["relative_gradient"][-1] <= 1e-7
    euclidean = np.linalg.norm(Objective(p).evaluate(result.U).gradient)
    assert h["gradient_norm"][-1] / euclidean == pytest.approx(h["relative_gradient"][-1], rel=1e-6)
    assert [s.iteration for s in seen] == list(range(result.n_iter + 1))
    assert [s.value for s in seen] == h["objective"].tolist()


def test_result_is_consistent(solver):
    p = noisy(weighted=True)
    r = solve(p, 3, solver=solver, random_state=0)
    e = Objective(p).evaluate(r.U)
    assert np.linalg.norm(r.U) == pytest.approx(1, abs=1e-14)
    assert r.value == e.value
    np.testing.assert_array_equal(r.V, e.V)
    np.testing.assert_allclose(r.left * np.sqrt(p.row_weights)[:, None], r.U, rtol=1e-14)
    assert r.problem is p
    s = np.linalg.svd(r.left @ r.V.T, compute_uv=False)
    assert r.numerical_rank() == (s > 1e-7 * s[0]).sum()


# ---- outcomes -----------------------------------------------------------------------------------------------


def test_certified(solver):
    r = solve(noisy(C=0.05), 6, solver=solver, random_state=0)
    assert (r.outcome, r.converged) == (Outcome.CERTIFIED, True)
    assert r.certificate.relative_gap <= 1e-6
    assert 0 < r.numerical_rank() < 6


def test_stationary(solver):
    r = solve(noisy(C=10.0), 1, solver=solver, max_iter=500, random_state=0)
    assert (r.outcome, r.converged) == (Outcome.STATIONARY, True)
    assert r.certificate.stationary
    assert r.certificate.relative_gap > 1e-6
    assert r.history["relative_gradient"][-1] <= 1e-6


@pytest.mark.parametrize("max_iter", [0, 1, 2])
def test_out_of_iterations(solver, max_iter):
    r = solve(noisy(), 4, solver=solver, max_iter=max_iter, random_state=0)
    assert (r.outcome, r.converged, r.n_iter) == (Outcome.ITERATIONS, False, max_iter)
    assert not r.certificate.stationary


def test_out_of_time(solver):
    r = solve(noisy(), 4, solver=solver, max_time=1e-9, random_state=0)
    assert (r.outcome, r.converged, r.n_iter) == (Outcome.TIME, False, 0)
    assert np.isfinite(r.certificate.gap)


def test_stalled(solver):
    """A tolerance below what floating-point numbers can reach."""
    r = solve(noisy(C=10.0), 2, solver=solver, tol=0.0, max_iter=5000, random_state=0)
    assert (r.outcome, r.converged) == (Outcome.STALLED, False)
    assert r.history["relative_gradient"].min() < 1e-6  # it was converged long before


def test_stalling_is_told_from_slow_progress():
    def progress(value, gradient):
        return Progress(0, value, gradient, 0.0, 0, 0, 1.0, (), math.nan, None)

    slow, still = NoProgress(patience=5), NoProgress(patience=5)
    assert all(slow.check(progress(1.0 - 1e-12 * k, 1.0)) is None for k in range(100))
    assert [still.check(progress(1.0, 1.0)) for _ in range(6)] == [None] * 5 + [Outcome.STALLED]
    falling = NoProgress(patience=5)
    assert all(falling.check(progress(1.0, 0.5**k)) is None for k in range(40))


@pytest.mark.parametrize("size", [1e-155, 1e155, 1e200])
def test_data_that_cannot_be_squared(size):
    """The estimator scales such data; here they are refused."""
    Y = size * np.random.default_rng(0).standard_normal((6, 8))
    with pytest.raises(ValueError, match="multiply the data by a number"):
        Problem(Square(), Entries(Y))


class Steep(Logistic):
    """A loss that leaves all numbers, which only whoever brings a loss can do."""

    def value(self, y, w):
        return super().value(y, w) + np.inf


def test_failed(solver):
    Y = np.sign(np.random.default_rng(0).standard_normal((6, 8)))
    r = solve(Problem(Steep(), Entries(Y)), 2, solver=solver, random_state=0)
    assert (r.outcome, r.converged) == (Outcome.FAILED, False)
    assert not r.certificate.verdict.startswith("Global")


@pytest.mark.parametrize("stop_at", [0, 3])
def test_interrupted_by_ctrl_c(solver, stop_at):
    seen = []

    def callback(progress):
        seen.append(progress)
        if progress.iteration == stop_at:
            raise KeyboardInterrupt

    r = solve(noisy(), 4, solver=solver, random_state=0, callback=callback)
    assert (r.outcome, r.converged, r.n_iter) == (Outcome.INTERRUPTED, False, stop_at)
    assert r.value == min(p.value for p in seen) == seen[-1].value
    np.testing.assert_array_equal(r.U, seen[-1].U)
    np.testing.assert_array_equal(r.V, seen[-1].V)
    assert len(r.history["objective"]) == stop_at + 1
    assert r.certificate.primal > r.certificate.dual > 0


@pytest.mark.parametrize("at", [2, 3, 4, 6])
def test_ctrl_c_within_a_step(monkeypatch, solver, at):
    """In the middle of an evaluation: the point before it is still whole."""
    original, count = Objective.evaluate, []

    def evaluate(self, U):
        count.append(1)
        if len(count) == at:
            raise KeyboardInterrupt
        return original(self, U)

    p = noisy()
    monkeypatch.setattr(Objective, "evaluate", evaluate)
    r = solve(p, 4, solver=solver, random_state=0, tol=1e-12)
    monkeypatch.undo()
    e = Objective(p).evaluate(r.U)
    assert r.outcome is Outcome.INTERRUPTED
    assert r.value == e.value == r.history["objective"].min()
    np.testing.assert_array_equal(r.V, e.V)
    assert r.certificate.primal <= r.value * (1 + 1e-12)


def test_stopped_by_the_callback(solver):
    r = solve(noisy(), 4, solver=solver, random_state=0, callback=lambda p: p.iteration == 2)
    assert (r.outcome, r.n_iter) == (Outcome.INTERRUPTED, 2)


def test_stopped_by_a_numpy_true():
    r = solve(noisy(), 4, random_state=0, callback=lambda p: np.float64(p.iteration) >= 2)
    assert (r.outcome, r.n_iter) == (Outcome.INTERRUPTED, 2)


def test_only_true_stops():
    """A callback that returns nothing, or what list.append or a print returns, goes on."""
    r = solve(noisy(), 3, random_state=0, callback=lambda p: None)
    assert r.converged


def test_errors_of_a_callback_are_passed_on(solver):
    def callback(progress):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        solve(noisy(), 3, solver=solver, callback=callback)


# ---- start --------------------------------------------------------------------------------------------------


def test_start_is_used(solver):
    p = noisy(C=10.0)
    done = solve(p, 2, solver=solver, tol=1e-9, max_iter=1000, random_state=0)
    again = solve(p, 2, solver=solver, start=7.0 * done.U)  # normalised first
    assert again.n_iter == 0
    assert again.history["evaluations"].tolist() == [1]
    assert again.value == pytest.approx(done.value, rel=1e-13)


def test_start_is_not_changed(solver):
    start = np.random.default_rng(0).standard_normal((30, 2))
    before = start.copy()
    solve(noisy(), 2, solver=solver, start=start)
    np.testing.assert_array_equal(start, before)


def test_initial_point_is_near_the_singular_vectors():
    p = noisy(weighted=True)
    dense = np.zeros(p.shape)
    pattern = p.data.columns
    dense[pattern.index, np.repeat(np.arange(p.shape[1]), np.diff(pattern.indptr))] = p.data.values
    U, s, _ = np.linalg.svd(dense / np.sqrt(p.row_weights)[:, None] / np.sqrt(p.column_weights))
    got = initial_point(Objective(p), 2, 0)
    assert np.linalg.norm(got) == pytest.approx(1, abs=1e-14)
    # A start: the leading subspace to a few degrees, with norms in proportion to √σ.
    assert np.linalg.svd(U[:, :2].T @ np.linalg.qr(got)[0], compute_uv=False).min() > 0.98
    norms = np.linalg.norm(got, axis=0)
    assert norms[0] / norms[1] == pytest.approx(np.sqrt(s[0] / s[1]), rel=0.05)


# ---- recovery and edges -------------------------------------------------------------------------------------


def test_exact_recovery(solver):
    data, left, right = make_low_rank(60, 80, 3, 2400, random_state=0)
    r = solve(Problem(Square(), Entries(data), C=1e7), 3, solver=solver, tol=1e-9, max_iter=1000, random_state=0)
    truth = left @ right.T
    assert np.linalg.norm(r.left @ r.V.T - truth) < 1e-5 * np.linalg.norm(truth)
    assert r.numerical_rank() == 3


@pytest.mark.parametrize("shape", [(5, 6), (100, 120)])
def test_all_zero(solver, shape):
    r = solve(Problem(Square(), Entries(np.zeros(shape))), 2, solver=solver, random_state=0)
    assert r.outcome is Outcome.CERTIFIED
    assert r.value == r.certificate.primal == r.certificate.gap == 0
    assert not r.V.any()
    assert r.numerical_rank() == 0


@pytest.mark.parametrize("Y", [[[2.0]], [[1.0, 2.0, np.nan]], [[1.0], [2.0], [np.nan]], np.ones((4, 4))])
def test_small_and_constant(solver, Y):
    r = solve(Problem(Square(), Entries(Y), C=1e6), 1, solver=solver, random_state=0)
    assert r.converged
    np.testing.assert_allclose((r.left @ r.V.T)[~np.isnan(Y)], np.asarray(Y)[~np.isnan(Y)], rtol=1e-5)  # about ‖W‖_*/2C


def test_rank_may_be_full(solver):
    r = solve(noisy(d=5, T=7), 5, solver=solver, max_iter=1000, random_state=0)
    assert r.outcome is Outcome.CERTIFIED


# ---- reproducibility ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_do_not_change_a_bit(solver, weighted, dtype):
    p = noisy(d=80, T=300, weighted=weighted, dtype=dtype)
    one, *others = (solve(p, 4, solver=solver, max_iter=15, random_state=0, n_threads=n) for n in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(other.U, one.U)
        np.testing.assert_array_equal(other.V, one.V)
        assert other.value == one.value
        assert other.certificate == one.certificate


def test_seeds(solver):
    p = noisy()

    def U(seed):
        return solve(p, 3, solver=solver, max_iter=2, random_state=seed).U

    np.testing.assert_array_equal(U(5), U(5))
    np.testing.assert_array_equal(U(5), U(np.random.default_rng(5)))
    assert not np.array_equal(U(5), U(6))


def test_global_random_state_is_left_alone(solver):
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    solve(noisy(d=70, T=80), 3, solver=solver, max_iter=3)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    np.random.seed(4)  # noqa: NPY002
    one = solve(noisy(d=70, T=80), 3, solver=solver, max_iter=3, random_state=0)
    np.random.seed(5)  # noqa: NPY002
    two = solve(noisy(d=70, T=80), 3, solver=solver, max_iter=3, random_state=0)
    np.testing.assert_array_equal(one.U, two.U)


def test_data_are_not_changed(solver):
    p = noisy(weighted=True)
    before = [a.copy() for a in (p.data.values, p.data.columns.index, p.row_weights, p.column_weights)]
    solve(p, 3, solver=solver, max_iter=3)
    for a, b in zip(before, (p.data.values, p.data.columns.index, p.row_weights, p.column_weights), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- the subproblem -----------------------------------------------------------------------------------------


def a_point(seed, C=10.0, rank=3):
    U = np.random.default_rng(seed).standard_normal((30, rank))
    return Point(Objective(noisy(C=C, weighted=True)).evaluate(U / np.linalg.norm(U)))


def length_in_b(point, eta):
    """√⟨η, B η⟩ where B⁻¹ on the tangent space is the preconditioner: solved in a basis of it."""
    size = eta.size
    P = np.array([point.tangent.project(row.reshape(eta.shape)).ravel() for row in np.eye(size)])
    s, Q = np.linalg.eigh((P + P.T) / 2)
    basis = Q[:, s > 0.5].T
    M = np.array([basis @ point.precondition(b.reshape(eta.shape)).ravel() for b in basis])
    coordinates = basis @ eta.ravel()
    return float(np.sqrt(coordinates @ np.linalg.solve(M, coordinates)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("radius", [1e-3, 1.0, 100.0, None])
def test_truncated_cg(seed, radius):
    point = a_point(seed)
    step = truncated_cg(point, radius, 1e-8)
    eta = step.eta
    model = np.vdot(point.gradient, eta) + 0.5 * np.vdot(eta, point.hessian(eta))
    size = abs(np.vdot(point.gradient, eta))
    assert step.decrease > 0
    assert step.decrease == pytest.approx(-model, abs=1e-8 * size)  # by recurrence, over up to a hundred steps
    np.testing.assert_allclose(point.tangent.project(eta), eta, atol=1e-10 * np.linalg.norm(eta))
    assert length_in_b(point, eta) == pytest.approx(step.length, rel=1e-6)
    if radius is not None:
        assert step.length <= radius * (1 + 1e-12)
        assert step.at_boundary == (step.length >= radius * (1 - 1e-12))
    # As good as the best step along the preconditioned gradient within the radius (the Cauchy point).
    z = point.precondition(point.gradient)
    slope, bend = np.vdot(point.gradient, z), np.vdot(z, point.hessian(z))
    furthest = np.inf if radius is None else radius / np.sqrt(slope)
    t = min(slope / bend, furthest) if bend > 0 else furthest
    if np.isfinite(t):
        assert step.decrease >= (t * slope - 0.5 * t**2 * bend) * (1 - 1e-8)


def test_truncated_cg_solves_the_newton_equation_near_a_minimum():
    p = noisy(C=10.0)
    U = solve(p, 2, tol=1e-4, random_state=0).U
    point = Point(Objective(p).evaluate(U))
    step = truncated_cg(point, None, 1e-10)
    left = point.gradient + point.hessian(step.eta)
    assert not step.at_boundary
    assert np.linalg.norm(left) < 1e-7 * point.gradient_norm  # 1e-10 in the preconditioner's norm, times its condition


def test_truncated_cg_ends_where_numbers_overflow():
    """A preconditioner that has lost all accuracy may make the residual grow by more than a square can hold."""
    sizes = iter([1e-150, 1e150])
    point = SimpleNamespace(
        x=np.zeros((2, 1)),
        gradient=np.array([[1.0], [1.0]]),
        precondition=lambda eta: next(sizes) * eta,
        hessian=lambda eta: np.array([[1.0], [3.0]]) * eta,
    )
    step = truncated_cg(point, None, 0.0)
    assert np.isfinite(step.eta).all()
    assert np.isfinite(step.decrease)


def test_agreement():
    noise = 1e-13
    assert agreement(10.0, 8.0, 4.0, noise) == pytest.approx(0.5)
    assert agreement(1.0, 1.0 + 1e-16, 1e-17, noise) == pytest.approx(1.0, abs=0.01)  # rounding
    assert agreement(1.0, 2.0, 0.5, noise) < 0
    assert not agreement(1.0, np.nan, 0.5, noise) >= 0.25


# ---- bad parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number from 1 to 30, the smaller side of the data; got 0"),
        ({"rank": 31}, "from 1 to 30, .*got 31"),
        ({"rank": 2.0}, r"got 2\.0"),
        ({"rank": True}, "got True"),
        ({"rank": "3"}, "got '3'"),
        ({"solver": "newton"}, r"solver must be one of \['conjugate-gradient', 'trust-region'\]; got 'newton'"),
        ({"solver": ["trust-region"]}, "solver must be one of"),
        ({"max_iter": -1}, "max_iter must be a whole number ≥ 0; got -1"),
        ({"max_iter": 1.5}, r"max_iter .*got 1\.5"),
        ({"tol": -1e-3}, r"tol must be a finite number ≥ 0; got -0\.001"),
        ({"tol": np.nan}, "tol .*got nan"),
        ({"tol": "small"}, "tol .*got 'small'"),
        ({"max_time": 0}, "max_time must be None or a positive number of seconds; got 0"),
        ({"max_time": np.nan}, "max_time .*got nan"),
        ({"max_time": "soon"}, "max_time .*got 'soon'"),
        ({"n_threads": 0}, "n_threads must be None, for all cores, or a whole number ≥ 1; got 0"),
        ({"n_threads": 1.5}, r"n_threads .*got 1\.5"),
        ({"start": np.ones((30, 2))}, r"start must be .* of shape \(30, 3\); got \(30, 2\)"),
        ({"start": np.zeros((30, 3))}, "finite non-zero"),
        ({"start": np.full((30, 3), np.nan)}, "finite non-zero"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        solve(noisy(), **{"rank": 3} | options)


def test_whole_numbers_of_numpy_are_whole_numbers():
    r = solve(noisy(), np.int64(3), max_iter=np.int32(2), n_threads=np.int64(2), random_state=0)
    assert r.n_iter == 2


def test_the_largest_rank_is_named():
    with pytest.raises(ValueError, match=r"from 1 to 140, the smaller side of the data; got 141"):
        solve(Problem(Square(), Entries(np.eye(140))), 141)


# ---- large C -------------------------------------------------------------------------------------------------------


def low_rank(rows=80, columns=120, rank=3, seed=0):
    """A noise-free matrix and the same with half of its entries missing."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((rows, rank)) @ rng.standard_normal((columns, rank)).T
    return W, np.where(rng.random(W.shape) < 0.5, W, np.nan)


def test_a_rank_above_the_true_one_is_no_trap_at_large_c():
    W, Y = low_rank()
    result = solve(Problem(Square(), Entries(Y), C=1e7), 5, random_state=0)
    assert result.outcome is Outcome.CERTIFIED
    assert result.numerical_rank() == 3
    # the trace norm pulls W towards zero by a few parts in C
    assert np.linalg.norm(result.U @ result.V.T - W) <= 1e-6 * np.linalg.norm(W)
    C = result.history["C"]
    assert C[0] < 1e4
    assert C[-1] == 1e7
    assert (np.diff(C) >= 0).all()


def test_the_way_by_smaller_c_can_be_interrupted():
    _, Y = low_rank()
    problem = Problem(Square(), Entries(Y), C=1e7)
    result = solve(problem, 5, random_state=0, callback=lambda p: p.iteration == 2)
    assert result.outcome is Outcome.INTERRUPTED
    assert result.history["C"][-1] < problem.C
    assert result.value == Objective(problem).evaluate(result.U).value


def test_moderate_c_and_a_given_start_go_straight():
    _, Y = low_rank()
    rng = np.random.default_rng(1)
    straight = solve(Problem(Square(), Entries(Y), C=10.0), 3, random_state=0)
    given = solve(Problem(Square(), Entries(Y), C=1e7), 3, start=rng.standard_normal((80, 3)), max_iter=3)
    assert set(straight.history["C"]) == {10.0}
    assert set(given.history["C"]) == {1e7}


def test_a_step_around_the_sphere_is_cut_to_its_radius():
    """Where the model is almost flat its first step is thousands of radii long; halving that takes too many trials."""
    problem = Problem(Square(), Entries(make_low_rank(8, 9, 2, 60, random_state=0)[0]), C=10.0)
    point = Point(Objective(problem).evaluate(initial_point(Objective(problem), 2, 0)))
    direction = -point.gradient / point.gradient_norm
    assert shortening(point, point, 3000.0 * direction) == pytest.approx(1 / 3000)
    assert 0.02 <= shortening(point, point, direction) <= 0.5


def test_a_certificate_that_nobody_wants():
    """The same answer, without the time that it takes; where the way depends on it, it is made all the same."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 30)) + rng.standard_normal((20, 30))
    for loss, made in ((Square(), False), (Absolute(), True)):
        problem = Problem(loss, Entries(Y), C=1.0)
        whole, bare = (solve(problem, 5, random_state=0, certificate=c) for c in (True, False))
        np.testing.assert_array_equal(whole.U, bare.U)
        assert np.isfinite(bare.certificate.gap) == made
    assert "not asked for" in solve(Problem(Square(), Entries(Y)), 5, certificate=False).certificate.method
