"""How uncertain the factors of a row and of a column make the prediction of an entry.

With row factors r and column factors c, row i is a ridge regression on the factors of its n_i columns, and entry (i, j)
has the leverage cⱼᵀ (Σ c cᵀ + ρ_i)⁻¹ cⱼ there: the variance of the prediction relative to that of the noise. The sum is
replaced by n_i times its average over all entries, which is a diagonal in its own basis: then a leverage costs O(rank),
and nothing is kept for a row but n_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.completion.ridges import Ridges
from rslm.estimators.scaling import count_weights
from rslm.kernels import predict_pairs
from rslm.linalg.low_rank import thin_svd
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Side:
    """The regressions of rows on the factors of columns, or the reverse."""

    squares: Floats  #: of the factors of the other side, in the basis in which the average over all entries is diagonal
    inverses: Floats  #: of the systems of every regression, which are diagonals in this basis
    effects: Floats  #: the leverages of the effects of every regression; 0 if it has none

    @classmethod
    def of(cls, others: Floats, of_others: Floats, counts: Floats, ridges: Floats, effect: float | None) -> Side:
        """From the factors of the other side, their numbers of entries, and the ridge of effects, in entries."""
        moments, basis = np.linalg.eigh((others.T * of_others) @ others / max(float(of_others.sum()), 1.0))
        tiny = np.finfo(float).tiny  # where factors are 0, so are their squares
        systems = counts[:, None] * np.maximum(moments, 0.0) + ridges[:, None] + tiny
        effects = np.zeros(len(counts)) if effect is None else 1.0 / (counts + max(effect, 1e-3))
        return cls((others @ basis) ** 2, 1.0 / systems, effects)

    def leverages(self, at: NDArray[Any], others: NDArray[Any]) -> Floats:
        return np.asarray(predict_pairs(at, others, self.inverses, self.squares, 1) + self.effects[at])


@dataclass(frozen=True)
class Leverage:
    """The leverages of entries in the regressions of their rows and of their columns."""

    rows: Side
    columns: Side

    @classmethod
    def of(
        cls,
        factors: tuple[Floats, Floats],
        counts: tuple[Floats, Floats],
        C: float,
        weighting: float,
        ridges: Ridges | None,
    ) -> Leverage:
        """From the factors and the numbers of entries of rows and columns, and the settings of the fit."""
        roots = [np.sqrt(count_weights(n, max(float(n.mean()), 1.0), weighting)) for n in counts]
        P, sizes, Q = thin_svd(factors[0] * roots[0][:, None], factors[1] * roots[1][:, None])
        r, c = (basis * np.sqrt(sizes) / root[:, None] for basis, root in zip((P, Q), roots, strict=True))
        # ½‖W‖_*² has the slope of ‖W‖_* · ½(|r|² + |c|²) at such balanced factors.
        of_rows, of_columns = (sizes.sum() * root**2 / (2.0 * C) for root in roots)
        effects = (None, None) if ridges is None else (ridges.rows, ridges.columns)
        return cls(
            Side.of(c, counts[1], counts[0], of_rows, effects[0]),
            Side.of(r, counts[0], counts[1], of_columns, effects[1]),
        )

    def at(self, i: NDArray[Any], j: NDArray[Any]) -> tuple[Floats, Floats]:
        """The leverages of the entries (i[k], j[k]) in the regressions of their rows, and of their columns."""
        return self.rows.leverages(i, j), self.columns.leverages(j, i)
