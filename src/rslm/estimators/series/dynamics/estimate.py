"""Memories and autoregression of greatest likelihood, for poles that are given."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit, logit

from rslm.estimators.series.dynamics import autoregression
from rslm.estimators.series.dynamics.innovations import Evaluation, Likelihood, Memories
from rslm.runtime.types import Floats

STARTS = (0.3, 0.9)  # memories from which the search starts
BOUND = 6.0  # of the unknowns: memories up to 0.9975, partial correlations up to tanh(3) = 0.995
STEP = 1e-4  # of finite differences
MOST_STEPS = 20
ENOUGH = 0.01  # gain in deviance below which the search ends


@dataclass(frozen=True)
class Estimate:
    """The best memories and partial correlations, and how the likelihood depends on them."""

    likelihood: Likelihood
    memories: Memories
    partial: Floats
    found: Evaluation
    unknowns: Floats
    jacobian: Floats  #: of the scaled errors, (n, unknowns)

    @property
    def parameters(self) -> int:
        """Those that are counted by a criterion: states, unknowns and the variance."""
        return self.likelihood.states + len(self.unknowns) + 1

    @property
    def criterion(self) -> float:
        """Akaike's, corrected for the number of samples."""
        free = self.likelihood.observed - self.parameters - 1
        if free <= 0:
            return np.inf
        return self.found.deviance + 2 * self.parameters * (1 + (self.parameters + 1) / free)

    @property
    def variance(self) -> float:
        return self.found.squares / max(self.likelihood.observed - self.parameters + 1, 1)


def translated(likelihood: Likelihood, unknowns: Floats) -> tuple[Memories, Floats]:
    """Memories and partial correlations of unbounded numbers."""
    inner = iter(unknowns)
    memories = tuple(float(expit(next(inner))) if group.evolves else 1.0 for group in likelihood.groups)
    return memories, np.tanh(0.5 * np.array(list(inner)))


def estimate(likelihood: Likelihood, most: int) -> Estimate:
    """With an autoregression of at most this order, which the criterion chooses."""
    free = sum(group.evolves for group in likelihood.groups)
    starts = []
    for values in product(STARTS, repeat=free):
        inner = iter(values)
        memories = tuple(next(inner) if group.evolves else 1.0 for group in likelihood.groups)
        partial = _autoregression(likelihood, memories, most)
        deviance = likelihood.evaluate(memories, partial).deviance + 2 * len(partial)
        starts.append((deviance, values, partial))
    _, values, partial = min(starts, key=lambda start: start[0])
    kappa = np.clip(partial, -0.95, 0.95)
    unknowns = np.concatenate([logit(np.array(values)), 2 * np.arctanh(kappa)])
    return _improved(likelihood, unknowns)


def _autoregression(likelihood: Likelihood, memories: Memories, most: int) -> Floats:
    """Burg's partial correlations of the residual, of the order with the least criterion."""
    v = likelihood.residual(memories)
    count, used = likelihood.observed, likelihood.states + 1
    partial, power = autoregression.burg(v, most)
    orders = np.arange(most + 1) + used
    price = 2 * orders * (1 + (orders + 1) / np.maximum(count - orders - 1, 0.5))
    return partial[: int(np.argmin(count * np.log(np.maximum(power, np.finfo(float).tiny)) + price))]


def _improved(likelihood: Likelihood, unknowns: Floats) -> Estimate:
    """By Levenberg's and Marquardt's method on the scaled errors."""

    def at(u: Floats) -> Evaluation:
        return likelihood.evaluate(*translated(likelihood, u))

    here = at(unknowns)
    damping = 1e-2
    J = _jacobian(at, unknowns, here)
    for _ in range(MOST_STEPS if len(unknowns) else 0):
        gram, gradient = J.T @ J, J.T @ here.scaled
        scale = np.diag(gram) + 1e-10 * float(np.trace(gram)) + np.finfo(float).tiny
        step = np.linalg.solve(gram + damping * np.diag(scale), -gradient)
        trial = np.clip(unknowns + np.clip(step, -2.0, 2.0), -BOUND, BOUND)
        there = at(trial)
        gain = here.deviance - there.deviance
        if gain > 0:
            unknowns, here = trial, there
            J = _jacobian(at, unknowns, here)
            damping = max(damping / 10, 1e-6)
            if gain < ENOUGH:
                break
        else:
            damping *= 10
            if damping > 1e3:
                break
    memories, partial = translated(likelihood, unknowns)
    return Estimate(likelihood, memories, partial, here, unknowns, J)


def _jacobian(at, u: Floats, here: Evaluation) -> Floats:
    columns = []
    for k in range(len(u)):
        moved = u.copy()
        moved[k] += STEP if u[k] < 0 else -STEP
        columns.append((at(moved).scaled - here.scaled) / (moved[k] - u[k]))
    return np.array(columns).reshape(len(u), len(here.scaled)).T
