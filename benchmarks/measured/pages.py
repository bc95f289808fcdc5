"""The places in README.md and docs/ that stored numbers are written into."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from common import ROOT
from measured.store import NotMeasuredError
from measured.tables import TABLES
from rslm.storage.atomic import atomic_text

PLACE = re.compile(r"(?P<begin><!-- measured: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """All pages with a place for numbers."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in every if PLACE.search(page.read_text(encoding="utf-8"))]


def places(text: str) -> Iterator[str]:
    """Names of the places in a page."""
    return (found["name"] for found in PLACE.finditer(text))


def filled(text: str, tables: dict[str, Callable[[], str]] = TABLES) -> str:
    """A page with the numbers that are stored."""
    return PLACE.sub(lambda place: place["begin"] + tables[place["name"]]().strip() + "\n" + place["end"], text)


def write() -> list[Path]:
    """Fill all pages; returns those that changed."""
    changed = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            new = filled(text)
        except NotMeasuredError as absent:
            print(f"{page.name} is left as it is: {absent}")
            continue
        if new != text:
            with atomic_text(page) as file:
                file.write(new)
            changed.append(page)
    return changed
