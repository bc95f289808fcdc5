"""Fits beside one another: in threads, in forked processes, and under Ctrl-C at any moment."""

import multiprocessing
import os
import sys
import threading
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from plain import plain_completion
from rslm import MultiTaskRegressor, Objective, Problem, solve
from rslm.datasets import make_ratings
from rslm.evaluation import dual
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.solvers import Outcome

DATA = make_ratings(n_users=300, n_items=200, n_ratings=20_000, rank=3, random_state=0).data


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """More than the one that a fit leaves to the BLAS, whatever the environment says."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_one_problem_in_several_threads():
    problem = Problem(Square(), Entries.of_transposed(DATA), C=50.0)
    ranks = (3, 20, 7)
    alone = {r: solve(problem, r, random_state=0, max_iter=8, n_threads=2).U for r in ranks}
    before, together = blas_threads(), {}

    def work(rank):
        together[rank] = solve(problem, rank, random_state=0, max_iter=8, n_threads=2).U

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(r,)) for r in ranks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for r in ranks:
            assert np.array_equal(together[r], alone[r])
    assert 2 in before  # or nothing could be restored; some libraries are compiled for one thread only
    assert blas_threads() == before


def _fit_in_child(queue):
    problem = Problem(Square(), Entries.of_transposed(DATA), C=50.0)
    queue.put(solve(problem, 20, random_state=0, max_iter=3, n_threads=2).value)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_does_not_have():
    problem = Problem(Square(), Entries.of_transposed(DATA), C=50.0)
    here = solve(problem, 20, random_state=0, max_iter=3, n_threads=2).value  # starts the threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == here
    finally:
        child.kill()
        child.join()


def interrupt(*_args, **_kwargs):
    raise KeyboardInterrupt


def test_an_interrupted_certificate_keeps_the_fit(monkeypatch):
    monkeypatch.setattr(dual.Duals, "largest", interrupt)
    problem = Problem(Square(), Entries.of_transposed(DATA), C=50.0)
    result = solve(problem, 3, random_state=0, tol=1e-3)
    assert result.outcome is Outcome.INTERRUPTED
    assert result.history["relative_gradient"][-1] <= 1e-3
    assert result.certificate.relative_gap == np.inf
    assert "interrupted" in str(result.certificate)


def test_an_interrupt_before_the_first_point_is_passed_on(monkeypatch):
    monkeypatch.setattr(Objective, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        solve(Problem(Square(), Entries.of_transposed(DATA), C=50.0), 3)


@pytest.mark.parametrize("C", [1e12, 1e15])
def test_the_dual_is_of_use_at_any_c(C):
    Y = np.random.default_rng(0).standard_normal((6, 8))
    c = solve(Problem(Square(), Entries(Y), C=C), 2, random_state=0, max_iter=20).certificate
    # Y itself has no loss, so the optimum is at most half the square of its trace norm.
    optimum = 0.5 * np.linalg.svd(Y, compute_uv=False).sum() ** 2
    assert 0.05 * optimum < c.dual <= optimum * (1 + 1e-9)


# ---- estimators: in threads, in joblib, after a fork, with more threads than cores ---------------------------------

FEW_ITERATIONS = pytest.mark.filterwarnings("ignore:not converged after max_iter=5")
TABLE = np.random.default_rng(0).standard_normal((40, 5))
TASKS = np.repeat(range(4), 10)


def fits():
    """Some fits of several kinds, each as a function of nothing."""
    matrix = DATA.to_csr()[:60, :40].toarray()
    matrix[matrix == 0] = np.nan
    matrix[:, 0] = 1.0
    matrix[0] = 1.0
    quick = {"random_state": 0, "max_iter": 5, "n_threads": 2}
    return [
        partial(_factors, plain_completion(3, 10.0, **quick), matrix),
        partial(_factors, plain_completion(3, 10.0, bounds=(-10, 10), **quick), matrix),
        partial(_factors, plain_completion(2, 10.0, loss="absolute", **quick), matrix),
        partial(_coefficients, MultiTaskRegressor(2, 10.0, loss="huber", **quick), TABLE, TABLE[:, 0], TASKS),
    ]


def _factors(model, X):
    return clone(model).fit(X).row_factors_


def _coefficients(model, X, y, tasks):
    return clone(model).fit(X, y, tasks=tasks).coef_


@FEW_ITERATIONS
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_estimators_in_joblib(backend):
    alone = [fit() for fit in fits()]
    together = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(fit)() for fit in fits() * 2)
    for here, there in zip(alone * 2, together, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@FEW_ITERATIONS
def test_estimators_after_a_fork():
    """The child has none of the threads that fits have started here."""
    alone = [fit() for fit in fits()]
    child = os.fork()
    if child == 0:  # nothing of pytest's may run here: not even an exception may leave
        try:
            same = all(np.array_equal(fit(), here) for fit, here in zip(fits(), alone, strict=True))
            os._exit(0 if same else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@FEW_ITERATIONS
def test_more_threads_than_cores():
    many = 8 * (os.cpu_count() or 1) + 3
    for fit in fits():
        model, *data = fit.args
        crowded = partial(fit.func, clone(model).set_params(n_threads=many), *data)
        np.testing.assert_array_equal(crowded(), fit())
