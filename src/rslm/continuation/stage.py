"""A problem on the path to the one that was asked for, and where it has ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from rslm.certificate import Certificate, Relaxation
from rslm.certificate.relaxation import Relaxations, amount_of
from rslm.evaluation.objective import Evaluation
from rslm.problem import Problem
from rslm.runtime.types import Floats

STIRRED = 1e-3  # norm of the noise that is added to U, whose own norm is 1


@dataclass(frozen=True)
class Stage:
    """A problem to solve, warm-started from the stage before."""

    problem: Problem
    last: bool = False  #: it is solved to the tolerance that was asked for
    relaxations: Relaxations = ()  #: what makes it easier than the problem that was asked for
    sharp: bool = False  #: it is solved beyond the tolerance, because rounding errors decide the path to its answer
    start: Floats | None = None  #: where to begin, if not where the stage before has ended
    tries: int | None = None  #: after this many iterations it is left, for the next stage or the answer of the last one

    def amount(self, of: str) -> float:
        """By how much a part is relaxed; 0 if it is not."""
        return amount_of(self.relaxations, of)

    def relaxed(self, of: str, amount: float, problem: Problem | None = None) -> Stage:
        """The stage with one part relaxed by this amount, none if that is 0, and the `problem` that this makes."""
        others = tuple(r for r in self.relaxations if r.of != of)
        own = (Relaxation(of, amount),) if amount > 0 else ()
        return replace(self, relaxations=others + own, problem=self.problem if problem is None else problem)

    @property
    def replaced(self) -> bool:
        """Whether the problem has another loss or C than the one that was asked for, and not only a rounded one."""
        return self.amount("C") > 0 or self.amount("loss") == np.inf

    @property
    def answers(self) -> bool:
        """Whether a solution is one of the problem that was asked for, apart from finite relaxations."""
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


def stirred(U: Floats) -> Floats:
    """U with a little noise in the directions that it has lost, which a finer problem may need."""
    _, values, right = np.linalg.svd(U, full_matrices=False)
    lost = values <= STIRRED * values[0]
    if not lost.any():
        return U
    noise = np.random.default_rng(0).standard_normal((len(U), np.count_nonzero(lost)))
    U = U + (noise * (STIRRED / float(np.linalg.norm(noise)))) @ right[lost]
    return np.asarray(U / np.linalg.norm(U))
