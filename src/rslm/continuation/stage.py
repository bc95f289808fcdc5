"""A stage of a continuation path, and where it has ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from rslm.certificate import Certificate, Relaxation
from rslm.certificate.relaxation import Relaxations, amount_of
from rslm.evaluation.objective import Evaluation
from rslm.problem import Problem
from rslm.runtime.types import Floats

STIRRED = 1e-3  # norm of the noise that is added to U, which has norm 1


@dataclass(frozen=True)
class Stage:
    """A problem to solve, warm-started from the stage before."""

    problem: Problem
    last: bool = False  #: it is solved to the requested tolerance
    relaxations: Relaxations = ()  #: what makes it easier than the given problem
    sharp: bool = False  #: it is solved beyond the tolerance, because its path depends on rounding errors
    start: Floats | None = None  #: where to begin, if not where the stage before has ended
    limit: int | None = None  #: after this many iterations the path continues, or the previous answer is returned

    def amount(self, of: str) -> float:
        """By how much a part is relaxed; 0 if it is not."""
        return amount_of(self.relaxations, of)

    def relaxed(self, of: str, amount: float, problem: Problem | None = None) -> Stage:
        """The stage with the part `of` relaxed by this `amount` (0 for not at all), and the resulting `problem`."""
        others = tuple(r for r in self.relaxations if r.of != of)
        own = (Relaxation(of, amount),) if amount > 0 else ()
        return replace(self, relaxations=others + own, problem=self.problem if problem is None else problem)

    @property
    def replaced(self) -> bool:
        """Whether the problem has a smaller C than the given one, or a square loss in place of its loss."""
        return self.amount("C") > 0 or self.amount("loss") == np.inf

    @property
    def answers(self) -> bool:
        """Whether a solution also solves the given problem, apart from finite relaxations."""
        return not self.replaced and self.amount("bounds") < np.inf


@dataclass(frozen=True)
class Reached:
    """Where a stage has ended."""

    evaluation: Evaluation
    certificate: Certificate | None  #: after a last stage
    kept: float | None = None  #: after a last stage, the objective of this stage for a W that keeps the bounds


Stages = Generator[Stage, Reached, None]


def advance(path: Stages, reached: Reached) -> Stage | None:
    """The next stage, None after the last one."""
    try:
        return path.send(reached)
    except StopIteration:
        return None


def stirred(evaluation: Evaluation) -> Floats:
    """The point with a little noise in the (almost) zero singular directions of U, which a finer stage may need."""
    U = evaluation.U
    _, values, right = np.linalg.svd(U, full_matrices=False)
    lost = values <= STIRRED * values[0]
    if not lost.any():
        return evaluation.point
    noise = np.random.default_rng(0).standard_normal((len(U), np.count_nonzero(lost)))
    U = U + (noise * (STIRRED / float(np.linalg.norm(noise)))) @ right[lost]
    return evaluation.at(U / np.linalg.norm(U))
