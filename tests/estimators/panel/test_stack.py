"""Fits of stacks of panels reach the optimum, each panel by itself."""

import numpy as np
import pytest

from panels import make_panel
from rslm import Problem, solve
from rslm.estimators.panel.spectral import Shrunk
from rslm.estimators.panel.stack import fit_stack
from rslm.estimators.panel.two_way import TwoWay
from rslm.location import Location
from rslm.losses import Square
from rslm.measurements import Entries


def certified(Y, observed, C, covariates=None):
    """The counterfactual by the certified solver, with all factors allowed."""
    data = Entries(np.where(observed, Y, np.nan))
    given = None if covariates is None else covariates[:, *data.places()].T
    problem = Problem(Square(), data, C=C, location=Location(rows=0.0, columns=0.0, covariates=given))
    result = solve(problem, min(Y.shape), tol=1e-9, n_threads=1)
    assert result.certificate.relative_gap < 1e-7  # solved at all
    found = result.U @ result.V.T + result.effects.rows[:, None] + result.effects.columns
    return found if covariates is None else found + np.tensordot(result.effects.coefficients, covariates, axes=1)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_same_answer_as_the_certified_solver(C):
    Y, treated, _ = make_panel()
    found = fit_stack(Y[None], ~treated[None], Shrunk(np.array([C])), tol=1e-11)
    assert found.miss[0] <= 1e-11
    # The objective is strongly convex in the observed entries: a relative gap of 1e-9 is an error of some 1e-4.
    np.testing.assert_allclose(found.predicted[0], certified(Y, ~treated, C), atol=2e-3)


def test_covariates_are_fitted_as_by_the_certified_solver():
    Y, treated, _ = make_panel()
    x = np.random.default_rng(5).standard_normal((2, *Y.shape))
    Y = Y + 1.5 * x[0] - 0.5 * x[1]
    found = fit_stack(Y[None], ~treated[None], Shrunk(np.array([1.0])), covariates=x, tol=1e-11)
    np.testing.assert_allclose(found.predicted[0], certified(Y, ~treated, 1.0, x), atol=2e-3)  # as above
    np.testing.assert_allclose(found.located.coefficients[0], [1.5, -0.5], atol=0.1)  # noise 0.3 in 400 entries


def test_a_panel_does_not_depend_on_its_stack_or_on_threads():
    Y, treated, _ = make_panel()
    observed = np.repeat(~treated[None], 5, axis=0)
    observed[np.arange(5), np.arange(5)] = False
    stack = np.repeat(Y[None], 5, axis=0)
    whole = fit_stack(stack, observed, Shrunk(np.array([0.1, 1.0, 3.0, 10.0, 1.0])), tol=1e-8, n_threads=2)
    for k, C in enumerate((0.1, 1.0, 3.0, 10.0, 1.0)):
        alone = fit_stack(stack[:1], observed[k : k + 1], Shrunk(np.array([C])), tol=1e-8)
        assert alone.steps[0] == whole.steps[k]
        np.testing.assert_allclose(alone.predicted[0], whole.predicted[k], atol=1e-12)  # rounding


def test_batches_in_threads_give_the_same_bits(monkeypatch):
    monkeypatch.setattr("rslm.estimators.panel.stack.BATCH", 1000)  # two panels each
    Y, treated, _ = make_panel()
    stack = Y + 0.1 * np.random.default_rng(0).standard_normal((7, *Y.shape))
    one, two = (
        fit_stack(stack, ~treated[None], Shrunk(np.full(7, 1.0)), tol=1e-8, n_threads=n).predicted for n in (1, 2)
    )
    assert np.array_equal(one, two)


def test_a_start_near_the_answer_saves_steps():
    Y, treated, _ = make_panel()
    rule = Shrunk(np.array([10.0]))
    cold = fit_stack(Y[None], ~treated[None], rule, tol=1e-8)
    near = fit_stack(Y[None], ~treated[None], rule, tol=1e-12).W
    assert fit_stack(Y[None], ~treated[None], rule, near, tol=1e-8).steps[0] < cold.steps[0]


def test_residuals_satisfy_the_constraints_of_the_dual():
    rng = np.random.default_rng(0)
    observed, x = rng.random((3, 7, 9)) < 0.7, rng.standard_normal((2, 7, 9))
    left = TwoWay(observed, x).residual(np.where(observed, rng.standard_normal((3, 7, 9)), 0.0))
    for sums in (left.sum(axis=1), left.sum(axis=2), np.einsum("bij,kij->bk", left, x)):
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)  # rounding of sums of some ten numbers
    assert not left[~observed].any()
