"""What a proximal step does to the singular values of each matrix of a stack: shrink them, or keep the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rslm.runtime.types import Floats

TINY = float(np.finfo(np.float64).tiny)


class Spectral(Protocol):
    """A rule for the singular values of each matrix of a stack."""

    def kept(self, values: Floats) -> Floats:
        """The new singular values from descending ones of shape (panels, n)."""
        ...

    def miss(self, left: Floats, targets: Floats, values: Floats, moved: Floats) -> Floats:
        """How far each panel is from its solution, relatively.

        From what W leaves of the targets, the targets, the singular values of W, and the last step.
        """
        ...

    def taken(self, which: Any) -> Spectral:
        """The same rule for some panels of the stack."""
        ...


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The proximal step of C·(sum of squares) + ½‖W‖_*²: all singular values are lowered by ‖W‖_* / 2C."""

    C: Floats  #: (panels,)

    def kept(self, values: Floats) -> Floats:
        # With m values kept, their sum is Σs − mθ, and θ is that sum divided by 2C.
        levels = np.cumsum(values, axis=1) / (2.0 * self.C[:, None] + np.arange(1, values.shape[1] + 1))
        many = np.maximum((values > levels).sum(axis=1), 1)
        return np.asarray(np.maximum(values - np.take_along_axis(levels, many[:, None] - 1, axis=1), 0.0))

    def miss(self, left: Floats, targets: Floats, values: Floats, moved: Floats) -> Floats:
        """The relative duality gap, with the best scaling of the dual variables 2C · left."""
        squares = (left**2).sum(axis=(1, 2))
        primal = self.C * squares + 0.5 * values.sum(axis=1) ** 2
        along = 2.0 * self.C * (left * targets).sum(axis=(1, 2))
        against = self.C * squares + 2.0 * (self.C * largest(left)) ** 2
        dual = 0.25 * np.maximum(along, 0.0) ** 2 / np.maximum(against, TINY)
        return np.asarray((primal - dual) / np.maximum(primal, TINY))

    def taken(self, which: Any) -> Shrunk:
        return Shrunk(self.C[which])


@dataclass(frozen=True, eq=False)
class Limited:
    """Least squares among matrices of at most a rank: the largest singular values stay as they are."""

    rank: int

    def kept(self, values: Floats) -> Floats:
        return np.where(np.arange(values.shape[1]) < self.rank, values, 0.0)

    def miss(self, left: Floats, targets: Floats, values: Floats, moved: Floats) -> Floats:
        """The size of the last step."""
        sizes = np.sqrt((targets**2).sum(axis=(1, 2)))
        return np.asarray(np.sqrt((moved**2).sum(axis=(1, 2))) / np.maximum(sizes, TINY))

    def taken(self, which: Any) -> Limited:
        return self


def changed(G: Floats, rule: Spectral) -> tuple[Floats, Floats]:
    """Each matrix of the stack with new singular values, and these values, descending.

    The singular vectors are those of the smaller Gram matrix. That loses digits of small singular values only, which
    the rule removes.
    """
    wide = G.shape[1] <= G.shape[2]
    gram = np.matmul(G, G.transpose(0, 2, 1)) if wide else np.matmul(G.transpose(0, 2, 1), G)
    squares, vectors = np.linalg.eigh(gram)
    values = np.sqrt(np.maximum(squares[:, ::-1], 0.0))
    kept = rule.kept(values)
    factors = (kept / np.maximum(values, TINY))[:, ::-1]
    projection = np.matmul(vectors * factors[:, None, :], vectors.transpose(0, 2, 1))
    return (np.matmul(projection, G) if wide else np.matmul(G, projection)), kept


def largest(S: Floats) -> Floats:
    """The largest singular value of each matrix of a stack."""
    wide = S.shape[1] <= S.shape[2]
    gram = np.matmul(S, S.transpose(0, 2, 1)) if wide else np.matmul(S.transpose(0, 2, 1), S)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0))
