"""Progress in a notebook: one line that is updated."""

import io
import logging
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rslm import MatrixCompletion
from rslm.runtime import notebook
from rslm.runtime.log import log_shown, logger


@pytest.fixture
def page(monkeypatch):
    """What a notebook has received: for every place, all that was shown there."""
    places = []

    def display(shown, *, raw, display_id):
        assert raw
        assert display_id
        places.append([shown])
        return SimpleNamespace(update=lambda later, raw: places[-1].append(later))

    ipython, inside = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    inside.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", inside)
    # Handlers of the tests themselves would count as an application's.
    monkeypatch.setattr(logger, "hasHandlers", lambda: bool(logger.handlers))
    return places


def test_one_place_is_updated_and_the_last_message_stays(page, monkeypatch):
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    with log_shown(1):
        logger.info("first")
        logger.info("a < b")
    [shown] = page
    assert [one["text/plain"].split("  ")[1] for one in shown] == ["first", "a < b"]
    assert "a &lt; b" in shown[-1]["text/html"]
    assert logger.handlers == []


def test_not_more_often_than_can_be_read(page, monkeypatch):
    monkeypatch.setattr(notebook, "EVERY", 1000.0)
    with log_shown(1):
        for k in range(100):
            logger.info(f"iteration {k}")
    [shown] = page
    assert [one["text/plain"].split("  ")[1] for one in shown] == ["iteration 0", "iteration 99"]


def test_nothing_is_shown_of_nothing_and_without_verbose(page):
    with log_shown(1):
        pass
    MatrixCompletion(rank=1, C=1.0).fit(np.eye(4) + 1)
    assert page == []


def test_a_fit_shows_its_progress(page, capsys):
    MatrixCompletion(rank=1, C=1.0, verbose=1).fit(np.eye(4) + 1)
    [shown] = page
    assert "iteration" in shown[-1]["text/plain"]
    assert capsys.readouterr() == ("", "")


def test_two_logs_every_message_as_text(page, monkeypatch):
    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    with log_shown(2):
        logger.info("first")
        logger.info("second")
    assert error.getvalue() == "first\nsecond\n"
    assert page == []


def test_an_application_that_logs_is_left_alone(page):
    heard = logging.NullHandler()
    logger.addHandler(heard)
    try:
        with log_shown(1):
            logger.info("first")
    finally:
        logger.removeHandler(heard)
    assert page == []


def test_a_terminal_gets_text(page, monkeypatch):
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()  # of IPython in a terminal, without a kernel
    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    with log_shown(1):
        logger.info("first")
    assert error.getvalue() == "first\n"
    assert page == []


def test_a_page_that_cannot_be_reached_does_not_end_a_fit(page, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def broken(*shown, **options):
        raise OSError("no connection")

    sys.modules["IPython.display"].display = broken
    with log_shown(1):
        logger.info("first")
