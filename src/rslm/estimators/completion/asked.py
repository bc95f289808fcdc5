"""The settings of a completion that a user may leave open, and what was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.automatic.variances import usual_ridges
from rslm.estimators.choices import is_auto
from rslm.estimators.completion.ridges import Ridges
from rslm.estimators.defaults import NORMAL
from rslm.estimators.medians import medians_of_groups
from rslm.estimators.persistence import Form
from rslm.losses import Loss
from rslm.runtime.magnitudes import as_float
from rslm.runtime.types import Floats

OTHER_UNITS = 10.0  # the spreads of features differ by this factor where they have units of their own
ROUNDING = 1e-12  # spread relative to the mean of a feature, below which all its values are equal
ENTRIES = 10  # of a feature, from which its spread can be estimated


@dataclass(frozen=True)
class Asked:
    """Numbers where they were given; None where they have to be found."""

    rank: int | None
    C: float | None
    weighting: float | None
    fixed: bool = False  #: whether the rank is given; None then means one that suits the shape

    @classmethod
    def of(cls, rank: Any, C: Any, weighting: Any) -> Asked:
        """From the parameters of an estimator; wrong ones are errors."""
        for name, value in (("rank", rank), ("C", C), ("weighting", weighting)):
            if isinstance(value, str) and not is_auto(value):
                raise ValueError(f"{name} must be a number or 'auto'; got {value!r}")
        whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
        if not (whole or rank is None or is_auto(rank)):  # the solver checks the range
            raise ValueError(f"rank must be a whole number or 'auto'; got {rank!r}")
        if not is_auto(C) and not 0 < as_float(C) < np.inf:
            raise ValueError(f"C must be a positive finite number; got {C!r}")
        if not is_auto(weighting) and not np.isfinite(as_float(weighting)):
            raise ValueError(
                f"weighting must be a finite number, 0 for the plain trace norm, or 'auto'; got {weighting!r}"
            )
        # As Python's floats: a NumPy float32 would lower the precision, and overflow.
        of_C, of_weighting = (None if is_auto(value) else float(value) for value in (C, weighting))
        return cls(None if is_auto(rank) else rank, of_C, of_weighting, fixed=not is_auto(rank))

    @property
    def searches(self) -> bool:
        """Whether settings have to be found by held-out entries. A C that is given is for a given weighting."""
        return not self.fixed or self.C is None


def _ridges_from_plain(plain: Any) -> Any:
    if not (plain is None or is_auto(plain) or (isinstance(plain, list) and len(plain) == 2)):
        raise ValueError("effects")
    return tuple(plain) if isinstance(plain, list) else plain


def _ridges_to_plain(effects: Any) -> Any:
    if effects is None or is_auto(effects):
        return effects
    return [None if ridge is None else float(ridge) for ridge in effects]


EFFECTS_FORM: Form = _ridges_to_plain, _ridges_from_plain  # in files


def ridges_of(effects: Any, data: ObservedMatrix, loss: Loss, units: Floats | None) -> Ridges | None:
    """The ridges of the effects that were asked for; None for no location."""
    if effects is None:
        return None
    if is_auto(effects):
        numbers = data.with_values(loss.targets(np.asarray(data.values, dtype=np.float64)))
        if units is None:
            return Ridges(*usual_ridges(numbers))
        # In units of their own, the means of features say nothing of each other, and are not shrunk to a common one.
        return Ridges(usual_ridges(numbers.with_values(standardised(numbers, units, loss)))[0], 0.0)
    try:
        rows, columns = effects
        ridges = [None if r is None else as_float(r) for r in (rows, columns)]
    except (TypeError, ValueError):
        ridges = [float("nan")]
    if not all(r is None or 0.0 <= r < np.inf for r in ridges):
        raise ValueError(
            "effects must be 'auto', None, or the ridges of the row and the column effects, numbers of observations "
            f"≥ 0 or None for no such effects, as in (5.0, 5.0); got {effects!r}"
        )
    return Ridges(*ridges)


def standardised(data: ObservedMatrix, units: Floats | None, loss: Loss) -> Floats:
    """The values relative to the middle of their feature, in its units; as they are if there are no units."""
    if units is None:
        return data.values
    if loss.quadratic:
        middle: Floats = np.bincount(data.index, data.values, data.shape[1]) / np.maximum(data.col_counts(), 1)
    else:
        middle = medians_of_groups(data.values, data.index, data.shape[1])
    return (data.values - middle[data.index]) / units[data.index]


def may_have_units(scale: Any, loss: Loss, located: bool, bounded: bool) -> bool:
    """Whether features may be divided by numbers of their own: the user has not decided, and the model allows it."""
    return is_auto(scale) and located and not bounded and not loss.binary


def units_of(scale: Any, data: ObservedMatrix, loss: Loss, located: bool, bounded: bool) -> Floats | None:
    """The standard deviation of every feature, if features are to be standardised; else None.

    With a loss that gross errors hardly change, neither do they change the units: these are robust estimates.
    """
    if not (is_auto(scale) or isinstance(scale, bool | np.bool_)):
        raise ValueError(f"scale must be True, False or 'auto'; got {scale!r}")
    if not is_auto(scale) and not scale:
        return None
    if not located:
        if is_auto(scale):
            return None
        raise ValueError("scale=True standardises features, which needs effects; got effects=None")
    if bounded or loss.binary:
        if is_auto(scale):
            return None
        raise ValueError("scale=True standardises features, which bounds and losses of two classes do not allow")
    counts, y = data.col_counts(), np.asarray(data.values, dtype=np.float64)
    largest = float(np.abs(y).max(initial=0.0)) or 1.0
    y, filled = y / largest, np.maximum(counts, 1)
    means = np.bincount(data.index, y, data.shape[1]) / filled
    spreads = np.sqrt(np.bincount(data.index, (y - means[data.index]) ** 2, data.shape[1]) / filled)
    spreads = np.where(spreads > ROUNDING * np.abs(means), spreads, 0.0) * largest
    enough = counts >= min(ENTRIES, max(2, data.shape[0] // 2))
    known, constant = spreads[enough & (spreads > 0)], np.count_nonzero(enough & (spreads == 0))
    if is_auto(scale):
        few = 2 * len(known) < data.shape[1] - constant or len(known) < 2
        if few or not _differ(known):
            return None
    if not loss.quadratic:
        middle = medians_of_groups(y, data.index, data.shape[1])
        apart = NORMAL * largest * medians_of_groups(np.abs(y - middle[data.index]), data.index, data.shape[1])
        spreads = np.where((apart > 0) & (spreads > 0), apart, spreads)
        known = spreads[enough & (spreads > 0)]
    usual = float(np.median(known)) if len(known) else 1.0
    return np.where(spreads > 0, spreads, usual)


def _differ(spreads: Floats) -> bool:
    """Whether these spreads are of different units: most of them differ, or one is far from most of them."""
    smallest, low, usual, high, largest = np.quantile(spreads, (0.0, 0.1, 0.5, 0.9, 1.0))
    # One large feature would rule the fit. Small ones do not, and one value that differs makes a spread small.
    return bool(high > OTHER_UNITS * low or largest > OTHER_UNITS * usual or usual > OTHER_UNITS**2 * smallest)
