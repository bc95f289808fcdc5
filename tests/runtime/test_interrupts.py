"""Ctrl-C at any moment: nothing that was found is lost, and a second one ends at once."""

import signal
import threading

import numpy as np
import pytest

from plain import plain_completion
from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor
from rslm.datasets import make_ratings, make_series, make_tasks
from rslm.estimators.completion.layout import Layout
from rslm.evaluation.objective import Objective
from rslm.runtime.interrupts import deferred_interrupts
from rslm.solvers import answer, loop

DATA = make_ratings(80, 60, 2000, rank=2, noise=0.3, random_state=0).data
TASKS = make_tasks(10, 6, 15, rank=2, random_state=0)


def press():
    signal.raise_signal(signal.SIGINT)


def at_call(number, function):
    """The function, with Ctrl-C pressed at its n-th call."""
    calls = []

    def watched(*arguments, **more):
        calls.append(1)
        if len(calls) == number:
            press()
        return function(*arguments, **more)

    return watched


FITS = {
    "completion": lambda: plain_completion(4, 100.0, random_state=0).fit(DATA),
    "absolute": lambda: plain_completion(4, 100.0, loss="absolute", random_state=0).fit(DATA),
    "bounds": lambda: plain_completion(4, 100.0, bounds=(-2, 10), random_state=0).fit(DATA),
    "search": lambda: MatrixCompletion(random_state=0).fit(DATA),
    "tasks": lambda: MultiTaskRegressor(2, 10.0, random_state=0).fit(TASKS.X, TASKS.y, tasks=TASKS.tasks),
    "series": lambda: HankelModel(2, C=100.0).fit(make_series(150, 2, noise=0.2, random_state=0).y),
}


@pytest.mark.parametrize(
    "where", [(Objective, "guess"), (loop.Loop, "stage"), (answer, "certify"), (loop, "Point")], ids=lambda w: w[1]
)
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("name", FITS)
def test_pressed_once_keeps_what_was_found(monkeypatch, name, number, where):
    monkeypatch.setattr(*where, at_call(number, getattr(*where)))
    model = FITS[name]()
    assert model.outcome_ in ("interrupted", "stationary", "certified")  # it may come when all is done
    assert np.isfinite(model.history_["objective"]).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_ends_after_the_step_that_it_is_at(monkeypatch):
    monkeypatch.setattr(loop, "Point", at_call(3, loop.Point))
    model = FITS["completion"]()
    assert (model.outcome_, model.converged_) == ("interrupted", False)
    assert model.n_iter_ <= 3


def test_a_search_begins_no_other_setting(monkeypatch):
    monkeypatch.setattr(loop, "Point", at_call(3, loop.Point))
    model = FITS["search"]()
    assert model.outcome_ == "interrupted"
    assert model.path_ is None  # not even one was tried on all folds


def test_pressed_while_the_model_is_put_together(monkeypatch):
    monkeypatch.setattr(Layout, "model", at_call(1, Layout.model))
    assert FITS["completion"]().predict([0], [0]).shape == (1,)


def test_pressed_twice_ends_at_once():
    with deferred_interrupts() as interrupt:
        press()
        assert interrupt.pending
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fits_within_fits_share_it():
    with deferred_interrupts() as outer:
        with deferred_interrupts() as inner:
            press()
        assert outer is inner
        assert outer.pending
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    with deferred_interrupts() as later:
        assert not later.pending


def test_a_handler_of_the_program_is_left_alone():
    def own(*_): ...

    before = signal.signal(signal.SIGINT, own)
    try:
        with deferred_interrupts():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_no_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(FITS["completion"]().outcome_))
    thread.start()
    thread.join()
    assert found[0] in ("stationary", "certified")
