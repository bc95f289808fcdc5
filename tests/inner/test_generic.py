"""The inner solver of every problem that no other one fits."""

import warnings

import numpy as np
import pytest

from rslm import Problem, solve
from rslm.inner import generic
from rslm.losses import Absolute, Square
from rslm.measurements import Entries, Tasks
from rslm.structures import Box, Smooth

RNG = np.random.default_rng(0)
TASKS = Tasks(RNG.standard_normal((40, 3)), RNG.standard_normal(40), np.repeat(np.arange(4), 10))


@pytest.mark.parametrize(("loss", "structure"), [(Absolute(), Smooth(Smooth.path(3))), (Square(), Box(0.0, None))])
def test_a_slow_fit_is_announced_once(loss, structure, monkeypatch):
    problem = Problem(loss, TASKS, structure, C=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(problem, 2, random_state=0, max_iter=3)  # small data are not worth a line
    monkeypatch.setattr(generic, "SLOW", 40)
    with pytest.warns(UserWarning, match="no specialised .*here are 40; max_time limits it") as told:
        solve(problem, 2, random_state=0, max_iter=3)
    assert len(told) == 1


def test_problems_with_a_solver_of_their_own_are_not_announced(monkeypatch):
    monkeypatch.setattr(generic, "SLOW", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(Problem(Square(), Entries(RNG.standard_normal((5, 6))), Box(0.0, None), C=1.0), 2, max_iter=3)
        solve(Problem(Absolute(), TASKS, C=1.0), 2, max_iter=3)
