"""The pictures of `model.plot`, by their names, and several in one figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.report.channels import channel_count, plot_signal
from rslm.report.held_out_plots import plot_held_out
from rslm.report.interval_plots import plot_intervals
from rslm.report.panel_plots import plot_counterfactual, plot_event_study
from rslm.report.plots import plot_convergence, plot_residuals, plot_spectrum, pyplot
from rslm.report.series_plots import plot_components, plot_w_correlations
from rslm.report.settings_plots import plot_effects, plot_path
from rslm.report.task_plots import plot_coefficients

WIDTH, HEIGHT = 6.0, 4.0  # inches, of one picture
WIDE = 10.0  # of a series


@dataclass(frozen=True)
class Picture:
    """A picture of a model: how it is drawn, and what may stand in its way."""

    draw: Callable[..., Any]  #: takes a model, options and `ax`
    obstacle: Callable[[Any], str | None] = lambda _: None  #: why there is nothing to show, in words
    columns: int = 1  #: of the figure's grid that it takes


def _without(attribute: str, why: str) -> Callable[[Any], str | None]:
    return lambda model: why if getattr(model, attribute, None) is None else None


def _of_rank(model: Any) -> str | None:
    return None if model.rank_ > 0 else "there is no low-rank part: the rank is 0"


def _of_components(model: Any) -> str | None:
    if not model.components_:
        return "the series has no components: its order is 0, or it follows inputs"
    one = model.signal_.ndim == 1 and not np.iscomplexobj(model.signal_)
    return None if one else "components are drawn for one real series; those of channels are in model.components_"


def _of_iterations(model: Any) -> str | None:
    there = "relative_gradient" in model.history_
    return None if there else "there is no record of iterations: nothing of low rank was solved for, or by batches"


def _of_effects(model: Any) -> str | None:
    there = np.any(model.row_effects_) or np.any(model.col_effects_)
    return None if there else "the model has no effects: it was fitted without them, or they are all 0"


SEARCHED = "settings were given, or there were too few data to hold some out"
PICTURES = {
    "held_out": Picture(plot_held_out, lambda model: None if model._held_out_errors() else SEARCHED),
    "path": Picture(plot_path, _without("path_", SEARCHED)),
    "spectrum": Picture(plot_spectrum, _of_rank),
    "convergence": Picture(plot_convergence, _of_iterations),
    "residuals": Picture(
        plot_residuals, _without("residuals_", "a model that was loaded from a file has no residuals")
    ),
    "effects": Picture(plot_effects, _of_effects),
    "intervals": Picture(plot_intervals, _without("_intervals", "no entries were held out; call calibrate(X) first")),
    "event_study": Picture(plot_event_study),
    "counterfactual": Picture(plot_counterfactual),
    "series": Picture(plot_signal, _without("signal_", "there is no signal"), columns=2),
    "components": Picture(plot_components, _of_components),
    "w_correlations": Picture(plot_w_correlations, lambda model: None if model.components_ else _of_components(model)),
    "coefficients": Picture(plot_coefficients),
}


def drawn(model: Any, kind: str | None, options: dict[str, Any]) -> Any:
    """A figure of one picture, or of all in the model's overview that have something to show."""
    names = (*model._overview, *model._more_pictures)
    if kind is not None and kind not in names:
        raise ValueError(f"kind must be None or one of {list(names)} for a {type(model).__name__}; got {kind!r}")
    if kind is not None and (why := PICTURES[kind].obstacle(model)) is not None:
        raise ValueError(f"there is nothing to show as {kind!r}: {why}")
    kinds = [kind] if kind is not None else _overview(model)
    return _figure(model, kinds, options)


def _overview(model: Any) -> list[str]:
    there = [kind for kind in model._overview if PICTURES[kind].obstacle(model) is None]
    return there or ["spectrum"]  # which says that the rank is 0


def _figure(model: Any, kinds: list[str], options: dict[str, Any]) -> Any:
    """Pictures in rows of two; the series of several channels one below the other."""
    plt = pyplot()
    from rslm.report.shown_figure import ShownFigure

    cells: list[tuple[str, dict[str, Any]]] = [(kind, options if k == 0 else {}) for k, kind in enumerate(kinds)]
    if kinds[0] == "series" and "channel" not in options:
        cells = [("series", {**options, "channel": k}) for k in range(channel_count(model))] + cells[1:]
    rows: list[list[tuple[str, dict[str, Any]]]] = []
    for cell in cells:
        wide = PICTURES[cell[0]].columns > 1
        if wide or not rows or len(rows[-1]) == 2 or PICTURES[rows[-1][0][0]].columns > 1:
            rows.append([])
        rows[-1].append(cell)
    columns = max(len(row) for row in rows)
    width = WIDE if columns == 1 and PICTURES[kinds[0]].columns > 1 else WIDTH * columns
    figure = plt.figure(FigureClass=ShownFigure, figsize=(width, HEIGHT * len(rows)), layout="constrained")
    try:
        grid = figure.add_gridspec(len(rows), columns)
        for i, row in enumerate(rows):
            for j, (kind, given) in enumerate(row):
                place = grid[i, :] if len(row) == 1 and len(rows) > 1 else grid[i, j]
                PICTURES[kind].draw(model, **given, ax=figure.add_subplot(place))
    except BaseException:
        plt.close(figure)  # half a picture would be shown with the next one
        raise
    return figure
