"""Fits beside one another: in threads, in forked processes, and under Ctrl-C at any moment."""

import multiprocessing
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from rslm import Objective, Problem, certificate, solve
from rslm.datasets import make_ratings
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.solvers import Outcome

DATA = make_ratings(n_users=300, n_items=200, n_ratings=20_000, rank=3, random_state=0).data


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


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
    monkeypatch.setattr(certificate, "largest_singular_value_squared", interrupt)
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
