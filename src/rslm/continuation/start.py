"""Where to start: the leading singular vectors of the data as the loss sees them, missing entries taken as zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.evaluation.objective import Objective
from rslm.inner.smoothed_linear import observed_parameters
from rslm.linalg.spectrum import weighted_gram
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.measurements import Tasks
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats
from rslm.structures import Smoothed

PASSES = 3  # over the data
SAMPLE = 100_000  # targets that tell what is usual
OVERSAMPLING = 4


def initial_point(objective: Objective, rank: int, random_state: int | np.random.Generator | None) -> Floats:
    """U ∝ u_i √σ_i from the leading singular triplets, by randomised subspace iteration.

    A few passes with a block of vectors cost less than the many passes of a Lanczos method with one, and the start
    need not be accurate.
    """
    problem = objective.problem
    rng = np.random.default_rng(random_state)
    usual = usual_size(problem.data.sample(SAMPLE))
    gram = gram_of_data(problem, usual, objective.n_threads)
    X: Floats = rng.standard_normal((problem.shape[0], min(problem.shape[0], rank + OVERSAMPLING, 128)))
    for _ in range(PASSES):
        look()
        X = gram(np.linalg.qr(X)[0])
        if not np.isfinite(X).all():  # squares of the data overflow: the solver will say so
            X = rng.standard_normal(X.shape)
            break
    left, squares, _ = np.linalg.svd(X, full_matrices=False)
    U = left[:, :rank] * squares[:rank] ** 0.25
    size = float(np.linalg.norm(U))
    if size == 0.0:  # all data are zero: any point is as good
        U = left[:, :rank]
        size = float(np.linalg.norm(U))
    return U / size


def gram_of_data(problem: Problem, usual: float, n_threads: int) -> Callable[[Floats], Floats]:
    """X ↦ Y YᵀX for the data Y, of this usual size, as the loss sees them, with the structure of W if it is linear."""
    if isinstance(problem.data, Elsewhere):
        return problem.data.gram(problem, usual)
    values = CheckedLoss(problem.loss).guess(problem.data.values, usual)
    if isinstance(problem.data, Tasks) and problem.data.intercept:
        values = problem.data.centred(values)
    if not isinstance(problem.structure, Smoothed):
        return weighted_gram(problem, values, n_threads)
    w, structure = observed_parameters(problem, values), problem.structure.structure
    return lambda X: structure.whole_times(w, structure.whole_transposed_times(w, X))
