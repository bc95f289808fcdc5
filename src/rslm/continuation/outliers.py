"""Smaller C from which a path to a loss that resists outliers begins.

With a limit on the rank and a large C, an outlier may get a factor of its own, in place of a weak factor of the data,
and a path that has begun there does not leave: the error of the outlier would have to grow before others fall. Where
the loss has a largest slope, a smaller C prevents that. An entry pulls at W with at most C · slope. If errors have
random signs, their pull is a matrix of spectral norm C · slope · (√(n/d) + √(n/T)) for n observations; it carries no
factor as long as this is less than ‖W‖_*, which is at least about √(dT) times the usual size of the targets. Factors of
the data, where many errors have the same sign, are found at that C, and remain when it grows.

120 × 40 positive data of rank 3 with 5 % outliers of 10 times their usual size and C = 1e4: the error of unobserved
entries is 0.01 instead of 7, after 60 iterations instead of 150.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rslm.continuation.stage import Stage
from rslm.problem import Problem

CARRIED = 10.0  # C relative to the one at which outliers carry no factor, above which a smaller C pays
FIRST = 3.0  # the smallest C, likewise
STEP = 10.0  # largest factor from one C to the next
LARGEST = 1e6  # factor by which C is divided


def resisting(problem: Problem, usual: float) -> list[float]:
    """The factors by which C is divided, the largest first; an empty list if outliers cannot carry a factor.

    `usual` is the usual size of the targets.
    """
    harmless = resisting_C(problem, usual)
    if not harmless > 0.0 or CARRIED * harmless >= problem.C:
        return []
    whole = min(problem.C / (FIRST * harmless), LARGEST)
    steps = math.ceil(math.log(whole) / math.log(STEP))
    return [float(whole ** (k / steps)) for k in range(steps, 0, -1)]


def with_smaller_C(stage: Stage, factor: float) -> Stage:
    """A stage with its C divided by a factor, and likewise the ridges of effects, which W shall not have to replace."""
    problem, location = stage.problem, stage.problem.location
    if location is not None:
        assert location.spread is not None
        location = location.scaled(1.0 / factor).measured(location.spread)
    return stage.relaxed("C", factor, replace(problem, C=problem.C / factor, location=location))


def resisting_C(problem: Problem, usual: float) -> float:
    """The C up to which errors of random signs carry no factor; infinite if that is not known."""
    interval, data = problem.loss.interval, problem.data
    if interval is None or interval.mirrored or problem.structure.form == "linear" or "entries" not in data.traits:
        return math.inf
    d, T = problem.shape
    n = data.sum_of_squared_weights()
    return usual * math.sqrt(d * T) / (interval.reach * (math.sqrt(n / d) + math.sqrt(n / T)))
