"""How often intervals cover held-out entries, as a picture and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.evaluate.intervals import coverage_and_width, least_scores
from rslm.report.page import sentence, table
from rslm.report.plots import BLUE, GREY, new_axes

SHOWN = (0.5, 0.8, 0.9, 0.95)  # coverages in the table
DRAWN = (*np.arange(0.05, 0.951, 0.05).round(2), 0.99)


def plot_intervals(model: Any, test: ObservedMatrix, ax: Any = None) -> Any:
    """The fraction of held-out entries that intervals cover, against the coverage that was asked for.

    Parameters
    ----------
    model : fitted MatrixCompletion or InductiveCompletion
    test : ObservedMatrix
        Entries of the fitted rows and columns that the model was not fitted to.
    ax : Matplotlib axes, optional
        Where to draw; new ones if None. They are returned.
    """
    ax = new_axes(ax)
    asked = [coverage for coverage in DRAWN if _enough(model, coverage)]
    covered = [coverage_and_width(model, test, coverage)[0] for coverage in asked]
    ax.plot([0, 1], [0, 1], "--", color=GREY, lw=1, label="as asked for")
    ax.plot(asked, covered, "o-", ms=4, color=BLUE, label=f"{len(test):,} held-out entries")
    ax.set(xlabel="coverage asked for", ylabel="fraction covered", xlim=(0, 1), ylim=(0, 1))
    ax.set_title("Coverage of the intervals")
    ax.legend(frameon=False, loc="upper left")
    return ax


def intervals(model: Any, test: ObservedMatrix) -> str:
    """A table of coverages and widths on held-out entries."""
    rows = []
    for coverage in SHOWN:
        if _enough(model, coverage):
            covered, width = coverage_and_width(model, test, coverage)
            rows.append([f"{100 * coverage:g} %", f"{100 * covered:.1f} %", f"{width:.4g}"])
    text = "Intervals of predict_interval on the held-out entries, which neither fit nor intervals have seen:"
    return sentence(text) + table(rows, ["coverage asked for", "covered", "mean width"])


def _enough(model: Any, coverage: float) -> bool:
    """Whether the model has held out enough entries for a coverage."""
    return len(model._intervals.calibration) >= least_scores(coverage)
