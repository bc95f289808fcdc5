"""The starting point: leading singular vectors of the first guess of the loss, with zeros for missing entries."""

from __future__ import annotations

import numpy as np

from rslm.evaluation.effects import effects_alone
from rslm.evaluation.objective import Objective
from rslm.losses.checked import usual_size
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

PASSES = 3  # over the data
SAMPLE = 100_000  # targets from which their usual size is estimated
OVERSAMPLING = 4


def initial_point(objective: Objective, rank: int, random_state: int | np.random.Generator | None) -> Floats:
    """U ∝ u_i √σ_i from the leading singular triplets, by randomised subspace iteration.

    With a location it begins at the best effects without W, and the triplets are those of what they leave.

    A few passes with a block of vectors cost less than the many passes of a Lanczos method with one, and the start
    need not be accurate.
    """
    problem = objective.problem
    rng = np.random.default_rng(random_state)
    usual = usual_size(problem.data.sample(SAMPLE))
    effects = None if problem.location is None else effects_alone(problem, objective.n_threads)
    gram = objective.guess(usual, effects)
    X: Floats = rng.standard_normal((problem.shape[0], min(problem.shape[0], rank + OVERSAMPLING)))
    for _ in range(PASSES):
        raise_if_stopped()
        X = gram(np.linalg.qr(X)[0])
        if not np.isfinite(X).all():  # squares of the data overflow; the solver will report it
            X = rng.standard_normal(X.shape)
            break
    left, squares, _ = np.linalg.svd(X, full_matrices=False)
    U = left[:, :rank] * squares[:rank] ** 0.25
    size = float(np.linalg.norm(U))
    if size == 0.0:  # all data are zero, so any point will do
        U = left[:, :rank]
        size = float(np.linalg.norm(U))
    return objective.point(U / size, effects)
