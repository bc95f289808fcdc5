"""One HTML file that tells how a fit went: no network, no other file; figures are drawn into it."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.appearing import appearing
from rslm.report.biases import bias_model
from rslm.report.plots import figure, plot_convergence, plot_residuals, plot_series, plot_spectrum

WORST = 10  # residuals that are listed
LEVEL = 0.9  # of intervals

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
td + td, th + th { font-variant-numeric: tabular-nums; } tr { border-bottom: 1px solid #ddd; }
.verdict { background: #eef5fb; border-left: .3rem solid #0072B2; padding: .5rem 1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem; }
img { width: 100%; height: auto; } .wide { overflow-x: auto; }
"""


def completion_report(
    model: Any,
    train: ObservedMatrix,
    test: ObservedMatrix | None = None,
    *,
    title: str = "Matrix completion",
    how: str = "",
) -> str:
    """The report of a completed matrix, with the error on entries that were held out, if there are any."""
    certificate = model.certificate_
    bounds = [["objective of the answer", f"{certificate.primal:.6g}"]]
    bounds.append(["no matrix has less than", f"{certificate.dual:.6g}"])
    parts = [
        _facts("Data", _data_facts(train, test, how)),
        f"<h2>How good the answer is</h2><p class='verdict'>{html.escape(certificate.verdict)}</p>",
        _table(bounds),
    ]
    if test is not None and len(test):
        parts.append("<h2>Error on held-out entries</h2>")
        parts.append(_table(_errors(model, train, test), ["predicted by", "RMSE"]))
    plots = [partial(plot, model) for plot in (plot_convergence, plot_spectrum, plot_residuals)]
    parts.append("<h2>Pictures</h2>" + _figures(plots))
    parts.append("<h2>Observed entries that fit worst</h2>")
    parts.append(_table(_worst(model, train), ["row", "column", "observed", "learned"]))
    parts.append(_facts("Settings", model.get_params()))
    return _page(title, parts)


def series_report(model: Any, y: Any, steps: int = 0, *, title: str = "Series", how: str = "") -> str:
    """The report of a series, with a forecast of so many steps."""
    samples = np.asarray(y, dtype=np.float64)
    facts = {"samples": f"{len(samples):,}", "missing": int(np.isnan(samples).sum()), "order": model.effective_rank_}
    facts |= {"noise": f"{model.noise_:.4g}"} | ({"read as": how} if how else {})
    plots = [partial(plot_series, model, samples, steps, LEVEL), partial(plot_spectrum, model)]
    parts = [_facts("Data", facts), "<h2>Pictures</h2>" + _figures(plots)]
    if steps:
        numbered = enumerate(zip(*model.forecast(steps, LEVEL), strict=True), len(samples) + 1)
        rows = [[str(k), *(f"{v:.6g}" for v in row)] for k, row in numbered]
        parts.append("<h2>Forecast</h2>" + _table(rows, ["sample", "forecast", "lower", "upper"]))
    parts.append(_facts("Settings", model.get_params()))
    return _page(title, parts)


def write_report(text: str, path: str | os.PathLike[str]) -> None:
    """Write a report; the file appears whole or not at all."""
    with appearing(path) as file:
        file.write(text)


def _data_facts(train: ObservedMatrix, test: ObservedMatrix | None, how: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"rows × columns": f"{train.shape[0]:,} × {train.shape[1]:,}"}
    facts |= {"entries to learn from": f"{len(train):,} ({100 * train.density:.3g} %)"}
    facts |= {} if test is None else {"held out": f"{len(test):,}"}
    values = train.values
    facts["values"] = f"{values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}"
    return facts | ({"read as": how} if how else {})


def _errors(model: Any, train: ObservedMatrix, test: ObservedMatrix) -> list[list[str]]:
    rows, cols = test.rows_of_entries(), test.index
    found = np.einsum("ij,ij->i", model.row_factors_[rows], model.col_factors_[cols])
    guesses = {
        "the mean of all entries": np.full(len(test), train.values.mean()),
        "means of rows and columns": bias_model(train)(rows, cols),
        "the model": found,
    }
    return [[name, f"{np.sqrt(np.mean((w - test.values) ** 2)):.4f}"] for name, w in guesses.items()]


def _worst(model: Any, train: ObservedMatrix) -> list[list[str]]:
    residual = model.residuals_.values
    at = np.argsort(-np.abs(residual))[:WORST]
    rows, cols = train.rows_of_entries()[at], train.index[at]
    names = [k + 1 if train.row_ids is None else train.row_ids[k] for k in rows]
    columns = [k + 1 if train.col_ids is None else train.col_ids[k] for k in cols]
    cells = zip(names, columns, train.values[at], train.values[at] - residual[at], strict=True)
    return [[str(a), str(b), f"{y:.4g}", f"{w:.4g}"] for a, b, y, w in cells]


def _facts(title: str, facts: dict[str, Any]) -> str:
    return f"<h2>{title}</h2>" + _table([[str(k), _shown(v)] for k, v in facts.items()])


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(rows: list[list[str]], header: list[str] | None = None) -> str:
    head = "" if header is None else "<tr>" + "".join(f"<th>{html.escape(c)}</th>" for c in header) + "</tr>"
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table>{head}{body}</table></div>"


def _figures(draw: Sequence[Callable[..., Any]]) -> str:
    pictures = []
    for one in draw:
        made, ax = figure()
        title = one(ax=ax).get_title()
        stream = io.BytesIO()
        made.savefig(stream, format="png", dpi=130)
        code = base64.b64encode(stream.getvalue()).decode()
        pictures.append(f"<img alt='{html.escape(title, quote=True)}' src='data:image/png;base64,{code}'>")
    return f"<div class='figures'>{''.join(pictures)}</div>"


def _page(title: str, parts: list[str]) -> str:
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><link rel='icon' href='data:,'></head>"
        f"<body><h1>{html.escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )
