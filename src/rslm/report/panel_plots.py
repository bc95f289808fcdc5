"""Plots of effects in panels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import Labels
from rslm.data.labels import show_id
from rslm.report.plots import BLUE, GREY, ORANGE, new_axes


def plot_event_study(model: Any, ax: Any = None) -> Any:
    """Average effects by the time since adoption, with intervals; held-out periods before it in grey.

    Parameters
    ----------
    model : fitted PanelCompletion
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    study = model.event_study_
    after = study["relative_time"] >= 0
    for at, colour, marker, name in ((~after, GREY, "s", "before, held out"), (after, BLUE, "o", "effect")):
        if not at.any():
            continue
        times, effects = study["relative_time"][at], study["effect"][at]
        ax.plot(times, effects, marker, ms=4, color=colour, label=name)
        if np.isfinite(study["lower"][at]).all():
            ax.vlines(times, study["lower"][at], study["upper"][at], color=colour, lw=1.5)
    ax.axhline(0.0, color=GREY, lw=1, ls=":")
    ax.axvline(-0.5, color=GREY, lw=1, ls="--")
    ax.set(xlabel="periods since adoption", ylabel="effect", title=f"Average effect on the treated {model.att_:.3g}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)  # where it covers least
    return ax


def plot_counterfactual(model: Any, unit: Any = None, ax: Any = None) -> Any:
    """Outcomes of a treated unit, and what they would have been without treatment.

    Parameters
    ----------
    model : fitted PanelCompletion
    unit : position, or id where `fit` was given ids, optional
        The unit; the average over all treated units, by the time since adoption, if None.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    panel = model._panel
    adopted: Any = None  # where a line is drawn
    if unit is None:
        times, outcomes, without = _averages(model)
        adopted, label = -0.5, "periods since adoption"
        title = f"Average of {(panel.first >= 0).sum()} treated units"
    else:
        i = int(Labels("unit", panel.shape[0], panel.units).positions([unit])[0])
        times = np.arange(panel.shape[1]) if panel.periods is None else panel.periods
        outcomes, without = panel.outcomes[i], model.counterfactual_[i]
        first = int(panel.first[i])
        adopted = None if first < 0 else times[first]
        label, title = "period", f"Unit {show_id(panel.units, i)}"
    ax.plot(times, outcomes, "o-", ms=3, color=BLUE, label="outcome")
    ax.plot(times, without, "--", color=ORANGE, label="without treatment")
    if adopted is not None:
        ax.axvline(adopted, color=GREY, lw=1, ls="--")
    ax.set(xlabel=label, ylabel="outcome", title=title)
    ax.legend(frameon=False)
    return ax


def _averages(model: Any) -> tuple[Any, Any, Any]:
    """Relative times, and the averages over the treated units with an outcome then."""
    panel = model._panel
    known = ~np.isnan(panel.outcomes) & (panel.first >= 0)[:, None]
    times = np.unique(panel.relative[known])
    at = [known & (panel.relative == time) for time in times]
    return times, [panel.outcomes[a].mean() for a in at], [model.counterfactual_[a].mean() for a in at]
