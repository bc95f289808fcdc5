"""The errors of held-out data, of the model and of simpler predictions."""

from __future__ import annotations

from typing import Any

from rslm.report.plots import BLUE, GREY, new_axes


def plot_held_out(model: Any, ax: Any = None) -> Any:
    """Errors of data that were held out while settings were searched: those of simple predictions, and of the model.

    Parameters
    ----------
    model : fitted estimator
        With `held_out_`: at least one setting was "auto".
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    errors = model._held_out_errors()
    if not errors:
        raise ValueError("the model has no held-out errors: its settings were given, or there were too few data")
    ax = new_axes(ax)
    names, values = list(errors), list(errors.values())
    drawn = ax.barh(names, values, color=[GREY] * (len(names) - 1) + [BLUE], height=0.6)
    ax.bar_label(drawn, [f"{value:.4g}" for value in values], padding=4)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set(xlabel=f"{model._measure()} of held-out data", title="Held-out data")
    return ax
