"""A fit that has to find its settings goes on after an interruption, in the search or after it."""

import numpy as np
import pytest

from rslm import MatrixCompletion, ObservedMatrix
from rslm.datasets import make_ratings
from rslm.estimators.automatic import search
from rslm.estimators.automatic.search import Search

DATA = make_ratings(40, 30, 450, rank=2, noise=0.3, random_state=0).data
FOLDS = 5


def model(**options):
    """With C to find, which is the shortest search."""
    return MatrixCompletion(**{"rank": 2, "weighting": 0, "random_state": 0, **options})


class KilledError(BaseException):
    """The end of a process: nothing after it runs, and nobody handles it."""


def killed_after(monkeypatch, count, module=search):
    """Let the process end in a call of `solve`, after some of them."""
    calls = iter(range(count))
    real = module.solve

    def solve(*args, **options):
        if next(calls, None) is None:
            raise KilledError
        return real(*args, **options)

    monkeypatch.setattr(module, "solve", solve)


def same(a, b):
    for name in ("row_factors_", "col_factors_", "row_effects_", "col_effects_", "intercept_", "C_", "weighting_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.held_out_ == b.held_out_
    for name in ("rank", "C", "weighting", "row_effects", "error"):
        np.testing.assert_array_equal(a.path_[name], b.path_[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The fit that nothing interrupts. With a checkpoint, as cold starts now and then change the last digits."""
    path = tmp_path_factory.mktemp("whole") / "c"
    return model().fit(DATA, checkpoint=path), path


@pytest.mark.parametrize("trials", [0, 1, 23, 40])
def test_killed_in_the_search(whole, trials, tmp_path, monkeypatch):
    monkeypatch.setattr("rslm.estimators.automatic.search_file.PART", 1e9)  # every trial is written
    killed_after(monkeypatch, trials)
    with pytest.raises(KilledError):
        model().fit(DATA, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    solved = []
    real = search.solve
    monkeypatch.setattr(search, "solve", lambda *a, **o: solved.append(1) or real(*a, **o))
    same(model().fit(DATA, checkpoint=tmp_path / "c"), whole[0])
    known = trials // FOLDS
    assert len(solved) == FOLDS * (len(whole[0].path_["C"]) - known)  # what is known is not solved again


def test_killed_in_a_search_of_everything(tmp_path, monkeypatch):
    few = make_ratings(20, 15, 150, rank=2, noise=0.3, random_state=0).data
    whole = MatrixCompletion(random_state=0).fit(few, checkpoint=tmp_path / "whole")
    for _ in range(2):
        killed_after(monkeypatch, 60)
        with pytest.raises(KilledError):
            MatrixCompletion(random_state=0).fit(few, checkpoint=tmp_path / "c")
        monkeypatch.undo()
    same(MatrixCompletion(random_state=0).fit(few, checkpoint=tmp_path / "c"), whole)


def test_killed_in_the_fit_itself_and_after_it(whole, tmp_path, monkeypatch):
    from rslm.solvers import loop

    real, steps = loop.Loop._note, []

    def note(self):
        real(self)
        if self.checkpoint is not None:
            steps.append(1)
            self.checkpoint.keep()
            if len(steps) == 3:
                raise KilledError

    monkeypatch.setattr(loop.Loop, "_note", note)
    with pytest.raises(KilledError):
        model().fit(DATA, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    monkeypatch.setattr(Search, "run", lambda self: pytest.fail("the settings are known"))
    for _ in range(2):  # the second time at once
        found = model().fit(DATA, checkpoint=tmp_path / "c")
        same(found, whole[0])
        assert len(found.history_["objective"]) == len(whole[0].history_["objective"])


def test_without_a_seed_the_search_goes_on_with_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("rslm.estimators.automatic.search_file.PART", 1e9)
    killed_after(monkeypatch, 30)
    with pytest.raises(KilledError):
        model(random_state=None).fit(DATA, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    copy = (tmp_path / "c").read_bytes()
    models = []
    for name in ("c", "d"):
        (tmp_path / name).write_bytes(copy)
        models.append(model(random_state=None).fit(DATA, checkpoint=tmp_path / name))
    assert models[0].held_out_ == models[1].held_out_
    np.testing.assert_array_equal(models[0].path_["error"], models[1].path_["error"])


def test_a_search_that_the_time_ended_goes_on(whole, tmp_path, monkeypatch):
    """What it had found by then is fitted, but not kept as the answer."""
    calls = iter(range(25))
    monkeypatch.setattr("rslm.estimators.completion.finding.stop_when", lambda *a: lambda: next(calls, None) is None)
    early = model().fit(DATA, checkpoint=tmp_path / "c")
    assert len(early.path_["C"]) < len(whole[0].path_["C"])
    monkeypatch.undo()
    same(model().fit(DATA, checkpoint=tmp_path / "c"), whole[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 3}, "rank: 2 in the checkpoint, 3 now"),
        ({"rank": "auto"}, "settings to find: C in the checkpoint, rank, C now"),
        ({"C": 5.0}, "which searches for settings that are given now|C: "),
        ({"loss": "huber"}, "loss: Square"),
        ({"random_state": 1}, "random state: 0 in the checkpoint, 1 now"),
        ({"effects": None}, "location"),
    ],
    ids=lambda given: "" if isinstance(given, str) else str(given),
)
@pytest.mark.parametrize("ended", [False, True])
def test_another_fit_is_refused(whole, options, message, ended, tmp_path, monkeypatch):
    path = whole[1] if ended else tmp_path / "c"
    if not ended:
        killed_after(monkeypatch, 7)
        with pytest.raises(KilledError):
            model().fit(DATA, checkpoint=path)
        monkeypatch.undo()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"checkpoint of another fit.*({message})"):
        model(**options).fit(DATA, checkpoint=path)
    assert path.read_bytes() == before


def test_a_file_of_a_fit_without_a_search_is_refused(tmp_path):
    MatrixCompletion(2, 5.0, random_state=0).fit(DATA, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="settings to find: none in the checkpoint, rank, C, weighting now"):
        MatrixCompletion(random_state=0).fit(DATA, checkpoint=tmp_path / "c")


def test_other_data_are_refused_before_the_search(tmp_path, monkeypatch):
    killed_after(monkeypatch, 7)
    with pytest.raises(KilledError):
        model().fit(DATA, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    other = ObservedMatrix(DATA.indptr, DATA.index, DATA.values + 1e-9, DATA.shape)
    with pytest.raises(ValueError, match="values"):
        model().fit(other, checkpoint=tmp_path / "c")


def test_nothing_to_hold_out(tmp_path):
    """Without a search there is nothing to store before the fit."""
    X = np.diag([1.0, 2.0, 3.0])
    X[X == 0] = np.nan
    a, b = (MatrixCompletion(random_state=0).fit(X, checkpoint=tmp_path / "c") for _ in range(2))
    assert a.path_ is None
    np.testing.assert_array_equal(a.row_factors_, b.row_factors_)
