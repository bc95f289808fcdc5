"""Systems of Hankel structures: factorised and iterative solutions against dense ones, and the choice between them."""

import numpy as np
import pytest

from rslm import Objective, Problem, solve
from rslm.inner.linear import hankel_system, systems
from rslm.inner.linear.banded import Banded
from rslm.inner.linear.deflated import Deflated
from rslm.inner.linear.systems import Iterative, Theta, penalty_product
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.linalg.exponentials import exponential_space
from rslm.losses import Huber, Square
from rslm.measurements import Samples
from rslm.structures import Hankel, Smoothed

SHAPES = [(2, 30, 1), (31, 2, 1), (30, 2, 2), (16, 16, 3), (1, 7, 1), (7, 1, 1), (1, 1, 1), (20, 100, 1)]


def a_system(structure, rank, missing, delta, seed=0):
    """Θ, the diagonal of the loss with different missing samples in every channel, and A as a dense matrix."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((structure.window, min(rank, *structure.shape)))
    theta = Theta(U / np.linalg.norm(U), delta)
    of_loss = np.where(rng.random(structure.size) < missing, 0.0, 20.0)
    of_loss[0] = 20.0  # at least one sample is observed
    d, T, n = structure.window, structure.windows, structure.samples
    inverse = np.linalg.inv(theta.U @ theta.U.T + delta * np.eye(d))
    A = np.diag(of_loss)
    for c in range(structure.channels):
        for t in range(T):
            at = slice(c * n + t, c * n + t + d)
            A[at, at] += inverse
    return theta, of_loss, A


def iterative(structure, of_loss, theta):
    penalty = penalty_product(structure, theta)
    return Iterative(lambda x: of_loss * x + penalty(x), Deflated(structure, of_loss, theta), 0.0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("rank", "missing", "delta"), [(1, 0.0, 1e-2), (3, 0.5, 1e-3), (3, 0.9, 1e-5)])
def test_both_solutions_are_that_of_the_dense_system(shape, rank, missing, delta):
    structure = Hankel(*shape)
    theta, of_loss, A = a_system(structure, rank, missing, delta)
    b = of_loss * np.random.default_rng(1).standard_normal(structure.size)
    wanted = np.linalg.solve(A, b)
    size = np.abs(wanted).max()
    for system in (Banded(structure, of_loss, theta), iterative(structure, of_loss, theta)):
        # The condition of A is up to 1e7, so that about nine digits are left.
        np.testing.assert_allclose(system.solve(b), wanted, atol=1e-8 * size)


def test_the_preconditioner_is_symmetric_and_positive_definite():
    structure = Hankel(12, 40, channels=2)
    theta, of_loss, _ = a_system(structure, 4, 0.3, 1e-4)
    B = np.array([Deflated(structure, of_loss, theta)(e) for e in np.eye(structure.size)])
    assert np.allclose(B, B.T, atol=1e-10 * np.abs(B).max())
    assert np.linalg.eigvalsh(0.5 * (B + B.T))[0] > 0


@pytest.mark.parametrize("window", [50, 150, 300])
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-7])
def test_the_number_of_steps_depends_neither_on_delta_nor_on_the_window(window, delta):
    t = np.arange(600)
    h = 0.995**t * np.cos(0.3 * t) + 0.99**t * np.cos(0.5 * t + 1) + 0.98**t
    structure = Hankel(window, 601 - window)
    left, s, _ = np.linalg.svd(structure.matrix(h), full_matrices=False)
    U = left[:, :5] * np.sqrt(s[:5])
    theta, of_loss = Theta(U / np.linalg.norm(U), delta), np.full(600, 2e3)
    penalty, count = penalty_product(structure, theta), 0

    def product(x):
        nonlocal count
        count += 1
        return of_loss * x + penalty(x)

    b = of_loss * (h + 0.05 * np.random.default_rng(0).standard_normal(600))
    x = conjugate_gradients(product, b, Deflated(structure, of_loss, theta), tol=1e-8, most=100)
    assert count <= 20  # 8 to 14 here; 42 to 137 with a diagonal preconditioner and δ = 1e-7
    assert np.linalg.norm(of_loss * x + penalty(x) - b) <= 1.1e-8 * np.linalg.norm(b)


def test_the_exponentials_of_the_windows_are_found():
    t = np.arange(60.0)
    series = np.stack([0.9**t, 1.02**t, 0.97**t * np.cos(0.4 * t), 0.97**t * np.sin(0.4 * t)])
    windows = np.concatenate([[s[k : k + 12] for k in range(40)] for s in series])
    Q = np.linalg.svd(windows.T, full_matrices=False)[0][:, :4]
    Z = exponential_space(Q, 60)
    assert Z.shape == (60, 8)
    assert np.allclose(Z.T @ Z, np.eye(8), atol=1e-12)
    for column in (*series, *(t * series)):
        assert np.linalg.norm(column - Z @ (Z.T @ column)) < 1e-6 * np.linalg.norm(column)
    assert exponential_space(Q[:, :0], 60).shape == (60, 0)
    assert exponential_space(np.ones((1, 1)), 60).shape == (60, 0)


def test_the_choice_follows_time_and_memory(monkeypatch):
    chosen = hankel_system.is_factorised
    assert chosen(Hankel(200, 801), 5, 1)
    assert chosen(Hankel(201, 800), 5, 1)
    assert chosen(Hankel(1000, 10_000), 20, 1)
    assert not chosen(Hankel(1000, 10_000), 2, 1)  # an iteration takes few FFTs
    assert chosen(Hankel(300, 99_701), 20, 1)
    assert not chosen(Hankel(1000, 99_001), 20, 1)  # the bands would take 800 MB
    assert not chosen(Hankel(300, 99_701, channels=2), 20, 2)
    assert chosen(Hankel(300, 99_701, channels=2), 20, 1)  # both channels share the bands
    monkeypatch.setattr(hankel_system, "MOST_IN_BANDS", 0)
    assert not chosen(Hankel(2, 3), 1, 1)


def test_too_little_memory_is_an_error_that_says_how_much_is_needed(monkeypatch):
    monkeypatch.setattr(hankel_system, "MOST_IN_BANDS", 0)
    monkeypatch.setattr(hankel_system, "physical_memory", lambda: 1e5)
    problem = Problem(Square(), Samples(np.random.default_rng(0).standard_normal(500)), Hankel(100, 401), C=10.0)
    with pytest.raises(MemoryError, match=r"Hankel\(100, 401\) of rank 3 needs about 0.000288 GB .* has 0.0001 GB"):
        solve(problem, 3, random_state=0)


@pytest.mark.parametrize("loss", [Square(), Huber(0.1)], ids=repr)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_answer_is_the_same_either_way(loss, channels, monkeypatch):
    t = np.arange(90)
    rng = np.random.default_rng(0)
    y = np.stack([0.97**t * np.cos(0.4 * t + c) for c in range(channels)]) + 0.05 * rng.standard_normal((channels, 90))
    y[0, 20:25] = np.nan
    problem = Problem(loss, Samples(y), Hankel(30, 61, channels), C=1e3)
    monkeypatch.setattr(systems, "ROUGH", 1e-11)
    one = solve(problem, 2, random_state=0)
    monkeypatch.setattr(hankel_system, "is_factorised", lambda *_: False)
    other = solve(problem, 2, random_state=0)
    assert one.converged
    assert other.converged
    assert other.history["objective"][-1] == pytest.approx(one.history["objective"][-1], rel=1e-9)


def test_a_released_evaluation_keeps_no_factors():
    problem = Problem(Square(), Samples(np.random.default_rng(0).standard_normal(50)), Smoothed(Hankel(20, 31), 1e-3))
    e = Objective(problem).evaluate(np.eye(20, 2) / np.sqrt(2))
    e.hessian_product(np.ones((20, 2)))
    e.release()
    assert np.isfinite(e.value)
    with pytest.raises(RuntimeError, match="released"):
        e.hessian_product(np.ones((20, 2)))
