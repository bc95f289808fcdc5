"""HTML pages that need no network and no other file: pictures are embedded."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rslm.storage.atomic import atomic_bytes, atomic_text

DPI = 130
COLOURS = 40  # of a picture: a third of the bytes, without a visible difference

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
td + td, th + th { font-variant-numeric: tabular-nums; } tr { border-bottom: 1px solid #ddd; }
.verdict { background: #eef5fb; border-left: .3rem solid #0072B2; padding: .5rem 1rem; }
.warning { background: #fdf3e0; border-left: .3rem solid #E69F00; padding: .5rem 1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem; }
img { width: 100%; height: auto; } .wide { overflow-x: auto; } .part img { max-width: 44rem; }
"""


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a page: what was done, a picture, a table of numbers, and what was found."""

    name: str  #: file name of the picture, without suffix
    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    verdict: str  #: what was found, and how good it is
    picture: bytes  #: as PNG
    alt: str  #: description of the picture for those who cannot see it

    def html(self) -> str:
        return (
            f"<section class='part'><h2>{html.escape(self.title)}</h2><p>{html.escape(self.text)}</p>"
            f"{picture(self.picture, self.alt)}{table(self.rows, self.header)}{verdict(self.verdict)}</section>"
        )


def page(title: str, parts: Iterable[str]) -> str:
    """A complete HTML page from its parts."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><link rel='icon' href='data:,'></head>"
        f"<body><h1>{html.escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None) -> str:
    head = "" if header is None else "<tr>" + "".join(f"<th>{html.escape(c)}</th>" for c in header) + "</tr>"
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table>{head}{body}</table></div>"


def facts(title: str, named: dict[str, Any]) -> str:
    return f"<h2>{title}</h2>" + table([[str(k), _shown(v)] for k, v in named.items()])


def verdict(text: str) -> str:
    return f"<p class='verdict'>{html.escape(text)}</p>"


def sentence(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def warning(text: str) -> str:
    return f"<p class='warning'>{html.escape(text)}</p>"


def picture(drawn: bytes, alt: str) -> str:
    code = base64.b64encode(drawn).decode()
    return f"<img alt='{html.escape(alt, quote=True)}' src='data:image/png;base64,{code}'>"


def png(figure: Any) -> bytes:
    """A figure as a small PNG."""
    from PIL import Image  # Matplotlib requires it

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True)
    return small.getvalue()


def write_report(text: str, path: str | os.PathLike[str]) -> None:
    """Write a report; the file appears complete or not at all.

    Parameters
    ----------
    text : str
        HTML, as `completion_report` returns it.
    path : path
    """
    with atomic_text(path) as file:
        file.write(text)


def write_picture(drawn: bytes, path: str | os.PathLike[str]) -> None:
    """Write a picture; the file appears complete or not at all."""
    with atomic_bytes(path) as file:
        file.write(drawn)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
