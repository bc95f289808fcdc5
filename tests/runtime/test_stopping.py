"""Where the time is over, or Ctrl-C was pressed: the call ends at its next check, with an answer."""

import math
import signal
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from plain import plain_completion
from rslm import (
    HankelModel,
    MatrixCompletion,
    ObservedMatrix,
    ReducedRankRegressor,
)
from rslm.datasets import make_ratings, make_series
from rslm.estimators.automatic import search
from rslm.estimators.series import exponentials, variable_projection
from rslm.evaluation.objective import Objective
from rslm.kernels import Factors, Solved, Stopped, ask, bound
from rslm.linalg import blocked_qr, conjugate_gradients
from rslm.losses import Huber, Square
from rslm.measurements import Entries, Tasks
from rslm.problem import Problem
from rslm.runtime import interrupts
from rslm.runtime.interrupts import Interrupt, deferred_interrupts, over, raise_if_stopped
from rslm.solvers import Outcome, solve
from rslm.structures import Box, Hankel, Symmetric

DATA = make_ratings(60, 40, 900, rank=2, noise=0.3, random_state=0).data


@pytest.fixture
def clock(monkeypatch):
    """Time that goes by with every evaluation, by a second, and else not at all."""
    made = SimpleNamespace(now=0.0, evaluations=0)
    evaluate = Objective.evaluate

    def timed(self, U):
        found = evaluate(self, U)
        made.evaluations += 1
        made.now += 1.0
        return found

    monkeypatch.setattr(time, "perf_counter", lambda: made.now)
    monkeypatch.setattr(Objective, "evaluate", timed)
    return made


def lines(rows, columns, rank):
    """Columns all of whose rows are beyond their bounds."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((rows, rank))) + 0.1
    return X, -np.ones((columns, rank)), Factors.of(np.tile(np.eye(rank), (columns, 1, 1)), 1)


@pytest.mark.parametrize("stiffness", [1.0, math.inf])
def test_a_kernel_ends_at_its_next_look(stiffness):
    X, V, factors = lines(4000, 4000, 8)  # work for much longer than from one look to the next
    planes = np.broadcast_to(1.0, (4000, 4000)), np.broadcast_to(np.inf, (4000, 4000))
    looks = []
    ask(lambda: looks.append(1) or True)
    try:
        with pytest.raises(Stopped):
            bound(X, V, factors, *planes, stiffness, 2)
    finally:
        ask(over)
    assert len(looks) == 1


def test_an_error_of_who_is_asked_comes_through():
    X, V, factors = lines(4000, 4000, 8)
    planes = np.broadcast_to(1.0, (4000, 4000)), np.broadcast_to(np.inf, (4000, 4000))

    def wrong():
        raise KeyboardInterrupt

    ask(wrong)
    try:
        with pytest.raises(KeyboardInterrupt):
            bound(X, V, factors, *planes, 1.0, 2)
    finally:
        ask(over)


def test_many_rows_beyond_their_bounds_are_met_in_parts():
    rows, rank = 3000, 3  # far more than are met in one round
    X, V, factors = lines(rows, 5, rank)
    planes = np.broadcast_to(1.0, (rows, 5)), np.broadcast_to(np.inf, (rows, 5))
    soft = bound(X, V, factors, *planes, 2.0, 1)
    W = X @ soft.V.T
    short = np.maximum(1.0 - W, 0.0)
    slope = soft.V - V - 2.0 * short.T @ X  # of ½|v − c|² + ½ · 2 Σ distance²
    assert np.abs(slope).max() < 1e-9 * np.abs(X).sum()
    assert len(soft.s) == np.count_nonzero(short)
    X, V, factors = lines(rows, 5, rank)
    hard = bound(X, V, factors, *planes, math.inf, 1)
    assert (X @ hard.V.T).min() >= 1.0 - 1e-10


def test_nothing_is_begun_when_the_time_is_over():
    objective = Objective(Problem(Square(), Entries(DATA)))
    point = objective.evaluate(np.ones((DATA.shape[0], 2)))
    with deferred_interrupts() as watch, watch.within(-10.0, 0.0):
        for work in (lambda: objective.evaluate(point.U), lambda: point.hessian_product(point.U), raise_if_stopped):
            with pytest.raises(Stopped):
                work()
    assert objective.evaluations == 1
    raise_if_stopped()


def test_conjugate_gradients_look_at_every_step(monkeypatch):
    steps = []

    def third():
        steps.append(1)
        if len(steps) == 3:
            raise Stopped

    monkeypatch.setattr(conjugate_gradients, "raise_if_stopped", third)
    dense = DATA.to_dense()[:40]
    problem = Problem(Square(), Entries(ObservedMatrix.from_any(dense)), Symmetric(40), C=10.0)
    assert solve(problem, 2).outcome is Outcome.TIME
    assert len(steps) == 3


@pytest.fixture(scope="module")
def long_tasks():
    """Few tasks of many rows, work for much longer than from one question to the next."""
    rng = np.random.default_rng(0)
    return Tasks.shared(rng.standard_normal((20_000, 300)), rng.standard_normal((20_000, 120)))


@pytest.mark.parametrize("kernel", ["evaluate", "derivative", "predict", "features"])
def test_a_kernel_of_tasks_ends_at_its_next_look(long_tasks, kernel):
    columns, rows, y = long_tasks.columns, long_tasks.rows, long_tasks.values
    (d, T), ridge = long_tasks.shape, np.ones(120)
    U, V = np.ones((d, 2)), np.ones((T, 2))
    solved = Solved(0.0, V, y, np.zeros((d, 2)), Factors.of(np.tile(np.eye(2), (T, 1, 1)), 1))
    calls = {
        "evaluate": lambda: columns.evaluate_tasks(rows, y, U, ridge, 1),
        "derivative": lambda: columns.derivative_tasks(rows, solved, U, U, 1),
        "predict": lambda: columns.predict_tasks(rows, U, V, 1),
        "features": lambda: columns.features_of_tasks(rows, y, 1),
    }
    looks = []
    ask(lambda: looks.append(1) or True)
    try:
        with pytest.raises(Stopped):
            calls[kernel]()
    finally:
        ask(over)
    assert len(looks) == 1


def blocks_that_stop(monkeypatch, last):
    """Looks between blocks, the last of which is that of the end."""
    looks = []

    def counted():
        looks.append(1)
        if len(looks) == last:
            raise Stopped

    monkeypatch.setattr(blocked_qr, "raise_if_stopped", counted)
    return looks


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(5000, 40), (40, 40), (3, 5), (700, 1), (10, 0), (0, 3)])
def test_least_squares_in_blocks(monkeypatch, shape, kind):
    monkeypatch.setattr(blocked_qr, "BLOCK", 1000)
    looks = blocks_that_stop(monkeypatch, None)
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape).astype(kind) * (sizes := np.logspace(0, -4, shape[1]))
    Y, centre = rng.standard_normal((shape[0], 3)), sizes * rng.standard_normal(shape[1])
    R, Z, unexplained = blocked_qr.reduced(A, Y, centre)
    assert R.shape == (min(shape), shape[1])
    Q, whole = np.linalg.qr(A - centre)
    assert np.allclose(np.abs(R), np.abs(whole), rtol=1e-10, atol=1e-13 * np.abs(whole).max(initial=0.0))
    assert np.isclose(unexplained, np.linalg.norm(Y - Q @ (Q.conj().T @ Y)), atol=1e-12)
    if shape[0] > shape[1]:
        assert np.allclose(
            np.linalg.lstsq(R, Z, rcond=None)[0], np.linalg.lstsq(A - centre, Y.astype(kind), rcond=None)[0], rtol=1e-8
        )
    assert len(looks) == -(-shape[0] // max(4 * shape[1], 1000 // max(shape[1], 1)))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_what_is_unexplained_may_have_squares_beyond_all_numbers(size):
    A, Y = np.ones((4, 1)), size * np.array([[3.0], [-3.0], [4.0], [-4.0]])
    assert blocked_qr.reduced(A, Y)[2] == pytest.approx(size * math.sqrt(50), rel=1e-14)


def test_an_end_between_two_blocks(monkeypatch):
    monkeypatch.setattr(blocked_qr, "BLOCK", 100)
    looks = blocks_that_stop(monkeypatch, 3)
    with pytest.raises(Stopped):
        blocked_qr.reduced(np.ones((1000, 2)), np.ones((1000, 1)))
    assert len(looks) == 3


def test_the_windows_of_a_series_are_multiplied_in_blocks(monkeypatch):
    monkeypatch.setattr(exponentials, "BLOCK", 100)
    looks = []
    monkeypatch.setattr(exponentials, "raise_if_stopped", lambda: looks.append(1))
    structure, h = Hankel(10, 91, 2), np.random.default_rng(0).standard_normal(200)
    W = structure.transposed_times(h, np.eye(10)).T
    assert np.allclose(exponentials._gram_of_windows(structure, h), W @ W.T, rtol=1e-12, atol=1e-12)
    assert len(looks) == 20  # ten windows at a time, of two series


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("pressed", [True, False])
def test_a_reduced_rank_regression_that_ends_while_it_is_factorised(monkeypatch, tmp_path, intercept, pressed):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    Y = X @ rng.standard_normal((4, 3)) + 5.0

    def end():
        watch = interrupts.current_interrupt()
        if pressed:
            watch.note(2, None)
        watch._deadline = -math.inf
        raise_if_stopped()

    model = ReducedRankRegressor(2, 10.0, effects=None, fit_intercept=intercept, random_state=0, max_time=100.0)
    file = tmp_path / "fit.ckpt"
    whole = clone(model).fit(X, Y, checkpoint=file)
    monkeypatch.setattr(blocked_qr, "raise_if_stopped", end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y, checkpoint=file)  # which is of another point, and stays as it was
    assert model.outcome_ == ("interrupted" if pressed else "time")
    assert not model.coef_.any()
    means = Y.mean(axis=0) if intercept else np.zeros(3)
    assert np.allclose(model.intercept_, means)
    assert model.certificate_.primal == pytest.approx(10.0 * ((Y - means) ** 2).sum())
    assert model.certificate_.dual == 0.0
    assert not model.converged_
    monkeypatch.undo()
    assert np.array_equal(clone(model).fit(X, Y, checkpoint=file).coef_, whole.coef_)


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_ctrl_c_keeps_a_reduced_rank_regression(monkeypatch, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5))
    Y = X @ rng.standard_normal((5, 4)) + rng.standard_normal((100, 4))
    evaluate, count = Objective.evaluate, []

    def pressed(self, U):
        count.append(1)
        if len(count) == 3:
            signal.raise_signal(signal.SIGINT)
        return evaluate(self, U)

    monkeypatch.setattr(Objective, "evaluate", pressed)
    model = ReducedRankRegressor(2, 100.0, effects=None, loss=loss, tol=0.0, random_state=0).fit(X, Y)
    assert model.outcome_ == "interrupted"
    assert model.score(X, Y) > 0.3


def test_predictions_of_tasks_that_share_their_rows():
    """Two ways to the same numbers: by tasks, or by rows where there are many tasks of them."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 6))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    data = Tasks.shared(X, Y)
    for rank in (1, 4):
        U, V = rng.standard_normal((4, rank)), rng.standard_normal((6, rank))
        rows, tasks = data.places()
        assert np.allclose(data.predict(U, V, 1), (X @ U @ V.T)[rows, tasks], rtol=1e-12, atol=1e-12)


PROBLEMS = {
    "square": Problem(Square(), Entries(DATA), C=100.0),
    "between bounds": Problem(Square(), Entries(DATA), Box(1.5, 4.5), C=100.0),
    "bounds of rows": Problem(Square(), Entries(DATA), Box(np.linspace(0, 2, DATA.shape[0])[:, None], None), C=100.0),
    "bounds of columns": Problem(Square(), Entries(DATA), Box(None, np.linspace(2, 5, DATA.shape[1])), C=100.0),
    "huber with bounds": Problem(Huber(0.1), Entries(DATA), Box(1.5, 4.5), C=100.0),
}


@pytest.mark.parametrize("seconds", [0.1, 1.0, 2.0, 5.0, 11.0, 23.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_answer_comes_in_time_and_keeps_the_bounds(clock, name, seconds):
    problem = PROBLEMS[name]
    result = solve(problem, 3, max_time=seconds, tol=0.0)
    assert result.outcome in (Outcome.TIME, Outcome.STALLED)  # which the square loss is at the end
    assert clock.evaluations <= seconds + 3  # of which one was under way, and one or two are for the answer
    W = result.left @ result.V.T
    assert np.isfinite(W).all()
    if problem.structure.box is not None:
        lower, upper = problem.structure.planes(problem.shape)
        assert (lower - 1e-12 <= W).all()
        assert (upper + 1e-12 >= W).all()
    assert math.isfinite(result.value)
    assert len(result.history["objective"]) >= 1
    assert result.certificate.dual <= result.certificate.primal


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_time_for_any_point(clock, monkeypatch, name):
    def slow(*_):
        clock.now += 100.0
        raise_if_stopped()

    monkeypatch.setattr(Objective, "guess", slow)
    result = solve(PROBLEMS[name], 3, max_time=1.0)
    assert result.empty
    assert "no time" in result.certificate.method
    W = result.left @ result.V.T
    if (box := PROBLEMS[name].structure.box) is None:
        assert not W.any()
    else:
        lower, upper = box.planes(W.shape)
        assert (lower <= W + 1e-12).all()
        assert (upper >= W - 1e-12).all()


def test_ctrl_c_is_patient_for_a_moment(clock):
    watch = Interrupt()
    assert not watch.ends_soon
    watch.note(2, None)
    assert watch.ends_soon
    assert not watch.over()
    clock.now += 1.0
    assert watch.over()
    with watch.ending():
        assert not watch.over()
        clock.now += 2.0
        assert watch.over()
    with pytest.raises(KeyboardInterrupt):
        watch.note(2, None)


def test_limits_within_limits(clock):
    watch = Interrupt()
    assert watch.left() is None
    with watch.within(10.0, 0.0):
        with watch.within(20.0, 0.0):
            assert watch.left() == 10.0 + interrupts.PATIENCE
        with watch.until(3.0):
            assert watch.left() == 3.0
    assert watch.left() is None


@pytest.mark.parametrize("looks", [1, 60])
def test_orders_of_a_series_that_were_tried_are_kept(clock, monkeypatch, looks):
    calls = []

    def passing():
        calls.append(1)
        if len(calls) == looks:
            clock.now += 100.0
        raise_if_stopped()

    y = make_series(200, 2, noise=0.1, random_state=0).y
    monkeypatch.setattr(variable_projection, "raise_if_stopped", passing)
    with pytest.warns(UserWarning, match="max_time"):
        model = HankelModel(max_time=10.0).fit(y)
    assert (model.outcome_, model.certificate_, clock.evaluations) == ("time", None, 0)
    assert (model.rank_ > 0) == (looks > 1)  # one look before every step


def test_a_search_that_is_interrupted_fits_no_more(monkeypatch):
    fits = []

    def counted(*arguments, **more):
        fits.append(1)
        result = solve(*arguments, **more)
        interrupts._ACTIVE.get().note(2, None)
        return result

    monkeypatch.setattr(search, "solve", counted)
    model = MatrixCompletion(random_state=0).fit(DATA)
    assert len(fits) == 1
    assert model.outcome_ == "interrupted"
    assert model.predict([0], [0]).shape == (1,)


def test_bounds_that_cannot_be_kept_at_once_are_told(monkeypatch):
    """Where neither rows nor columns can be alike, nothing is within the bounds without work."""
    rng = np.random.default_rng(0)
    lower = rng.normal(size=(60, 40)) * 10
    assert Box(lower, lower + 0.1).inward(np.ones((60, 2)), np.ones((40, 2)), lambda X, V: 0.0) is None


def test_moved_inward():
    rng = np.random.default_rng(0)
    for k in range(300):
        d, T, r = rng.integers(1, 30, 3)
        X, V = rng.normal(size=(d, r)) * 10 ** rng.uniform(-3, 3), rng.normal(size=(T, r))
        X[rng.random(d) < 0.2 * (k % 3)] = 0.0
        V = (V + (k % 2) * rng.normal(size=r)) * 10 ** rng.uniform(-3, 3)
        shape = ((1, 1), (d, 1), (1, T))[k % 3]
        lower = rng.normal(size=shape) * 5
        upper = lower + rng.exponential(size=shape) * (k % 4 > 0)
        box = Box(lower if k % 5 else None, upper if k % 7 else None)
        found = box.inward(X, V, lambda X, V: -float(np.abs(X @ V.T).sum()))
        assert found is not None
        W, (low, high) = found[0] @ found[1].T, box.planes((d, T))
        # Products of factors 1e4 times as long as the average along which they are moved: see LITTLE.
        assert np.maximum(low - W, W - high).max() <= 1e-11 * max(1.0, np.abs(box.finite()).max(initial=0.0))


def test_the_cost_of_bounds_is_told(caplog):
    with caplog.at_level("INFO", "rslm"):
        solve(Problem(Square(), Entries(DATA), Box(1.5, 4.5), C=100.0), 2, max_iter=0)
    assert "bounds:" not in caplog.text
    from rslm.solvers.cost import cost_of_bounds

    assert "3.2 billion entries" in str(cost_of_bounds((33_095, 95_845), 10, 2))


def test_a_fit_says_what_there_was_no_time_for():
    model = plain_completion(2, bounds=(-9, 9), max_time=1e-9, random_state=0).fit(DATA)
    assert model.outcome_ == "time"
    W = model.row_factors_ @ model.col_factors_.T
    assert W.min() >= -9 - 1e-12
    assert W.max() <= 9 + 1e-12
