"""Plots of related regressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.report.plots import new_axes

MOST_NAMES = 20  # labels on an axis
LONGEST = 16


def plot_coefficients(model: Any, ax: Any = None) -> Any:
    """The coefficients of all tasks as an image: a row for every task, a column for every feature.

    Parameters
    ----------
    model : fitted MultiTaskRegressor, MultiTaskClassifier or ReducedRankRegressor
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned. Colours end at the largest coefficients but 1 %.
    """
    ax = new_axes(ax)
    coef = np.asarray(model.coef_)
    most = float(np.quantile(np.abs(coef), 0.99)) or float(np.abs(coef).max()) or 1.0
    image = ax.imshow(coef, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax)
    tasks = getattr(model, "tasks_", None)
    what = "target" if tasks is None else "task"
    ax.set(xlabel="feature", ylabel=what, title=f"Coefficients of {len(coef):,} {what}s")
    _name(ax.xaxis, getattr(model, "feature_names_in_", None), rotation=90)
    _name(ax.yaxis, None if tasks is None or np.ndim(tasks) != 1 else tasks)
    return ax


def _name(axis: Any, names: Any, rotation: int = 0) -> None:
    """Label an axis by names, if there are few; by whole numbers otherwise."""
    if names is None or len(names) > MOST_NAMES:
        axis.get_major_locator().set_params(integer=True)
        return
    # A dollar sign would begin a formula.
    shown = [str(name)[:LONGEST].replace("$", r"\$") for name in names]
    axis.set_ticks(range(len(names)), shown, rotation=rotation)
