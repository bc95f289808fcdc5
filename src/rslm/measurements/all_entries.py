"""All entries of W: the observed ones, and a small pull of every entry towards zero.

The loss of the observed entries is that of `Entries`. To it α₀ Σ W_it² over **all** entries is added, so that what was
not observed is a zero that counts a little: the objective of implicit feedback.
"""

from __future__ import annotations

import math
from typing import Any

from rslm.data import ObservedMatrix
from rslm.measurements.entries import Entries


class AllEntries(Entries):
    """Observed entries of a d × T matrix, and zeros of weight `alpha0` at all its entries.

    The loss is Σ ω (y − W)² over the observed entries plus α₀ Σ W² over all, without forming anything of size d × T.

    Parameters
    ----------
    Y : ObservedMatrix, scipy.sparse matrix or array
        The d × T matrix, as for `Entries`.
    weights : numbers ≥ 0, optional
        Weights ω of the observed entries, in any form that `ObservedMatrix.weighted` takes; None for those of Y.
    alpha0 : float
        Weight of the zeros.
    """

    traits = frozenset({"all entries"})
    locatable = False

    def __init__(self, Y: Any, weights: Any = None, *, alpha0: float) -> None:
        observed = ObservedMatrix.from_any(Y)
        self._set((observed if weights is None else observed.weighted(weights)).transposed())
        self.background = checked_alpha0(alpha0)

    @classmethod
    def of(cls, entries: Entries, alpha0: float) -> AllEntries:
        """The same observed entries with zeros of weight `alpha0`; arrays are shared."""
        made = cls.__new__(cls)
        made.columns, made.values, made.weights = entries.columns, entries.values, entries.weights
        made.background = checked_alpha0(alpha0)
        return made

    def validate(self, loss: Any, structure: Any, location: Any) -> None:
        check_parts(loss, structure, location)

    def fingerprint(self) -> dict[str, str]:
        return super().fingerprint() | of_zeros(self.background)

    def __repr__(self) -> str:
        return f"AllEntries({self.shape[0]} × {self.shape[1]}, {len(self)} observed, alpha0={self.background:g})"


def check_parts(loss: Any, structure: Any, location: Any) -> None:
    """Raise an error if zeros at all entries cannot be combined with one of these."""
    if not loss.quadratic:
        raise ValueError(
            f"zeros at all entries need the square loss, with which they cost no more than the observed ones; got "
            f"{loss!r}. Use Entries with sampled zeros for other losses"
        )
    if structure.form != "free":
        raise ValueError(
            f"zeros at all entries cannot be combined with {structure!r}: it would couple all d·T entries. Use "
            "Entries for observed entries alone"
        )
    if location is not None:
        raise ValueError(
            "zeros at all entries cannot be combined with a location: the zeros are those of W, and a mean would "
            "be pulled to zero by all of them. Leave the location out; use row and column weights for popular items"
        )


def of_zeros(alpha0: float) -> dict[str, str]:
    """What zeros of this weight add to the fingerprint of the observed entries."""
    return {"weight of zeros": repr(alpha0)}


def checked_alpha0(alpha0: Any) -> float:
    """The weight of zeros, a positive number."""
    try:
        number = float(alpha0)
    except (TypeError, ValueError):
        number = math.nan
    if number == 0.0:
        raise ValueError(
            "alpha0 is 0, so that zeros do not count: use Entries, or MatrixCompletion, for observed entries alone"
        )
    if isinstance(alpha0, bool) or not 0.0 < number < math.inf:
        raise ValueError(f"alpha0 must be a positive finite number; got {alpha0!r}")
    return number
