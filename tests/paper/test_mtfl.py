"""Convex multi-task feature learning, and RSLM on tasks: objectives, optima, and that they are the same problem."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

from paper.cells import run
from paper.methods.tasks import mtfl, rslm_tasks
from paper.studies import tasks as study

WEIGHT = 3.0


@pytest.fixture(scope="module")
def rows():
    """Four tasks with coefficients of rank 2, a constant feature of no use, and means that are not 0."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(4), (9, 12, 7, 15))
    X = np.hstack([rng.standard_normal((len(tasks), 5)) + 0.5, np.ones((len(tasks), 1))])
    W = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 6))
    y = np.einsum("nd,nd->n", X, W[tasks]) + 5.0 * tasks + 0.5 * rng.standard_normal(len(tasks))
    return X, y, tasks


def objective(rows, W, b, weight):
    X, y, tasks = rows
    errors = y - np.einsum("nd,nd->n", X, W[tasks]) - b[tasks]
    return float(errors @ errors) + weight * float(np.linalg.norm(W, "nuc")) ** 2


@pytest.fixture(scope="module")
def optimum(rows):
    X, y, tasks = rows
    W, b = cp.Variable((4, 6)), cp.Variable(4)
    fitted = cp.sum(cp.multiply(X, W[tasks]), axis=1) + b[tasks]
    return float(
        cp.Problem(cp.Minimize(cp.sum_squares(y - fitted) + WEIGHT * cp.square(cp.normNuc(W)))).solve(cp.SCS, eps=1e-8)
    )


def test_it_reaches_the_optimum(rows, optimum):
    data = mtfl.Moments.of(*rows, 4)
    W = mtfl.fit(data, WEIGHT, mtfl.start(6), np.geomspace(0.1, 1e-8, 2000), tol=1e-7).W
    found = objective(rows, W, data.intercepts(W), WEIGHT)
    assert found == pytest.approx(optimum, rel=2e-6)  # that of SCS, and the gap that was asked for
    primal, dual = data.bounds(W, WEIGHT)
    assert primal == pytest.approx(found, rel=1e-10)  # rounding: sums of squares about the means
    assert dual <= optimum * (1.0 + 1e-6)
    assert primal - dual <= 1e-5 * primal  # it closes, if more slowly than the objective falls


def test_objective_falls_with_every_step(rows):
    data = mtfl.Moments.of(*rows, 4)
    steps = list(mtfl.alternate(data, WEIGHT, mtfl.start(6), mtfl.COLD))
    epsilons = [s.epsilon for s in steps]
    assert epsilons == sorted(epsilons, reverse=True)
    smoothed = []
    for step in steps:
        penalty = np.trace(np.linalg.solve(step.D, step.W.T @ step.W + step.epsilon * np.eye(6)))
        smoothed.append(data.errors(step.W)[0] + WEIGHT * penalty)
    assert all(b <= a * (1.0 + 1e-9) for a, b in pairwise(smoothed))  # D is inverted: rounding
    assert smoothed[-1] < 0.7 * smoothed[0]  # and not by rounding alone


def test_path_is_that_of_single_fits(rows):
    """Warm or cold, weak or strong: the optimum of a convex problem, and its rank falls to 1."""
    data = mtfl.Moments.of(*rows, 4)
    path = mtfl.path(data)
    for weight, step in list(zip(mtfl.WEIGHTS, path, strict=True))[::8]:
        primal, dual = data.bounds(step.W, weight)
        assert primal - dual <= 2e-3 * (data.squares - dual)  # twice the tolerance of a fit
    ranks = [mtfl.rank(step.W) for step in path]
    assert ranks[0] == 4  # four tasks, with noise
    assert ranks[-1] == 1
    assert ranks == sorted(ranks, reverse=True)


def test_a_task_without_rows_has_the_mean():
    rng = np.random.default_rng(1)
    X, y, tasks = rng.standard_normal((20, 3)), rng.standard_normal(20), np.repeat([0, 2], 10)
    data = mtfl.Moments.of(X, y, tasks, 3)
    W = mtfl.fit(data, 1.0, mtfl.start(3), mtfl.COLD).W
    assert np.all(W[1] == 0.0)
    assert data.intercepts(W)[1] == pytest.approx(y.mean())


def test_rslm_of_full_rank_is_the_same_problem(rows, optimum):
    fit = rslm_tasks.fit(*rows, rank=4, C=0.5 / WEIGHT)
    assert fit.gap <= 1e-6  # the tolerance of the solver
    assert objective(rows, fit.W, fit.b, WEIGHT) == pytest.approx(optimum, rel=2e-6)


def test_study_without_data_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "SHARED", tmp_path)
    section = run(study.study(quick=True), lambda cells: [] if not cells else pytest.fail("nothing to compute"))
    assert "not measured" in section.body
    assert not section.figures


def test_study_from_its_cells(monkeypatch, tmp_path):
    """On small generated rows in place of the files: cells, tables and the figure."""
    rng = np.random.default_rng(2)
    tasks = np.repeat(np.arange(6), 40)
    X = rng.standard_normal((len(tasks), 6))
    y = np.einsum("nd,nd->n", X, np.outer(rng.standard_normal(6), rng.standard_normal(6))[tasks]) + 0.1 * tasks
    monkeypatch.setattr(study, "school", lambda: (X, y, tasks))
    monkeypatch.setattr(study, "parkinsons", lambda first: (X, y, tasks))
    monkeypatch.setattr(study, "SHARED", tmp_path)
    monkeypatch.setattr(study, "FILES", {"Parkinsons": ".", "School": "."})
    section = run(
        study.study(quick=True), lambda cells: [getattr(study, c.call.split(":")[1])(**c.arguments) for c in cells]
    )
    assert {"School, RSLM", "School, MTFL", "Parkinsons, RSLM"} <= {
        line.split("|")[1].strip() for line in section.body.splitlines() if "|" in line
    }
    assert list(section.figures) == ["tasks"]
