"""The objective, stated once.

    minimise over W in D:   C · Σ_p ω_p ℓ(y_p, (M W)_p)  +  ½ ‖diag(√p) W diag(√q)‖_*²

with a loss ℓ, a measurement M with weights ω of its observations, and a structure D; p and q are the row and column
weights; all weights are 1 unless given. With a location, mean, effects and covariates are added to the predictions and
their ridges to the objective (`rslm.location`); then D holds the predictions, location included. A measurement with
zeros at all entries adds C α₀ Σ W² over all of them.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from rslm.location import Effects, Location
from rslm.location.packing import spread_of
from rslm.losses import Loss
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Measurement
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float, workable
from rslm.runtime.types import Floats
from rslm.structures import Free, Structure

LARGEST_RATIO = 4e15  # of loss to trace norm: above it, the trace norm is smaller than rounding errors of the loss
PRECISE, MOST_STEPS = 1e-14, 2000  # of the least squares that leave what effects cannot explain of a covariate
COLLINEAR = 1e-9  # a covariate is collinear with others if at most this share of it is left
PROBES = 16  # targets at which the functions of a loss are tried out


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A structured low-rank learning problem in the paper's orientation d × T.

    Parameters
    ----------
    loss : Loss
        For instance ``Square()``.
    data : Measurement
        What was observed: Entries, AllEntries, Samples, Tasks, Bilinear or one of your own.
    structure : Structure, optional
        The set that W lies in, such as Box or Hankel, or a penalty on W, such as Smooth; None for all matrices, which
        becomes ``Free()``.
    C : float
        Weight of the loss relative to the trace norm; larger fits the data more closely.
    row_weights, column_weights : arrays of length d and T, optional
        Weights p and q of a weighted trace norm.
    location : Location, optional
        Mean, row effects, column effects and covariates that are added to the predictions; None for none.
    """

    loss: Loss
    data: Measurement
    structure: Structure
    C: float
    row_weights: Floats | None
    column_weights: Floats | None
    location: Location | None

    def __init__(
        self,
        loss: Loss,
        data: Measurement,
        structure: Structure | None = None,
        C: float = 1.0,
        row_weights: Floats | None = None,
        column_weights: Floats | None = None,
        location: Location | None = None,
    ) -> None:
        parts = loss, data, Free() if structure is None else structure, C, row_weights, column_weights, location
        for field, part in zip(fields(self), parts, strict=True):
            object.__setattr__(self, field.name, part)
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss must be a Loss, for instance rslm.losses.Square(); got {self.loss!r}")
        if not isinstance(self.data, Measurement):
            raise TypeError(f"data must be a measurement, for instance Entries(Y); got {type(self.data).__name__}")
        if not isinstance(self.structure, Structure):
            raise TypeError(
                f"structure must be None or a Structure such as Box, Smooth or Hankel; got {self.structure!r}"
            )
        self.structure.check_form()
        self.data.validate(self.loss, self.structure, self.location)
        self.structure.check(self.data)
        if self.location is not None:
            self._check_location(self.location)
            if self.location.mean and (
                self.location.columns == 0.0 or (self.location.rows == 0.0 and self._rows_are_entries)
            ):
                object.__setattr__(self, "location", self.location.without_mean())
        if not 0 < as_float(self.C) < math.inf:
            raise ValueError(f"C must be a positive finite number; got {self.C!r}")
        if not LEAST <= as_float(self.C) <= LARGEST:
            raise ValueError(f"C must be a number from {LEAST:g} to {LARGEST:g}; got {self.C!r}")
        object.__setattr__(self, "C", float(self.C))  # a NumPy float32 would lower the precision of all results
        if self.data.at_hand:  # otherwise the processes that hold the observations validate them
            checked = CheckedLoss(self.loss)
            targets = self.data.as_targets(self.loss, checked.targets).checked(workable)
            object.__setattr__(self, "data", targets)
            checked.try_out(np.asarray(targets.values[:PROBES], dtype=np.float64))
        if self.location is not None and self.location.spread is None:
            object.__setattr__(self, "location", self.location.measured(spread_of(self.data, self.loss)))
        for name, length in (("row_weights", self.shape[0]), ("column_weights", self.shape[1])):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _checked_weights(name, given, length))

    def _check_location(self, location: Location) -> None:
        if not isinstance(location, Location):
            raise TypeError(f"location must be None or a Location; got {location!r}")
        if self.structure.form not in ("free", "bounds", "soft bounds"):
            raise ValueError(f"a location can be combined with bounds, but not with {self.structure!r}")
        if self.data.intercept:
            raise ValueError("the data have intercepts; with a location, use Location(columns=0) for them instead")
        if not self.data.locatable and (location.pinned or location.columns is not None):
            raise ValueError(
                f"mean and effects need entries, or tasks with features; got {self.data!r}. Covariates suit all "
                "measurements, and one that is 1 everywhere is a mean"
            )
        if self.structure.box is not None and not self._rows_are_entries and "features" in self.data.traits:
            raise ValueError(
                "bounds and a location need entries: with features, W has coefficients, and effects are not part of it"
            )
        if location.covariates is not None:
            check_covariates(location, self.data)
            if self.structure.box is not None:
                raise ValueError(
                    "bounds hold for all entries, but covariates are known only for the observed ones; leave one out"
                )

    @property
    def _rows_are_entries(self) -> bool:
        """Whether row effects are added to predictions, not to coefficients."""
        return "entries" in self.data.traits

    @cached_property
    def extended(self) -> Problem:
        """The problem whose W includes effects: with a row for the constant, where the data have none.

        Inner solvers solve it at [U, a, b + μ a]; see `rslm.inner.located`.
        """
        if self.location is None:
            return self
        data, _ = self.data.located()
        added = data.shape[0] - self.shape[0]
        p = self.row_weights
        return self._copy(data=data, row_weights=p if p is None else np.append(p, np.ones(added)))

    def _copy(self, **changes: Any) -> Problem:
        """A copy with valid `changes`, which are not checked again."""
        other = copy.copy(self)
        other.__dict__.pop("extended", None)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    @property
    def row_scale(self) -> Floats:
        """1/√p of every row, as a column: W = (row_scale · U) Vᵀ."""
        p = np.ones(self.shape[0]) if self.row_weights is None else self.row_weights
        return np.asarray(1.0 / np.sqrt(p))[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        return self.structure.shape_of(self.data)

    @property
    def plain(self) -> bool:
        """Whether the loss is quadratic and there is no structure, so that no relaxation is needed."""
        return self.loss.quadratic and self.structure.form == "free"

    def check_conditioning(self) -> None:
        """Raise an error if rounding errors would hide the second term of the inner systems X_tᵀX_t + q_t/2C."""
        if not self.loss.quadratic or self.structure.form not in ("free", "bounds"):
            return
        p, q = (1.0 if w is None else float(w.min()) for w in (self.row_weights, self.column_weights))
        most = 0.5 * LARGEST_RATIO * p * q
        if most < self.C:
            weighted = " for these weights" if p * q != 1.0 else ""
            raise ValueError(
                f"C = {self.C:.3g} is too large{weighted}: the trace norm would be "
                f"lost in rounding errors. Use at most {most:.3g}; a much smaller C fits the data as well"
            )

    def predict(
        self, U: Floats, V: Floats, n_threads: int, intercepts: Floats | None = None, effects: Effects | None = None
    ) -> Floats:
        """M W for W = U Vᵀ, with the rows of U divided by √p, plus `intercepts` or `effects` where there are any."""
        X = U if self.row_weights is None else U * self.row_scale
        if effects is not None:
            w = self.data.with_effects(X, V, effects, n_threads)
            return (
                w
                if self.location is None or self.location.covariates is None
                else np.asarray(w + self.of_covariates(effects.coefficients))
            )
        w = self.data.apply(X, V, n_threads)
        return w if intercepts is None else np.asarray(w + self.data.by_column(intercepts))

    def of_covariates(self, coefficients: Floats) -> Floats | float:
        """x_pᵀβ of every observation; 0 without covariates."""
        X = None if self.location is None else self.location.covariates
        return 0.0 if X is None else np.asarray(X @ coefficients)

    def penalty(self, U: Floats, V: Floats) -> float:
        """The penalty of the structure on W = U Vᵀ, with the rows of U divided by √p."""
        return self.structure.penalty(U * self.row_scale, V)


def check_covariates(location: Location, data: Measurement) -> None:
    """Raise an error if a covariate has the wrong length, or can be replaced by others or by effects."""
    X = location.covariates
    assert X is not None
    if not data.at_hand:
        raise ValueError("covariates need observations in this process")
    if len(X) != len(data):
        raise ValueError(f"covariates must have a row for each of the {len(data)} observations; got {len(X)}")
    parts: list[str] = ["the mean"] if location.mean else []
    effects = (("the row effects", location.rows), ("the column effects", location.columns))
    parts += [name for name, ridge in effects if ridge == 0.0]
    left = X if not parts else np.column_stack([_without_effects(location, data, column) for column in X.T])
    sizes = np.linalg.norm(X, axis=0)
    for k in range(X.shape[1]):
        rest = left[:, k] - left[:, :k] @ np.linalg.lstsq(left[:, :k], left[:, k], rcond=None)[0] if k else left[:, k]
        if not float(np.linalg.norm(rest)) > COLLINEAR * sizes[k]:
            others = [*parts, *(f"covariate {j}" for j in range(k))]
            raise ValueError(
                f"covariate {k} is {_collinear_with(others)}, so its coefficient is not determined; leave it out, or "
                "penalise the effects"
            )


def _collinear_with(others: list[str]) -> str:
    if not others:
        return "0 everywhere"
    listed = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
    return f"a combination of {listed}" if len(others) > 1 else f"collinear with {listed}"


def _without_effects(location: Location, data: Measurement, values: Floats) -> Floats:
    """What the best mean and effects without penalty, by least squares, leave of `values` of the observations."""
    (located, a), (d, T) = data.located(), data.shape
    rows, columns = location.rows == 0.0, location.columns == 0.0
    ones, left = np.ones((T, 1)), np.ascontiguousarray(a[:, None])

    def predicted(x: Floats) -> Floats:
        b = np.zeros(len(a))
        b[:d] = rows * x[:d]
        right = np.column_stack([columns * x[d : d + T], np.ones(T)])
        return located.apply(np.column_stack([a, b + location.mean * x[-1] * a]), right)

    def adjoint(z: Floats) -> Floats:
        of_rows = located.adjoint_times(z, ones)[:, 0]
        of_columns = located.adjoint_transposed_times(z, left)[:, 0]
        return np.concatenate([rows * of_rows[:d], columns * of_columns, [location.mean * float(a @ of_rows)]])

    operator = LinearOperator((len(values), d + T + 1), matvec=predicted, rmatvec=adjoint, dtype=np.float64)
    size = float(np.linalg.norm(values)) or 1.0
    found = lsmr(operator, values / size, atol=PRECISE, btol=PRECISE, conlim=0.0, maxiter=MOST_STEPS)[0]
    return np.asarray(values - size * predicted(found))


def _checked_weights(name: str, given: Floats, length: int) -> Floats:
    if np.asarray(given).dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of {length} real numbers; got {given!r}")
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},); got {weights.shape}")
    bad = np.flatnonzero(~((weights >= LEAST) & (weights <= LARGEST)))
    if len(bad):
        raise ValueError(
            f"{name} must be positive and finite, from {LEAST:g} to {LARGEST:g}; {name}[{bad[0]}] is {weights[bad[0]]}"
        )
    return weights
