"""The normal prior of the coefficients of one side, whose mean and precision are drawn as well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.runtime.types import Floats

PULL = 1.0  # rows of coefficients that the distribution of the mean counts for
SHARE = 0.3  # usual size of effects, and of products of factors, relative to the values


@dataclass(frozen=True)
class NormalPrior:
    """Coefficients are normal with this mean and precision matrix."""

    mean: Floats  #: (k,)
    precision: Floats  #: (k, k)

    def axes(self) -> tuple[Floats, Floats]:
        """The eigenvalues of the precision, and the axes in which it is diagonal, as columns."""
        values, vectors = np.linalg.eigh(self.precision)
        return np.maximum(values, np.finfo(float).tiny), vectors


@dataclass(frozen=True)
class Hyperprior:
    """The normal–Wishart distribution of the prior of one side: of the coefficients of all rows, or of all columns.

    The mean is normal around 0 with `PULL` times the precision, which is Wishart with k degrees of freedom and
    diag(k `sizes`²) as the inverse of its scale. Together they count for k + 1 rows of coefficients.
    """

    sizes: Floats  #: (k,), of the coefficients

    @classmethod
    def usual(cls, rank: int, effects: bool) -> Hyperprior:
        """That of factors and, if there are any, effects of values whose mean square is 1."""
        factors = np.full(rank, np.sqrt(SHARE) / max(rank, 1) ** 0.25)
        return cls(np.append(factors, SHARE) if effects else factors)

    def drawn(self, table: Floats, rng: np.random.Generator) -> NormalPrior:
        """A prior from its distribution, given the coefficients (count, k)."""
        count, k = table.shape
        centre = table.mean(axis=0)
        apart = table - centre
        scatter = apart.T @ apart + PULL * count / (PULL + count) * np.outer(centre, centre)
        scatter[np.diag_indices(k)] += k * self.sizes**2
        # Λ = A⁻ᵀ B Bᵀ A⁻¹, where A Aᵀ is the scatter, and B Bᵀ a Wishart matrix of scale I by Bartlett's decomposition.
        A = np.linalg.cholesky(scatter)
        B = np.tril(rng.standard_normal((k, k)), -1)
        B[np.diag_indices(k)] = np.sqrt(rng.chisquare(k + count - np.arange(k)))
        root = np.linalg.solve(A.T, B)
        error = np.linalg.solve(root.T, rng.standard_normal(k))  # its covariance is Λ⁻¹
        return NormalPrior((count * centre + np.sqrt(PULL + count) * error) / (PULL + count), root @ root.T)
