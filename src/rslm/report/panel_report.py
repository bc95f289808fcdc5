"""The report of effects in a panel as one HTML file."""

from __future__ import annotations

from typing import Any

from rslm.report.page import facts, page, picture, png, sentence, table, verdict, warning
from rslm.report.panel_plots import plot_counterfactual, plot_event_study
from rslm.report.plots import figure

COLUMNS = ("relative_time", "effect", "standard_error", "lower", "upper", "n")
DOUBTFUL = 0.05  # p value below which a trend before adoption is reported as one


def panel_report(model: Any, *, title: str = "Effects in a panel", how: str = "") -> str:
    """The report of a panel: the average effect, the event study, and how good the answer is.

    Parameters
    ----------
    model : fitted PanelCompletion
    title : str
    how : str
        How the data were read, in words.

    Returns
    -------
    str
        HTML, with the figures in it.
    """
    panel, (low, high) = model._panel, model.att_interval_
    known: dict[str, Any] = {"units × periods": f"{panel.shape[0]:,} × {panel.shape[1]:,}"}
    known |= {"treated units": int((panel.first >= 0).sum()), "treated outcomes": int(panel.affected.sum())}
    known |= {"factors": model.rank_, "noise": float(model.noise_)} | ({"read as": how} if how else {})
    effect = f"The average effect on the treated is {model.att_:.4g}, {100 * model.level:g} % interval {low:.4g} to "
    parts = [facts("Data", known), "<h2>Effect</h2>" + verdict(f"{effect}{high:.4g} (p = {model.p_value_:.2g}).")]
    parts.append(before_adoption(model))
    drawn = []
    for plot in (plot_event_study, plot_counterfactual):
        made, ax = figure()
        title_of = plot(model, ax=ax).get_title()
        drawn.append(picture(png(made), title_of))
    parts.append(f"<div class='figures'>{''.join(drawn)}</div>")
    study = zip(*(model.event_study_[name] for name in COLUMNS), strict=True)
    rows = [[f"{value:.4g}" for value in row] for row in study]
    parts.append("<h2>Event study</h2>" + table(rows, [name.replace("_", " ") for name in COLUMNS]))
    certificate = model.certificate_
    parts.append("<h2>How good the answer is</h2>" + verdict(certificate.verdict) + sentence(certificate.meaning))
    parts.append(facts("Settings", model.get_params()))
    return page(title, parts)


def before_adoption(model: Any) -> str:
    """What the held-out periods before adoption say, as HTML."""
    trend = model.pretrend_
    if trend is None:
        return warning("There are too few periods before adoption to check for trends.")
    words = in_words(trend)
    return warning(words) if trend["p_value"] < DOUBTFUL else sentence(words)


def in_words(trend: dict[str, Any]) -> str:
    """The check of trends in a sentence."""
    found = f"{trend['n']} outcomes before adoption were held out and missed by {trend['effect']:.3g} on average "
    found += f"(p = {trend['p_value']:.2g}); with 95 % confidence by less than {trend['bound']:.3g}."
    doubt = " The counterfactual is off already before the treatment: do not trust the effect."
    return found + (doubt if trend["p_value"] < DOUBTFUL else "")
