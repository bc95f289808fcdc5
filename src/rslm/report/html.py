"""Reports of a fit as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rslm.certificate import Certificate
from rslm.data import ObservedMatrix
from rslm.report.comparisons import averaging, found, held_out, location
from rslm.report.interval_plots import intervals, plot_intervals
from rslm.report.page import facts, page, picture, png, sentence, table, verdict
from rslm.report.plots import figure, noise_in_words, plot_convergence, plot_residuals, plot_series, plot_spectrum
from rslm.report.series_plots import plot_components
from rslm.report.settings_plots import plot_effects, plot_path

WORST = 10  # residuals listed


def completion_report(
    model: Any,
    train: ObservedMatrix,
    test: ObservedMatrix | None = None,
    *,
    title: str = "Matrix completion",
    how: str = "",
) -> str:
    """The report of a completed matrix, with the error on held-out entries, if given.

    Parameters
    ----------
    model : fitted MatrixCompletion
    train : ObservedMatrix
        The data that it was fitted to.
    test : ObservedMatrix, optional
        Entries that were held out.
    title : str
    how : str
        How the data were read, in words.

    Returns
    -------
    str
        HTML, with the figures in it.
    """
    certificate = model.certificate_
    parts = [facts("Data", data_facts(train, test, how)), found(model)]
    if test is not None and len(test):
        parts.append("<h2>Held-out entries</h2>" + held_out(model, train, test))
    tested = test if test is not None and len(test) and model._intervals is not None else None
    if tested is not None:
        parts.append("<h2>Intervals</h2>" + intervals(model, tested))
    parts.append("<h2>Mean and effects</h2>" + location(model))
    parts.append(averaging(model))
    parts += [how_good(certificate), bounds(certificate)] if model.rank_ > 0 else []
    plots = [partial(plot, model) for plot in _plots(model)]
    plots += [] if tested is None else [partial(plot_intervals, model, tested)]
    parts.append("<h2>Pictures</h2>" + figures(plots))
    parts.append("<h2>Observed entries that fit worst</h2>")
    parts.append(table(_worst(model, train), ["row", "column", "observed", "learned"]))
    parts.append(facts("Settings", model.get_params()))
    return page(title, parts)


def series_report(
    model: Any,
    y: Any,
    steps: int = 0,
    coverage: float | None = 0.9,
    *,
    title: str = "Series",
    how: str = "",
    log: bool = False,
) -> str:
    """The report of a series, with a forecast of `steps` values.

    Parameters
    ----------
    model : fitted HankelModel
    y : array of shape (n,)
        The series that was fitted; with `log` the one whose logarithm was fitted.
    steps : int, default=0
        How many values to forecast.
    coverage : float or None, default=0.9
        The fraction of the next samples that the intervals should cover, see `HankelModel.predict_interval`; None is
        for a forecast without intervals.
    title : str
    how : str
        How the data were read, in words.
    log : bool, default=False
        Whether the model was fitted to the logarithm of y. Signal and forecast are in the units of y in any case.

    Returns
    -------
    str
        HTML, with the figures in it.
    """
    samples = np.asarray(y, dtype=np.float64)
    known = {"samples": f"{len(samples):,}", "missing": int(np.isnan(samples).sum()), "order": model.rank_}
    known |= {"noise": noise_in_words(model, log)} | ({"read as": how} if how else {})
    known |= {"fitted on": "the logarithm; samples, signal and forecast are shown in their own units"} if log else {}
    plots = [partial(plot_series, model, samples, steps, coverage, log=log)]
    plots += [partial(plot_components, model), partial(plot_spectrum, model)] if model.rank_ else []
    plots += [partial(plot_convergence, model)] if model.history_ else []
    good = sentence(model.certificate_.meaning) if model.certificate_ is not None else ""
    parts = [facts("Data", known), f"<h2>How good the answer is</h2>{verdict(model.verdict_)}{good}"]
    parts.append("<h2>Pictures</h2>" + figures(plots))
    if steps:
        ends = [] if coverage is None else model.predict_interval(steps, coverage)
        ahead = [model.forecast(steps), *ends]
        numbered = enumerate(zip(*(np.exp(ahead) if log else ahead), strict=True), len(samples) + 1)
        rows = [[str(k), *(f"{v:.6g}" for v in row)] for k, row in numbered]
        parts.append("<h2>Forecast</h2>" + table(rows, ["sample", "forecast", *(["lower", "upper"] if ends else [])]))
    if steps and coverage is not None:
        parts.append(f"<p>Lower and upper: intervals that should cover {100 * coverage:g} % of the next samples.</p>")
    parts.append(facts("Settings", model.get_params()))
    return page(title, parts)


def bounds(certificate: Certificate) -> str:
    """The objective and the bound on it, as a table."""
    primal, dual = f"{certificate.primal:.6g}", f"{certificate.dual:.6g}"
    return table([["objective of the answer", primal], ["lower bound for any matrix", dual]])


def data_facts(train: ObservedMatrix, test: ObservedMatrix | None, how: str) -> dict[str, Any]:
    """What the data are, for a table."""
    found: dict[str, Any] = {"rows × columns": f"{train.shape[0]:,} × {train.shape[1]:,}"}
    found |= {"entries to learn from": f"{len(train):,} ({100 * train.density:.3g} %)"}
    found |= {} if test is None else {"held out": f"{len(test):,}"}
    values = train.values
    found["values"] = f"{values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}"
    return found | ({"read as": how} if how else {})


def how_good(certificate: Certificate) -> str:
    """The verdict of the certificate, and what it means."""
    text = verdict(certificate.verdict) + sentence(certificate.meaning)
    return f"<h2>How good the answer is</h2>{text}"


def _plots(model: Any) -> list[Callable[..., Any]]:
    """The plots that have something to show."""
    plots: list[Callable[..., Any]] = [] if getattr(model, "path_", None) is None else [plot_path]
    plots += [plot_effects] if np.any(model.row_effects_) or np.any(model.col_effects_) else []
    return [*plots, *([plot_spectrum, plot_convergence] if model.rank_ > 0 else []), plot_residuals]


def _worst(model: Any, train: ObservedMatrix) -> list[list[str]]:
    residual = model.residuals_.values
    at = np.argsort(-np.abs(residual))[:WORST]
    rows, cols = train.rows_of_entries()[at], train.index[at]
    names = [k + 1 if train.row_ids is None else train.row_ids[k] for k in rows]
    columns = [k + 1 if train.col_ids is None else train.col_ids[k] for k in cols]
    cells = zip(names, columns, train.values[at], train.values[at] - residual[at], strict=True)
    return [[str(a), str(b), f"{y:.4g}", f"{w:.4g}"] for a, b, y, w in cells]


def figures(draw: Sequence[Callable[..., Any]]) -> str:
    """Pictures side by side, each drawn by a function that takes axes."""
    pictures = []
    for one in draw:
        made, ax = figure()
        title = one(ax=ax).get_title()
        pictures.append(picture(png(made), title))
    return f"<div class='figures'>{''.join(pictures)}</div>"
