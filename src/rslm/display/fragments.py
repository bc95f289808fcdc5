"""Parts of HTML for notebooks. All text is escaped here, as names may come from anybody's data."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from rslm.display.svg import bars

# Pages of notebooks have rules of their own for tables, so some here are important. Text and lines take the colour of
# the page, so that light and dark themes need no rules.
STYLE = """
.rslm { font: 13px/1.45 system-ui, sans-serif; max-width: 56rem; margin: .4rem 0; color: inherit; }
.rslm h4 { font-size: 1em; font-weight: 600; margin: .2rem 0 .4rem; }
.rslm p { margin: .3rem 0; }
.rslm .parts { display: flex; flex-wrap: wrap; gap: .6rem 2rem; align-items: flex-start; }
.rslm .parts > div { max-width: 100%; overflow-x: auto; }
.rslm table { border-collapse: collapse; margin: 0; font-size: inherit; border: 0; }
.rslm tr { background: none !important; border-bottom: 1px solid rgba(127, 127, 127, .3); }
.rslm td, .rslm th { padding: .1rem 1rem .1rem 0; text-align: left !important; font-weight: normal; border: 0;
  color: inherit; max-width: 20rem; white-space: normal; overflow-wrap: break-word; vertical-align: top; }
.rslm td + td { text-align: right !important; font-variant-numeric: tabular-nums; }
.rslm th { opacity: .75; } .rslm th + th { text-align: right !important; }
.rslm td.bar { vertical-align: middle; padding-right: 0; }
.rslm .verdict { border-left: .25rem solid #2b8cc4; padding: .1rem .6rem; }
.rslm figure { margin: 0; } .rslm figcaption { opacity: .75; font-size: .9em; }
.rslm svg { display: block; max-width: 100%; height: auto; }
"""


def block(title: str, *parts: str) -> str:
    """A part of a page with its own style; `parts` are HTML, the title is text."""
    return f"<div class='rslm'><style>{STYLE}</style><h4>{html.escape(title)}</h4>{''.join(parts)}</div>"


def side_by_side(*parts: str) -> str:
    """HTML side by side, or one below the other where there is no room."""
    return "<div class='parts'>" + "".join(f"<div>{part}</div>" for part in parts if part) + "</div>"


def table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None) -> str:
    """A table; the first column is text, the others are numbers."""
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    head = "" if header is None else "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>"
    return f"<table>{head}{cells}</table>" if rows else ""


def compared(named: Mapping[str, float], header: Sequence[str]) -> str:
    """Numbers that are not negative as a table with bars; the last one stands out."""
    drawn = zip(named.items(), bars(list(named.values())), strict=True)
    cells = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(number(value))}</td><td class='bar'>{bar}</td></tr>"
        for (name, value), bar in drawn
    )
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    return f"<table><tr>{head}<th></th></tr>{cells}</table>"


def facts(named: Mapping[str, str]) -> str:
    """Names and values as a table."""
    return table([[name, value] for name, value in named.items()])


def sentence(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def verdict(text: str) -> str:
    return f"<p class='verdict'>{html.escape(text)}</p>"


def captioned(picture: str, caption: str) -> str:
    """A picture, as HTML, with a line of text below; nothing without a picture."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>" if picture else ""


def number(value: float) -> str:
    """A number with four digits; a whole one with all of them."""
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e6):
        return f"{int(value):,}"
    return "∞" if value == math.inf else "unknown" if math.isnan(value) else f"{value:.4g}"
