"""Mean, row effects and column effects of observations that are on the workers of a cluster."""

from dataclasses import astuple

import numpy as np
import pytest
from clusters import kill_one, regressions

from rslm import MatrixCompletion, ObservedMatrix, Problem, solve
from rslm.distributed import distribute
from rslm.distributed.tasks import distribute_tasks
from rslm.evaluation.data_term import term_of
from rslm.evaluation.effects import effects_alone
from rslm.evaluation.objective import Objective
from rslm.inner.choose import has_solver
from rslm.location import Location
from rslm.losses import Hinge, Huber, Logistic, Quantile, Square, SquaredHinge
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Entries, Tasks
from rslm.structures import Box

N, M = 60, 30  # samples and features
SAME, SAME_W = 1e-9, 1e-6  # what is promised of converged fits: of the objective, and of W relative to its scale
BOTH = Location(rows=2.0, columns=3.0)
TRACE = {"row_weights": np.linspace(0.5, 2, M), "column_weights": np.linspace(2, 0.5, N)}


def ratings(weighted=False, n=N, m=M):
    rng = np.random.default_rng(0)
    W = 3 + 0.5 * rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal(m)
    W = W + 0.5 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, m))
    i, j = np.nonzero(rng.random((n, m)) < 0.4)
    y = np.clip(W[i, j] + 0.2 * rng.standard_normal(len(i)), 1, 5)
    data = ObservedMatrix.from_triplets(i, j, y, (n, m))
    return data.weighted(rng.random(len(data)) + 0.5) if weighted else data


def here_and_there(client, loss, data, location, box=None, C=1.0, **settings):
    if isinstance(data, Tasks):
        here, there = data, distribute_tasks(data, client)
    else:
        here, there = Entries.of_transposed(data), distribute(data, client).measurement(CheckedLoss(loss).targets)
    return [Problem(loss, where, box, C=C, location=location, **settings) for where in (here, there)]


def fitted(here, there, rank=2):
    return solve(here, rank, random_state=0), solve(there, rank, random_state=0)


def location(effects):
    """The mean with both effects, at all entries."""
    return effects.mean + np.add.outer(effects.rows, effects.columns)


def assert_same(a, b):
    """Sums are made in another order there, so the last digits differ."""
    assert a.converged
    assert b.outcome is a.outcome
    assert b.certificate.primal == pytest.approx(a.certificate.primal, rel=SAME)
    # The dual value moves with the gradient, not with its square, so it is as accurate as W.
    assert b.certificate.dual == pytest.approx(a.certificate.dual, rel=SAME_W)
    W = a.U @ a.V.T
    scale = max(np.abs(W).max(), np.abs(a.effects.rows).max(), abs(a.effects.mean), 1.0)
    np.testing.assert_allclose(b.U @ b.V.T, W, rtol=0, atol=SAME_W * scale)
    np.testing.assert_allclose(location(b.effects), location(a.effects), rtol=0, atol=SAME_W * scale)
    for name in ("mean", "rows", "columns"):  # what one gains and another loses changes the objective hardly at all
        np.testing.assert_allclose(getattr(b.effects, name), getattr(a.effects, name), rtol=0, atol=10 * SAME_W * scale)


CASES = {
    "square": (Square(), None, {}),
    "weighted trace norm": (Square(), None, TRACE),
    "by way of smaller C": (Square(), None, {"C": 1e4}),
    "huber": (Huber(0.5), None, {}),
    "huber, weighted trace norm": (Huber(0.5), None, TRACE),
    "bounds": (Square(), Box(1.5, 4.5), {}),
    "bounds of columns": (Square(), Box(np.linspace(1.5, 2, N), None), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_that_of_one_process(client, case):
    loss, box, settings = CASES[case]
    assert_same(*fitted(*here_and_there(client, loss, ratings(weighted=True), BOTH, box, **settings)))


def test_kinks(client):
    problems = here_and_there(client, Quantile(0.3), ratings(n=7, m=5), BOTH, C=0.2)
    assert_same(*fitted(*problems, rank=1))
    assert not any(has_solver(problem) for problem in problems)  # with effects, kinks are rounded


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_two_classes(client, loss):
    data = ratings(n=12, m=8)
    binary = data.with_values((data.values > 3).astype(float))
    here, there = here_and_there(client, loss, binary, BOTH, C=0.3)
    assert_same(*fitted(here, there, rank=1))


# Without a ridge, the dual variables of every row or column must sum to zero.
UNPENALISED = [Location(rows=0.0), Location(columns=0.0), Location(rows=0.0, columns=0.0)]
PENALISED = [
    Location(),
    Location(mean=False, rows=1.0),
    Location(mean=False, columns=1.0),
    Location(rows=0.0, columns=2.0),
    Location(rows=2.0, columns=0.0),
]


@pytest.mark.parametrize(
    ("loss", "location"),
    [*((Square(), each) for each in UNPENALISED + PENALISED), (Huber(0.5), UNPENALISED[-1])],
    ids=repr,
)
def test_parts_of_the_location(client, loss, location):
    assert_same(*fitted(*here_and_there(client, loss, ratings(), location)))


@pytest.mark.parametrize(
    ("loss", "weighted", "location"),
    [
        (Square(), True, BOTH),
        (Square(), True, Location(columns=0.0)),
        (Huber(0.5), False, Location()),
        (Huber(0.5), False, Location(rows=0.0)),
    ],
    ids=repr,
)
def test_tasks(client, location, loss, weighted):
    X, y, tasks = regressions(6, 10, 200, common=1.0, slope=0.3)
    weights = np.random.default_rng(0).random(len(y)) + 0.5 if weighted else None
    assert_same(*fitted(*here_and_there(client, loss, Tasks(X, y, tasks, weights=weights), location)))


def test_dual_variables_that_must_be_balanced(client):
    """With the mean alone and few rows at the margin, the nearest feasible z is outside the domain of the conjugate."""
    data = ratings(n=24, m=15)
    binary = data.with_values((data.values > 3.8).astype(float))
    here, there = here_and_there(client, Hinge(), binary, Location(mean=True, rows=None, columns=None), C=3.0)
    rounded = [Problem(Hinge().rounded(0.1), p.data, C=3.0, location=Location()) for p in (here, there)]
    objectives = [Objective(problem, 1) for problem in rounded]
    U = np.random.default_rng(0).standard_normal((15, 1))
    found = [o.evaluate(o.point(U / np.linalg.norm(U))) for o in objectives]  # no solution: Σz is far from 0
    duals = [e.duals(problem) for e, problem in zip(found, (here, there), strict=True)]
    assert duals[1]._change.sides is not None
    for sums in duals:
        assert np.isfinite(sums.conjugate_part(0.999))
    for name in ("quadratic", "largest", "frobenius_squared"):
        a, b = (getattr(sums, name)() for sums in duals)
        assert b == pytest.approx(a, rel=1e-12)  # rounding errors of sums in another order
    assert duals[0].conjugate_part(0.5) == pytest.approx(duals[1].conjugate_part(0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("location", "weighted"),
    [(BOTH, True), (Location(rows=0.0), False), (Location(rows=0.0), True), (Location(mean=False, columns=1.0), True)],
    ids=repr,
)
def test_effects_alone_and_the_first_guess(client, location, weighted):
    here, there = here_and_there(client, Huber(0.5), ratings(weighted), location, Box(0, 6), **TRACE)
    a, b = (effects_alone(problem, 1) for problem in (here, there))
    for name in ("mean", "rows", "columns"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=0, atol=1e-6)  # √ of the relative decrement
    X = np.random.default_rng(0).standard_normal((M, 4))
    products = [term_of(problem, 1).guess(1.0, a)(X) for problem in (here, there)]
    np.testing.assert_allclose(products[1], products[0], rtol=1e-10)


def test_derivatives(client):
    """One point: value, gradient, Hessian product, preconditioner and curvature, to rounding errors."""
    rng = np.random.default_rng(0)
    for loss, box in ((Square(), None), (Huber(0.5), None), (Square(), Box(2, 4)), (Huber(0.5), Box(2, 4))):
        here, there = here_and_there(client, loss, ratings(True), BOTH, **TRACE)
        if box is not None:
            here, there = (soft_of(problem, box) for problem in (here, there))
        objectives = [Objective(problem, 1) for problem in (here, there)]
        U = rng.standard_normal((M, 3))
        point = objectives[0].point(U / np.linalg.norm(U), effects_alone(here, 1))
        a, b = (objective.evaluate(point) for objective in objectives)
        assert b.value == pytest.approx(a.value, rel=1e-12)
        xi = rng.standard_normal(point.shape)
        pairs = [(a.gradient, b.gradient), (a.hessian_product(xi), b.hessian_product(xi)), (a.V, b.V)]
        pairs += [(a.preconditioner(xi), b.preconditioner(xi))]
        for one, other in pairs:  # rounding errors times the conditioning of the systems
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * np.abs(one).max())
        y, w = zip(*(e.sample(p, 50) for e, p in ((a, here), (b, there))), strict=True)
        np.testing.assert_array_equal(y[1], y[0])
        np.testing.assert_allclose(w[1], w[0], rtol=1e-9)
        assert b.primal(there) == pytest.approx(a.primal(here), rel=1e-12)


def soft_of(problem, box):
    from dataclasses import replace

    from rslm.structures import SoftBox

    return replace(problem, structure=SoftBox(box, 0.1))


@pytest.mark.parametrize("case", ["bounds"])
def test_a_fit_goes_on_bitwise_from_its_checkpoint(client, case, tmp_path):
    loss, box, settings = CASES[case]

    def run(name, location=BOTH, **limits):
        there = here_and_there(client, loss, ratings(True), location, box, **settings)[1]
        return solve(there, 2, random_state=0, tol=1e-3, checkpoint=tmp_path / name, **limits)

    whole = run("whole")
    run("parts", max_iter=whole.n_iter // 2)
    parts = run("parts")
    np.testing.assert_array_equal(parts.U, whole.U)
    np.testing.assert_array_equal(parts.effects.rows, whole.effects.rows)
    np.testing.assert_array_equal(parts.history["objective"], whole.history["objective"])
    assert parts.certificate == whole.certificate
    with pytest.raises(ValueError, match=r"location: mean, rows 2\.0.* now"):
        run("parts", Location(rows=2.0000001, columns=3.0))


@pytest.mark.parametrize("case", ["huber"])
def test_a_worker_that_is_killed_changes_nothing(processes, case):
    loss, box, settings = CASES[case]
    killed = []
    here, there = here_and_there(processes, loss, ratings(True), BOTH, box, **settings)

    def kill(progress):
        if progress.iteration >= 3 and not killed:
            killed.append(kill_one(processes))

    b = solve(there, 2, random_state=0, callback=kill)
    assert killed
    assert_same(solve(here, 2, random_state=0), b)


def test_dual_variables_of_a_worker_that_is_killed(processes):
    here, there = here_and_there(processes, Huber(0.5), ratings(), Location(rows=0.0, columns=0.0))
    U = np.random.default_rng(0).standard_normal((M, 2))
    sums = []
    for problem in (here, there):
        objective = Objective(problem, 1)
        evaluation = objective.evaluate(objective.point(U / np.linalg.norm(U), effects_alone(problem, 1)))
        sums.append(evaluation.duals(problem))
    kill_one(processes)
    a, b = (each.gram(U) for each in sums)
    np.testing.assert_allclose(b, a, rtol=0, atol=1e-6 * np.abs(a).max())  # conjugate gradients to 1e-7


def test_workers_forget_what_a_fit_has_left(client):
    data = distribute(ratings(), client)
    problem = Problem(Square(), data.measurement(), Box(1.5, 4.5), location=BOTH)
    solve(problem, 2, random_state=0, tol=1e-3)
    del problem
    data.cluster.forget()
    assert data.cluster.each("kept") == [0] * len(data.parts)


def test_covariates_are_refused(client):
    shards = distribute(ratings(), client).measurement()
    with pytest.raises(ValueError, match="covariates need observations in this process"):
        Problem(Square(), shards, location=Location(covariates=np.ones((len(shards), 1))))


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
def test_the_width_of_a_loss_is_found_on_workers_too(client, loss):
    data = ratings()
    here, there = (
        MatrixCompletion(2, 1.0, loss=loss, effects=None, weighting=0.0, random_state=0).fit(data, client=c)
        for c in (None, client)
    )
    assert astuple(there.loss_)[0] == pytest.approx(astuple(here.loss_)[0], rel=1e-12)
