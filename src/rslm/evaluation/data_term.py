"""The loss of the observations, C Σ ℓ(y, M W + b), and all other sums over observations that the package needs.

The observations are in this process, or in others: see `rslm.distributed.remote_term`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rslm.evaluation.all_entries import AllEntriesDuals, best_entries, least_loss, product_squared
from rslm.evaluation.dual import (
    BLOCK,
    Duals,
    DualSums,
    StructuredDuals,
    balanced,
    conjugate_part,
    dual_gram,
    sum_in_blocks,
)
from rslm.evaluation.feasible import Correction, make_feasible
from rslm.inner.base import InnerSolution
from rslm.inner.linear.smoothed_linear import observed_parameters
from rslm.location import Effects
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.types import Floats


class Factored(Protocol):
    """A matrix W = U Vᵀ, with the rows of U divided by √p."""

    @property
    def U(self) -> Floats: ...

    @property
    def V(self) -> Floats: ...

    @property
    def intercepts(self) -> Floats | None: ...

    @property
    def effects(self) -> Effects | None: ...

    @property
    def solution(self) -> InnerSolution | None:
        """The inner solution that W comes from, if there is one."""


class DataTerm(Protocol):
    """The observations and the loss of one problem."""

    def value(self, W: Factored) -> float:
        """C Σ ℓ(y, M W + b)."""

    def least_loss(self) -> float:
        """C Σ min_w ℓ(y, w)."""

    def sample(self, W: Factored, size: int) -> tuple[Floats, Floats]:
        """Targets of about `size` observations, evenly spaced, and their predictions."""

    def duals(self, W: Factored) -> DualSums:
        """The dual variables of the inner solution that W comes from."""

    def guess(self, usual: float, effects: Effects | None = None) -> Callable[[Floats], Floats]:
        """X ↦ Y YᵀX for a first guess Y of W; `usual` is the median size of the targets.

        With a location, W is what the `effects` leave.
        """


class LocalTerm:
    """Observations in this process."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.problem, self.n_threads = problem, n_threads

    def predictions(self, W: Factored) -> Floats:
        known = None if W.solution is None else W.solution.predictions
        if known is not None:
            return known
        return self.problem.predict(W.U, W.V, self.n_threads, W.intercepts, W.effects)

    def value(self, W: Factored) -> float:
        y, w, loss, weights = (
            self.problem.data.values,
            self.predictions(W),
            self.problem.loss,
            self.problem.data.weights,
        )

        def of_block(at: slice) -> Floats:
            losses = loss.value(y[at].astype(np.float64), w[at])
            return losses if weights is None else np.asarray(losses * weights[at])

        return self.problem.C * sum_in_blocks(of_block, len(y))

    def least_loss(self) -> float:
        return conjugate_part(self.problem, np.zeros(len(self.problem.data)), 0.0)

    def sample(self, W: Factored, size: int) -> tuple[Floats, Floats]:
        w = self.predictions(W)
        return self.problem.data.sample(size), w[:: len(w) // size + 1]

    def duals(self, W: Factored) -> Duals:
        duals = self.uncorrected_duals(W)
        if self.problem.location is not None:
            correction = Correction(duals, lambda: self.predictions(W))
            make_feasible(correction, self.problem)
            duals.z = correction.z
        return duals

    def uncorrected_duals(self, W: Factored) -> Duals:
        """The dual variables before they are made feasible where parts of a location have no penalty."""
        problem, solution = self.problem, W.solution
        assert solution is not None
        z = solution.dual()
        if problem.data.intercept:
            z = balanced(problem, z)
        if solution.structured_dual is not None:
            return StructuredDuals(problem, z, self.n_threads, solution.structured_dual)
        return Duals(problem, z, self.n_threads, solution.multipliers(), (W.U * problem.row_scale, W.V))

    def guess(self, usual: float, effects: Effects | None = None) -> Callable[[Floats], Floats]:
        if effects is not None:
            return dual_gram(self.problem, residual_duals(self.problem, effects, self.n_threads), self.n_threads)
        problem, data, linear = self.problem, self.problem.data, self.problem.structure.linear
        values = CheckedLoss(problem.loss).guess(data.values, usual)
        if data.intercept:
            values = data.centred(values)
        if linear is None:
            return dual_gram(problem, values, self.n_threads)
        w = observed_parameters(problem, values)
        return lambda X: linear.whole_times(w, linear.whole_transposed_times(w, X))


class AllEntriesTerm(LocalTerm):
    """Observations in this process, and zeros of weight α₀ at all entries."""

    def value(self, W: Factored) -> float:
        of_zeros = self.problem.data.background * product_squared(W.U * self.problem.row_scale, W.V)
        return super().value(W) + self.problem.C * of_zeros

    def least_loss(self) -> float:
        return least_loss(self.problem)

    def uncorrected_duals(self, W: Factored) -> Duals:
        assert W.solution is not None
        A = W.U * self.problem.row_scale
        return AllEntriesDuals(self.problem, W.solution.dual(), self.n_threads, A, W.V, self.predictions(W))

    def guess(self, usual: float, effects: Effects | None = None) -> Callable[[Floats], Floats]:
        return dual_gram(self.problem, best_entries(self.problem), self.n_threads)


def residual_duals(problem: Problem, effects: Effects, n_threads: int) -> Floats:
    """−ω ℓ' of every observation where W is 0."""
    (d, T), y, weights, loss = problem.shape, problem.data.values, problem.data.weights, CheckedLoss(problem.loss)
    z = problem.predict(np.zeros((d, 1)), np.zeros((T, 1)), n_threads, effects=effects)
    for start in range(0, len(z), BLOCK):  # in place, because it may be on disk
        at = slice(start, start + BLOCK)
        z[at] = -loss("gradient", y[at].astype(np.float64), z[at])
        if weights is not None:
            z[at] *= weights[at]
    return z


def local_term(problem: Problem, n_threads: int) -> LocalTerm:
    """The data term of observations in this process."""
    return (LocalTerm if problem.data.background == 0.0 else AllEntriesTerm)(problem, n_threads)


def term_of(problem: Problem, n_threads: int) -> DataTerm:
    """The data term of a problem."""
    remote: Any = problem.data.remote_term(problem)
    term: DataTerm = local_term(problem, n_threads) if remote is None else remote
    return term
