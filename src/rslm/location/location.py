"""Where the predictions are located: W is shrunk towards zero, so what is not centred at zero needs a model of its own.

    prediction of observation p = (M W)_p + μ + b_i + c_t + x_pᵀβ,     cost ½ρ_r |b|² + ½ρ_c |c|²

for an entry (i, t). With features, where (M W)_p = x_pᵀ w_t, the row effects are coefficients b that all columns share:
w_t + b takes the place of w_t. In either case W + a cᵀ + (b + μ a) 1ᵀ takes the place of W, with the vector a for which
M(a cᵀ) is c_t at every observation of column t.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rslm.runtime.magnitudes import LARGEST, as_float
from rslm.runtime.types import Floats


@dataclass(frozen=True, eq=False)
class Location:
    """Which parts the location has, and how much each is penalised.

    Parameters
    ----------
    mean : bool
        Whether there is a common mean μ, which is never penalised. Where row or column effects are not penalised
        either, they include the mean, and μ is 0.
    rows : float, optional
        The ridge ρ_r of the row effects; 0 if they are not penalised, None if there are none.
    columns : float, optional
        The ridge ρ_c of the column effects, likewise.
    covariates : array of shape (n_observations, k), optional
        Numbers known of every observation, in the order of ``data.places()``: entries are ordered by columns, rows of
        tasks by task. Their coefficients are not penalised.
    """

    mean: bool = True
    rows: float | None = None
    columns: float | None = None
    covariates: Floats | None = None
    #: The unit in which solvers measure effects, the spread of the targets; `Problem` sets it.
    spread: float | None = field(default=None, init=False)

    def __init__(
        self,
        mean: bool = True,
        rows: float | None = None,
        columns: float | None = None,
        covariates: ArrayLike | None = None,
    ) -> None:
        for name, ridge in (("rows", rows), ("columns", columns)):
            if ridge is not None and not 0.0 <= as_float(ridge) <= LARGEST:
                raise ValueError(
                    f"{name} must be None, or a ridge from 0 (not penalised) to {LARGEST:g}; got {ridge!r}"
                )
            object.__setattr__(self, name, None if ridge is None else float(ridge))
        if not isinstance(mean, bool | np.bool_):
            raise TypeError(f"mean must be True or False; got {mean!r}")
        object.__setattr__(self, "mean", bool(mean))
        object.__setattr__(self, "covariates", None if covariates is None else _checked(covariates))
        if not (self.mean or rows is not None or columns is not None or covariates is not None):
            raise ValueError("a location needs a part: mean, rows, columns or covariates; or use location=None")

    @property
    def pinned(self) -> bool:
        """Whether there is anything that all columns share."""
        return self.mean or self.rows is not None

    @property
    def n_covariates(self) -> int:
        return 0 if self.covariates is None else self.covariates.shape[1]

    def without_mean(self) -> Location:
        """The same location where effects that are not penalised include the mean."""
        return self._copy(mean=False)

    def measured(self, spread: float) -> Location:
        """The same location with a `spread` of the targets."""
        return self._copy(spread=spread)

    def _copy(self, **changes: object) -> Location:
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    def scaled(self, factor: float) -> Location:
        """The location with ridges that are `factor` times as large."""
        rows, columns = (None if ridge is None else factor * ridge for ridge in (self.rows, self.columns))
        return Location(self.mean, rows, columns, self.covariates)

    def __repr__(self) -> str:
        parts = ["mean"] if self.mean else []
        parts += [
            f"{name}={getattr(self, name):.4g}" for name in ("rows", "columns") if getattr(self, name) is not None
        ]
        parts += [] if self.covariates is None else [f"{self.covariates.shape[1]} covariates"]
        return f"Location({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class Effects:
    """The values of a location."""

    mean: float
    rows: Floats  #: (d,)
    columns: Floats  #: (T,)
    coefficients: Floats  #: (k,), of the covariates

    @classmethod
    def none(cls, shape: tuple[int, int], covariates: int = 0) -> Effects:
        """No effects."""
        return cls(0.0, np.zeros(shape[0]), np.zeros(shape[1]), np.zeros(covariates))

    def cost(self, location: Location) -> float:
        """½ρ_r |b|² + ½ρ_c |c|²."""
        parts = ((location.rows, self.rows), (location.columns, self.columns))
        return 0.5 * math.fsum(ridge * float(effects @ effects) for ridge, effects in parts if ridge is not None)

    def scaled(self, factor: float) -> Effects:
        """The effects of data that are `factor` times as large."""
        return Effects(self.mean * factor, self.rows * factor, self.columns * factor, self.coefficients * factor)


def _checked(covariates: ArrayLike) -> Floats:
    X = np.asarray(covariates)
    if X.ndim != 2 or X.shape[1] < 1 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"covariates must be real numbers of shape (n_observations, k); got {X.dtype} of shape {X.shape}"
        )
    X = np.ascontiguousarray(X, dtype=np.float64)
    finite = np.isfinite(X)
    if not finite.all():
        p, k = (int(n) for n in np.argwhere(~finite)[0])
        raise ValueError(
            f"covariates must be finite; covariates[{p}, {k}] is {X[p, k]}. Fill missing ones, or leave them out"
        )
    return X
