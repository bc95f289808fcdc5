"""What a proximal step does to the singular values of each matrix of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.runtime.types import Floats

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The proximal step of C·(sum of squares) + ½‖W‖_*²: all singular values are lowered by ‖W‖_* / 2C."""

    C: Floats  #: (panels,)

    def kept(self, values: Floats) -> Floats:
        """The new singular values from descending ones of shape (panels, n)."""
        # With m values kept, their sum is Σs − mθ, and θ is that sum divided by 2C.
        levels = np.cumsum(values, axis=1) / (2.0 * self.C[:, None] + np.arange(1, values.shape[1] + 1))
        many = np.maximum((values > levels).sum(axis=1), 1)
        return np.asarray(np.maximum(values - np.take_along_axis(levels, many[:, None] - 1, axis=1), 0.0))

    def gap(self, left: Floats, targets: Floats, values: Floats) -> Floats:
        """The relative duality gap of each panel, with the best scaling of the dual variables 2C · left.

        From what W leaves of the targets, the targets, and the singular values of W.
        """
        squares = (left**2).sum(axis=(1, 2))
        primal = self.C * squares + 0.5 * values.sum(axis=1) ** 2
        along = 2.0 * self.C * (left * targets).sum(axis=(1, 2))
        against = self.C * squares + 2.0 * (self.C * largest(left)) ** 2
        dual = 0.25 * np.maximum(along, 0.0) ** 2 / np.maximum(against, TINY)
        return np.asarray((primal - dual) / np.maximum(primal, TINY))

    def taken(self, which: Any) -> Shrunk:
        """The same rule for some panels of the stack."""
        return Shrunk(self.C[which])


def changed(G: Floats, rule: Shrunk) -> tuple[Floats, Floats]:
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
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0)))
