"""The numbers in README.md and docs/ are those that were measured, and a number that is edited by hand is noticed."""

import re

import pytest

from common import ROOT
from measured.pages import PLACE, filled, pages, places
from measured.store import find
from measured.studies import STUDIES
from measured.tables import TABLES

PAGES = pages()
REPORTS = [(command.line, report) for study in STUDIES for command in study.commands for report in command.reports]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_stored_numbers(page):
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "write the pages again: python -m measured --pages"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_number_edited_by_hand_is_noticed(page):
    text = page.read_text(encoding="utf-8")
    for place in PLACE.finditer(text):
        number = re.search(r"\d\.\d+", place[0])
        at = place.start() + number.end() - 1
        edited = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]
        assert filled(edited) == text


def test_every_table_has_one_place():
    found = [name for page in PAGES for name in places(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(TABLES)


@pytest.mark.parametrize(("line", "report"), REPORTS, ids=[report for _, report in REPORTS])
def test_what_is_stored_has_its_circumstances(line, report):
    content = find(report).content
    assert content["command"] == line
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert re.fullmatch(r"[0-9a-f]{10}", content["commit"])  # without a plus: of a tree without changes
    assert content["machine"]["processor"]


def test_nothing_is_marked_as_old():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        assert "†" not in text
        assert "earlier state" not in text
