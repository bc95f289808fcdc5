"""Far from the solution, large problems are evaluated in single precision. It decides nothing that a user can see."""

import numpy as np
import pytest

from rslm import Objective, Problem, solve
from rslm.inner.entries import weighted
from rslm.location import Location
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.solvers import Outcome

RNG = np.random.default_rng(0)
LOW_RANK = RNG.standard_normal((60, 3)) @ RNG.standard_normal((3, 50))
Y = np.where(RNG.random((60, 50)) < 0.5, LOW_RANK + 0.5 * RNG.standard_normal((60, 50)), np.nan)


@pytest.fixture
def single(monkeypatch):
    """As if every problem were large."""
    monkeypatch.setattr(weighted, "MANY", 0)


def in_double(problem, rank=4, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted, "MANY", 1 << 62)
        return solve(problem, rank, random_state=0, **options)


# In single precision the squares of these overflow or underflow.
@pytest.mark.parametrize("size", [1e-38, 1e-24, 1e-21, 1e-12, 1.0, 1e12, 1e18, 1e20, 1e36])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_size_of_data(single, size, dtype):
    problem = Problem(Square(), Entries((size * Y).astype(dtype)), C=2.0)
    found, expected = solve(problem, 4, random_state=0), in_double(problem)
    assert found.outcome is expected.outcome is Outcome.CERTIFIED
    # A relative gradient of 1e-6 leaves about its square in the objective, times the condition of the problem.
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.n_iter <= expected.n_iter + 5  # rounding may cost a few steps, not dozens


def test_rounding_is_not_a_stall(single):
    """Where C is large, steps soon change the objective by less than single precision shows."""
    problem = Problem(Square(), Entries(Y), C=1e5)
    found, expected = solve(problem, 2, random_state=0), in_double(problem, 2)
    assert found.outcome is expected.outcome is Outcome.STATIONARY
    assert found.value == pytest.approx(expected.value, rel=1e-9)  # as above


def test_no_end_is_believed(single, monkeypatch):
    """Even if nothing but rounding, overflow or underflow is left of the numbers in single precision."""
    monkeypatch.setattr(weighted, "MODERATE", np.inf)
    for size in (1e-30, 1e30):
        problem = Problem(Square(), Entries(size * Y), C=2.0)
        found = solve(problem, 4, random_state=0)
        assert found.outcome is Outcome.CERTIFIED
        assert len(found.history["objective"]) == found.n_iter + 1


def test_covariates_are_in_double(single):
    """What covariates explain changes at every point, so rounded targets would be those of another point."""
    X = RNG.standard_normal((np.isfinite(Y).sum(), 2))
    problem = Problem(Square(), Entries(Y), C=2.0, location=Location(covariates=X))
    found, expected = solve(problem, 4, random_state=0), in_double(problem)
    np.testing.assert_array_equal(found.history["objective"], expected.history["objective"])


@pytest.mark.parametrize("at", [2, 3, 4, 6])
def test_the_answer_after_ctrl_c_is_in_double(single, monkeypatch, at):
    problem, original, count = Problem(Square(), Entries(Y), C=2.0), Objective.evaluate, []

    def evaluate(self, U):
        count.append(1)
        if len(count) == at:
            raise KeyboardInterrupt
        return original(self, U)

    monkeypatch.setattr(Objective, "evaluate", evaluate)
    found = solve(problem, 4, random_state=0, tol=1e-12)
    monkeypatch.setattr(Objective, "evaluate", original)
    expected = Objective(problem).evaluate(found.U)
    assert found.outcome is Outcome.INTERRUPTED
    assert found.value == expected.value
    np.testing.assert_array_equal(found.V, expected.V)
