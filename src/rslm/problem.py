"""The objective, stated once.

    minimise over W in D:   C · Σ_p ℓ(y_p, (M W)_p)  +  ½ ‖diag(√p) W diag(√q)‖_*²

with a loss ℓ, a measurement M and a structure D; p and q are the row and column weights, 1 unless given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.kernels import Columns
from rslm.losses import Loss
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Measurement, Samples
from rslm.measurements.base import try_out
from rslm.measurements.remote import Elsewhere
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float, workable
from rslm.runtime.types import Floats
from rslm.structures import Box, Hankel, LinearStructure, Smooth, Smoothed, SoftBox, Symmetric, Toeplitz
from rslm.structures.linear import check_adjoint

SOME = 16  # targets that the loss is tried out with


@dataclass(frozen=True, eq=False)
class Problem:
    """A structured low-rank learning problem in the paper's orientation d × T.

    Parameters
    ----------
    loss : Loss
        For instance ``Square()``.
    data : Measurement
        What was observed: Entries, Samples, Tasks, Bilinear or one's own.
    structure : Box, Smooth, or linear structure such as Hankel, optional
        The set that W lies in, or the penalty that it pays; None for all matrices.
    C : float
        Weight of the loss against the trace norm; larger fits the data more closely.
    row_weights, column_weights : arrays of length d and T, optional
        Weights p and q of a weighted trace norm.
    """

    loss: Loss
    data: Measurement | Elsewhere
    structure: Box | SoftBox | LinearStructure | Smoothed | Smooth | None = None
    C: float = 1.0
    row_weights: Floats | None = None
    column_weights: Floats | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss must be a Loss, for instance rslm.losses.Square(); got {self.loss!r}")
        if not isinstance(self.data, Measurement | Elsewhere):
            raise TypeError(f"data must be a measurement, for instance Entries(Y); got {type(self.data).__name__}")
        self._check_structure()
        if not 0 < as_float(self.C) < math.inf:
            raise ValueError(f"C must be a positive finite number; got {self.C!r}")
        if not LEAST <= as_float(self.C) <= LARGEST:
            raise ValueError(
                f"C must be a number from {LEAST:g} to {LARGEST:g}, or nothing is left to weigh; got {self.C!r}"
            )
        object.__setattr__(self, "C", float(self.C))  # NumPy's float32 would spread its precision
        if isinstance(self.data, Measurement) and not type(self.data).__module__.startswith("rslm."):
            try_out(self.data)  # it comes from a user
        if not isinstance(self.data, Elsewhere):  # who keeps the observations looks at them
            data = self.data.as_targets(self.loss, CheckedLoss(self.loss).targets).checked(workable)
            object.__setattr__(self, "data", data)
            CheckedLoss(self.loss).try_out(np.asarray(data.values[:SOME], dtype=np.float64))
        for name, length in (("row_weights", self.shape[0]), ("column_weights", self.shape[1])):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _checked_weights(name, given, length))

    def _check_structure(self) -> None:
        structure, data = self.structure, self.data
        if not isinstance(structure, Box | SoftBox | LinearStructure | Smoothed | Smooth | None):
            raise TypeError(f"structure must be None, Box, Smooth or a linear structure like Hankel; got {structure!r}")
        linear = structure.structure if isinstance(structure, Smoothed) else structure
        if isinstance(linear, LinearStructure):
            if isinstance(data, Elsewhere):
                raise TypeError(
                    f"{linear!r} ties the columns of W together, so they cannot be shared out among processes; "
                    "fit it in one process, without a client"
                )
            if isinstance(data, Measurement) and data.intercept:
                raise TypeError(
                    f"intercepts of tasks and {linear!r} do not go together yet: subtract the mean of every task from "
                    "its rows of X and from y, and leave the intercepts out"
                )
            if isinstance(data, Samples) and data.size != linear.size:
                raise ValueError(f"{linear!r} has {linear.size} parameters, but there are {data.size} samples")
            if not isinstance(data, Samples) and data.shape != linear.shape:
                raise ValueError(f"{linear!r} is of shape {linear.shape}, but the data are of shape {data.shape}")
            if type(linear) not in (Hankel, Toeplitz, Symmetric) and structure is linear:
                check_adjoint(linear)
        elif isinstance(data, Samples):
            raise TypeError("samples are parameters of a linear structure, such as Hankel(window, windows)")
        elif isinstance(structure, Smooth):
            if isinstance(data, Elsewhere):
                raise TypeError(f"{structure!r} is not known to workers; fit it in one process, without a client")
            structure.check(data.shape)
        elif isinstance(structure, Box | SoftBox):
            structure.planes(data.shape)  # an error if it is of another shape
            box = structure if isinstance(structure, Box) else structure.box
            if (farthest := float(np.abs(box.finite()).max(initial=0.0))) > LARGEST:
                raise ValueError(
                    f"bounds must not be beyond {LARGEST:g}, one is ±{farthest:.3g}; None or ±inf stand for no bound"
                )

    @property
    def columns(self) -> Columns:
        """The pattern of the observed entries."""
        columns: Columns | None = getattr(self.data, "columns", None)
        if columns is None:
            raise TypeError(f"{self.data!r} has no pattern of entries")
        return columns

    @property
    def row_scale(self) -> Floats:
        """1/√p of every row as a column, by which rows of U become those of W's left factor."""
        p = np.ones(self.shape[0]) if self.row_weights is None else self.row_weights
        return np.asarray(1.0 / np.sqrt(p))[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        if isinstance(self.structure, LinearStructure):
            return self.structure.shape
        if isinstance(self.structure, Smoothed):
            return self.structure.structure.shape
        assert not isinstance(self.data, Samples)
        return self.data.shape

    def predict(self, U: Floats, V: Floats, n_threads: int, intercepts: Floats | None = None) -> Floats:
        """M W for W = U Vᵀ, rows divided by √p; of tasks with intercepts, with these."""
        assert isinstance(self.data, Measurement)
        w = self.data.apply(U if self.row_weights is None else U * self.row_scale, V, n_threads)
        if intercepts is not None:
            w += np.repeat(intercepts, np.diff(self.columns.indptr))
        return w

    def penalty(self, U: Floats, V: Floats) -> float:
        """What W = U Vᵀ, rows divided by √p, pays for not being smooth."""
        return self.structure.value(U * self.row_scale, V) if isinstance(self.structure, Smooth) else 0.0


def _checked_weights(name: str, given: Floats, length: int) -> Floats:
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},); got {weights.shape}")
    bad = np.flatnonzero(~((weights >= LEAST) & (weights <= LARGEST)))
    if len(bad):
        raise ValueError(
            f"{name} must be positive and finite, from {LEAST:g} to {LARGEST:g}; {name}[{bad[0]}] is {weights[bad[0]]}"
        )
    return weights
