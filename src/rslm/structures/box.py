"""Bounds on every entry:  lower ≤ W ≤ upper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.runtime.magnitudes import LARGEST
from rslm.runtime.types import Floats
from rslm.structures.base import Observed, Structure
from rslm.structures.inward import candidates


class ObservedBeyond(NamedTuple):
    """Observed values that violate their bounds: how many, and the worst of them."""

    many: int
    row: int
    column: int
    value: float
    by: float  #: negative below, positive above


@dataclass(frozen=True, eq=False)
class Box(Structure):
    """All matrices with entries between two bounds.

    Parameters
    ----------
    lower, upper : number, array or None
        None for no bound. An array must broadcast to the shape of W: (T,) for a bound per column, (d, 1) for a bound
        per row, (d, T) for a bound per entry.
    strict : bool
        Whether observed values that violate the bounds are an error.
    """

    form: ClassVar[str] = "bounds"

    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        for name, none in (("lower", -math.inf), ("upper", math.inf)):
            object.__setattr__(self, name, _plane(name, getattr(self, name), none))
        try:
            np.broadcast_shapes(self._lower.shape, self._upper.shape)
        except ValueError:
            raise ValueError(
                f"lower and upper do not broadcast: their shapes are {self._lower.shape} and {self._upper.shape}"
            ) from None
        crossed = np.argwhere(self._lower > self._upper)
        if len(crossed):
            raise ValueError(f"lower must not be above upper; {self._name_of(crossed[0])}")
        if (self._lower == math.inf).any() or (self._upper == -math.inf).any():
            raise ValueError("a lower bound of ∞ or an upper bound of −∞ leaves no number between them")

    @property
    def _lower(self) -> Floats:
        return self.lower  # type: ignore[return-value]

    @property
    def _upper(self) -> Floats:
        return self.upper  # type: ignore[return-value]

    def _name_of(self, where: NDArray[np.int64]) -> str:
        """The position and the values of a pair of bounds, for a message."""
        lower, upper = np.broadcast_arrays(self._lower, self._upper)
        at = tuple(int(k) for k in where)
        place = "they are" if lower.size == 1 else f"at {list(at[-1:]) if lower.shape[0] == 1 else list(at)} they are"
        return f"{place} {lower[at]:g} and {upper[at]:g}"

    @property
    def trivial(self) -> bool:
        """Whether there is no bound at all."""
        return bool((self._lower == -math.inf).all() and (self._upper == math.inf).all())

    @property
    def box(self) -> Box:
        return self

    def check(self, data: Observed) -> None:
        self.planes(data.shape)  # raises an error if the shapes do not match
        if (farthest := float(np.abs(self.finite()).max(initial=0.0))) > LARGEST:
            raise ValueError(
                f"bounds must be between −{LARGEST:g} and {LARGEST:g}, one is ±{farthest:.3g}; use None or ±inf for no "
                "bound"
            )

    def simplest(self, shape: tuple[int, int]) -> tuple[Floats, Floats] | None:
        if min(self.shape) > 1:
            return None
        (d, T), near = shape, np.clip(0.0, *self.planes(self.shape))
        left = np.broadcast_to(near if near.shape[1] == 1 else 1.0, (d, 1))
        return left, np.broadcast_to(near.T if near.shape[1] > 1 else 1.0, (T, 1))

    def inward(self, X: Floats, V: Floats, misfit: Callable[[Floats, Floats], float]) -> tuple[Floats, Floats] | None:
        """X and V near the given ones with X Vᵀ within the bounds; of several, those with the least `misfit`.

        None if the bounds allow neither a matrix with equal columns nor one with equal rows.
        """
        lower, upper = self.of_rows()
        if (lower <= upper).all():
            return min(candidates(lower, upper, X, V), key=lambda found: misfit(*found))
        lower, upper = self.transposed().of_rows()
        if (lower <= upper).all():
            swapped = [(x, v) for v, x in candidates(lower, upper, V, X)]
            return min(swapped, key=lambda found: misfit(*found))
        return None

    def arrays(self) -> list[NDArray[Any]]:
        return [np.asarray(plane) for plane in self.planes(self.shape)]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the bounds; 1 along an axis where they do not vary."""
        rows, columns = np.broadcast_shapes(self._lower.shape, self._upper.shape)
        return rows, columns

    def planes(self, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        """The bounds of every entry of a matrix of this `shape`, as views that need no more memory."""
        if any(own not in (1, n) for own, n in zip(self.shape, shape, strict=True)):
            raise ValueError(f"bounds of shape {self.shape} do not broadcast to the shape {shape} of the matrix")
        return np.broadcast_to(self._lower, shape), np.broadcast_to(self._upper, shape)

    def finite(self) -> Floats:
        """All bounds that are not infinite."""
        both = np.concatenate([self._lower.ravel(), self._upper.ravel()])
        return np.asarray(both[np.isfinite(both)])

    def of_rows(self) -> tuple[Floats, Floats]:
        """The tightest bounds within every row."""
        return self._lower.max(axis=1), self._upper.min(axis=1)

    def __repr__(self) -> str:
        def shown(bound: Floats, none: float) -> str:
            if bound.size == 1:
                return "None" if bound.item() == none else f"{bound.item():g}"
            return f"array of shape {bound.shape}"

        strict = ", strict=True" if self.strict else ""
        return f"Box({shown(self._lower, -math.inf)}, {shown(self._upper, math.inf)}{strict})"

    def transposed(self) -> Box:
        """The bounds of the transposed matrix."""
        return replace(self, lower=self._lower.T, upper=self._upper.T)

    def divided_by(self, scale: float) -> Box:
        """The bounds of the matrix divided by a positive number, `scale`."""
        with np.errstate(over="ignore", under="ignore"):  # a bound that overflows to ±inf is no bound
            return replace(self, lower=self._lower / scale, upper=self._upper / scale)

    def within_reach(self, most: float) -> Box:
        """Without lower bounds below −`most` and upper bounds above `most`, which no ordinary matrix reaches."""
        lower, upper = self._lower, self._upper
        if not ((lower < -most).any() or (upper > most).any()):
            return self
        return replace(
            self, lower=np.where(lower < -most, -math.inf, lower), upper=np.where(upper > most, math.inf, upper)
        )

    def nearest_to_zero(self) -> Floats:
        """The distance from 0 that the bounds force on every entry."""
        return np.concatenate([np.maximum(self._lower, 0.0).ravel(), np.maximum(-self._upper, 0.0).ravel()])

    def clip(self, rows: NDArray[np.integer], columns: NDArray[np.integer], values: Floats) -> Floats:
        """The `values` of the entries (rows[k], columns[k]), clipped to their bounds."""

        def at(plane: Floats) -> Floats:
            i = rows if plane.shape[0] > 1 else 0
            return np.asarray(plane[i, columns if plane.shape[1] > 1 else 0])

        return np.asarray(np.clip(values, at(self._lower), at(self._upper)))

    def part(self, rows: slice | NDArray[np.integer]) -> Box:
        """The bounds of some `rows`."""
        lower, upper = (b[rows] if b.shape[0] > 1 else b for b in (self._lower, self._upper))
        return replace(self, lower=lower, upper=upper)

    def beyond(self, rows: NDArray[np.integer], columns: NDArray[np.integer], values: Floats) -> Floats:
        """By how much `values` of the entries (rows[k], columns[k]) violate their bounds: < 0 below, > 0 above."""
        return np.asarray(values - self.clip(rows, columns, values))

    def observed_beyond(
        self, rows: NDArray[np.integer], columns: NDArray[np.integer], values: Floats
    ) -> ObservedBeyond | None:
        """A summary of the `values` of entries (rows[k], columns[k]) that violate their bounds; None if none does."""
        by = self.beyond(rows, columns, values)
        # A bound that is rounded to the precision of the data may violate itself by half a unit in the last place.
        by[np.abs(by) <= np.finfo(values.dtype).eps * np.abs(values)] = 0.0
        count = int(np.count_nonzero(by))
        if count == 0:
            return None
        k = int(np.argmax(np.abs(by)))
        return ObservedBeyond(count, int(rows[k]), int(columns[k]), float(values[k]), float(by[k]))


def worst(found: Iterable[ObservedBeyond | None]) -> ObservedBeyond | None:
    """The summaries of several parts of the data in one."""
    each = [f for f in found if f is not None]
    return max(each, key=lambda f: abs(f.by))._replace(many=sum(f.many for f in each)) if each else None


def _plane(name: str, given: ArrayLike | None, none: float) -> Floats:
    """A bound as a 2-D array."""
    try:
        bound = np.atleast_2d(np.array(none if given is None else given, dtype=np.float64))  # a copy
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, an array of numbers or None; got {given!r}") from None
    if bound.ndim != 2 or bound.size == 0:
        raise ValueError(f"{name} must be a number or an array of one or two dimensions; got shape {bound.shape}")
    bad = np.argwhere(np.isnan(bound))
    if len(bad):
        where = "" if bound.size == 1 else f" at {[int(k) for k in (bad[0] if bound.shape[0] > 1 else bad[0][1:])]}"
        raise ValueError(f"{name} must not be NaN{where}; use None or ±∞ for no bound")
    return bound
