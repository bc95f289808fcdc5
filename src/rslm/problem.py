"""The objective, stated once.

    minimise over W in D:   C · Σ_p ℓ(y_p, (M W)_p)  +  ½ ‖diag(√p) W diag(√q)‖_*²

with a loss ℓ, a measurement M and a structure D; p and q are the row and column weights, 1 unless given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from rslm.losses import Loss
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Measurement
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float, workable
from rslm.runtime.types import Floats
from rslm.structures import Free, Structure

LARGEST_RATIO = 4e15  # of loss to trace norm: above it, the trace norm is smaller than rounding errors of the loss
PROBES = 16  # targets at which the functions of a loss are tried out


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A structured low-rank learning problem in the paper's orientation d × T.

    Parameters
    ----------
    loss : Loss
        For instance ``Square()``.
    data : Measurement
        What was observed: Entries, Samples, Tasks, Bilinear or one of your own.
    structure : Structure, optional
        The set that W lies in, such as Box or Hankel, or a penalty on W, such as Smooth; None for all matrices, which
        becomes ``Free()``.
    C : float
        Weight of the loss relative to the trace norm; larger fits the data more closely.
    row_weights, column_weights : arrays of length d and T, optional
        Weights p and q of a weighted trace norm.
    """

    loss: Loss
    data: Measurement
    structure: Structure
    C: float
    row_weights: Floats | None
    column_weights: Floats | None

    def __init__(
        self,
        loss: Loss,
        data: Measurement,
        structure: Structure | None = None,
        C: float = 1.0,
        row_weights: Floats | None = None,
        column_weights: Floats | None = None,
    ) -> None:
        parts = loss, data, Free() if structure is None else structure, C, row_weights, column_weights
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
        self.data.validate(self.structure)
        self.structure.check(self.data)
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
        for name, length in (("row_weights", self.shape[0]), ("column_weights", self.shape[1])):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _checked_weights(name, given, length))

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

    def predict(self, U: Floats, V: Floats, n_threads: int, intercepts: Floats | None = None) -> Floats:
        """M W for W = U Vᵀ, with the rows of U divided by √p, plus the `intercepts` where there are any."""
        w = self.data.apply(U if self.row_weights is None else U * self.row_scale, V, n_threads)
        return w if intercepts is None else np.asarray(w + self.data.by_column(intercepts))

    def penalty(self, U: Floats, V: Floats) -> float:
        """The penalty of the structure on W = U Vᵀ, with the rows of U divided by √p."""
        return self.structure.penalty(U * self.row_scale, V)


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
