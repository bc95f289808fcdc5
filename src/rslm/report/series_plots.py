"""Plots of the parts of a series."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.components import Component, w_correlations
from rslm.report.plots import BLUE, GREY, new_axes

MOST = 8  # components that are drawn; the others together are one more row
ROOM = 1.15  # between two rows, in the height of the higher one
LEAST = 0.18  # height of a row relative to the highest, so that labels do not overlap


def plot_components(model: Any, ax: Any = None) -> Any:
    """The parts of the signal of one series, one below the other: trend, decay, and each oscillation.

    Parameters
    ----------
    model : fitted HankelModel
        Of one real series, and of an order above 0.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned. All parts have the same scale; a trend is drawn without its
        mean, which is in its label.
    """
    parts = model.components_
    if not parts:
        raise ValueError("the series has no components: its order is 0")
    if np.ndim(parts[0].signal) != 1 or np.iscomplexobj(parts[0].signal):
        raise ValueError("components are drawn for one real series; take those of a channel from model.components_")
    rows = [(_label(part), part.signal - part.signal.mean()) for part in parts[:MOST]]
    if len(parts) > MOST:
        rows.append((f"{len(parts) - MOST} more", np.sum([part.signal for part in parts[MOST:]], axis=0)))
    ax = new_axes(ax)
    heights = [max(float(np.ptp(values)), 1e-12) for _, values in rows]
    least = LEAST * max(heights)
    middles, at = [], 0.0
    for k, (_, values) in enumerate(rows):
        at -= ROOM * 0.5 * (max(heights[k], least) + (max(heights[k - 1], least) if k else 0.0))
        middles.append(at)
        ax.axhline(at, color=GREY, lw=0.5)
        ax.plot(at + values - 0.5 * (values.max() + values.min()), color=BLUE, lw=1.2)
    ax.set_yticks(middles, [name for name, _ in rows])
    ax.set(xlabel="sample", title="Components")
    return ax


def plot_w_correlations(model: Any, ax: Any = None) -> Any:
    """How far the components are separable: absolute weighted correlations, as in singular spectrum analysis.

    Parameters
    ----------
    model : fitted HankelModel
        Of an order above 0.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned. White is 0, black is 1: components with a dark cell belong
        together.
    """
    parts = model.components_
    if not parts:
        raise ValueError("the series has no components: its order is 0")
    ax = new_axes(ax)
    ax.imshow(correlations(model), cmap="Greys", vmin=0.0, vmax=1.0)
    names = [_label(part) for part in parts]
    ax.set_xticks(range(len(parts)), names, rotation=90)
    ax.set_yticks(range(len(parts)), names)
    ax.set_title("Weighted correlations")
    return ax


def correlations(model: Any) -> NDArray[Any]:
    """Weighted correlations of the components of a model, with its window."""
    return w_correlations(model.components_, model.window_)


def _label(part: Component) -> str:
    if part.kind == "trend":
        return f"trend\nmean {float(np.mean(part.signal)):.4g}"
    if part.kind == "oscillation":
        return f"period {part.period:.4g}"
    return f"{part.kind}\n{1.0 / abs(part.damping):.3g} samples"
