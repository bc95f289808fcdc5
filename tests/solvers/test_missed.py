"""Curvature learned from rejected steps, and trials that start from their point."""

import math

import numpy as np
import pytest

from rslm import ObservedMatrix, Problem, solve
from rslm.evaluation.objective import Objective
from rslm.losses import Absolute, Square
from rslm.measurements import Entries
from rslm.runtime.outcome import Outcome
from rslm.solvers.missed import FADING, MOST_TERMS, MissedCurvature, by_row
from rslm.solvers.point import Point
from rslm.solvers.trust_region import truncated_cg
from rslm.structures import Box, SoftBox


def data(d=30, T=40, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d, 3)) @ rng.standard_normal((T, 3)).T + 0.3 * rng.standard_normal((d, T))
    return Entries(ObservedMatrix.from_any(np.where(rng.random((d, T)) < share, W, np.nan)))


def start(d=30, rank=3, seed=1):
    U = np.random.default_rng(seed).standard_normal((d, rank))
    return U / np.linalg.norm(U)


def at_kinks(delta=1e-3):
    return Objective(Problem(Absolute().rounded(delta), data(), C=10.0), 1)


def a_step(objective, size=0.1):
    point = Point(objective.evaluate(start()))
    eta = point.tangent.project(np.random.default_rng(2).standard_normal(point.x.shape))
    eta *= size / np.linalg.norm(eta)
    return point, eta, point.hessian(eta), Point(objective.evaluate(point.tangent.retract(eta)))


def test_a_learned_term_explains_the_gradient_at_the_end_of_the_step():
    point, eta, h_eta, trial = a_step(at_kinks())
    missed = MissedCurvature()
    assert missed.model(point) is point
    assert missed.learn(point, trial, eta, h_eta)
    (term,) = missed.terms
    stiff = term.any(axis=1)
    assert 0 < stiff.sum() < len(term)  # rows whose curvature the step has not shown to be larger get none
    change = point.tangent.project(trial.gradient) - point.gradient
    expected = h_eta + term * by_row(term, eta)
    np.testing.assert_allclose(expected[stiff], change[stiff], rtol=1e-8, atol=1e-8 * np.abs(change).max())
    more = missed.model(point).hessian(eta) - h_eta
    assert np.vdot(eta, more) == pytest.approx(float(np.sum(by_row(term, eta) ** 2)))


def test_the_preconditioner_with_terms_is_exact():
    point, eta, h_eta, trial = a_step(at_kinks())
    missed = MissedCurvature()
    for _ in range(2):
        missed.learn(point, trial, eta, h_eta)
    r = point.x.shape[1]
    apply = point.evaluation.preconditioner
    inverse = np.stack([apply(np.tile(np.eye(r)[k], (len(point.x), 1))) for k in range(r)], axis=2)
    B = np.linalg.inv(inverse) + np.einsum("mik,mil->ikl", missed.terms, missed.terms)
    found = missed.model(point).precondition(point.gradient)
    expected = point.tangent.project(np.linalg.solve(B, point.gradient[:, :, None])[:, :, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_a_step_with_terms_moves_stiff_rows_less():
    point, eta, h_eta, trial = a_step(at_kinks())
    missed = MissedCurvature()
    missed.learn(point, trial, eta, h_eta)
    (term,) = missed.terms
    steps = (truncated_cg(model, 1.0, 0.1).eta for model in (point, missed.model(point)))
    before, after = (np.linalg.norm(by_row(term, step)) for step in steps)
    assert after < before


def test_terms_fade_and_there_are_not_many():
    point, eta, h_eta, trial = a_step(at_kinks())
    missed = MissedCurvature()
    for _ in range(MOST_TERMS + 2):
        missed.learn(point, trial, eta, h_eta)
    assert len(missed.terms) == MOST_TERMS
    before = missed.terms
    missed.fade()
    np.testing.assert_allclose(missed.terms**2, FADING * before**2)


def test_nothing_is_learned_from_a_step_that_leads_nowhere():
    point, eta, h_eta, trial = a_step(at_kinks())
    missed = MissedCurvature()
    trial.value = math.inf
    assert not missed.learn(point, trial, eta, h_eta)
    assert missed.terms is None


def test_a_trial_starts_from_its_point_and_not_from_a_rejected_one():
    """From columns that were solved far away, soft bounds seemed to be violated so much that a point was given up."""
    U = start(200)
    objective = Objective(Problem(Square(), data(200, 300, share=0.01), SoftBox(Box(-0.1, 0.1), 1e-3), C=10.0), 1)
    first = objective.evaluate(U)
    assert math.isfinite(objective.evaluate(1e-3 * U).value)  # its columns are a thousand times as long
    assert objective.evaluate(U).value == math.inf
    first.warm_start()
    again = objective.evaluate(U)
    assert again.value == pytest.approx(first.value, rel=1e-12)
    np.testing.assert_allclose(again.gradient, first.gradient, rtol=1e-8, atol=1e-10 * np.abs(first.gradient).max())


def test_a_continued_fit_knows_what_its_steps_have_taught(tmp_path):
    """With kinks, a fit that was stopped and continued is bitwise the fit that was not."""
    problem = Problem(Absolute(), data(), C=100.0)
    whole = solve(problem, 3, random_state=0, n_threads=1, checkpoint=tmp_path / "whole")
    for at_most in (30, 60, 90):
        part = solve(problem, 3, random_state=0, n_threads=1, max_iter=at_most, checkpoint=tmp_path / "parts")
        assert part.outcome is Outcome.ITERATIONS
    found = solve(problem, 3, random_state=0, n_threads=1, checkpoint=tmp_path / "parts")
    np.testing.assert_array_equal(found.U, whole.U)
    assert found.n_iter == whole.n_iter
