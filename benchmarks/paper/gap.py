"""How far factors are from the optimum of the convex problem, whichever method has found them."""

from __future__ import annotations

import numpy as np

from paper.observed import Entries
from rslm.linalg.low_rank import nuclear_norm
from rslm.linalg.spectrum import largest_eigenvalue
from rslm.runtime.types import Floats


def trade(left: Floats, right: Floats, weight: float) -> float:
    """The C at which an optimum of `squares + weight ‖W‖_*` is one of `C squares + ½ ‖W‖_*²`."""
    return nuclear_norm(left, right) / weight


def relative_gap(data: Entries, left: Floats, right: Floats, C: float) -> float:
    """(primal − dual) / dual of C · squares + ½ ‖W‖_*², with z = 2 C (y − w) at its best scale as dual variables.

    Any z gives a lower bound on the objective of all matrices: α⟨y, z⟩ − α²(‖z‖² / 4C + ½ σ₁(S)²), largest at
    the α that is used here.
    """
    error = data.y - data.at(left, right)
    primal = C * float(error @ error) + 0.5 * nuclear_norm(left, right) ** 2
    z = 2.0 * C * error
    square, _ = largest_eigenvalue(lambda X: data.times(z, data.transposed_times(z, X)), left)
    dual = float(data.y @ z) ** 2 / (4.0 * (float(z @ z) / (4.0 * C) + 0.5 * square))
    return (primal - dual) / dual if np.isfinite(dual) and dual > 0 else float("inf")
