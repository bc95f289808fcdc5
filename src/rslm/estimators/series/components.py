"""The parts of a signal as users of singular spectrum analysis know them: trend, decay or growth, oscillations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.given import root_mean_square
from rslm.estimators.series.learned import Learned
from rslm.runtime.types import Floats

TREND, DECAY, GROWTH, OSCILLATION = "trend", "decay", "growth", "oscillation"
SLOW = 0.75  # an oscillation with fewer periods in the series than this is part of the trend
LASTING = 1.0  # a real exponential is part of the trend if δn is at most this


@dataclass(frozen=True, eq=False)
class Component:
    """A part of the signal."""

    kind: str  #: "trend", "decay", "growth" or "oscillation"
    frequency: float  #: cycles per sample; 0 for trend and decay
    damping: float  #: −log |pole|, of the slowest pole
    signal: NDArray[Any]  #: the shape of the series

    @property
    def period(self) -> float:
        """Samples per cycle; infinite for trend and decay."""
        return 1.0 / abs(self.frequency) if self.frequency else float("inf")

    def __repr__(self) -> str:
        what = f", period={self.period:.4g}" if self.kind == OSCILLATION else ""
        return f"Component({self.kind}{what}, damping={self.damping:.3g})"


def components_of(learned: Learned, flat: bool) -> list[Component]:
    """Trend first, then the others by their power, the largest first; their signals add up to that of the series."""
    modes, n = learned.modes, learned.samples
    B, at = modes.basis(n), modes.places
    width = np.where(modes.pair, 2, 1)
    growth = modes.growth()
    angle = modes.turn if modes.is_complex else np.sqrt(np.maximum(modes.turn, 0.0))
    angle = np.where(modes.sign < 0, np.pi - angle, angle) if not modes.is_complex else angle
    slow = (np.abs(angle) * n < 2.0 * np.pi * SLOW) & (np.abs(growth) * n <= LASTING)
    found: list[Component] = []

    def signal_of(which: NDArray[Any]) -> NDArray[Any]:
        columns = np.concatenate([np.arange(at[k], at[k] + width[k]) for k in which])
        total = B[:, columns] @ learned.amplitudes[columns]
        return np.ascontiguousarray(total[:, 0] if flat else total)

    if slow.any():
        damping = float(-growth[slow].max()) + 0.0  # not −0
        found.append(Component(TREND, 0.0, damping, signal_of(np.flatnonzero(slow))))
    others = []
    for k in np.flatnonzero(~slow):
        turning = abs(float(angle[k])) > 0.0
        kind = OSCILLATION if turning else DECAY if growth[k] < 0 else GROWTH
        others.append(
            Component(kind, float(angle[k]) / (2.0 * np.pi), float(-growth[k]) + 0.0, signal_of(np.array([k])))
        )
    return found + sorted(others, key=lambda one: -root_mean_square(one.signal))


def w_correlations(components: list[Component], window: int) -> Floats:
    """Correlations of the components with the weights of singular spectrum analysis; near 0 where they are separable.

    A sample counts as often as it is in the Hankel matrix of this window.
    """
    n = len(components[0].signal) if components else 0
    k = np.arange(n)
    counts = np.minimum(np.minimum(k + 1, n - k), min(window, n - window + 1)).astype(float)
    rows = [np.sqrt(counts)[:, None] * one.signal.reshape(n, -1) for one in components]
    X = np.stack([row.ravel() for row in rows]) if rows else np.zeros((0, 0))
    gram = np.abs(X @ X.conj().T)
    sizes = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    return np.asarray(gram / np.outer(sizes, sizes))
