"""HTML and pictures for notebooks: they parse, say what they are given, and escape it."""

from html.parser import HTMLParser

import numpy as np
import pytest

from rslm.display import svg
from rslm.display.fragments import block, captioned, compared, facts, number, sentence, side_by_side, table, verdict

EVIL = "<script>alert('x')</script>&\"'"
VOID = {"img", "br", "hr", "meta", "link"}


class Parsed(HTMLParser):
    """Checks that all elements are closed in order, and collects their names, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if "style" not in self.open and "script" not in self.open else ""


def test_all_text_is_escaped():
    made = block(
        EVIL,
        sentence(EVIL),
        verdict(EVIL),
        facts({EVIL: EVIL}),
        table([[EVIL]], [EVIL]),
        compared({EVIL: 1.0}, [EVIL]),
        captioned(svg.shades(np.ones((2, 2)), EVIL), EVIL),
    )
    parsed = Parsed(made)
    assert "script" not in parsed.tags
    assert parsed.text.count(EVIL) == 10
    assert ("aria-label", EVIL) in parsed.attributes


def test_numbers_in_words():
    shown = [number(value) for value in (3, 3.0, 0.123456, 1234567, np.inf, np.nan, 1e30)]
    assert shown == ["3", "3", "0.1235", "1,234,567", "∞", "unknown", "1e+30"]


def test_nothing_is_shown_of_nothing():
    assert captioned("", "words") == ""
    assert Parsed(side_by_side("", "<p>a</p>")).tags.count("div") == 2
    assert svg.stems(np.zeros(3), "none") == ""
    assert svg.curve(np.full(3, np.nan), None, "none") == ""


@pytest.mark.parametrize(
    "picture",
    [
        svg.shades(np.array([[0.0, 0.5], [1.0, 2.0]]), "a"),
        svg.stems(np.array([1.0, 1e-9, np.inf]), "a"),
        svg.stems(np.array([3.0, 2.0]), "a"),
        svg.curve(np.arange(5.0), np.array([1.0, np.nan, 2.0, 1e9, 0.0]), "a"),
        svg.curve(np.zeros(1), None, "a"),
        svg.curve(np.sin(np.arange(100_000.0)), None, "a"),
        svg.intervals(np.ones(2), np.array([0.5, np.nan]), np.array([1.5, np.nan]), [True, False], "a"),
        svg.gap(1.0, 3.0, "a"),
        *svg.bars([0.0, np.inf, 2.0]),
        *svg.bars([0.0]),
    ],
)
def test_pictures_are_small_and_have_numbers_only(picture):
    assert Parsed(picture).tags[0] == "svg"
    assert len(picture) < 8_000
    assert "nan" not in picture
    assert "inf" not in picture


def test_cells_have_shades_in_proportion():
    made = svg.shades(np.array([[0.0, 0.25], [0.5, 1.0]]), "a")
    shades = dict(a for a in [(p.split("'")[3], p.split("'")[1]) for p in made.split("<path ")[1:]])
    assert shades == {"M1 0h1v1h-1z": "0.25", "M0 1h1v1h-1z": "0.5", "M1 1h1v1h-1z": "1"}


def test_the_last_bar_stands_out_and_lengths_are_in_proportion():
    first, last = svg.bars([4.0, 1.0])
    assert f"width='{svg.BAR:.1f}'" in first
    assert f"width='{svg.BAR / 4:.1f}'" in last
    assert svg.BLUE in last
    assert svg.BLUE not in first
