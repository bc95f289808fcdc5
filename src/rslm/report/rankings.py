"""The report of recommendations from what people took."""

from __future__ import annotations

from functools import partial
from typing import Any

from rslm.data import ObservedMatrix
from rslm.estimators.implicit.ranking import Metric, popularity
from rslm.report.html import bounds, data_facts, figures, how_good
from rslm.report.page import facts, page, sentence, table, verdict, warning
from rslm.report.plots import plot_convergence, plot_spectrum
from rslm.report.settings_plots import plot_path

METRICS = ("recall@20", "ndcg@100")
MODEL, POPULAR = "the model", "the most popular items"


def ranking_facts(model: Any, train: ObservedMatrix, test: ObservedMatrix) -> dict[str, tuple[float, float]]:
    """By metric: that of the model and that of the most popular items, for items that were held out."""
    popular, learned = popularity(train), (model.row_factors_, model.col_factors_)
    found = {}
    for name in METRICS:
        metric = Metric.of(name)
        found[name] = metric.score(*learned, train, test), metric.score(*popular, train, test)
    return found


def implicit_report(
    model: Any,
    train: ObservedMatrix,
    test: ObservedMatrix | None = None,
    *,
    title: str = "Recommendations",
    how: str = "",
) -> str:
    """The report of recommendations from what people took, with the ranking of held-out items, if given.

    Parameters
    ----------
    model : fitted ImplicitCompletion
    train, test, title, how : as in `completion_report`

    Returns
    -------
    str
        HTML, with the figures in it.
    """
    parts = [facts("Data", data_facts(train, test, how)), _found(model)]
    if test is not None and len(test):
        parts.append("<h2>Held-out items</h2>" + _held_out(ranking_facts(model, train, test)))
    parts += [how_good(model.certificate_), bounds(model.certificate_)]
    plots = [*([] if model.path_ is None else [plot_path]), plot_spectrum, plot_convergence]
    parts.append("<h2>Pictures</h2>" + figures([partial(plot, model) for plot in plots]))
    return page(title, [*parts, facts("Settings", model.get_params())])


def _found(model: Any) -> str:
    """Which settings were found, and the metric of the items that the search has held out."""
    if model.path_ is None:
        return ""
    settings = {"rank": model.rank_, "C": model.C_, "alpha0": model.alpha0_, "weighting": model.weighting_}
    text = facts("Settings that were found", settings | {"settings tried": len(model.path_["C"])})
    text += sentence("They rank best the items that were held out of those to learn from, while searching:")
    rows = [[POPULAR, f"{model.held_out_['popularity']:.4g}"]]
    rows.append(["the model with these settings", f"{model.held_out_['model']:.4g}"])
    return text + table(rows, ["ranked by", model.metric])


def _held_out(found: dict[str, tuple[float, float]]) -> str:
    """How well the model and popularity rank what was held out, and a warning if popularity is better."""
    rows = [[name, *(f"{both[k]:.4g}" for both in found.values())] for k, name in enumerate((MODEL, POPULAR))]
    text = table(rows, ["ranked by", *found])
    worse = [name for name, (learned, popular) in found.items() if not learned > popular]
    if worse:
        return text + warning(
            f"The model ranks held-out items no better than popularity does, by {' and '.join(worse)}. Do not rely on "
            "it: leave rank, C, alpha0 and weighting to be found. If none is better, users may take items by their "
            "popularity alone."
        )
    least = min(learned / popular if popular > 0 else float("inf") for learned, popular in found.values())
    times = f"at least {least:.3g} times as well as popularity does" if least < float("inf") else "better"
    return text + verdict(f"The model ranks held-out items {times}.")
