"""A fit of what people took that has to find its settings goes on after an interruption."""

import signal

import numpy as np
import pytest

from clicks import clicks
from rslm import ImplicitCompletion
from rslm.estimators.implicit import search
from rslm.estimators.implicit.search import Search

X = clicks(40, 30)


def model(**options):
    return ImplicitCompletion(**{"rank": 3, "weighting": 0.5, "random_state": 0, **options})


class KilledError(BaseException):
    """The end of a process: nothing after it runs, and nobody handles it."""


def killed_after(monkeypatch, count):
    """Let the process end in a trial of the search, after some of them."""
    calls, real = iter(range(count)), search.solve

    def solve(*args, **options):
        if next(calls, None) is None:
            raise KilledError
        return real(*args, **options)

    monkeypatch.setattr(search, "solve", solve)


def same(a, b):
    for name in ("row_factors_", "col_factors_", "C_", "alpha0_", "weighting_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.held_out_ == b.held_out_
    for name in ("rank", "C", "alpha0", "weighting", "score"):
        np.testing.assert_array_equal(a.path_[name], b.path_[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The fit that nothing interrupts."""
    path = tmp_path_factory.mktemp("whole") / "c"
    return model().fit(X, checkpoint=path), path


@pytest.mark.parametrize("trials", [0, 1, 4])
def test_killed_in_the_search(whole, trials, tmp_path, monkeypatch):
    monkeypatch.setattr("rslm.estimators.automatic.search_file.PART", 1e9)  # every trial is written
    killed_after(monkeypatch, trials)
    with pytest.raises(KilledError):
        model().fit(X, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    solved, real = [], search.solve
    monkeypatch.setattr(search, "solve", lambda *a, **o: solved.append(1) or real(*a, **o))
    same(model().fit(X, checkpoint=tmp_path / "c"), whole[0])
    assert len(solved) == len(whole[0].path_["C"]) - trials  # what is known is not solved again


def test_of_all_settings_with_several_ranks(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FIRST_RANK", 2)
    monkeypatch.setattr("rslm.estimators.automatic.search_file.PART", 1e9)
    data = clicks(20, 15)
    plain = ImplicitCompletion(random_state=0).fit(data)
    with monkeypatch.context() as one:
        killed_after(one, len(plain.path_["C"]) - 1)
        with pytest.raises(KilledError):
            ImplicitCompletion(random_state=0).fit(data, checkpoint=tmp_path / "c")
    same(ImplicitCompletion(random_state=0).fit(data, checkpoint=tmp_path / "c"), plain)


def test_nothing_to_compare_settings_by(tmp_path):
    """No user took two items: usual settings are taken at once, and the fit itself goes on from its checkpoint."""
    data = np.eye(6)[np.arange(20) % 6]
    plain = model().fit(data)
    for _ in range(2):
        again = model().fit(data, checkpoint=tmp_path / "c")
        np.testing.assert_array_equal(again.row_factors_, plain.row_factors_)
        assert again.C_ == plain.C_
        assert again.path_ is again.held_out_ is None


def test_a_fit_that_has_ended_returns_at_once(whole, monkeypatch):
    monkeypatch.setattr(Search, "tried", lambda *a: pytest.fail("the settings are known"))
    again = model().fit(X, checkpoint=whole[1])
    same(again, whole[0])
    assert again.n_iter_ == whole[0].n_iter_


def test_without_a_seed_the_search_goes_on_with_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("rslm.estimators.automatic.search_file.PART", 1e9)
    with monkeypatch.context() as one:
        killed_after(one, 3)
        with pytest.raises(KilledError):
            model(random_state=None).fit(X, checkpoint=tmp_path / "c")
    copy, scores = (tmp_path / "c").read_bytes(), []
    for name in ("c", "d"):
        (tmp_path / name).write_bytes(copy)
        scores.append(model(random_state=None).fit(X, checkpoint=tmp_path / name).path_["score"])
    np.testing.assert_array_equal(*scores)


def test_a_search_that_was_stopped_goes_on(whole, tmp_path, monkeypatch):
    """What it had found by then is fitted, but not kept as the answer; a trial that was cut short is repeated."""
    real, calls = search.solve, []

    def solve(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(*args, **options)

    with monkeypatch.context() as one:
        one.setattr(search, "solve", solve)
        stopped = model().fit(X, checkpoint=tmp_path / "c")
    assert stopped.outcome_ == "interrupted"
    assert len(stopped.path_["C"]) == 2
    assert stopped.row_factors_.any()
    same(model().fit(X, checkpoint=tmp_path / "c"), whole[0])


def test_with_all_settings_given(tmp_path):
    given = {"C": 2.0, "alpha0": 0.2}
    one = model(**given, max_iter=2, tol=1e-8)
    with pytest.warns(UserWarning, match="max_iter=2"):
        one.fit(X, checkpoint=tmp_path / "c")
    resumed = model(**given, tol=1e-8).fit(X, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(resumed.row_factors_, model(**given, tol=1e-8).fit(X).row_factors_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "recall@5"}, "metric: ndcg@100 in the checkpoint, recall@5 now"),
        ({"alpha0": 0.3}, "settings to find: C, alpha0 in the checkpoint, C now"),
        ({"confidence": "ones"}, "weights"),
        ({"C": 3.0, "alpha0": 0.2}, "is a checkpoint of another fit"),
    ],
)
def test_another_fit_is_refused(whole, tmp_path, options, message):
    path = tmp_path / "c"
    path.write_bytes(whole[1].read_bytes())
    with pytest.raises(ValueError, match=message):
        model(**options).fit(X, checkpoint=path)
