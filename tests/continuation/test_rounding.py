"""Whole problems with other losses than the square: the certificate against CVXPY, and the way to kinks."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from poisson import Poisson
from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.certificate.relaxation import amounts_by_iteration
from rslm.continuation.rounding import LEAST, rounded_stages
from rslm.continuation.stage import Reached
from rslm.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Quantile,
    Square,
    SquaredHinge,
)
from rslm.measurements import Entries

D, T = 8, 9
ORACLE = 1e-6  # relative accuracy of the other solver's optimum

LOSSES = {
    "absolute": (Absolute(), lambda y, w: cp.abs(y - w)),
    "ε-insensitive": (EpsilonInsensitive(0.2), lambda y, w: cp.pos(cp.abs(y - w) - 0.2)),
    "quantile": (Quantile(0.3), lambda y, w: cp.maximum(0.3 * (y - w), -0.7 * (y - w))),
    "Huber": (Huber(0.3), lambda y, w: 0.5 * cp.huber(y - w, 0.3)),
    "hinge": (Hinge(), lambda y, w: cp.pos(1 - cp.multiply(y, w))),
    "squared hinge": (SquaredHinge(), lambda y, w: cp.square(cp.pos(1 - cp.multiply(y, w)))),
    "logistic": (Logistic(), lambda y, w: cp.logistic(-cp.multiply(y, w))),
}


def observed(loss, noise=0.3, shape=(D, T)):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y += noise * rng.standard_normal(shape)
    Y[rng.random(shape) < 0.3] = np.nan
    return np.sign(Y) if loss.binary else Y


@cache
def problem(name, C, weighted):
    rng = np.random.default_rng(1)
    weights = {"row_weights": rng.uniform(0.3, 2, D), "column_weights": rng.uniform(0.3, 2, T)} if weighted else {}
    loss = LOSSES[name][0]
    return Problem(loss, Entries(observed(loss)), C=C, **weights)


@cache
def optimum(name, C, weighted):
    loss, formula = LOSSES[name]
    p, Y = problem(name, C, weighted), observed(loss)
    known = np.nonzero(~np.isnan(Y))
    W = cp.Variable((D, T))
    norm = W
    if weighted:
        norm = cp.diag(np.sqrt(p.row_weights)) @ W @ cp.diag(np.sqrt(p.column_weights))
    task = cp.Minimize(C * cp.sum(formula(Y[known], W[known])) + 0.5 * cp.square(cp.normNuc(norm)))
    tight = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
    return float(cp.Problem(task).solve(solver=cp.CLARABEL, **tight))


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


@pytest.fixture(params=[0.3, 2.0])
def C(request):
    return request.param


@pytest.mark.parametrize("name", LOSSES)
def test_the_global_optimum_is_found_and_certified(name, C, weighted):
    """Kinks or not: with room for the rank, the bounds close around the optimum of another solver."""
    result = solve(problem(name, C, weighted), D, random_state=0, max_iter=2000)
    c, best = result.certificate, optimum(name, C, weighted)
    assert c.dual <= best * (1 + ORACLE)
    assert c.primal >= best * (1 - ORACLE)
    # 1e-4: with kinks the last rounding is only tried for so many iterations.
    assert c.relative_gap <= (1e-4 if LOSSES[name][0] in (Absolute(), EpsilonInsensitive(0.2), Quantile(0.3), Hinge())
                              else 1e-6)  # fmt: skip
    assert result.converged


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_bounds_hold_anywhere(name, rank, C, weighted):
    p, best = problem(name, C, weighted), optimum(name, C, weighted)
    for seed in range(3):
        U = np.random.default_rng(seed).standard_normal((D, rank))
        e = Objective(p).evaluate(U / np.linalg.norm(U))
        c = certify(p, e, 1e-6, False)
        assert c.dual <= best * (1 + ORACLE)
        assert c.primal >= best * (1 - ORACLE)
        assert c.primal <= e.value * (1 + 1e-12)  # the trace norm of W is at most the penalty of its factors
        assert 0 <= c.scaling <= 1


@pytest.mark.parametrize("name", LOSSES)
def test_no_scaling_of_the_dual_is_better(name):
    p = problem(name, 3.0, False)
    U = np.random.default_rng(5).standard_normal((D, 2))
    e = Objective(p).evaluate(U / np.linalg.norm(U))
    c, z, y = certify(p, e, 1e-6, False), e.dual(), p.data.values

    def dual(alpha):
        return -p.C * np.sum(p.loss.conjugate(y, -alpha * z / p.C)) - 0.5 * (alpha * c.sigma_max) ** 2

    # 1e-9: of a dual that is no parabola the maximum is searched for, and it is flat there.
    assert max(dual(a) for a in np.linspace(0, 1 - 1e-12, 300)) <= c.dual * (1 + 1e-9)


# ---- a loss with values below 0 -------------------------------------------------------------------------------------


def test_a_users_loss_is_certified_where_it_is_negative():
    rng = np.random.default_rng(0)
    Y = rng.poisson(6.0, (D, T)).astype(float)
    result = solve(Problem(Poisson(), Entries(Y), C=2.0), D, random_state=0)
    W = cp.Variable((D, T))
    task = cp.Minimize(2.0 * cp.sum(cp.exp(W) - cp.multiply(Y, W)) + 0.5 * cp.square(cp.normNuc(W)))
    best = float(cp.Problem(task).solve(solver=cp.CLARABEL))
    assert best < 0
    assert result.outcome.value == "certified"
    assert result.certificate.primal == pytest.approx(best, rel=1e-5)
    assert result.certificate.dual <= result.certificate.primal


# ---- the way to kinks -----------------------------------------------------------------------------------------------


def walk(p, rank=2, from_data=True):
    """The stages, each solved well enough to go on."""
    way = rounded_stages(p, from_data)
    stage, seen = next(way), []
    while stage is not None:
        seen.append(stage)
        answer = solve(stage.problem, rank, random_state=0, tol=1e-4)
        e = Objective(stage.problem).evaluate(answer.U)
        certificate = certify(p, e, 1e-6, True) if stage.last else None
        try:
            stage = way.send(Reached(e, certificate))
        except StopIteration:
            stage = None
    return seen


@pytest.mark.parametrize("from_data", [False, True])
def test_smooth_losses_are_solved_as_they_are(from_data):
    for loss in (Square(), Logistic(), SquaredHinge(), Poisson()):
        p = Problem(loss, Entries(np.abs(observed(loss)) if isinstance(loss, Poisson) else observed(loss)), C=1.0)
        *before, stage = rounded_stages(p, from_data)
        assert (stage.problem, stage.last, stage.relaxations) == (p, True, ())
        assert [s.problem.loss for s in before] == ([Square()] if from_data and loss != Square() else [])


def test_the_square_loss_on_the_way_bends_like_the_loss():
    p = Problem(Logistic(), Entries(observed(Logistic())), C=8.0)
    assert next(rounded_stages(p, True)).problem.C == 8.0 * 0.25 / 2


def test_without_noise_the_rounding_ends_tiny():
    p = Problem(Absolute(), Entries(observed(Absolute(), noise=0.0, shape=(40, 30))), C=1e3)
    seen = walk(p)
    assert seen[0].problem.loss == Square()
    assert seen[0].amount("loss") == np.inf
    deltas = [s.amount("loss") for s in seen[1:]]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] <= LEAST * np.median(np.abs(p.data.values))
    assert seen[-1].last


def test_with_noise_it_stays_near_the_errors():
    p = Problem(Absolute(), Entries(observed(Absolute(), noise=0.3, shape=(40, 30))), C=1e3)
    last = walk(p)[-1]
    assert last.last
    assert 1e-3 < last.amount("loss") < 0.3


def test_a_narrow_huber_loss_is_reached_over_wider_ones():
    p = Problem(Huber(1e-3), Entries(observed(Huber(1e-3), noise=0.3, shape=(40, 30))), C=1e5)
    seen = walk(p)
    assert len(seen) > 2
    assert seen[-1].problem is p
    assert seen[-1].relaxations == ()


def test_from_a_given_start_there_is_no_square_loss():
    p = Problem(Absolute(), Entries(observed(Absolute())), C=1.0)
    assert all(s.amount("loss") < np.inf for s in walk(p, from_data=False))
    U = np.random.default_rng(0).standard_normal((D, 3))
    assert solve(p, 3, start=U, max_iter=1000).converged


def test_history_tells_the_rounding():
    p = Problem(Absolute(), Entries(observed(Absolute(), noise=0.0, shape=(40, 30))), C=1e3)
    result = solve(p, 2, random_state=0)
    rounding = amounts_by_iteration(result.history["relaxations"])["loss"]
    assert rounding[0] == np.inf  # the square loss
    assert rounding[-1] == result.certificate.relaxed("loss") > 0
    assert "rounded by" in str(result.certificate)
    assert np.all(np.diff(result.history["evaluations"]) >= 0)


@pytest.mark.parametrize("most", [0, 1, 3, 7])
def test_out_of_iterations_on_the_way(most):
    """Wherever it ends, the answer is one for the loss itself."""
    p = Problem(Absolute(), Entries(observed(Absolute(), shape=(40, 30))), C=10.0)
    result = solve(p, 2, random_state=0, max_iter=most)
    assert result.n_iter <= most
    assert not result.converged
    assert result.certificate.dual <= result.certificate.primal
    W = result.left @ result.V.T
    Y = observed(Absolute(), shape=(40, 30))
    known = ~np.isnan(Y)
    value = 10.0 * np.abs((Y - W)[known]).sum() + 0.5 * np.linalg.norm(W, "nuc") ** 2
    assert result.certificate.primal == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("after", range(1, 16))
def test_an_interrupt_never_mixes_two_problems(after, monkeypatch):
    """Also before a stage has a point of its own: the value is that of the loss rounded as the certificate says."""
    counter, original = iter(range(1, 10**6)), Objective.evaluate

    def evaluate(self, U):
        if next(counter) == after + 1:
            raise KeyboardInterrupt
        return original(self, U)

    data = Entries(observed(Absolute(), shape=(40, 30)))
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "evaluate", evaluate)
        result = solve(Problem(Absolute(), data, C=10.0), 2, random_state=0)
    assert result.outcome.value == "interrupted"
    rounding = result.certificate.relaxed("loss")
    loss = Absolute().rounded(rounding) if rounding > 0 else Absolute()
    again = Objective(Problem(loss, data, C=10.0)).evaluate(result.U)
    # 1e-9: kinks that are not rounded leave V with what rounding errors leave of an exact fit.
    assert result.value == pytest.approx(again.value, rel=1e-9)
