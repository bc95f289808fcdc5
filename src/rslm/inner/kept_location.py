"""Moves predictions with a location into bounds in a few passes, where no better way is left.

The prediction of an entry is w_it + e_i + c_t, with e_i = μ + b_i. For bounds of rows, the column effects are drawn
together until their spread leaves room between the bounds of every row; then e_i is moved into what is left, by the row
effects if there are any, otherwise by the mean, and W into the rest by `Box.inward`. For bounds of columns it is the
same with rows and columns exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rslm.inner.kept import nearest, worst_violation
from rslm.location import Effects, Location
from rslm.runtime.types import Floats
from rslm.structures import Box

SPREAD = 0.5  # largest share of the distance between the bounds that the effects of the other side may use
MARGINS = (0.0, 0.1)  # distances of effects from their bounds, relative to that between the bounds; all are tried

REACH = 2.0  # distance from a single bound, in norms of the row of W


@dataclass(frozen=True)
class Inside:
    """Factors X, V of W, and effects."""

    X: Floats
    V: Floats
    effects: Effects

    def turned(self) -> Inside:
        """The transposed matrix."""
        rows, columns = self.effects.columns, self.effects.rows
        return Inside(self.V, self.X, replace(self.effects, rows=rows, columns=columns))


def moved_inside(box: Box, location: Location, given: Inside, value: Callable[[Inside], float]) -> Inside | None:
    """Predictions within the bounds near the `given` ones: of several, those with the least `value`.

    None if the bounds allow neither a matrix with equal columns nor one with equal rows.
    """
    has_rows, has_columns = location.rows is not None, location.columns is not None
    found = [
        *_candidates(box, given, (has_rows, location.mean), value),
        *(
            one.turned()
            for one in _candidates(
                box.transposed(), given.turned(), (has_columns, location.mean), lambda one: value(one.turned())
            )
        ),
    ]
    return min(found, key=value) if found else None


def nearest_inside(box: Box, location: Location, given: Inside, threads: int) -> Inside | None:
    """V and column effects moved as little as possible, with X, mean and row effects as they are; None if none fit."""
    e = given.effects.mean + given.effects.rows
    lower, upper = (plane - e[:, None] for plane in box.planes((len(given.X), len(given.V))))
    X, V = given.X, given.V
    if location.columns is not None:
        X, V = np.column_stack([X, np.ones(len(X))]), np.column_stack([V, given.effects.columns])
    V = nearest(X, V, lower, upper, threads)
    if not np.isfinite(V).all():
        return None
    violation, allowed = worst_violation(X, V, lower, upper)
    if not violation <= allowed:
        return None
    if location.columns is None:
        return replace(given, V=V)
    columns = V[:, -1].copy()
    return Inside(given.X, np.ascontiguousarray(V[:, :-1]), replace(given.effects, columns=columns))


def _candidates(box: Box, given: Inside, can_move: tuple[bool, bool], value: Callable[[Inside], float]) -> list[Inside]:
    """Candidates for bounds of rows, with W moved as `Box.inward` does."""
    lower, upper = (np.broadcast_to(side, len(given.X)) for side in box.of_rows())
    if not (lower <= upper).all():
        return []
    found = []
    # The size of the entries of W in every row, for which there shall be room where there is only one bound.
    reach = REACH * np.linalg.norm(given.X, axis=1) * float(np.sqrt(np.mean(np.sum(given.V**2, axis=1))))
    for margin in MARGINS:
        effects, low, high = _effects_inside(lower, upper, given.effects, can_move, margin, reach)
        inner = Box(np.minimum(low, high)[:, None], high[:, None])
        moved = inner.inward(given.X, given.V, lambda X, V, e=effects: value(Inside(X, V, e)))  # type: ignore[misc]
        found += [] if moved is None else [Inside(*moved, effects)]
    return found


def _effects_inside(
    lower: Floats, upper: Floats, effects: Effects, can_move: tuple[bool, bool], margin: float, reach: Floats
) -> tuple[Effects, Floats, Floats]:
    """Effects within the bounds of the rows as far as they can be moved there, and the bounds of W that they leave.

    `can_move` says whether there are row effects, and whether there is a mean.
    """
    mean, rows, columns = effects.mean, effects.rows, effects.columns
    ends = float(columns.min()), float(columns.max())
    spread, middle = ends[1] - ends[0], 0.5 * (ends[0] + ends[1])
    narrowest = float((upper - lower).min())
    if spread > SPREAD * narrowest:
        columns = middle + (columns - middle) * (SPREAD * narrowest / spread)
    low, high = lower - float(columns.min()), upper - float(columns.max())
    both = np.isfinite(low) & np.isfinite(high)
    room = np.where(both, margin * (np.where(both, high, 0.0) - np.where(both, low, 0.0)), (margin > 0.0) * reach)
    level = mean + rows
    if can_move[0]:
        rows = np.clip(level, low + room, high - room) - mean
    else:
        most, least = float((low + room).max()), float((high - room).min())
        shift = float(np.clip(level[0], most, least) - level[0]) if most <= least else 0.0
        if can_move[1]:
            mean += shift
        else:
            columns = columns + shift
    low = lower - float(columns.min()) - (mean + rows)
    high = upper - float(columns.max()) - (mean + rows)
    return Effects(mean, rows, columns, effects.coefficients), low, high
