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
PRIOR = 0.25  # inverse variance of the logits of memories before there are data: they are 0.02 … 0.98
STEP = 1e-4  # of finite differences
MOST_STEPS = 20
LARGEST_STEP = 2.0  # of an unknown
MOST_DAMPING = 1e3
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
        free = max(self.likelihood.observed - self.parameters - 1, 0.5)
        price = sum(group.price for group in self.likelihood.groups)
        return self.found.deviance + 2 * price + 2 * self.parameters * (1 + (self.parameters + 1) / free)

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
        deviance = likelihood.evaluate(memories, partial).restricted + 2 * len(partial)
        starts.append((deviance, values, partial))
    _, values, partial = min(starts, key=lambda start: start[0])
    unknowns = np.concatenate([logit(np.array(values)), 2 * np.arctanh(np.clip(partial, -0.95, 0.95))])
    return _improved(likelihood, unknowns)


def _autoregression(likelihood: Likelihood, memories: Memories, most: int) -> Floats:
    """Burg's partial correlations of the residual, of the order with the least criterion."""
    v = likelihood.residual(memories)
    count, used = likelihood.observed, likelihood.states + 1
    partial, power = autoregression.burg(v, most)
    orders = np.arange(most + 1) + used
    price = 2 * orders * (1 + (orders + 1) / np.maximum(count - orders - 1, 0.5))
    return partial[: int(np.argmin(count * np.log(np.maximum(power, np.finfo(float).tiny)) + price))]


def at_unknowns(likelihood: Likelihood, unknowns: Floats) -> Estimate:
    """The estimate that these unknowns stand for."""
    memories, partial = translated(likelihood, unknowns)
    here = likelihood.evaluate(memories, partial)
    return Estimate(likelihood, memories, partial, here, unknowns, _jacobian(likelihood, unknowns, here))


def _improved(likelihood: Likelihood, unknowns: Floats) -> Estimate:
    """By Levenberg's and Marquardt's method on the scaled errors."""
    here, damping = at_unknowns(likelihood, unknowns), 1e-2
    free = sum(group.evolves for group in likelihood.groups)
    prior = np.append(np.full(free, PRIOR), np.zeros(len(unknowns) - free))
    for _ in range(MOST_STEPS if len(unknowns) else 0):
        u, J, scaled = here.unknowns, here.jacobian, here.found.scaled
        unit = float(scaled @ scaled) / max(likelihood.observed - likelihood.states, 1)
        gram, gradient = J.T @ J + unit * np.diag(prior), J.T @ scaled + unit * prior * u
        scale = np.diag(gram) + 1e-10 * float(np.trace(gram)) + np.finfo(float).tiny
        step = np.linalg.solve(gram + damping * np.diag(scale), -gradient)
        trial = np.clip(u + np.clip(step, -LARGEST_STEP, LARGEST_STEP), -BOUND, BOUND)
        there = likelihood.evaluate(*translated(likelihood, trial))
        gain = here.found.restricted - there.restricted + float(prior @ (u**2 - trial**2))
        if gain > 0:
            here, damping = at_unknowns(likelihood, trial), max(damping / 10, 1e-6)
        if 0 < gain < ENOUGH or damping > MOST_DAMPING:
            break
        if gain <= 0:
            damping *= 10
    return here


def _jacobian(likelihood: Likelihood, u: Floats, here: Evaluation) -> Floats:
    columns = np.empty((len(u), len(here.scaled)))
    for k in range(len(u)):
        moved = moved_inwards(u, k)
        there = likelihood.evaluate(*translated(likelihood, moved))
        columns[k] = (there.scaled - here.scaled) / (moved[k] - u[k])
    return columns.T


def moved_inwards(u: Floats, k: int) -> Floats:
    """The unknowns with one of them moved, for finite differences."""
    moved = u.copy()
    moved[k] += STEP if u[k] < 0 else -STEP
    return moved
