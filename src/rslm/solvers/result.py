"""The result of a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.certificate import Certificate
from rslm.linalg.low_rank import singular_values
from rslm.location import Effects
from rslm.location.packing import Packing
from rslm.problem import Problem
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats

History = dict[str, Any]

NEGLIGIBLE = 1e-7  # singular values this small relative to the largest one are 0, up to the accuracy of the solver


@dataclass(frozen=True, eq=False)
class Result:
    """The learned matrix W = left Vᵀ, or P(parameters), how it was found and how good it is."""

    problem: Problem
    U: Floats  #: (d, r), Frobenius norm 1
    V: Floats  #: (T, r)
    parameters: Floats | None  #: w of a linear structure: W = P(w), which U Vᵀ is near
    intercepts: Floats | None  #: of the columns
    effects: Effects | None  #: the values of the location
    value: float  #: g(U)
    outcome: Outcome
    certificate: Certificate
    history: History  #: one number per iteration by name, and `relaxations`, a list of them per iteration
    n_iter: int

    @property
    def converged(self) -> bool:
        """Whether the outcome means convergence."""
        return self.outcome.converged

    @property
    def point(self) -> Floats:
        """Where another fit of the same shape may start: U, or U and the effects."""
        return self.U if self.effects is None else Packing.of(self.problem).packed(self.U, self.effects)

    @property
    def left(self) -> Floats:
        """The left factor of W: U, with its rows divided by √p where rows are weighted."""
        p = self.problem.row_weights
        return self.U if p is None else self.U / np.sqrt(p)[:, None]

    @property
    def empty(self) -> bool:
        """Whether there was no time for any point: W is 0, or constant where 0 violates the bounds."""
        return self.n_iter == 0 and not np.isfinite(self.history["relative_gradient"][-1])

    def numerical_rank(self) -> int:
        """The number of singular values of W that are not negligible."""
        linear = self.problem.structure.linear
        if self.parameters is None or linear is None or not linear.formable:
            s = singular_values(self.left, self.V)
        else:  # which U Vᵀ is only near
            s = np.linalg.svd(linear.whole_matrix(self.parameters), compute_uv=False)
        return int((s > NEGLIGIBLE * s[0]).sum())
