"""What was relaxed to solve a problem, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: What can be relaxed: C by a factor, the kinks of a loss by δ, bounds by ε, a linear structure by δ.
RELAXED = ("C", "loss", "bounds", "structure")
_COSTS = {
    "loss": "the rounding of the loss",
    "bounds": "the softness of the bounds",
    "structure": "the smoothing of the structure",
}
_LINES = {
    "loss": "solved with the kinks of the loss rounded by {:.3g}",
    "bounds": "solved with bounds softened by {:.3g}; W keeps them",
    "structure": "solved with the structure smoothed by {:.3g}; W has it",
}


@dataclass(frozen=True)
class Relaxation:
    """One part of a problem that was made easier, and by how much."""

    of: str  #: "C", "loss", "bounds" or "structure"
    #: The factor by which C is smaller, δ of a rounded loss, ε of soft bounds, or δ of a smoothed structure. Infinite
    #: if the loss is replaced by a square loss, or the bounds are left out.
    amount: float

    @property
    def cost(self) -> str:
        """The name of its contribution to the duality gap."""
        return _COSTS[self.of]

    def __str__(self) -> str:
        return _LINES[self.of].format(self.amount)


Relaxations = tuple[Relaxation, ...]


def amount_of(relaxations: Iterable[Relaxation], of: str) -> float:
    """By how much one part is relaxed; 0 if it is not."""
    return next((r.amount for r in relaxations if r.of == of), 0.0)


def finite_amount(relaxations: Iterable[Relaxation], of: str) -> float:
    """By how much one part is relaxed; 0 if it is not relaxed, or replaced altogether."""
    amount = amount_of(relaxations, of)
    return amount if amount < math.inf else 0.0


def relaxations_of(amounts: Iterable[float]) -> Relaxations:
    """The relaxations with these `amounts`, given in the order of `RELAXED`; 0 means that a part is not relaxed."""
    return tuple(Relaxation(of, float(amount)) for of, amount in zip(RELAXED, amounts, strict=True) if amount > 0)


def amounts_by_iteration(history: Iterable[Relaxations]) -> dict[str, NDArray[np.float64]]:
    """One array for each of `RELAXED`, from the relaxations of every iteration."""
    rows = [[amount_of(relaxations, of) for of in RELAXED] for relaxations in history]
    return dict(zip(RELAXED, np.array(rows, dtype=np.float64).reshape(-1, len(RELAXED)).T.copy(), strict=True))
