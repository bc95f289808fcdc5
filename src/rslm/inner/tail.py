"""The coordinates that a location adds to every column of V.

Inner solvers solve at [U, a, b + μ a], with columns (v_t, c_t, 1) of V: the column effect c_t has a ridge of its own,
and the last coordinate is pinned to 1. See `rslm.inner.located`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.problem import Problem
from rslm.runtime.types import Floats, Indices64

FREE = 1e-9  # ridge of an effect without penalty, per observation, for losses that are not quadratic
ROUGH = 1e-2  # least ridge of row effects in a preconditioner, in observations


@dataclass(frozen=True)
class Tail:
    """What follows the coordinates of W."""

    columns: float | None  #: the ridge of the column effects; None where there are none
    pinned: bool
    rows: float  #: the ridge of the row effects, which are the last column of U; 0 where there are none

    @classmethod
    def of(cls, problem: Problem) -> Tail:
        """The tail of a problem, of width 0 without a location."""
        location = problem.location
        if location is None:
            return cls(None, False, 0.0)
        return cls(location.columns, location.pinned, location.rows or 0.0)

    @property
    def width(self) -> int:
        return (self.columns is not None) + self.pinned

    def rank(self, width: int) -> int:
        """How many of this many coordinates are those of W."""
        return width - self.width

    def moving(self, width: int) -> Indices64:
        """Those of this many columns of U that an outer solver may move: all but the vector a."""
        kept = np.arange(width)
        return kept if self.columns is None else np.delete(kept, self.rank(width))

    def ridges(
        self, own: Floats, unit: float, width: int, counts: NDArray[Any], free: float = FREE, pinned: float = math.inf
    ) -> Floats:
        """The ridges of every column: `own` for W, ρ_c/unit for its effect, and that of the pinned coordinate.

        An effect without penalty has a ridge of `free` per observation: with all errors far from kinks, a column has no
        other curvature. Where `counts` is 0, its effect would not be determined.
        """
        if self.width == 0:
            return own
        out = np.repeat(own[:, None], width, axis=1)
        if self.columns is not None:
            out[:, self.rank(width)] = (
                self.columns / unit if self.columns > 0 else np.where(counts > 0, free * counts, 1.0)
            )
        if self.pinned:
            out[:, -1] = pinned
        return out

    def ridges_of_rows(self, own: Floats, unit: float, width: int) -> Floats:
        """The same for the rows of U: the column a does not move, and row effects have the ridge ρ_r/unit."""
        if self.width == 0:
            return own
        out = np.repeat(own[:, None], width, axis=1)
        if self.columns is not None:
            out[:, self.rank(width)] = math.inf
        if self.pinned:
            out[:, -1] = max(self.rows / unit, ROUGH)
        return out

    def diagonal(self, shift: float, width: int) -> Floats:
        """`shift` for the columns of U that belong to W, 1 for the one that does not move, ρ_r for the row effects."""
        out = np.full(width, shift)
        out[self.rank(width) :] = 1.0
        if self.pinned:
            out[-1] = self.rows or np.finfo(float).tiny
        return out

    def square(self, q: Floats, V: Floats) -> float:
        """Σ_t q_t |v_t|², without effects."""
        V = V[:, : self.rank(V.shape[1])]
        return float(np.einsum("t,tk,tk->", q, V, V))

    def cost(self, V: Floats) -> float:
        """½ρ_c |c|²."""
        if self.columns is None:
            return 0.0
        c = V[:, self.rank(V.shape[1])]
        return 0.5 * self.columns * float(c @ c)

    def scaled(self, U: Floats, scale: Floats) -> Floats:
        """The columns of U that belong to W, multiplied by `scale`."""
        if self.width == 0:
            return U * scale
        out = U.copy()
        out[:, : self.rank(U.shape[1])] *= scale
        return out
