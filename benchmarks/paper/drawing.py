"""What the figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLOURS = (
    "#1f3b73",
    "#3f8fd0",
    "#2a9d8f",
    "#8ab92d",
    "#e8960c",
    "#c1272d",
    "#7b4fa3",
    "#8c6d46",
    "#d26fa8",
    "#555555",
    "#111111",
)


def panels(columns: int, rows: int = 1, width: float = 5.0, height: float = 3.6) -> tuple[Any, Any]:
    """A figure and its axes, as an array of rows × columns."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat:
        axis.grid(alpha=0.25, lw=0.6)
    return figure, axes


def times(axis: Any, curves: Sequence[Sequence[Sequence[float]]]) -> None:
    """A logarithmic axis of time, from shortly before the second point of the first curve on."""
    axis.set_xscale("log")
    axis.set_xlabel("CPU seconds")
    firsts = [seconds[1] for seconds, *_ in curves if len(seconds) > 1]
    if firsts:
        axis.set_xlim(left=0.5 * min(firsts))


def curve(axis: Any, points: Sequence[Sequence[float]], label: str, colour: str, ours: bool = False) -> None:
    """Ours are thick; the end is marked."""
    x, y = points
    axis.plot(x, y, color=colour, lw=2.4 if ours else 1.3, label=label)
    axis.plot(x[-1:], y[-1:], "o", ms=5 if ours else 3.5, color=colour)
